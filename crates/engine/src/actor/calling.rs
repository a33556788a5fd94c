//! Tool calls: taken up, decided, started, and what comes of them. They run beside one another; nothing starts before
//! the event that says so is durable.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinError;
use tokio::time::Instant;
use weir_journal::{Attrs, Expected, Ownership, Part, Status, mint_call, mint_session};
use weir_kernel::{
    About, Agent, ApprovalExpired, ApprovalRequested, Call, CallState, Outcome as Effected, Parent,
    RunCancelRequested, SessionCreated, Tool, ToolCompleted, ToolDecided, ToolFailed, ToolRequested,
    ToolStarted, ToolUse, UserMessage, Verdict,
};
use weir_types::{Block, CallId, Effect, OnInterrupt, Risk, SessionId, text_of};

use super::asking::millis;
use super::commit::Committed;
use super::{Actor, Flow, Release};
use crate::address::Address;
use crate::draft::new_event;
use crate::error::EngineError;
use crate::shared::Shared;
use crate::tools::{Asked, Decision, Done, Failed, Permit};

/// The most text of one result that is kept. A tool that has more to say must be asked for it in parts.
const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long cancelled calls may take to notice.
const FAREWELL: Duration = Duration::from_secs(2);

/// What came of a call.
pub(crate) struct Finished {
    call: CallId,
    result: Result<Done, Failed>,
    duration_ms: u64,
}

impl Actor {
    pub(super) fn request_tools(&mut self, agent: &Agent, uses: Vec<ToolUse>) -> Flow {
        for asked in uses {
            let tool = agent.tools.iter().find(|tool| tool.definition.name == asked.tool);
            self.decided(ToolRequested {
                call: mint_call(),
                provider_id: asked.provider_id,
                tool: asked.tool,
                source: tool.map_or_else(|| "unknown".to_owned(), |tool| tool.source.clone()),
                input: asked.input,
                // What is unknown counts as the worst.
                effect: tool.map_or(Effect::Write, |tool| tool.effect),
                risk: tool.map_or(Risk::High, |tool| tool.risk),
                on_interrupt: tool.map_or(OnInterrupt::Report, |tool| tool.on_interrupt),
            });
        }
        Flow::Again
    }

    pub(super) async fn authorise(&mut self, agent: &Agent, calls: &[CallId]) -> Result<Flow, EngineError> {
        for id in calls {
            let Some(call) = self.session.call(*id).cloned() else { continue };
            let decision = self.decision(agent, &call).await;
            let asks = decision.verdict == Verdict::Ask;
            self.decided(ToolDecided {
                call: *id,
                outcome: decision.verdict,
                rule: decision.rule.clone(),
                because: decision.because,
                stub: decision.stub,
            });
            if asks {
                self.decided(ApprovalRequested {
                    call: *id,
                    input_hash: call.input_hash(),
                    rule: decision.rule.unwrap_or_default(),
                    expires: decision.expires,
                });
            }
        }
        Ok(Flow::Again)
    }

    async fn decision(&mut self, agent: &Agent, call: &Call) -> Decision {
        let listed = |tool: &&Tool| tool.definition.name == call.tool;
        let Some(tool) = agent.tools.iter().find(listed) else {
            let known: Vec<&str> = agent.tools.iter().map(|tool| tool.definition.name.as_str()).collect();
            return Decision::deny(format!("agent `{}` does not list it; it lists {known:?}", agent.name));
        };
        let approved_by = match &call.state {
            CallState::Granted { by, input_hash } if *input_hash == call.input_hash() => Some(by.as_str()),
            _ => None,
        };
        if tool.agent.is_some() {
            return Decision::allow("the agent lists it");
        }
        let principal = self.session.created.as_ref().map_or("", |created| created.principal.as_str());
        let (address, agent) = (&self.address, agent.name.as_str());
        self.shared.setup.tools.authorize(Asked { call, address, agent, principal, approved_by }).await
    }

    /// Someone is asked whether an interrupted write is to be repeated.
    pub(super) fn ask_again(&mut self, calls: &[CallId]) -> Flow {
        for id in calls {
            let Some(input_hash) = self.session.call(*id).map(Call::input_hash) else { continue };
            let rule = "on_interrupt: ask".to_owned();
            self.decided(ApprovalRequested { call: *id, input_hash, rule, expires: None });
        }
        Flow::Again
    }

