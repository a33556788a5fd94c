//! Tool calls: taken up, decided, started, and what comes of them. They run beside one another; nothing starts before
//! the event that says so is durable.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinError};
use tokio::time::Instant;
use weir_events::{
    ApprovalExpired, ApprovalRequested, AskedBecause, Bill, Body, Escalates, FileDeleted, FileWritten,
    MemoryRetrieved, MemoryStored, SessionReleased, ToolCompleted, ToolDecided, ToolFailed, ToolRequested,
    ToolStarted,
};
use weir_journal::{Appended, mint_call};
use weir_kernel::{Call, CallState, ToolUse};
use weir_tools::{Decision, Done, Failed, NoResult, Permit, Started, Trace, Whole};
use weir_types::{ApprovalTerms, CallId, Effect, GateStep, Hash, OnInterrupt, Risk, Verdict};

use super::asking::millis;
use super::children::{bill, child_agent};
use super::commit::Committed;
use super::{Actor, Flow, Hold, Release};
use crate::approvals::ON_INTERRUPT;
use crate::draft::{Nature, new_event};
use crate::error::EngineError;
use crate::memory;
use crate::setup::Runnable;

/// How long cancelled calls may take to notice.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long cancelled commands may take to be gone, with everything that they started.
const FAREWELL_OF_COMMANDS: Duration = Duration::from_secs(10);

/// Why sessions are let go of.
const STOPPING: &str = "the process stops";

/// A call that runs.
pub(super) struct Underway {
    pub(super) call: CallId,
    /// Whether it ends by itself when it is cancelled.
    reports_its_end: bool,
    task: AbortHandle,
}

/// What came of a call.
pub(crate) struct Finished {
    call: CallId,
    result: Result<Done, NoResult>,
    /// What the session behind it used.
    bill: Option<Bill>,
    duration_ms: u64,
}

impl Actor {
    pub(super) fn request_tools(&mut self, runnable: &Runnable, uses: Vec<ToolUse>) -> Flow {
        for asked in uses {
            let tool = runnable.agent.tools.iter().find(|tool| tool.definition.name == asked.tool);
            // What is unknown counts as the worst.
            let listed = tool.map_or((Effect::Write, Risk::High), |tool| (tool.effect, tool.risk));
            let (effect, risk) = runnable.tools.strictness(&asked.tool, &asked.input).unwrap_or(listed);
            self.decided(ToolRequested {
                call: mint_call(),
                provider_id: asked.provider_id,
                tool: asked.tool,
                source: tool.map_or_else(|| "unknown".to_owned(), |tool| tool.source.clone()),
                input: asked.input,
                effect,
                risk,
                on_interrupt: tool.map_or(OnInterrupt::Report, |tool| tool.on_interrupt),
                key: None,
            });
        }
        Flow::Again
    }

    pub(super) fn authorise(&mut self, runnable: &Runnable, calls: &[CallId]) -> Flow {
        for id in calls {
            let Some(call) = self.session.call(*id).cloned() else { continue };
            let decision = self.decision(runnable, &call);
            self.decided_about(runnable, &call, decision);
        }
        Flow::Again
    }

    /// Writes a decision down; and that someone is asked, if that is what it says.
    fn decided_about(&mut self, runnable: &Runnable, call: &Call, decision: Decision) {
        let (asks, rule) = (decision.verdict == Verdict::Ask, decision.rule.clone());
        let terms = if decision.terms.is_default() { terms_of(runnable, call) } else { decision.terms };
        let decided = ToolDecided {
            call: call.id,
            outcome: decision.verdict,
            rule: decision.rule,
            step: decision.step,
            because: decision.because,
            stub: decision.stub,
            saw: Some(decision.saw),
        };
        self.decided_of(call.id, decided);
        if asks {
            let rule = rule.unwrap_or_default();
            let because = match call.may_have_happened() && call.child.is_none() {
                true => AskedBecause::Interrupted,
                false => AskedBecause::Rule,
            };
            let asked = self.asked_about(call.id, call.input_hash(), rule, because, terms);
            self.decided_of(call.id, asked);
        }
    }

