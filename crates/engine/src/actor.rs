//! A session's task: fold, decide, do, append.
//!
//! It holds the session's state while there is something to do and a little longer. Whatever it decides goes into a
//! draft; the draft is written down before anything that it guards is started. When another process has appended in
//! between, what *happened* is kept and what was only *decided* is decided again.

mod asking;
mod calling;
mod children;
mod commit;
mod deciding;
mod paying;
mod waiting;
mod world;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_events::{
    About, Body, ResumeReason, RunCancelled, RunErrored, RunFinished, RunParked, RunStarted, SessionResumed,
    ToolFailed, Trigger,
};
use weir_journal::{Appended, mint_run};
use weir_kernel::{Call, CallState, Closing, Lifecycle, Next, Now, Phase, Session, decide};
use weir_types::{
    BranchId, CallId, Explain, FailureClass, Fault, Outcome as Unheard, OwnerId, RunId, Seq, Timestamp,
    text_of,
};

use self::asking::Attempt;
use self::calling::{Finished, Underway};
use self::commit::Committed;
pub(crate) use self::commit::attrs;
pub use self::commit::status;
pub(crate) use self::paying::Resume;
use self::paying::Shortage;
pub(crate) use self::paying::within_budgets;
use crate::address::Address;
use crate::draft::{Beside, Draft, Nature, event_of};
use crate::error::EngineError;
use crate::files::SessionFiles;
use crate::holds::{Held, Share};
use crate::input::By;
use crate::live::Live;
use crate::outcome::Outcome;
use crate::poke::Poke;
use crate::setup::Runnable;
use crate::shared::Shared;
use crate::store;

/// What a session's task is asked to do.
pub(crate) enum Command {
    /// Something was said, or happened.
    Input {
        /// What, in order; a session that begins does so with the first.
        bodies: Vec<Body>,
        /// Who, and why.
        by: By,
        /// Told when it is durable.
        reply: Reply,
    },
    /// Go on, whatever stopped it.
    Resume {
        /// What for.
        resume: Resume,
        /// Told when it is durable.
        reply: Reply,
    },
    /// Look whether there is something to do: in the journal, and in the sessions behind it.
    Look {
        /// Told before it does.
        reply: Reply,
    },
}

/// Told when what was asked for is durable: the place of the last event that came in with it, or of the newest one.
pub(crate) type Reply = oneshot::Sender<Result<Seq, EngineError>>;

/// A reply to be given when the draft is written down.
struct Owed {
    reply: Reply,
    /// What it is about: the draft's nth fact, from 1; everything, if there is none.
    fact: Option<usize>,
}

/// What a session's task is doing, for those who wait for it.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// Something.
    Working,
    /// What happened cannot be stored: it is held and tried again.
    WaitingForStorage,
    /// Nothing, and this came of it.
    Resting(Arc<Outcome>),
    /// It gave up.
    Failed(EngineError),
}

/// Whether a session that has nothing to do stays in memory for a while: someone who asked for it may ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    No,
    AWhile,
}

/// How a session's task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It had nothing to do.
    Rested,
    /// It could not go on.
    Failed,
}

/// Whether a session stays, seen by others. Whoever stays once goes on doing so.
pub(crate) struct Staying(AtomicBool);

impl Staying {
    pub(crate) fn new(stay: Stay) -> Self {
        Self(AtomicBool::new(stay == Stay::AWhile))
    }

    pub(crate) fn get(&self) -> Stay {
        if self.0.load(Ordering::SeqCst) { Stay::AWhile } else { Stay::No }
    }