    /// A call that nobody approved in time is noted as such before it is closed.
    pub(super) fn expire(&mut self, call: CallId) {
        let state = self.session.call(call).map(|call| &call.state);
        let is_late = |expires: &weir_types::Timestamp| weir_journal::now() > *expires;
        if let Some(CallState::Awaiting { expires: Some(expires), .. }) = state
            && is_late(expires)
        {
            self.decided(ApprovalExpired { call });
        }
    }

    /// Writes down that the calls start, then starts them.
    pub(super) async fn execute(&mut self, agent: &Agent, calls: &[CallId]) -> Result<Flow, EngineError> {
        for id in calls {
            let Some(call) = self.session.call(*id).cloned() else { continue };
            let tool = agent.tools.iter().find(|tool| tool.definition.name == call.tool);
            let child = match tool.and_then(|tool| tool.agent.as_deref()) {
                Some(child) => Some(self.begin_child(child, &call).await?),
                None => None,
            };
            self.decided(ToolStarted {
                call: *id,
                attempt: call.attempt + 1,
                key: call.key(),
                input_hash: call.input_hash(),
                child,
            });
        }
        if self.commit(Release::No).await? == Committed::Rebased {
            return Ok(Flow::Again);
        }
        for id in calls {
            if let Some(call) = self.session.call(*id).cloned() {
                self.start(&call);
            }
        }
        Ok(Flow::Again)
    }

    /// The session that does the call: the one that began to, or a new one that begins in the same append.
    async fn begin_child(&mut self, agent: &str, call: &Call) -> Result<SessionId, EngineError> {
        if let Some(child) = call.child {
            return Ok(child);
        }
        let runnable = self.shared.setup.agents.agent(agent).await.map_err(EngineError::Agent)?;
        let child = mint_session();
        let principal = self.session.created.as_ref().map(|created| created.principal.clone());
        let created = SessionCreated {
            agent: agent.to_owned(),
            manifest: runnable.manifest,
            principal: principal.clone().unwrap_or_default(),
            title: None,
            labels: Default::default(),
            parent: Some(Parent { session: self.address.session, call: call.id }),
            lane: "direct".to_owned(),
        };
        let said = UserMessage { content: vec![Block::text(message(call))], runtime: Default::default() };
        let about = About { actor: principal.clone(), ..About::default() };
        let events = vec![new_event(&created.into(), &about), new_event(&said.into(), &about)];
        // It has something to do, and must be found if this process does not live to do it.
        let attrs = Attrs { principal, agent: Some(agent.to_owned()), ..Attrs::new(Status::Running) };
        self.draft.add_child(Part {
            branch: Address::main(child).branch_id(),
            expected: Expected::NoStream,
            key: None,
            owner: Ownership::Unchecked,
            events,
            attrs: Some(attrs),
        });
        Ok(child)
    }