    /// Someone is asked, for as long as that is waited for.
    fn asked_about(
        &self,
        call: CallId,
        input_hash: Hash,
        rule: String,
        because: AskedBecause,
        terms: ApprovalTerms,
    ) -> ApprovalRequested {
        let now = self.now();
        let escalates = terms.escalate.map(|to| Escalates { at: now.after_millis(to.after_ms), to: to.to });
        let expires = terms.within_ms.map(|within| now.after_millis(within));
        ApprovalRequested { call, input_hash, rule, expires, because: Some(because), escalates }
    }

    /// The groups that whoever the session acts for came with.
    pub(super) fn groups(&self) -> &[String] {
        self.session.created.as_ref().map_or(&[], |created| &created.groups)
    }

    /// On whose behalf the session acts.
    pub(super) fn principal(&self) -> &str {
        self.session.created.as_ref().map_or("", |created| created.principal.as_str())
    }

    /// How many sessions wait for this one, one within the other.
    pub(super) fn depth(&self) -> u32 {
        let parent = self.session.created.as_ref().and_then(|created| created.parent.as_ref());
        parent.map_or(0, |parent| parent.depth)
    }

    /// Someone is asked whether an interrupted write is to be repeated.
    pub(super) fn ask_again(&mut self, runnable: &Runnable, calls: &[CallId]) -> Flow {
        for id in calls {
            let Some(call) = self.session.call(*id) else { continue };
            let (input_hash, terms) = (call.input_hash(), terms_of(runnable, call));
            let because = AskedBecause::Interrupted;
            let asked = self.asked_about(*id, input_hash, ON_INTERRUPT.to_owned(), because, terms);
            self.decided_of(*id, asked);
        }
        Flow::Again
    }

    /// A call that nobody approved in time is noted as such before it is closed.
    pub(super) fn expire(&mut self, call: CallId) {
        let state = self.session.call(call).map(|call| &call.state);
        let now = self.now();
        let is_late = |expires: &weir_types::Timestamp| now >= *expires;
        if let Some(CallState::Awaiting { expires: Some(expires), .. }) = state
            && is_late(expires)
        {
            self.decided_of(call, ApprovalExpired { call });
        }
    }

    /// Writes down that the calls start, then starts them.
    pub(super) async fn execute(
        &mut self,
        runnable: &Runnable,
        calls: &[CallId],
    ) -> Result<Flow, EngineError> {
        if self.refuse_repeating(runnable, calls) {
            return Ok(Flow::Again);
        }
        for id in calls {
            let Some(call) = self.session.call(*id).cloned() else { continue };
            let (child, beginning) = match child_agent(runnable, &call) {
                Some(agent) => self.child(runnable, agent, &call).await?,
                None => (None, None),
            };
            let started = ToolStarted {
                call: *id,
                attempt: call.attempt + 1,
                key: call.key(),
                input_hash: call.input_hash(),
                child,
            };
            self.claim();
            let about = self.about_call(*id, None);
            self.draft.add_beside(&mut self.session, started.into(), about, Nature::Decision, beginning);
        }
        if self.commit(Release::No).await? == Committed::Rebased {
            return Ok(Flow::Again);
        }
        if let Some(acknowledged) = self.acknowledged {
            for id in calls {
                if let Some(call) = self.session.call(*id).cloned() {
                    self.start(runnable, &call, &acknowledged);
                }
            }
        }
        Ok(Flow::Again)
    }

    /// A call that a crash cut off, or that waited for the session behind it, goes on only if it would be allowed now: grants
    /// may have been taken back, and whoever goes on may let less happen than whoever began. So does one that a process allowed and
    /// did not start. True, if one of them may not: then decide again.
    fn refuse_repeating(&mut self, runnable: &Runnable, calls: &[CallId]) -> bool {
        let mut refused = false;
        for id in calls {
            let Some(call) = self.session.call(*id).cloned() else { continue };
            let is_cut_off = matches!(call.state, CallState::Interrupted | CallState::Suspended);
            // A decision that another process wrote down is that of its flags.
            let is_of_others = call.state == CallState::Allowed && !self.draft.decides(*id);
            if !is_cut_off && !is_of_others {
                continue;
            }
            let decision = self.decision(runnable, &call);
            if is_of_others && (decision.verdict, decision.stub) == (Verdict::Allow, call.stub) {
                continue;
            }
            let decision = match decision.verdict {
                Verdict::Deny | Verdict::Ask => decision,
                // To pretend would be to say that nothing happened.
                Verdict::Allow if is_of_others => decision,
                Verdict::Allow if decision.stub && !call.stub => {
                    let because = "stub: it was cut off while writes were live, and now they are not; `--live-writes` \
                                   would repeat it";
                    let (step, rule) = (Some(GateStep::Stub), Some(GateStep::Stub.to_string()));
                    Decision { step, rule, saw: decision.saw, ..Decision::deny(because) }
                }
                Verdict::Allow => continue,
            };
            refused = true;
            self.decided_about(runnable, &call, decision);
        }
        refused
    }

