//! Calls of other agents: each is a session of its own, begun in the same append as its call, on the same principal's behalf
//! and out of the same purse.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_events::{
    About, ApprovalGranted, ApprovalRequested, AskedBecause, Bill, Parent, RunCancelRequested, Scope,
    SessionCreated, UserMessage,
};
use weir_journal::{Attrs, Expected, Ownership, Part, Status, mint_session};
use weir_kernel::{Call, CallState};
use weir_tools::{Done, Failed, NoResult};
use weir_types::{Block, CallId, SessionId, StopReason, Timestamp};

use super::commit::{Committed, attrs};
use super::{Actor, Flow, Hold, Release};
use crate::address::{Address, stream_of};
use crate::approvals::CHILD;
use crate::draft::{Draft, Nature, new_event};
use crate::error::EngineError;
use crate::family::{self, Child, Waiting};
use crate::input::By;
use crate::outcome::budget_flag;
use crate::setup::Runnable;
use crate::shared::Shared;
use crate::store;

/// How often a child that another process runs is looked after.
const ELSEWHERE_EVERY: Duration = Duration::from_millis(500);

impl Actor {
    /// The session that does the call: the one that began to, or a new one, which begins in the same append.
    pub(super) async fn child(
        &mut self,
        runnable: &Runnable,
        agent: &str,
        call: &Call,
    ) -> Result<(Option<SessionId>, Option<Part>), EngineError> {
        if let Some(child) = call.child {
            return Ok((Some(child), None));
        }
        // Whom it calls comes from the same build as the caller.
        let build = self.session.created.as_ref().map(|created| created.manifest);
        let callee = self.shared.setup.agents.agent(agent, build).await.map_err(EngineError::Agent)?;
        let (child, principal) = (mint_session(), self.principal().to_owned());
        let created = SessionCreated {
            agent: agent.to_owned(),
            manifest: callee.manifest,
            principal: principal.clone(),
            groups: self.groups().to_vec(),
            title: None,
            labels: Default::default(),
            parent: Some(self.as_parent(runnable, call)),
            lane: "direct".to_owned(),
        };
        let said = UserMessage {
            content: vec![Block::text(message(call))],
            runtime: Default::default(),
            history: None,
        };
        let about = About { actor: Some(principal.clone()), ..About::default() };
        let events = vec![new_event(&created.into(), &about), new_event(&said.into(), &about)];
        // It has something to do, and must be found if this process does not live to do it.
        let attrs = Attrs {
            principal: Some(principal),
            agent: Some(agent.to_owned()),
            ..Attrs::new(Status::Running)
        };
        let beginning = Part {
            branch: Address::main(child).branch_id(),
            expected: Expected::NoStream,
            key: None,
            owner: Ownership::Unchecked,
            events,
            attrs: Some(attrs),
        };
        Ok((Some(child), Some(beginning)))
    }

    /// What a child is told of us. It draws from our purses.
    fn as_parent(&self, runnable: &Runnable, call: &Call) -> Parent {
        let purses = self.shares(runnable);
        let Address { session, branch } = self.address.clone();
        Parent { session, branch, call: call.id, depth: self.depth() + 1, purses }
    }

    /// The session behind a call waits for someone, and so does the call.
    pub(super) fn suspended(&mut self, call: CallId, duration_ms: u64) {
        let Some(input_hash) = self.session.call(call).map(Call::input_hash) else { return };
        // It happened: a task that is over does not come back, whatever is decided.
        let asked = ApprovalRequested {
            call,
            input_hash,
            rule: CHILD.to_owned(),
            expires: None,
            because: Some(AskedBecause::Child),
            escalates: None,
        };
        self.happened_to(call, asked, duration_ms);
    }

    /// Only people can go on, unless a session behind a call has come to something. What we wait for is written down before
    /// we look there, and whoever ends a run there looks here afterwards: so one of us sees the other.
    pub(super) async fn wait_for_people(
        &mut self,
        runnable: &Runnable,
        due: Option<Timestamp>,
    ) -> Result<Flow, EngineError> {
        if self.commit(Release::Yes).await? == Committed::Rebased {
            return Ok(Flow::Again);
        }
        let mut stirring = Vec::new();
        let suspended = |call: &&Call| call.state == CallState::Suspended;
        for call in self.session.all_calls().filter(suspended) {
            let Some(child) = call.child else { continue };
            let journal = self.shared.journal();
            if family::stirs(journal, self.address.session, call.id, child).await? {
                stirring.push(call.id);
            }
        }
        if !stirring.is_empty() {
            return self.execute(runnable, &stirring).await;
        }
        self.pause(due).await
    }

    /// A child's run ends. Before it looks whether its parent waits for that, everybody can see that it no longer waits
    /// itself.
    pub(super) async fn claim_before_ending(&mut self) -> Result<Committed, EngineError> {
        let is_child = self.session.created.as_ref().is_some_and(|created| created.parent.is_some());
        if !is_child || self.hold == Hold::Held {
            return Ok(Committed::Yes);
        }
        self.claim();
        self.commit(Release::No).await
    }

