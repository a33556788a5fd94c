//! From events to state. Every event has one meaning, and none can fail: what does not fit the state (a result of a
//! call nobody made, an approval that came too late) changes nothing, because history cannot be argued with.

mod calls;
#[cfg(test)]
mod tests;
mod transcript;

pub use self::calls::ERRANDS_MAX;
pub(crate) use self::calls::{EXPIRED, INTERRUPTED};
pub use self::transcript::CUT_OFF;

use std::borrow::Cow;

use weir_events::{
    About, Allowance, AssistantMessage, Body, ContextCompacted, ExternalSignal, ModelFailed, ModelRequested,
    Parked, ResumeReason, RunStarted, SessionCreated, SessionHalted, SessionResumed, SessionUpdated,
    StatePatched, UserMessage,
};
use weir_types::{
    Block, CallId, Event, EventId, Explain, FailureClass, Fault, Purpose, Role, Seq, Timestamp,
};

use crate::app;
use crate::repeats::Repeats;
use crate::session::{
    AssistantEntry, Compaction, Ended, Ending, Entry, InFlight, Lifecycle, Phase, Run, Session, Spent,
    Summary, UserEntry,
};

/// An event that cannot be folded.
#[derive(Debug, thiserror::Error)]
#[error("event {seq} ({kind}) cannot be read")]
pub struct FoldError {
    /// Where it is.
    pub seq: Seq,
    /// What it claims to be.
    pub kind: String,
    /// Why.
    #[source]
    pub source: serde_json::Error,
}

impl Explain for FoldError {
    fn code(&self) -> &'static str {
        "kernel::unreadable-event"
    }

    fn help(&self) -> Cow<'static, str> {
        "a newer weir may have written it: use that; `weir verify` tells whether it was damaged".into()
    }

    fn fault(&self) -> Fault {
        Fault::Damaged
    }
}

/// Where and when an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Its place.
    pub seq: Seq,
    /// Its time.
    pub ts: Timestamp,
    /// Its id.
    pub id: EventId,
    /// How long its writer had run the session by then; see [`About::held_us`].
    pub held_us: Option<u64>,
}

/// What time it is, and how long whoever decides has run the session, if they know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time.
    pub at: Timestamp,
    /// As [`About::held_us`].
    pub held_us: Option<u64>,
}

impl From<Timestamp> for Now {
    fn from(at: Timestamp) -> Self {
        Self { at, held_us: None }
    }
}

