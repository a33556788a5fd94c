//! Writing the draft down: atomically, in our place, or not at all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_events::{Body, ToolCompleted, ToolFailed};
use weir_journal::{AppendError, Attrs, Expected, Ownership, Part, Status};
use weir_kernel::{CallState, Lifecycle, Session};
use weir_types::{CallId, Effect, Explain, Fault, OwnerId, Seq, Timestamp};

use super::{Actor, Hold, Owed, Release, Standing};
use crate::address::Address;
use crate::draft::Draft;
use crate::error::EngineError;
use crate::log;
use crate::owners::Standing as Life;
use crate::store;
use crate::unstored::{Later, Unstored, UnstoredCall};

/// The longest pause between two tries to write to a storage that fails.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Whether the draft was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Committed {
    Yes,
    /// The session had moved on, or belonged to a dead process: decide again.
    Rebased,
}

impl Actor {
    /// Writes the draft down. A storage that fails is tried again for a while: what has happened must not be lost.
    pub(super) async fn commit(&mut self, release: Release) -> Result<Committed, EngineError> {
        if self.draft.is_empty() {
            return Ok(Committed::Yes);
        }
        let held = Arc::clone(&self.held);
        let changes_hands = self.hold == Hold::Claiming || (self.hold, release) == (Hold::Held, Release::Yes);
        let _turn = if changes_hands { Some(held.turn().await) } else { None };
        let began = Instant::now();
        let mut pause = Duration::from_millis(50);
        let mut attempt = 0_u32;
        loop {
            let is_last = self.shared.cutting.is_cancelled();
            let parts = self.parts(release);
            let others = parts[1..].to_vec();
            let stored = self.draft.store_contents(&*self.shared.setup.blobs).await;
            let appended = match stored {
                Ok(()) => self.shared.setup.journal.append(parts).await,
                Err(error) => Err(AppendError::Blob(error)),
            };
            match appended {
                Ok(appended) => {
                    for (part, appended) in others.iter().zip(appended.iter().skip(1)) {
                        self.shared.purses.note(part, appended);
                    }
                    self.acknowledged = appended.into_iter().next();
                    self.committed(release).await;
                    return Ok(Committed::Yes);
                }
                Err(AppendError::Conflict { .. }) => {
                    self.log_rebase("the branch has grown");
                    self.reload().await?;
                    return Ok(Committed::Rebased);
                }
                Err(AppendError::Fenced { owner, .. }) => {
                    self.log_rebase("another process owns the session");
                    self.take_over(owner).await?;
                    return Ok(Committed::Rebased);
                }
                Err(AppendError::NoBlob { hash }) if self.shared.forget_blob(hash) => {
                    // It was put long ago, never referred to, and collected: who decides again puts it again.
                    self.log_rebase("a blob is gone");
                    self.reload().await?;
                    return Ok(Committed::Rebased);
                }
                Err(error) if is_last || !self.can_wait(&error, began) => return Err(error.into()),
                Err(error) => {
                    attempt = attempt.saturating_add(1);
                    self.standing.send_replace(Standing::WaitingForStorage);
                    tracing::debug!(
                        session = %self.address.session,
                        branch = %self.address.branch,
                        attempt,
                        code = error.code(),
                        delay_ms = pause.as_millis(),
                        "events cannot be stored; it is tried again"
                    );
                    let code = error.code();
                    let unstored = self.with_what_is_known(error.into());
                    if self.shared.storage.send_replace(Some(unstored)).is_none() {
                        tracing::warn!(code, "storage trouble begins: events are kept in memory");
                    }
                    tokio::select! {
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                        () = self.shared.cutting.cancelled() => {}
                    }
                }
            }
        }
    }

    fn log_rebase(&self, why: &'static str) {
        tracing::debug!(
            session = %self.address.session,
            branch = %self.address.branch,
            seq = self.durable.0,
            why,
            "append refused; the session is read again"
        );
    }

    fn can_wait(&self, error: &AppendError, began: Instant) -> bool {
        error.fault() == Fault::Storage && began.elapsed() < self.shared.setup.options.storage_patience
    }

    /// An error that ends this task, with what is known of what is not stored, if that is why it ends.
    pub(super) fn with_what_is_known(&self, error: EngineError) -> EngineError {
        if error.fault() != Fault::Storage
            || matches!(error, EngineError::Stopping | EngineError::Unstored(_))
        {
            return error;
        }
        let mut unstored = Unstored {
            address: self.address.clone(),
            has_begun: self.durable > Seq(0),
            inputs: 0,
            has_answer: false,
            calls: Vec::new(),
            source: error,
        };
        for fact in self.draft.unstored_facts() {
            match fact {
                Body::ToolCompleted(ToolCompleted { call, .. })
                | Body::ToolFailed(ToolFailed { call, .. }) => {
                    unstored.calls.extend(self.unstored_call(*call, true));
                }
                Body::AssistantMessage(_) => unstored.has_answer = true,
                Body::UserMessage(_) => unstored.inputs += 1,
                _ => {}
            }
        }
        unstored
            .calls
            .extend(self.underway.values().filter_map(|underway| self.unstored_call(underway.call, false)));
        EngineError::Unstored(Arc::new(unstored))
    }

    /// Nothing, if the call changes nothing.
    fn unstored_call(&self, id: CallId, ended: bool) -> Option<UnstoredCall> {
        let call = self.session.call(id)?;
        if call.stub || call.effect == Effect::Read {
            return None;
        }
        let (tool, input) = (call.tool.clone(), call.input_to_run().clone());
        Some(UnstoredCall { id, tool, input, ended, later: Later::of(call) })
    }