    /// What tells a parent that waits for this session's run that it is over. It goes into the append that ends the run, so
    /// that the parent is found by whoever comes next, whatever happens to this process.
    pub(super) async fn wake_parent(&mut self) -> Result<Option<Part>, EngineError> {
        let journal = self.shared.journal();
        let waiting = family::waiting_parent(journal, &self.address, &self.session).await?;
        let Some(Waiting { address, mut session, call }) = waiting else { return Ok(None) };
        let (head, by) = (session.seq, stream_of(self.address.session).to_string());
        let about = About {
            actor: Some(by.clone()),
            run: session.run.as_ref().map(|run| run.id),
            ..About::default()
        };
        let over = ApprovalGranted {
            call: call.id,
            by,
            groups: vec![],
            input_hash: call.input_hash(),
            input: None,
            scope: Scope::Once,
            runs: None,
        };
        let mut draft = Draft::default();
        draft.add(&mut session, over.into(), about, Nature::Decision);
        Ok(Some(Part {
            branch: address.branch_id(),
            expected: Expected::Exactly(head),
            key: None,
            owner: Ownership::Unchecked,
            events: draft.to_append().0,
            attrs: Some(attrs(&session)),
        }))
    }

    /// Whoever stops a call stops the session behind it, also one that waits.
    pub(super) async fn cancel_children(&mut self) {
        let by = By { actor: self.principal().to_owned(), cause: None };
        let journal = self.shared.journal();
        // A child that cannot be reached ends by its own limits.
        let children = family::behind(journal, self.address.session, &self.session).await;
        for Child { address: child, session } in children.unwrap_or_default() {
            if session.run.is_none() && session.inbox.is_empty() {
                continue;
            }
            let cancel = RunCancelRequested {}.into();
            let _ = crate::input::post(&self.shared, &child, cancel, &by).await;
            // One that waited has no process that would hear of it.
            let _ = self.shared.activate(&child);
        }
    }
}

/// The agent behind a call, if there is one.
pub(super) fn child_agent<'a>(runnable: &'a Runnable, call: &Call) -> Option<&'a str> {
    let tool = runnable.agent.tools.iter().find(|tool| tool.definition.name == call.tool);
    tool.and_then(|tool| tool.agent.as_deref())
}

/// What a child session is told: the `message` of the arguments, or all of them.
fn message(call: &Call) -> String {
    let input = call.input_to_run();
    let value = input.to_value();
    value.get("message").and_then(|message| message.as_str()).unwrap_or(input.as_str()).to_owned()
}

/// What a child session used until now. One that cannot be read now is not told; the purses know.
pub(super) async fn bill(shared: &Shared, child: SessionId) -> Option<Bill> {
    let loaded = store::load(shared.journal(), &Address::main(child)).await.ok()??;
    let spent = loaded.session.totals;
    Some(Bill {
        usage: spent.usage,
        reserved_tokens: spent.reserved_tokens,
        cost: spent.cost,
        model_calls: spent.model_calls,
    })
}

/// The sessions behind calls of agents.
pub(super) struct Children {
    pub(super) shared: Arc<Shared>,
    /// The session that calls.
    pub(super) parent: SessionId,
    /// The call.
    pub(super) call: CallId,
}

impl weir_tools::Agents for Children {
    fn attend(&self, child: SessionId) -> BoxFuture<'static, Result<Done, NoResult>> {
        let (shared, parent, call) = (Arc::clone(&self.shared), self.parent, self.call);
        async move {
            match family::child_of(shared.journal(), parent, call, child).await {
                Ok(Some(child)) => attend(shared, child.address).await,
                Ok(None) => Err(failed(&format_args!("session {child} was not begun by this call"))),
                Err(error) => Err(failed(&error)),
            }
        }
        .boxed()
    }
}

/// The session behind a call came to nothing.
fn failed(why: &dyn std::fmt::Display) -> NoResult {
    Failed::new("child", why.to_string()).into()
}

/// Runs a child session, or joins it where it is, until it rests.
async fn attend(shared: Arc<Shared>, child: Address) -> Result<Done, NoResult> {
    let outcome = loop {
        match crate::input::settle(&shared, &child).await {
            // Someone else has taken it up: what comes of it is what we want to know.
            Err(EngineError::Owned { .. }) => tokio::time::sleep(ELSEWHERE_EVERY).await,
            settled => break settled.map_err(|error| failed(&error))?,
        }
    };
    match (outcome.answer, outcome.stop) {
        (Some(answer), _) => Ok(Done::text(answer)),
        (None, StopReason::Approval) => Err(NoResult::WaitsForApproval),
        (None, stop) => {
            let word = if stop.is_parked() { "paused" } else { "ended without an answer" };
            let why = outcome.message.unwrap_or_else(|| stop.as_str().to_owned());
            let more = outcome.budget.as_ref().map(|budget| {
                format!("; it goes on with `weir session resume {child} --budget {}`", budget_flag(budget))
            });
            Err(failed(&format_args!("session {child} {word}: {why}{}", more.unwrap_or_default())))
        }
    }
}