impl Session {
    /// Folds one event. Kinds that are not ours only move the state's place.
    ///
    /// # Errors
    /// When the payload of a known kind cannot be read. The state is as it was.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        let held_us = About::held_us_of(&event.meta);
        let at = At { seq: event.seq, ts: event.ts, id: event.id, held_us };
        match Body::decode(&event.kind, &event.payload) {
            Ok(Some(Body::ApprovalGranted(body))) => {
                let actor = About::decode(&event.meta).actor;
                if actor.as_deref() == Some(&body.by) {
                    self.apply_body(at, &body.into());
                } else {
                    self.move_to(at, None);
                    self.approval_disowned(&body, actor.as_deref());
                }
            }
            Ok(Some(body)) => self.apply_body(at, &body),
            Ok(None) => self.move_to(at, None),
            Err(source) => {
                return Err(FoldError { seq: event.seq, kind: event.kind.to_string(), source });
            }
        }
        Ok(())
    }

    /// Folds what an event says; the caller vouches for who says it.
    pub fn apply_body(&mut self, at: At, body: &Body) {
        self.move_to(at, Some(body));
        if let Some(call) = lets_run(body)
            && self.rests_for(call)
        {
            return;
        }
        match body {
            Body::SessionCreated(body) => self.created(body),
            Body::SessionUpdated(body) => self.updated(body),
            Body::SessionResumed(body) => self.resumed(body),
            Body::SessionReleased(_) => self.cut_off(),
            Body::SessionHalted(body) => self.halted(body),
            Body::SessionClosed(body) => self.lifecycle = Lifecycle::Closed(body.reason.clone()),
            Body::BranchForked(_) => {
                self.standing.clear();
                self.errands.clear();
                self.end_run(Ending::Abandoned);
                // What was done until here, the branch that it was done on tells.
                self.settled_micros = self.totals.micros;
            }
            Body::UserMessage(body) => self.user_message(at.seq, body),
            Body::ExternalSignal(body) => self.inbox.push(signal(at.seq, body)),
            Body::RunStarted(body) => self.run_started(body),
            Body::IterationStarted(body) => self.iteration_started(body.n),
            Body::ModelRequested(body) => self.model_requested(at, body),
            Body::ModelFailed(body) => self.model_failed(at.ts, body),
            Body::AssistantMessage(body) => self.assistant_message(at.seq, body),
            Body::ContextCompacted(body) => self.compacted(at.seq, body),
            Body::StatePatched(body) => self.patched(body),
            Body::RunFinished(body) => {
                self.end_run(Ending::Finished { stop: body.stop, answer: body.answer.clone() });
            }
            Body::RunErrored(body) => {
                self.end_run(Ending::Errored { class: body.class, message: body.message.clone() });
            }
            Body::RunCancelRequested(_) => {
                if let Some(run) = &mut self.run {
                    run.cancelling = true;
                }
            }
            Body::RunCancelled(body) => self.cancelled(at.seq, body.said.as_deref()),
            Body::RunParked(body) => self.parked(&body.why),
            Body::ToolRequested(body) => self.tool_requested(body),
            Body::ToolDecided(body) => self.tool_decided(body),
            Body::ToolStarted(body) => self.tool_started(body),
            Body::ToolCompleted(body) => self.tool_completed(body),
            Body::ToolFailed(body) => self.tool_failed(body),
            Body::ApprovalRequested(body) => self.approval_requested(body),
            Body::ApprovalGranted(body) => self.approval_granted(at, body),
            Body::ApprovalDenied(body) => self.approval_denied(body),
            Body::ApprovalExpired(body) => self.approval_expired(body),
            Body::FileWritten(body) => self.activity.file_changed(&body.path),
            Body::FileDeleted(body) => self.activity.file_changed(&body.path),
            Body::BudgetExceeded(body) => self.withdraw_request(body.call),
            // What these say is folded elsewhere: deltas by who streams, the rest by the projections of later crates.
            Body::TextDelta(_)
            | Body::BranchMerged(_)
            | Body::MemoryStored(_)
            | Body::MemoryRetrieved(_)
            | Body::SnapshotTaken(_)
            | Body::BudgetReserved(_)
            | Body::BudgetSettled(_)
            | Body::BudgetReleased(_)
            | Body::BudgetCarried(_)
            | Body::LaneChosen(_)
            | Body::LaneRolledBack(_)
            | Body::LoopFired(_)
            | Body::LoopSkipped(_)
            | Body::LoopFinished(_) => {}
        }
    }

    /// Time passes. It counts as work unless nobody was working.
    fn move_to(&mut self, at: At, body: Option<&Body>) {
        let elapsed = self.micros_until(Now { at: at.ts, held_us: at.held_us });
        let was_down = matches!(body, Some(Body::SessionResumed(_)));
        if !was_down && self.active_run().is_some() && !self.is_waiting() {
            self.spend(|spent| spent.micros = spent.micros.saturating_add(elapsed));
        }
        // Whoever takes it up begins to count; one that does not count is of an older version.
        if was_down || at.held_us.is_some() {
            self.held_us = at.held_us;
        }
        (self.seq, self.ts) = (at.seq, at.ts.max(self.ts));
    }

    /// How long it is since the newest event. Clocks of day may be set; whoever runs the session counts by another one, and then
    /// nobody else does.
    pub(crate) fn micros_until(&self, now: Now) -> u64 {
        match (now.held_us, self.held_us) {
            (Some(now), Some(before)) => now.saturating_sub(before),
            (None, Some(_)) => 0,
            (_, None) => u64::try_from(now.at.as_micros() - self.ts.as_micros()).unwrap_or_default(),
        }
    }

    /// Counts for the session and for the run.
    pub(crate) fn spend(&mut self, count: impl Fn(&mut Spent)) {
        count(&mut self.totals);
        if let Some(run) = &mut self.run {
            count(&mut run.spent);
        }
    }

    fn created(&mut self, body: &SessionCreated) {
        self.title.clone_from(&body.title);
        self.labels.clone_from(&body.labels);
        self.created = Some(body.clone());
    }

    fn updated(&mut self, body: &SessionUpdated) {
        if body.title.is_some() {
            self.title.clone_from(&body.title);
        }
        for (label, value) in &body.labels {
            if value.is_empty() {
                self.labels.remove(label);
            } else {
                self.labels.insert(label.clone(), value.clone());
            }
        }
    }

    /// Whoever was at it is at it no more.
    fn cut_off(&mut self) {
        self.interrupt_request();
        self.interrupt_calls();
    }

    /// A process takes the session up: whatever was under way was lost with the one before.
    fn resumed(&mut self, body: &SessionResumed) {
        let was_waiting = self.is_waiting();
        self.cut_off();
        match body.reason {
            ResumeReason::Input => {}
            // Waiting holds nothing, so a process that ends meanwhile interrupts nothing.
            ResumeReason::Recovery if was_waiting => {}
            ResumeReason::Recovery => {
                if let Some(run) = self.run.as_mut().filter(|run| run.parked.is_none()) {
                    run.crashes += 1;
                }
            }
            ResumeReason::Asked => {
                self.resumed_by_someone(body.budget.unwrap_or_default(), body.keeps_limits);
            }
        }
    }

    /// Someone knows why it had stopped and wants it to go on.
    fn resumed_by_someone(&mut self, granted: Allowance, keeps_limits: bool) {
        if let Lifecycle::Halted(_) = self.lifecycle {
            self.lifecycle = Lifecycle::Open;
        }
        if let Some(run) = &mut self.run {
            (run.parked, run.crashes) = (None, 0);
            match keeps_limits {
                true => run.grant(granted),
                false => (run.excused, run.granted) = (run.spent, granted),
            }
            (run.compaction, run.repeats) = (Compaction::default(), Repeats::default());
        }
    }

    /// Someone stops it: what was said yes to before does not count afterwards.
    fn halted(&mut self, body: &SessionHalted) {
        self.standing.clear();
        if body.imported {
            self.approvers.clear();
            self.created = self.created.take().map(SessionCreated::without_authority);
        }
        if self.lifecycle == Lifecycle::Open {
            self.lifecycle = Lifecycle::Halted(body.reason.clone());
        }
    }

    /// A run pauses. Whoever parks it has closed its calls; what else is open was not left there by us.
    fn parked(&mut self, why: &Parked) {
        self.interrupt_request();
        self.close_open_calls();
        self.errands.clear();
        self.go_on_if_all_in();
        if let Some(run) = &mut self.run {
            run.parked = Some(why.clone());
        }
    }

    /// A run is stopped. What was said of the answer stays in the conversation, so that the next question is not taken for a
    /// part of the one that was not answered.
    fn cancelled(&mut self, seq: Seq, said: Option<&str>) {
        if let Some(said) = said
            && self.run.is_some()
        {
            self.transcript.entries.push(Entry::Assistant(AssistantEntry::cut_off(seq, said)));
        }
        self.end_run(Ending::Cancelled);
    }

    /// Whether a call cannot get any nearer to the world at the moment. Errands need no run, but none may be parked: a fuse that
    /// has blown is everybody's.
    pub(crate) fn rests_for(&self, call: CallId) -> bool {
        let without_run = match self.errand(call) {
            Some(_) => self.run.as_ref().is_some_and(|run| run.parked.is_some()),
            None => self.active_run().is_none(),
        };
        self.lifecycle != Lifecycle::Open || without_run
    }

    fn user_message(&mut self, seq: Seq, body: &UserMessage) {
        let entry = || UserEntry { seq, content: body.content.clone(), runtime: body.runtime.clone() };
        // Before the first message and run there is nothing that a history could come too late for.
        let is_new = self.run.is_none() && self.ended.is_none() && self.inbox.is_empty();
        match body.history {
            None => self.inbox.push(entry()),
            Some(Role::User) if is_new => self.transcript.entries.push(Entry::User(entry())),
            Some(Role::Assistant) if is_new => {
                self.transcript.entries.push(Entry::Assistant(AssistantEntry::claimed(seq, &body.content)));
            }
            Some(Role::User | Role::Assistant) => {}
        }
    }

    fn run_started(&mut self, body: &RunStarted) {
        self.end_run(Ending::Abandoned);
        // What the run was started for is its own from here on: however it ends, it is not started for that again.
        self.tell_inbox();
        self.run = Some(Run {
            id: body.run,
            iteration: 0,
            open: false,
            attempts: 0,
            phase: Phase::Ready,
            spent: Spent::default(),
            excused: Spent::default(),
            granted: Allowance::default(),
            repeats: Repeats::default(),
            crashes: 0,
            cancelling: false,
            parked: None,
            compaction: Compaction::default(),
        });
    }

    fn iteration_started(&mut self, n: u32) {
        self.spend(|spent| spent.iterations += 1);
        if let Some(run) = &mut self.run {
            (run.iteration, run.open, run.attempts, run.crashes) = (n, true, 0, 0);
            run.phase = Phase::Ready;
        }
    }

    fn model_requested(&mut self, at: At, body: &ModelRequested) {
        self.interrupt_request();
        self.spend(|spent| spent.model_calls += 1);
        let purpose = body.params.purpose;
        if purpose == Purpose::Turn {
            self.told();
        }
        if let Some(run) = &mut self.run {
            if purpose == Purpose::Turn {
                run.attempts = body.attempt;
            }
            run.phase = Phase::Calling(InFlight {
                seq: at.seq,
                id: at.id,
                attempt: body.attempt,
                purpose,
                reserve: body.reserve,
                purses: body.purses.clone(),
                estimated_tokens: body.params.estimated_tokens,
            });
        }
    }

    /// The model is told everything there is. What it was told once cannot change any more.
    fn told(&mut self) {
        self.close_open_calls();
        self.tell_inbox();
        if let Some(Entry::Assistant(entry)) = self.transcript.entries.last_mut() {
            entry.continued = entry.wire_ids.is_empty();
        }
    }

    fn tell_inbox(&mut self) {
        self.transcript.entries.extend(self.inbox.drain(..).map(Entry::User));
    }

    /// A request whose answer will never be known is paid in full.
    fn interrupt_request(&mut self) {
        let Some(Run { phase: Phase::Calling(request), .. }) = &self.run else { return };
        let InFlight { purpose, attempt, reserve, .. } = *request;
        self.told_purses();
        self.spend(|spent| {
            spent.reserved_tokens = spent.reserved_tokens.saturating_add(reserve.tokens);
            spent.cost += reserve.nano;
        });
        if let Some(run) = &mut self.run {
            run.phase = Phase::Interrupted { purpose, attempt };
        }
    }

    /// A request that could not be paid is not made: it counts nothing, and can be made later.
    fn withdraw_request(&mut self, id: Option<EventId>) {
        let Some(Run { phase: Phase::Calling(request), .. }) = &self.run else { return };
        if id != Some(request.id) {
            return;
        }
        let (purpose, attempt) = (request.purpose, request.attempt);
        self.spend(|spent| spent.model_calls = spent.model_calls.saturating_sub(1));
        if let Some(run) = &mut self.run {
            run.phase = Phase::Ready;
            if purpose == Purpose::Turn {
                run.attempts = attempt.saturating_sub(1);
            }
        }
    }

    /// The end of a request tells its purses how long there was work.
    fn told_purses(&mut self) {
        if let Some(Run { phase: Phase::Calling(request), .. }) = &self.run
            && !request.purses.is_empty()
        {
            self.settled_micros = self.totals.micros;
        }
    }

    fn model_failed(&mut self, ts: Timestamp, body: &ModelFailed) {
        self.told_purses();
        self.spend(|spent| {
            spent.usage += body.usage;
            spent.cost += body.cost;
        });
        let Some(run) = &mut self.run else { return };
        let Phase::Calling(InFlight { purpose, estimated_tokens, .. }) = &run.phase else { return };
        let (purpose, estimated_tokens) = (*purpose, *estimated_tokens);
        run.phase = Phase::Failed {
            purpose,
            attempt: body.attempt,
            class: body.class,
            message: body.message.clone(),
            until: ts.after_millis(body.delay_ms),
        };
        if purpose == Purpose::Turn && body.class == FailureClass::ContextOverflow {
            run.compaction.overflows += 1;
            run.compaction.overflow_tokens = estimated_tokens;
        }
        if purpose == Purpose::Summary && !crate::decide::retries(purpose, body.class, body.attempt) {
            run.compaction.failed = true;
            run.phase = Phase::Ready;
        }
    }

    fn assistant_message(&mut self, seq: Seq, body: &AssistantMessage) {
        self.told_purses();
        self.spend(|spent| {
            spent.usage += body.usage;
            spent.cost += body.cost;
        });
        if let Some(Run { phase: Phase::Calling(request), .. }) = &self.run {
            self.gauge.learn(request.estimated_tokens, body.usage.input_tokens);
        }
        self.close_open_calls();
        let entry = self.answer(seq, body);
        let has_calls = !entry.wire_ids.is_empty();
        self.transcript.entries.push(Entry::Assistant(entry));
        if let Some(run) = &mut self.run {
            (run.open, run.compaction) = (false, Compaction::default());
            run.phase = if has_calls { Phase::Tools } else { Phase::Ready };
        }
    }

    fn compacted(&mut self, seq: Seq, body: &ContextCompacted) {
        self.told_purses();
        self.spend(|spent| {
            spent.usage += body.usage;
            spent.cost += body.cost;
        });
        self.transcript.cover(body.through, Summary { seq, text: body.summary.clone() });
        if let Some(run) = &mut self.run {
            run.phase = Phase::Ready;
        }
    }

    fn patched(&mut self, body: &StatePatched) {
        // A patch that does not apply changes nothing.
        if let Ok(app) = app::patched(&self.app, &body.patch) {
            self.app = app;
        }
    }

    /// The run is over; what it left open is closed.
    fn end_run(&mut self, how: Ending) {
        self.interrupt_request();
        self.close_open_calls();
        if let Some(run) = self.run.take() {
            self.ended = Some(Ended { run: run.id, how, spent: run.spent });
        }
    }
}

/// The call that this brings nearer to the world. No owner writes it while a session is halted or closed or its run is parked,
/// and from anyone else it does not count.
fn lets_run(body: &Body) -> Option<CallId> {
    match body {
        Body::ToolDecided(body) => Some(body.call),
        Body::ToolStarted(body) => Some(body.call),
        Body::ApprovalRequested(body) => Some(body.call),
        Body::ApprovalGranted(body) => Some(body.call),
        _ => None,
    }
}

/// A signal reaches the model as a message that says where it comes from.
fn signal(seq: Seq, body: &ExternalSignal) -> UserEntry {
    let text = format!("<signal name={:?}>\n{}\n</signal>", body.name, body.data.as_str());
    UserEntry { seq, content: vec![Block::text(text)], runtime: std::collections::BTreeMap::new() }
}
