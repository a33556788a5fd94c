//! What a session's task waits for: commands, its stream, the model, its tools, the clock.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::Instant;
use weir_events::{Body, ResumeReason, Trigger};
use weir_journal::{PAGE_MAX, now};
use weir_kernel::{Entry, FoldError, Lifecycle, time_left_ms};
use weir_models::{ModelError, Piece};
use weir_types::{StopReason, Timestamp};

use super::commit::{Committed, due};
use super::{Actor, Command, Flow, Owed, Release, Reply, Resume, Standing, Stay};
use crate::approvals;
use crate::draft::Nature;
use crate::error::EngineError;
use crate::input::acceptable;
use crate::outcome::Outcome;
use crate::store::import_to_halt;

/// A wait that nothing else ends is looked at again after this long.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// What happened while waiting.
enum Wake {
    Command(Option<Command>),
    Poke,
    Piece(Option<Result<Piece, ModelError>>),
    Called(Result<(tokio::task::Id, super::calling::Finished), tokio::task::JoinError>),
    Time,
    Stopping,
}

impl Actor {
    /// What the draft holds is written down before a wait: somebody may be waiting for it, and nobody knows how long
    /// it takes.
    pub(super) async fn write_down_and_wait(&mut self) -> Result<Flow, EngineError> {
        Ok(match self.commit(Release::No).await? {
            Committed::Yes => Flow::Wait,
            Committed::Rebased => Flow::Again,
        })
    }

    /// Nothing is under way. The session is let go of, if there is still something to write down.
    pub(super) async fn pause(&mut self, due: Option<Timestamp>) -> Result<Flow, EngineError> {
        match self.commit(Release::Yes).await? {
            Committed::Rebased => return Ok(Flow::Again),
            Committed::Yes => {}
        }
        self.due = due;
        Ok(Flow::Rest)
    }

    /// Waits until something happens to what is under way.
    pub(super) async fn wait(&mut self) -> Result<(), EngineError> {
        let until = self.next_moment();
        let wake = self.next_wake(until).await;
        self.woken(wake).await
    }

    /// Waits for something new to do; false, if there was nothing for so long that the session leaves memory.
    pub(super) async fn rest(&mut self) -> Result<bool, EngineError> {
        let outcome = self.outcome().await?;
        self.standing.send_replace(Standing::Resting(outcome.into()));
        let idle = match self.stay.get() {
            Stay::AWhile => self.shared.setup.options.idle_after,
            Stay::No => Duration::ZERO,
        };
        let now = self.now();
        let due = self.due.take().map_or(WAIT_MAX, |due| between(now, due));
        let wake = self.next_wake(Instant::now() + idle.min(due)).await;
        if let Wake::Time = wake {
            if due <= idle {
                return Ok(true);
            }
            if self.session.seq.0 - self.snapshot.0 >= self.shared.setup.options.snapshot_every / 4 {
                self.take_snapshot().await;
            }
            return Ok(false);
        }
        self.woken(wake).await?;
        Ok(true)
    }

    /// What came of it. A session that waits for others that ask people asks what they ask.
    async fn outcome(&mut self) -> Result<Outcome, EngineError> {
        let outcome = Outcome::of(&self.address, &self.session);
        if outcome.stop != StopReason::Approval {
            return Ok(outcome);
        }
        let journal = self.shared.journal();
        let approvals = approvals::of_family(journal, &self.address, &self.session).await?;
        Ok(Outcome { approvals, ..outcome })
    }

    async fn next_wake(&mut self, until: Instant) -> Wake {
        let (model_idle, calls_idle) = (self.asking.is_none(), self.calls.is_empty());
        let piece = async {
            match &mut self.asking {
                Some(attempt) => attempt.pieces.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.commands.recv() => Wake::Command(command),
            () = self.poke.told() => Wake::Poke,
            piece = piece, if !model_idle => Wake::Piece(piece),
            Some(called) = self.calls.join_next_with_id(), if !calls_idle => Wake::Called(called),
            () = tokio::time::sleep_until(until) => Wake::Time,
            () = self.shared.stopping.cancelled() => Wake::Stopping,
        }
    }

    async fn woken(&mut self, wake: Wake) -> Result<(), EngineError> {
        match wake {
            Wake::Command(Some(Command::Look { reply })) => {
                self.stay.is_asked_for();
                self.is_working();
                self.absorb().await?;
                let _ = reply.send(Ok(self.durable));
            }
            Wake::Command(Some(command)) => self.obey(command),
            // The last handle is gone with the engine.
            Wake::Command(None) => return Err(EngineError::Stopping),
            // It is seen before the next step.
            Wake::Stopping => {}
            Wake::Poke => self.absorb().await?,
            Wake::Piece(piece) => self.heard(piece),
            Wake::Called(called) => self.called(called),
            Wake::Time => self.time_passed().await?,
        }
        Ok(())
    }

    /// The next moment at which something has to be done, whatever happens.
    fn next_moment(&self) -> Instant {
        let expiry = due(&self.session).map(|due| Instant::now() + between(self.now(), due));
        let moments = [self.asking_moment(), self.retry_at, self.out_of_time_at(), expiry];
        moments.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + WAIT_MAX)
    }

