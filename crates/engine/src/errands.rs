//! Calls that someone outside asks for: a remote runner, over the bridge.
//!
//! They pass the same gate as the model's, in the same session, and are written down as those are. The request is an input like
//! any other, appended under a key, so that asking twice is asking once; the session's task does the rest. The model is told
//! nothing of it.

mod error;

use std::time::Duration;

use futures_util::StreamExt;
use weir_events::{Body, ToolRequested};
use weir_journal::{AppendError, Key, mint_call};
use weir_kernel::{Call, CallState, ERRANDS_MAX, Lifecycle, Session};
use weir_types::{
    Block, CallId, Effect, Event, GateStep, Hash, Json, OnInterrupt, Outcome as Effected, Position, Risk, Seq,
};

use crate::actor::{Command, Standing};
use crate::address::Address;
use crate::approvals::Approval;
use crate::draft::event_of;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::{hooks, input};

pub use self::error::ErrandError;

/// How long whoever waits for an errand trusts that they would hear of it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Most events about one errand. Each attempt has a handful, and attempts are few.
const EVENTS_MAX: usize = 1_000;

/// A call that someone outside asks for.
#[derive(Clone, Debug)]
pub struct Errand {
    /// The tool, by the name the model knows.
    pub tool: String,
    /// The arguments.
    pub input: Json,
    /// Asked for again with the same key, it is the same call. Without one, each is a call of its own.
    pub key: Option<String>,
}

/// What became of an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The call.
    pub call: CallId,
    /// What became of it.
    pub result: Became,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// It answered.
    Done {
        /// The answer.
        content: Vec<Block>,
        /// Whether it only pretended.
        stub: bool,
    },
    /// It may not run.
    Refused {
        /// The step or the rule that says so.
        rule: Option<String>,
        /// The step that decided.
        step: Option<GateStep>,
        /// In words.
        message: String,
    },
    /// It ran and failed, or nobody knows.
    Failed {
        /// A word for how.
        class: String,
        /// In words.
        message: String,
        /// What is known about its effect.
        outcome: Effected,
    },
    /// Someone has to say yes first; then it runs, whether or not anybody waits for it.
    Waits(Vec<Approval>),
}

/// Whether what is asked for from outside can be taken up.
pub(crate) fn check_all(address: &Address, session: &Session, bodies: &[Body]) -> Result<(), EngineError> {
    let is_errand = |body: &Body| matches!(body, Body::ToolRequested(asked) if asked.key.is_some());
    if !bodies.iter().any(is_errand) {
        return Ok(());
    }
    if let Lifecycle::Halted(_) = session.lifecycle {
        return Err(EngineError::Halted(address.clone()));
    }
    if session.run.as_ref().is_some_and(|run| run.parked.is_some()) {
        return Err(ErrandError::Parked(address.clone()).into());
    }
    match session.errands.len() < ERRANDS_MAX {
        true => Ok(()),
        false => Err(ErrandError::TooMany(address.clone()).into()),
    }
}

impl Engine {
    /// Calls a tool of a session's agent for someone outside, through the one gate, and says what became of it. A call that someone
    /// has to approve is not waited for; asked for again with its key, it says what has become of it since.
    ///
    /// # Errors
    /// When there is no such session, it is closed, halted or parked, has too many such calls already, or the key was used for
    /// another call. Then nothing was done.
    ///
    /// # Cancel safety
    /// Whoever no longer waits stops nothing: the call is durable, and goes on.
    pub async fn call(&self, address: &Address, errand: Errand, actor: &str) -> Result<Called, EngineError> {
        let (call, known) = self.known(address, &errand).await?;
        match known {
            Some(event) => same(&event, &errand)?,
            None => self.ask_for(address, call, errand, actor).await?,
        }
        let result = self.became(address, call).await?;
        Ok(Called { call, result })
    }