    /// Starts a call whose start is durable.
    fn start(&mut self, call: &Call) {
        let deadline = self.shared.setup.options.tool_deadline;
        let work: BoxFuture<'static, Result<Done, Failed>> = match call.child {
            Some(child) => Box::pin(attend(Arc::clone(&self.shared), Address::main(child))),
            None => {
                let permit = self.permit(call);
                let work = self.shared.setup.tools.execute(permit);
                let effect = call.effect;
                Box::pin(async move {
                    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| Err(late(effect, deadline)))
                })
            }
        };
        let (id, began) = (call.id, Instant::now());
        let task = self.calls.spawn(async move {
            let result = work.await.map(bounded);
            Finished { call: id, result, duration_ms: millis(began) }
        });
        self.call_ids.insert(task.id(), id);
    }

    /// INVARIANT: only called for calls whose `tool.started` has been committed.
    fn permit(&self, call: &Call) -> Permit {
        Permit {
            address: self.address.clone(),
            principal: self
                .session
                .created
                .as_ref()
                .map_or_else(String::new, |created| created.principal.clone()),
            tool: call.tool.clone(),
            source: call.source.clone(),
            input: call.input_to_run().clone(),
            key: call.key(),
            attempt: call.attempt,
            stub: call.stub,
            cancelled: self.cancel_calls.child_token(),
        }
    }

    /// A call is done, one way or another.
    pub(super) fn called(&mut self, called: Result<(tokio::task::Id, Finished), JoinError>) {
        match called {
            Ok((task, finished)) => {
                self.call_ids.remove(&task);
                self.record(finished);
            }
            Err(error) => {
                let Some(call) = self.call_ids.remove(&error.id()) else { return };
                if error.is_cancelled() {
                    // Whoever cancelled it closes it.
                    return;
                }
                let effect = self.session.call(call).map_or(Effect::Write, |call| call.effect);
                let failed = Failed {
                    class: "panic".to_owned(),
                    message: "the tool broke down; this is a bug in the tool".to_owned(),
                    outcome: outcome_if_cut_off(effect),
                };
                self.record(Finished { call, result: Err(failed), duration_ms: 0 });
            }
        }
    }

    fn record(&mut self, finished: Finished) {
        let (call, duration_ms) = (finished.call, finished.duration_ms);
        match finished.result {
            Ok(done) => {
                let stub = self.session.call(call).is_some_and(|call| call.stub);
                let Done { content, changed_files } = done;
                self.happened(ToolCompleted { call, content, changed_files, stub }, duration_ms);
            }
            Err(Failed { class, message, outcome }) => {
                self.happened(ToolFailed { call, class, message, outcome }, duration_ms);
            }
        }
    }

    /// Stops the model call and the tools. True, if a tool was done in the last moment: then decide again.
    pub(super) async fn stop_effects(&mut self) -> bool {
        self.stop_asking();
        self.retry_at = None;
        if self.calls.is_empty() {
            return false;
        }
        self.cancel_children().await;
        self.cancel_calls.cancel();
        self.cancel_calls = self.shared.stopping.child_token();
        self.calls.abort_all();
        let farewell = Instant::now() + FAREWELL;
        while let Ok(Some(called)) = tokio::time::timeout_at(farewell, self.calls.join_next_with_id()).await {
            self.called(called);
        }
        // What does not even notice that it was aborted is left behind; its result is no longer wanted.
        self.calls.detach_all();
        self.call_ids.clear();
        true
    }

    async fn cancel_children(&mut self) {
        let running = |call: &&Call| call.state == CallState::Running;
        let actor = self.session.created.as_ref().map_or("", |created| created.principal.as_str());
        for child in self.session.calls().iter().filter(running).filter_map(|call| call.child) {
            // A child that cannot be reached ends by its own limits.
            let _ =
                crate::input::post(&self.shared, &Address::main(child), RunCancelRequested {}.into(), actor)
                    .await;
        }
    }
}

/// What a child session is told: the `message` of the arguments, or all of them.
fn message(call: &Call) -> String {
    let input = call.input_to_run();
    let value = input.to_value();
    value.get("message").and_then(|message| message.as_str()).unwrap_or(input.as_str()).to_owned()
}

/// Runs a child session, or joins it where it is, until it rests.
async fn attend(shared: Arc<Shared>, child: Address) -> Result<Done, Failed> {
    let outcome = crate::input::settle(&shared, &child).await;
    let outcome = outcome.map_err(|error| Failed::new("child", error.to_string()))?;
    match (outcome.answer, outcome.stop.is_parked()) {
        (Some(answer), _) => Ok(Done::text(answer)),
        (None, parked) => {
            let word = if parked { "paused" } else { "ended without an answer" };
            let why = outcome.message.unwrap_or_else(|| outcome.stop.as_str().to_owned());
            Err(Failed::new("child", format!("session {child} {word}: {why}")))
        }
    }
}

fn late(effect: Effect, deadline: Duration) -> Failed {
    let outcome = outcome_if_cut_off(effect);
    let seconds = deadline.as_secs();
    Failed { class: "timeout".to_owned(), message: format!("no result within {seconds} s"), outcome }
}

fn outcome_if_cut_off(effect: Effect) -> Effected {
    match effect {
        Effect::Read => Effected::Failed,
        Effect::Idempotent | Effect::Write => Effected::Unknown,
    }
}

/// Cuts a result that no event could hold.
fn bounded(done: Done) -> Done {
    let bytes = serde_json::to_vec(&done.content).map_or(usize::MAX, |json| json.len());
    if bytes <= RESULT_BYTES_MAX {
        return done;
    }
    let mut text = text_of(&done.content);
    let whole = text.len();
    let end = (0..=RESULT_BYTES_MAX / 2).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.truncate(end);
    text.push_str(&format!("\n[… cut: the first {end} of {whole} bytes …]"));
    Done { content: vec![Block::text(text)], ..done }
}