    /// When the run has worked for as long as it may.
    fn out_of_time_at(&self) -> Option<Instant> {
        let (_, runnable) = self.runnable.as_ref()?;
        let left = time_left_ms(&self.session, &runnable.agent, self.now_held())?;
        Some(Instant::now() + Duration::from_millis(left + 1))
    }

    /// Folds what others have appended.
    async fn absorb(&mut self) -> Result<(), EngineError> {
        if !self.draft.is_empty() {
            // The next commit notices.
            return Ok(());
        }
        loop {
            let page = self.shared.setup.journal.read(&self.branch, self.session.seq, PAGE_MAX).await?;
            for event in &page {
                self.session.apply(event).map_err(|source| self.unreadable(source))?;
            }
            self.folded_to(self.session.seq);
            if page.len() < PAGE_MAX {
                break;
            }
        }
        let halt = import_to_halt(&*self.shared.setup.journal, &self.branch, &self.session).await?;
        self.draft.preface(&mut self.session, halt.map(Body::from).into_iter().collect());
        Ok(())
    }

    fn unreadable(&self, source: FoldError) -> EngineError {
        EngineError::Unreadable { address: self.address.clone(), source: source.into() }
    }

    fn obey(&mut self, command: Command) {
        self.stay.is_asked_for();
        self.is_working();
        match command {
            Command::Input { bodies, by, reply } => {
                if let Err(error) = self.acceptable(&bodies) {
                    let _ = reply.send(Err(error));
                    return;
                }
                for body in bodies {
                    let about = by.about(self.about(None));
                    self.draft.add(&mut self.session, body, about, Nature::Fact);
                }
                self.replies.push(Owed { reply, fact: Some(self.draft.facts()) });
            }
            Command::Resume { resume, reply } => self.resume(resume, reply),
            Command::Look { reply } => drop(reply.send(Ok(self.durable))),
        }
    }

    fn acceptable(&self, bodies: &[Body]) -> Result<(), EngineError> {
        let creates = matches!(bodies.first(), Some(Body::SessionCreated(_)));
        match &self.session.created {
            None if !creates => Err(EngineError::NoSession(self.address.clone())),
            Some(_) if creates => Err(EngineError::Exists(self.address.clone())),
            _ => acceptable(&self.address, &self.session, bodies, self.now()),
        }
    }

    /// Goes on with a run that was parked or interrupted, or asks again what was not answered.
    fn resume(&mut self, resume: Resume, reply: Reply) {
        let address = || self.address.clone();
        let refusal = match (&self.session.created, &self.session.lifecycle) {
            (None, _) => Some(EngineError::NoSession(address())),
            (_, Lifecycle::Closed(_)) => Some(EngineError::Closed(address())),
            _ if resume.budget.is_some() && !self.is_out_of_budget() => {
                Some(EngineError::NothingToRaise(address()))
            }
            _ if resume.budget.is_none() => {
                self.needs_budget().map(|budget| EngineError::NeedsBudget { address: address(), budget })
            }
            _ => None,
        };
        if let Some(error) = refusal {
            let _ = reply.send(Err(error));
            return;
        }
        if self.asking.is_some() || !self.calls.is_empty() {
            // It is going on.
            let _ = reply.send(Ok(self.durable));
            return;
        }
        let halted = matches!(self.session.lifecycle, Lifecycle::Halted(_));
        let idle = self.session.run.is_none() && self.session.inbox.is_empty() && !self.is_unanswered();
        if idle && !halted {
            let _ = reply.send(Err(EngineError::NothingToResume(address())));
            return;
        }
        self.resuming = Some(resume);
        self.replies.push(Owed { reply, fact: None });
        self.go_on();
    }

    /// Drafts what makes the session go on. Done again if the draft has to be.
    pub(super) fn go_on(&mut self) {
        let resume = self.resuming.clone().unwrap_or_default();
        self.resumed(ResumeReason::Asked, &resume);
        if self.session.run.is_none() && self.session.inbox.is_empty() && self.is_unanswered() {
            self.start_run(Trigger::Resume);
        }
    }

    /// Whether the last thing said was not said by the model, or was not the end of it.
    fn is_unanswered(&self) -> bool {
        match self.session.transcript.entries.last() {
            Some(Entry::User(_)) => true,
            Some(Entry::Assistant(entry)) => !entry.calls.is_empty(),
            None => false,
        }
    }
}

/// How long it is until then.
pub(super) fn until(moment: Timestamp) -> Duration {
    between(now(), moment)
}

fn between(now: Timestamp, moment: Timestamp) -> Duration {
    let micros = moment.as_micros().saturating_sub(now.as_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}