    /// The call that an errand means, and the event that asked for it if there is one: by its key, by its own id as the key, or, without a
    /// key, one that waits for people with the same tool and arguments. Clients that know nothing of keys ask once, however often they try.
    async fn known(
        &self,
        address: &Address,
        errand: &Errand,
    ) -> Result<(CallId, Option<Event>), EngineError> {
        let journal = &*self.0.setup.journal;
        let Some(key) = errand.key.as_deref() else {
            let session = self.state(address, None).await?;
            let waits = |call: &&Call| {
                matches!(call.state, CallState::Awaiting { .. } | CallState::Suspended)
                    && (&call.tool, &call.input) == (&errand.tool, &errand.input)
            };
            return match session.errands.iter().find(waits).map(|call| call.id) {
                Some(call) => Ok((call, journal.by_id(event_of(call)).await?)),
                None => Ok((mint_call(), None)),
            };
        };
        if let Ok(call) = key.parse::<CallId>() {
            let asked = journal.by_id(event_of(call)).await?;
            if let Some(event) = asked.filter(|event| event.branch_id() == address.branch_id()) {
                return Ok((call, Some(event)));
            }
        }
        let call = derived(address, key);
        Ok((call, journal.by_id(event_of(call)).await?))
    }

    /// Writes the request down.
    async fn ask_for(
        &self,
        address: &Address,
        call: CallId,
        errand: Errand,
        actor: &str,
    ) -> Result<(), EngineError> {
        let session = self.state(address, None).await?;
        let Some(created) = &session.created else { return Err(EngineError::NoSession(address.clone())) };
        let agents = &self.0.setup.agents;
        let runnable =
            agents.agent(&created.agent, Some(created.manifest)).await.map_err(EngineError::Agent)?;
        let tool = runnable.agent.tools.iter().find(|tool| tool.definition.name == errand.tool);
        // What is unknown counts as the worst.
        let listed = tool.map_or((Effect::Write, Risk::High), |tool| (tool.effect, tool.risk));
        let (effect, risk) = runnable.tools.strictness(&errand.tool, &errand.input).unwrap_or(listed);
        let key = errand.key.unwrap_or_else(|| call.to_string());
        let bodies = [Body::from(ToolRequested {
            call,
            provider_id: String::new(),
            source: tool.map_or_else(|| "unknown".to_owned(), |tool| tool.source.clone()),
            tool: errand.tool,
            input: errand.input,
            effect,
            risk,
            on_interrupt: tool.map_or(OnInterrupt::Report, |tool| tool.on_interrupt),
            key: Some(key.clone()),
        })];
        hooks::ask(&self.0, address, &bodies, actor).await?;
        let unique: Key =
            format!("errand:{call}").parse().map_err(|_| ErrandError::Reused { key: key.clone() })?;
        match input::append_at_head(&self.0, address, &bodies, &self.by(actor), Some(&unique)).await {
            Ok(_) => Ok(()),
            Err(EngineError::Append(error)) if matches!(*error, AppendError::KeyReused { .. }) => {
                Err(ErrandError::Reused { key }.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until a call has come to something, or waits for people.
    async fn became(&self, address: &Address, call: CallId) -> Result<Became, EngineError> {
        loop {
            let session = self.state(address, None).await?;
            match session.errand(call).map(|errand| &errand.state) {
                None => return self.over(call).await,
                Some(CallState::Awaiting { .. } | CallState::Suspended) => {
                    let asked = self.approvals(address).await?;
                    let about_it = |asked: &Approval| asked.id == call || asked.address != *address;
                    return Ok(Became::Waits(asked.into_iter().filter(about_it).collect()));
                }
                Some(_) => self.something_happens(address, session.seq, call).await?,
            }
        }
    }

    /// Sees to it that the session is being run, by us or by whoever runs it already, and waits for news of the call.
    async fn something_happens(
        &self,
        address: &Address,
        after: Seq,
        call: CallId,
    ) -> Result<(), EngineError> {
        let mut tail = self.0.setup.journal.tail(&address.branch_id(), after);
        let mut standing = self.0.activate(address)?.standing;
        match input::command(&self.0, address, |reply| Command::Look { reply }).await {
            // Whoever runs it hears of it from the journal.
            Ok(_) | Err(EngineError::Owned { .. }) => {}
            Err(error) => return Err(error),
        }
        let look_again = tokio::time::sleep(LOOK_EVERY);
        tokio::pin!(look_again);
        let mut is_gone = false;
        loop {
            tokio::select! {
                event = tail.next() => match event {
                    Some(Ok(event)) if tells(&event, call) => return Ok(()),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(EngineError::Stopping),
                },
                changed = standing.changed(), if !is_gone => match (changed, &*standing.borrow_and_update()) {
                    (Ok(()), Standing::Failed(EngineError::Owned { .. })) => {}
                    (Ok(()), Standing::Failed(error)) => return Err(error.clone()),
                    (Ok(()), Standing::Working | Standing::WaitingForStorage | Standing::Resting(_)) => {}
                    (Err(_), _) => is_gone = true,
                },
                () = &mut look_again => return Ok(()),
            }
        }
    }

    /// What became of a call that is over.
    async fn over(&self, call: CallId) -> Result<Became, EngineError> {
        let asked = event_of(call);
        let (mut rule, mut step, mut after) = (None, None, Position(0));
        loop {
            let page = self.0.setup.journal.children(asked, after, EVENTS_MAX).await?;
            let Some(last) = page.last() else { break };
            after = last.position;
            for event in &page {
                match Body::decode(&event.kind, &event.payload) {
                    Ok(Some(Body::ToolDecided(decided))) if decided.call == call => {
                        (step, rule) = (decided.decided_by(), decided.rule);
                    }
                    Ok(Some(Body::ToolCompleted(done))) if done.call == call => {
                        return Ok(Became::Done { content: done.content, stub: done.stub });
                    }
                    Ok(Some(Body::ToolFailed(failed))) if failed.call == call => {
                        let (class, message, outcome) = (failed.class, failed.message, failed.outcome);
                        return Ok(match outcome {
                            Effected::Denied => Became::Refused { rule, step, message },
                            Effected::Failed | Effected::Unknown | Effected::Interrupted => {
                                Became::Failed { class, message, outcome }
                            }
                        });
                    }
                    _ => {}
                }
            }
        }
        // A fork, or a run that was parked, has left it behind.
        let message = "interrupted: the call did not finish".to_owned();
        Ok(Became::Failed { class: "interrupted".to_owned(), message, outcome: Effected::Interrupted })
    }
}

/// The id of a call that is asked for with a key: the same for the same key, and nobody else's.
fn derived(address: &Address, key: &str) -> CallId {
    let Address { session, branch } = address;
    let hash = Hash::of(format!("weir errand\n{session}\n{branch}\n{key}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    CallId::from_u128(u128::from_be_bytes(bytes))
}

/// Whether an event asks for the same.
fn same(event: &Event, errand: &Errand) -> Result<(), ErrandError> {
    let asked = match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::ToolRequested(asked))) => Some(asked),
        _ => None,
    };
    let is_same = asked.is_some_and(|asked| {
        // What the model itself asks for is nobody else's to collect.
        asked.key.is_some() && (asked.tool, asked.input) == (errand.tool.clone(), errand.input.clone())
    });
    match is_same {
        true => Ok(()),
        false => Err(ErrandError::Reused { key: errand.key.clone().unwrap_or_default() }),
    }
}

/// Whether an event brings a call to something.
fn tells(event: &Event, call: CallId) -> bool {
    match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::ToolCompleted(body))) => body.call == call,
        Ok(Some(Body::ToolFailed(body))) => body.call == call,
        Ok(Some(Body::ApprovalRequested(body))) => body.call == call,
        Ok(Some(Body::RunParked(_) | Body::BranchForked(_))) => true,
        _ => false,
    }
}