    /// Starts a call whose start is durable.
    fn start(&mut self, runnable: &Runnable, call: &Call, acknowledged: &Appended) {
        let permit = self.permit(runnable, call, acknowledged);
        let work = runnable.tools.execute(permit);
        let (id, child, began) = (call.id, call.child, Instant::now());
        let shared = Arc::clone(&self.shared);
        let task = self.calls.spawn(async move {
            let result = work.await;
            let bill = match child {
                Some(child) => bill(&shared, child).await,
                None => None,
            };
            Finished { call: id, result, bill, duration_ms: millis(began) }
        });
        let reports_its_end = runnable.tools.reports_its_end(&call.tool);
        self.underway.insert(task.id(), Underway { call: id, reports_its_end, task });
    }

    /// INVARIANT: `acknowledged` is the journal's answer to the append that holds the call's `tool.started`.
    fn permit(&mut self, runnable: &Runnable, call: &Call, acknowledged: &Appended) -> Permit {
        let world = self.world(runnable, call);
        Permit::new(
            acknowledged,
            Started {
                call: call.id,
                session: self.address.session,
                branch: self.address.branch.clone(),
                principal: self.principal().to_owned(),
                groups: self.groups().to_vec(),
                tool: call.tool.clone(),
                input: call.input_to_run().clone(),
                key: call.key(),
                attempt: call.attempt,
                stub: call.stub,
                child: call.child,
                cancelled: self.cancel_calls.child_token(),
                world,
            },
        )
    }

    /// A call is done, one way or another.
    pub(super) fn called(&mut self, called: Result<(tokio::task::Id, Finished), JoinError>) {
        match called {
            Ok((task, finished)) => {
                self.underway.remove(&task);
                if !self.is_cut_off(finished.call) {
                    self.record(finished);
                }
            }
            Err(error) => {
                let Some(Underway { call, .. }) = self.underway.remove(&error.id()) else { return };
                if error.is_cancelled() {
                    // Whoever cancelled it closes it.
                    return;
                }
                let effect = self.session.call(call).map_or(Effect::Write, |call| call.effect);
                let message = "the tool broke down; this is a bug in the tool";
                let failed = match effect {
                    Effect::Read => Failed::new("panic", message),
                    Effect::Idempotent | Effect::Write => Failed::unknown("panic", message),
                };
                self.record(Finished { call, result: Err(failed.into()), bill: None, duration_ms: 0 });
            }
        }
    }

    /// Whether a call ends because the engine does: then whoever takes the session up says what becomes of it. The session behind a
    /// call ends with the engine, too.
    fn is_cut_off(&self, call: CallId) -> bool {
        let is_agent = || self.session.call(call).is_some_and(|call| call.child.is_some());
        self.shared.cutting.is_cancelled() || (self.shared.stopping.is_cancelled() && is_agent())
    }

    /// Waits for the calls under way, writes down what came of them, and lets go of the session, so that whoever takes it up does not take
    /// this for a crash. Calls of agents are left: their sessions are at a safe point of their own.
    pub(super) async fn reach_safe_point(&mut self) -> Result<(), EngineError> {
        let cutting = self.shared.cutting.clone();
        while self.underway.values().any(|underway| !self.is_cut_off(underway.call)) {
            tokio::select! {
                biased;
                () = cutting.cancelled() => {}
                called = self.calls.join_next_with_id() => match called {
                    Some(called) => self.called(called),
                    None => break,
                },
            }
        }
        if cutting.is_cancelled() {
            return Ok(());
        }
        while let Committed::Rebased = self.commit(Release::No).await? {}
        while self.hold == Hold::Held {
            drop(self.stop_asking());
            self.decided(SessionReleased { reason: STOPPING.to_owned() });
            self.commit(Release::Yes).await?;
        }
        Ok(())
    }