    fn parts(&self, release: Release) -> Vec<Part> {
        let me = self.shared.setup.owners.me();
        let owner = match (self.hold, release) {
            (Hold::None, _) => Ownership::Unchecked,
            (Hold::Claiming, _) => Ownership::Claim { by: me, replacing: self.replacing },
            (Hold::Held, Release::No) => Ownership::Held(me),
            // Other branches go on, and need it.
            (Hold::Held, Release::Yes) if self.held.is_shared() => Ownership::Held(me),
            (Hold::Held, Release::Yes) => Ownership::Release(me),
        };
        let expected =
            if self.durable == Seq(0) { Expected::NoStream } else { Expected::Exactly(self.durable) };
        let (events, mut beside) = self.draft.to_append();
        self.shared.purses.carry_along(&mut beside);
        let attrs = Some(attrs(&self.session));
        let part = Part { branch: self.branch.clone(), expected, key: None, owner, events, attrs };
        std::iter::once(part).chain(beside).collect()
    }

    async fn committed(&mut self, release: Release) {
        let (before, drafted) = (self.durable, std::mem::take(&mut self.draft));
        self.folded_to(self.session.seq);
        self.log_stored(&drafted, before, release);
        self.hold = match (self.hold, release) {
            (Hold::None, _) | (Hold::Held, Release::Yes) => Hold::None,
            (Hold::Claiming, _) | (Hold::Held, Release::No) => Hold::Held,
        };
        if self.hold == Hold::Held {
            self.replacing = None;
            self.share.get_or_insert_with(|| self.held.share());
        } else {
            self.share = None;
        }
        self.resuming = None;
        if self.shared.storage.send_if_modified(|trouble| trouble.take().is_some()) {
            tracing::info!("storage trouble is over: events are stored again");
        }
        self.is_working();
        for Owed { reply, fact } in self.replies.drain(..) {
            // What it has led to may have been written down with it, and what others said.
            let own = fact.and_then(|nth| drafted.up_to_fact(nth)).map(|count| Seq(before.0 + count as u64));
            // Whoever asked may have gone.
            let _ = reply.send(Ok(own.unwrap_or(self.durable)));
        }
        if self.durable.0 - self.snapshot.0 >= self.shared.setup.options.snapshot_every {
            self.take_snapshot().await;
        }
    }

    fn log_stored(&self, stored: &Draft, before: Seq, release: Release) {
        let Address { session, branch } = &self.address;
        tracing::trace!(%session, %branch, seq = self.durable.0, events = self.durable.0 - before.0, "append");
        if let (Hold::Claiming, Some(from)) = (self.hold, self.replacing) {
            tracing::debug!(%session, %branch, %from, "session taken over from a dead process");
        }
        log::stored(&self.address, &self.session, stored.events());
        if (self.hold, release) == (Hold::Held, Release::Yes) {
            tracing::debug!(%session, %branch, seq = self.durable.0, "session released");
        }
    }

    pub(super) async fn take_snapshot(&mut self) {
        if self.session.is_unfinished() {
            return;
        }
        store::remember(self.shared.journal(), &self.branch, &self.session).await;
        self.snapshot = self.durable;
    }

    /// The session belongs to another process. If that is dead, the next draft takes it over.
    async fn take_over(&mut self, owner: Option<OwnerId>) -> Result<(), EngineError> {
        let owned = |pid| EngineError::Owned { address: self.address.clone(), pid };
        let Some(owner) = owner else {
            // It was ours, and somebody has taken and released it since: we were taken for dead.
            return Err(owned(None));
        };
        if self.hold == Hold::Held {
            return Err(owned(None));
        }
        match self.shared.setup.owners.standing(owner).await {
            Ok(Life::Dead) => {
                self.replacing = Some(owner);
                self.reload().await
            }
            Ok(Life::Alive { pid }) => Err(owned(pid)),
            // Who cannot be shown to be dead is alive.
            Err(error) => {
                tracing::debug!(%owner, %error, "it is not known whether a process lives");
                Err(owned(None))
            }
        }
    }
}

/// The row by which a session is found without folding it.
pub(crate) fn attrs(session: &Session) -> Attrs {
    let created = session.created.as_ref();
    let short = |text: &String| text.chars().take(Attrs::TEXT_MAX / 4).collect::<String>();
    Attrs {
        status: status(session),
        principal: created.map(|created| short(&created.principal)),
        agent: created.map(|created| short(&created.agent)),
        title: session.title.as_ref().map(short),
        due: due(session),
    }
}

/// What a session is doing, as its row in a listing says.
pub fn status(session: &Session) -> Status {
    match (&session.lifecycle, &session.run) {
        (Lifecycle::Closed(_), _) => Status::Closed,
        (Lifecycle::Halted(_), _) => Status::Halted,
        (Lifecycle::Open, _) if session.has_errands_to_run() => Status::Running,
        (Lifecycle::Open, Some(run)) if run.parked.is_some() => Status::Waiting,
        (Lifecycle::Open, Some(run)) if session.is_waiting() && !run.cancelling => Status::Waiting,
        (Lifecycle::Open, Some(_)) => Status::Running,
        // Something was said that no run has taken up yet: it must be found after a crash.
        (Lifecycle::Open, None) if !session.inbox.is_empty() => Status::Running,
        (Lifecycle::Open, None) if !session.errands.is_empty() => Status::Waiting,
        (Lifecycle::Open, None) => Status::Idle,
    }
}

/// When the first approval expires.
pub(super) fn due(session: &Session) -> Option<Timestamp> {
    let expiry = |call: &weir_kernel::Call| match call.state {
        CallState::Awaiting { expires, .. } => expires,
        _ => None,
    };
    session.all_calls().filter_map(expiry).min()
}