    fn is_asked_for(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What this process has to do with the session's ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// Nothing.
    None,
    /// The draft claims it.
    Claiming,
    /// It is ours.
    Held,
}

/// Whether to decide again at once.
enum Flow {
    Again,
    /// Wait for something to happen first.
    Wait,
    /// Nothing is under way: the session can leave memory.
    Rest,
}

/// A session's task.
pub(crate) struct Actor {
    shared: Arc<Shared>,
    address: Address,
    branch: BranchId,
    /// Folded, the draft included.
    session: Session,
    /// The newest event in the journal that is folded.
    durable: Seq,
    snapshot: Seq,
    draft: Draft,
    /// The journal's word for the newest append of ours: what permits are made from.
    acknowledged: Option<Appended>,
    hold: Hold,
    /// Since when it is ours, or is to be.
    claimed: Option<std::time::Instant>,
    /// The session, as far as this process holds it, and our share in that.
    held: Arc<Held>,
    share: Option<Share>,
    /// The dead process that the session is taken over from.
    replacing: Option<OwnerId>,
    runnable: Option<(RunId, Arc<Runnable>)>,
    asking: Option<Attempt>,
    /// What an answer that is being cut off had said; written down when the run ends.
    cut_off: Option<String>,
    calls: JoinSet<Finished>,
    underway: HashMap<tokio::task::Id, Underway>,
    cancel_calls: CancellationToken,
    /// The files, as the calls under way see them.
    files: Option<Arc<SessionFiles>>,
    commands: mpsc::Receiver<Command>,
    replies: Vec<Owed>,
    /// Someone asked to go on; not written down yet.
    resuming: Option<Resume>,
    /// A call waits for what others have set aside.
    shortage: Option<Shortage>,
    /// When a failed model call is repeated.
    retry_at: Option<Instant>,
    /// When an approval expires.
    due: Option<Timestamp>,
    standing: watch::Sender<Standing>,
    poke: Arc<Poke>,
    live: Arc<Live>,
    stay: Arc<Staying>,
}

impl Actor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        address: Address,
        commands: mpsc::Receiver<Command>,
        standing: watch::Sender<Standing>,
        poke: Arc<Poke>,
        stay: Arc<Staying>,
    ) -> Self {
        let (branch, live) = (address.branch_id(), shared.live.of(&address));
        let held = shared.holds.of(&address.session);
        let cancel_calls = shared.cutting.child_token();
        Self {
            shared,
            address,
            branch,
            session: Session::default(),
            durable: Seq(0),
            snapshot: Seq(0),
            draft: Draft::default(),
            acknowledged: None,
            hold: Hold::None,
            claimed: None,
            held,
            share: None,
            replacing: None,
            runnable: None,
            asking: None,
            cut_off: None,
            calls: JoinSet::new(),
            underway: HashMap::new(),
            cancel_calls,
            files: None,
            commands,
            replies: Vec::new(),
            resuming: None,
            shortage: None,
            retry_at: None,
            due: None,
            standing,
            poke,
            live,
            stay,
        }
    }

    pub(crate) async fn run(mut self) {
        let lived = self.live_through().await.map_err(|error| self.with_what_is_known(error));
        if let Err(error) = &lived {
            // Its text can hold arguments of calls; its code cannot.
            let Address { session, branch } = &self.address;
            let code = error.code();
            match (error, error.fault()) {
                (EngineError::Stopping, _) => {
                    tracing::debug!(%session, %branch, "session left: the engine stops");
                }
                (_, Fault::Storage | Fault::Damaged | Fault::Bug) => {
                    tracing::warn!(%session, %branch, code, "session left with an error");
                }
                _ => tracing::debug!(%session, %branch, code, "session left with an error"),
            }
            for owed in self.replies.drain(..) {
                let _ = owed.reply.send(Err(error.clone()));
            }
            self.standing.send_replace(Standing::Failed(error.clone()));
            self.refuse_rest(error);
        }
        self.shared.retire(&self.address, if lived.is_ok() { Leave::Rested } else { Leave::Failed });
        // Whoever sent a command in the last moment finds the channel closed and asks again.
        self.commands.close();
        self.refuse_rest(&EngineError::Stopping);
    }

    fn refuse_rest(&mut self, error: &EngineError) {
        while let Ok(command) = self.commands.try_recv() {
            let (Command::Input { reply, .. } | Command::Resume { reply, .. } | Command::Look { reply }) =
                command;
            let _ = reply.send(Err(error.clone()));
        }
    }

    async fn live_through(&mut self) -> Result<(), EngineError> {
        self.reload().await?;
        loop {
            if self.shared.stopping.is_cancelled() {
                self.reach_safe_point().await?;
                return Err(EngineError::Stopping);
            }
            match self.step().await? {
                Flow::Again => {}
                Flow::Wait => self.wait().await?,
                Flow::Rest => {
                    if !self.rest().await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Folds what is in the journal, and then what is drafted and cannot be taken back.
    async fn reload(&mut self) -> Result<(), EngineError> {
        let loaded = store::load(self.shared.journal(), &self.address).await?;
        let preface = match loaded {
            Some(loaded) => {
                (self.session, self.snapshot) = (loaded.session, loaded.snapshot);
                loaded.preface
            }
            None => {
                self.session = Session::default();
                Vec::new()
            }
        };
        self.folded_to(self.session.seq);
        if self.calls.is_empty() {
            // Somebody else may have changed them; while calls run, only they do.
            self.files = None;
        }
        if self.hold == Hold::Claiming {
            self.hold = Hold::None;
        }
        let old = std::mem::take(&mut self.draft);
        self.draft.preface(&mut self.session, preface);
        self.draft.take_facts(&mut self.session, old);
        // What someone else has halted in between, or an import, is not what they wanted to go on with.
        let is_halted = matches!(self.session.lifecycle, Lifecycle::Halted(_));
        if self.resuming.is_some() && !(is_halted && self.session.active_run().is_some()) {
            self.go_on();
        }
        Ok(())
    }

    /// Everything up to here is in the journal, and folded.
    fn folded_to(&mut self, seq: Seq) {
        self.durable = seq;
        self.poke.know(seq);
    }

    /// Something is being done. Who waits for a result is not woken to hear it again.
    fn is_working(&self) {
        self.standing.send_if_modified(|standing| {
            let is_news = !matches!(standing, Standing::Working);
            *standing = Standing::Working;
            is_news
        });
    }

    /// Decides, and does what was decided.
    async fn step(&mut self) -> Result<Flow, EngineError> {
        let runnable = match self.runnable().await {
            Ok(Some(runnable)) => runnable,
            Ok(None) => return self.pause(None).await,
            Err(error) => return self.without_agent(error).await,
        };
        if self.hold == Hold::None && self.session.active_run().is_some() && !self.session.is_waiting() {
            // What is under way is not ours: its process is gone, or still at it. Claiming tells. And time has not
            // passed for a run that nobody ran.
            self.claim();
        }
        let next = decide(&self.session, &runnable.agent, self.now_held());
        if self.hold != Hold::Held && self.is_about_errands(&next) {
            // What comes of them is the last thing that is written down, and lets go of the session: it has to be ours by then.
            self.claim();
            self.commit(Release::No).await?;
            return Ok(Flow::Again);
        }
        match next {
            Next::Rest => self.pause(None).await,
            Next::Wait { due } => self.wait_for_people(&runnable, due).await,
            Next::Busy => self.write_down_and_wait().await,
            Next::StartRun => Ok(self.start_run(Trigger::Input)),
            Next::CallModel { begin, attempt, not_before } => {
                self.ask_model(&runnable, begin, attempt, not_before).await
            }
            Next::Compact { begin, attempt, not_before, plan } => {
                self.ask_summary(&runnable, begin, attempt, not_before, plan).await
            }
            Next::RequestTools(uses) => Ok(self.request_tools(&runnable, uses)),
            Next::Authorise(calls) => Ok(self.authorise(&runnable, &calls)),
            Next::AskAgain(calls) => Ok(self.ask_again(&runnable, &calls)),
            Next::Execute(calls) => self.execute(&runnable, &calls).await,
            Next::Close(closings) => Ok(self.close(closings)),
            Next::Drop(closings) => {
                // Whoever is done in the last moment need not be closed.
                let is_stale = self.stop_effects().await;
                Ok(if is_stale { Flow::Again } else { self.close(closings) })
            }
            Next::Cancel(closings) => {
                let said = self.cut_off_answer();
                self.end(closings, RunCancelled { said }.into()).await
            }
            Next::Park { why, closing } => self.end(closing, RunParked { why }.into()).await,
            Next::Fail { class, message } => self.end(Vec::new(), RunErrored { class, message }.into()).await,
            Next::Finish { stop } => {
                let finished = self.finished(stop);
                self.end(Vec::new(), finished.into()).await
            }
        }
    }

    /// The time by the engine's clock.
    pub(super) fn now(&self) -> Timestamp {
        (self.shared.setup.options.clock)()
    }

    /// The time, and how long the session is ours by the clock that only goes forward.
    pub(super) fn now_held(&self) -> Now {
        Now { at: self.now(), held_us: self.held_us() }
    }

    fn held_us(&self) -> Option<u64> {
        let since = self.claimed.filter(|_| self.hold != Hold::None)?;
        u64::try_from(since.elapsed().as_micros()).ok()
    }

    /// Whether something is to be done about errands while no run is at work.
    fn is_about_errands(&self, next: &Next) -> bool {
        let rests = self.session.active_run().is_none() || self.session.is_waiting();
        let does = matches!(
            next,
            Next::Authorise(_)
                | Next::AskAgain(_)
                | Next::Execute(_)
                | Next::Close(_)
                | Next::Drop(_)
                | Next::Busy
        );
        rests && does && !self.session.errands.is_empty()
    }

    /// The agent, if there is anything it could do. Asked for anew for each run.
    async fn runnable(&mut self) -> Result<Option<Arc<Runnable>>, EngineError> {
        let Some(created) = &self.session.created else { return Ok(None) };
        let run = self.session.run.as_ref().map(|run| run.id);
        if run.is_none() && self.session.inbox.is_empty() && self.session.errands.is_empty() {
            return Ok(None);
        }
        if let Some((of, runnable)) = &self.runnable
            && Some(*of) == run
        {
            return Ok(Some(Arc::clone(runnable)));
        }
        let runnable = self.shared.agent_of(created).await?;
        let runnable = within_budgets(runnable);
        self.runnable = run.map(|run| (run, Arc::clone(&runnable)));
        Ok(Some(runnable))
    }

    /// A run whose agent cannot be had fails; without a run, whoever wanted one is told.
    async fn without_agent(&mut self, error: EngineError) -> Result<Flow, EngineError> {
        let message = error.to_string();
        if self.session.has_errands_to_run() {
            let closing = |call: &Call| Closing {
                call: call.id,
                class: "agent".to_owned(),
                message: message.clone(),
                outcome: if call.may_have_happened() { Unheard::Unknown } else { Unheard::Failed },
            };
            return Ok(self.close(self.session.errands.iter().map(closing).collect()));
        }
        if self.session.active_run().is_none() {
            return Err(error);
        }
        self.end(Vec::new(), RunErrored { class: FailureClass::Invalid, message }.into()).await
    }

    /// Adds what was decided to the draft. Only the owner decides.
    fn decided(&mut self, body: impl Into<Body>) -> Flow {
        self.claim();
        let body = body.into();
        // An event that begins a run or an iteration belongs to it.
        let about = match &body {
            Body::RunStarted(began) => About { run: Some(began.run), iteration: None, ..self.about(None) },
            Body::IterationStarted(began) => About { iteration: Some(began.n), ..self.about(None) },
            _ => self.about(None),
        };
        self.draft.add(&mut self.session, body, about, Nature::Decision);
        Flow::Again
    }

    /// The same about a call.
    fn decided_of(&mut self, call: CallId, body: impl Into<Body>) -> Flow {
        self.claim();
        let about = self.about_call(call, None);
        self.draft.add(&mut self.session, body.into(), about, Nature::Decision);
        Flow::Again
    }

    /// Adds what happened to the draft.
    fn happened(&mut self, body: impl Into<Body>, duration_ms: u64) {
        let about = self.about(Some(duration_ms));
        self.draft.add(&mut self.session, body.into(), about, Nature::Fact);
    }

    /// The same about a call.
    fn happened_to(&mut self, call: CallId, body: impl Into<Body>, duration_ms: u64) {
        let about = self.about_call(call, Some(duration_ms));
        self.draft.add(&mut self.session, body.into(), about, Nature::Fact);
    }

    /// What happens with an errand is found by the event that asked for it: nothing in the conversation tells.
    fn about_call(&self, call: CallId, duration_ms: Option<u64>) -> About {
        let causation = self.session.errand(call).map(|errand| event_of(errand.id));
        About { causation, ..self.about(duration_ms) }
    }

    fn about(&self, duration_ms: Option<u64>) -> About {
        let run = self.session.run.as_ref();
        About {
            actor: self.session.created.as_ref().map(|created| created.principal.clone()),
            run: run.map(|run| run.id),
            iteration: run.map(|run| run.iteration).filter(|iteration| *iteration > 0),
            duration_ms,
            held_us: self.held_us(),
            ..About::default()
        }
    }

    /// Makes the draft claim the session, unless it is ours.
    fn claim(&mut self) {
        if self.hold != Hold::None {
            return;
        }
        self.hold = Hold::Claiming;
        // A session that was left in good order has no owner, and nothing under way.
        let went_down = self.replacing.is_some() || self.has_effects_under_way();
        let reason = if went_down { ResumeReason::Recovery } else { ResumeReason::Input };
        self.resumed(reason, &Resume::default());
    }

    fn has_effects_under_way(&self) -> bool {
        let calling = self.session.run.as_ref().is_some_and(|run| matches!(run.phase, Phase::Calling(_)));
        calling || self.session.all_calls().any(|call| call.state == CallState::Running)
    }

    fn start_run(&mut self, trigger: Trigger) -> Flow {
        self.decided(RunStarted { run: mint_run(), trigger, lane: "direct".to_owned() })
    }

    fn resumed(&mut self, reason: ResumeReason, resume: &Resume) {
        self.hold = Hold::Claiming;
        self.claimed = Some(std::time::Instant::now());
        let (owner, about) = (self.shared.setup.owners.me(), self.about(None));
        let actor = resume.actor.clone().or(about.actor.clone());
        let about = About { actor, causation: resume.cause, held_us: Some(0), ..about };
        let resumed = SessionResumed { reason, owner, budget: resume.budget, keeps_limits: true };
        let id = weir_journal::mint();
        let beside = Beside { id, parts: self.raise(resume, id, &about) };
        self.draft.add_with(&mut self.session, resumed.into(), about, Nature::Decision, beside);
    }

    fn close(&mut self, closings: Vec<Closing>) -> Flow {
        for closing in closings {
            self.expire(closing.call);
            self.decided_of(
                closing.call,
                ToolFailed {
                    call: closing.call,
                    class: closing.class,
                    message: closing.message,
                    outcome: closing.outcome,
                    log: Vec::new(),
                    bill: None,
                },
            );
        }
        Flow::Again
    }

    /// Ends or pauses the run, and lets go of the session in the same append.
    async fn end(&mut self, closings: Vec<Closing>, last: Body) -> Result<Flow, EngineError> {
        if self.stop_effects().await {
            return Ok(Flow::Again);
        }
        if self.claim_before_ending().await? == Committed::Rebased {
            return Ok(Flow::Again);
        }
        self.close(closings);
        let wake = self.wake_parent().await?;
        self.claim();
        let about = self.about(None);
        self.draft.add_beside(&mut self.session, last, about, Nature::Decision, wake);
        self.commit(Release::Yes).await?;
        Ok(Flow::Again)
    }

    fn finished(&self, stop: weir_types::Stop) -> RunFinished {
        let answer = self.session.transcript.last_assistant().map(|entry| text_of(&entry.content));
        let spent = self.session.run.as_ref().map(|run| run.spent).unwrap_or_default();
        RunFinished { stop, answer, usage: spent.usage, cost: spent.cost }
    }
}

/// Whether an append lets go of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Yes,
    No,
}