    fn record(&mut self, finished: Finished) {
        let Finished { call, result, bill, duration_ms } = finished;
        match result {
            Err(NoResult::WaitsForApproval) => self.suspended(call, duration_ms),
            Ok(done) => {
                let stub = self.session.call(call).is_some_and(|call| call.stub);
                let Done { content, traces, whole, log } = done;
                let changed_files = traces.iter().filter_map(changed_file).collect();
                for trace in traces {
                    self.leave(trace);
                }
                let hash = whole.as_ref().map(Whole::hash);
                let completed = ToolCompleted { call, content, changed_files, stub, whole: hash, log, bill };
                self.happened_to(call, completed, duration_ms);
                if let Some(whole) = whole {
                    self.draft.attach(whole.into_content());
                }
                if let Some(files) = &self.files {
                    files.keep(call);
                }
            }
            Err(NoResult::Failed(Failed { class, message, outcome, log })) => {
                self.happened_to(call, ToolFailed { call, class, message, outcome, log, bill }, duration_ms);
                if let Some(files) = &self.files {
                    files.forget(call);
                }
            }
        }
    }

    /// What a call did to its session becomes events of its own. Notes also go to the stream of their memory.
    fn leave(&mut self, trace: Trace) {
        let body = body_of(trace);
        let about = self.about(None);
        let beside = match (&body, &self.session.created) {
            (Body::MemoryStored(_), Some(created)) => {
                memory::beside(&created.agent, &created.principal, new_event(&body, &about))
            }
            _ => None,
        };
        self.draft.add_beside(&mut self.session, body, about, Nature::Fact, beside);
    }

    /// Stops the model call and the tools. True, if a tool was done in the last moment: then decide again.
    pub(super) async fn stop_effects(&mut self) -> bool {
        self.stop_asking();
        (self.retry_at, self.shortage) = (None, None);
        self.cancel_children().await;
        if self.calls.is_empty() {
            return false;
        }
        self.cancel_calls.cancel();
        self.cancel_calls = self.shared.cutting.child_token();
        self.underway.values().filter(|call| !call.reports_its_end).for_each(|call| call.task.abort());
        // A command that was seen to end has a known outcome. One that does not end in time is dropped, too, and its outcome is unknown.
        self.await_calls(FAREWELL_OF_COMMANDS).await;
        self.calls.abort_all();
        self.await_calls(FAREWELL).await;
        // What does not even notice that it was aborted is left behind; its result is no longer wanted.
        self.calls.detach_all();
        self.underway.clear();
        // What a call that was cut off would have changed is not to be seen by the next one.
        self.files = None;
        true
    }

    /// Takes up the results of calls until all are done, or the time is over.
    async fn await_calls(&mut self, within: Duration) {
        let until = Instant::now() + within;
        while let Ok(Some(called)) = tokio::time::timeout_at(until, self.calls.join_next_with_id()).await {
            self.called(called);
        }
    }
}

/// How long an approval of a tool's calls is waited for, as its entry says.
fn terms_of(runnable: &Runnable, call: &Call) -> ApprovalTerms {
    let tool = runnable.agent.tools.iter().find(|tool| tool.definition.name == call.tool);
    tool.map(|tool| tool.approval.clone()).unwrap_or_default()
}

fn changed_file(trace: &Trace) -> Option<String> {
    match trace {
        Trace::FileWritten { path, .. } | Trace::FileDeleted { path } => Some(path.clone()),
        Trace::MemoryStored { .. } | Trace::MemoryRetrieved { .. } => None,
    }
}

fn body_of(trace: Trace) -> Body {
    match trace {
        Trace::FileWritten { path, hash, mode, size } => FileWritten { path, hash, mode, size }.into(),
        Trace::FileDeleted { path } => FileDeleted { path }.into(),
        Trace::MemoryStored { doc, title, tags, hash } => MemoryStored { doc, title, tags, hash }.into(),
        Trace::MemoryRetrieved { query, docs } => MemoryRetrieved { query, docs }.into(),
    }
}
