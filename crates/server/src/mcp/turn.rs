//! A turn of an agent, as a call of a tool.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_engine::{Address, Approval, Engine, EngineError, New, Outcome, Said, Update, Updates};
use weir_journal::now;
use weir_kernel::{ApprovalDenied, ApprovalGranted, Body, Scope};
use weir_mcp::serving::{Ask, Asking, Given, Incoming, Progress, Refusal};
use weir_types::{Block, CallId, Seq, StopReason, Usage};

use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;

/// How long a person who is asked through their client has to answer.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How often one turn asks them. A turn that asks for more waits in the journal like any other.
const ASKED_MAX: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    message: String,
    session: Option<String>,
}

/// What the structured part of a result looks like.
pub(super) fn schema() -> Value {
    let number = json!({"type": "integer"});
    json!({
        "type": "object",
        "properties": {
            "session": {"type": "string", "description": "Goes on with `session` in the next call."},
            "run": {"type": ["string", "null"]},
            "stop": {
                "type": "string",
                "description": "Why it stopped: end max_tokens refused iterations budget approval cancelled halted failed.",
            },
            "message": {"type": ["string", "null"], "description": "What went wrong, or what it waits for."},
            "usage": {
                "type": "object",
                "properties": {
                    "input_tokens": number,
                    "output_tokens": number,
                    "cache_read_tokens": number,
                    "cache_write_tokens": number,
                },
            },
            "cost_usd": {"type": "number"},
            "approvals": {
                "type": "array",
                "description": "What someone has to decide before it goes on.",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "session": {"type": "string"},
                        "tool": {"type": "string"},
                        "input": {},
                        "why": {"type": "string"},
                    },
                },
            },
        },
        "required": ["session", "run", "stop", "usage", "cost_usd", "approvals"],
    })
}

/// Says something to an agent, and tells how it goes and what comes of it. What is wrong with the arguments is told as a result, so that
/// a model can mend it.
pub(super) async fn take(
    app: &App,
    caller: &Caller,
    agent: &str,
    incoming: Incoming,
) -> Result<Given, Refusal> {
    let arguments: Arguments = match serde_json::from_str(incoming.arguments.as_str()) {
        Ok(arguments) => arguments,
        Err(error) => return Ok(failed(format!("the arguments do not fit: {error}"))),
    };
    match converse(app, caller, agent, arguments, &incoming).await {
        Ok((address, outcome)) => Ok(given(&address, &outcome)),
        Err(error) if error.status.is_server_error() => Err(Refusal::internal(error.message)),
        Err(error) => Ok(failed(format!("{}: {}", error.message, error.help))),
    }
}

async fn converse(
    app: &App,
    caller: &Caller,
    agent: &str,
    arguments: Arguments,
    incoming: &Incoming,
) -> Result<(Address, Outcome), Error> {
    if arguments.message.trim().is_empty() {
        return Err(Error::bad("there is nothing in `message`", "say something"));
    }
    let said = Said {
        content: vec![Block::text(arguments.message)],
        runtime: BTreeMap::from([("time".to_owned(), now().to_string())]),
        actor: caller.principal.clone(),
    };
    let engine = &app.engine;
    // What is said and what it leads to may be written down together: whoever wants to know how far it is hears all of it.
    let (address, before) = match arguments.session {
        Some(session) => {
            let address = own_session(app, caller, agent, &session).await?;
            let head = app.journal.head(&address.branch_id()).await?;
            engine.say(&address, said).await?;
            (address, head.map_or(Seq(0), |head| head.seq))
        }
        None => {
            let address = engine.new_address();
            let new = New {
                agent: agent.to_owned(),
                principal: caller.principal.clone(),
                groups: caller.groups.clone(),
                ..New::default()
            };
            engine.begin(&address, new, said).await?;
            (address, Seq(0))
        }
    };
    let mut following = Following { updates: engine.watch(&address, before), names: BTreeMap::new() };
    let mut outcome = following.settled(engine, &address, caller, incoming).await?;
    // Whoever sits before the client may decide, if they are someone who may.
    for _ in 0..ASKED_MAX {
        let Some(asking) = incoming.asking.as_ref().filter(|_| outcome.stop == StopReason::Approval) else {
            break;
        };
        if !decided(app, caller, asking, &outcome.approvals).await? {
            break;
        }
        outcome = following.settled(engine, &address, caller, incoming).await?;
    }
    Ok((address, outcome))
}

/// A session of whoever asks, with this agent.
async fn own_session(app: &App, caller: &Caller, agent: &str, id: &str) -> Result<Address, Error> {
    let address = access::session(app, caller, id, None).await?;
    let listed = app.journal.listed(&address.branch_id()).await?;
    // Whoever sees the sessions of others may look at them, and not speak in their place.
    let is_theirs = listed.is_some_and(|listed| {
        (listed.attrs.principal.as_deref(), listed.attrs.agent.as_deref())
            == (Some(&caller.principal), Some(agent))
    });
    if is_theirs { Ok(address) } else { Err(Error::missing("session")) }
}

/// A session that is followed for whoever wants to know how far it is.
struct Following {
    updates: Updates,
    /// The tools of the calls that were asked for.
    names: BTreeMap<CallId, String>,
}

impl Following {
    /// Waits until the session has nothing to do, and tells what it does. Whoever asks for it to stop makes it stop.
    async fn settled(
        &mut self,
        engine: &Engine,
        address: &Address,
        caller: &Caller,
        incoming: &Incoming,
    ) -> Result<Outcome, Error> {
        let settled = engine.settle(address).fuse();
        tokio::pin!(settled);
        let mut is_cancelled = false;
        loop {
            tokio::select! {
                outcome = &mut settled => {
                    let outcome = outcome?;
                    self.tell_rest(engine, address, &incoming.progress).await?;
                    return Ok(outcome);
                }
                update = self.updates.next(), if incoming.progress.is_wanted() => match update? {
                    Some(Update::Event(event)) => self.tell(&event, &incoming.progress).await,
                    Some(Update::Delta(_)) => {}
                    None => return Err(EngineError::Stopping.into()),
                },
                () = incoming.cancelled.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    engine.cancel(address, &caller.principal).await?;
                }
            }
        }
    }

    /// Tells what was written down by now and not told yet.
    async fn tell_rest(
        &mut self,
        engine: &Engine,
        address: &Address,
        progress: &Progress,
    ) -> Result<(), Error> {
        if !progress.is_wanted() {
            return Ok(());
        }
        let head = engine.state(address, None).await?.seq;
        while self.updates.seen() < head {
            match self.updates.next().await? {
                Some(Update::Event(event)) => self.tell(&event, progress).await,
                Some(Update::Delta(_)) => {}
                None => break,
            }
        }
        Ok(())
    }

    async fn tell(&mut self, event: &weir_types::Event, progress: &Progress) {
        let words = match Body::decode(&event.kind, &event.payload) {
            Ok(Some(Body::ModelRequested(asked))) => format!("asks {}", asked.model),
            Ok(Some(Body::ToolRequested(asked))) => {
                self.names.insert(asked.call, asked.tool);
                return;
            }
            Ok(Some(Body::ToolStarted(started))) => format!("calls {}", self.name(started.call)),
            Ok(Some(Body::ToolCompleted(done))) => format!("{} has answered", self.name(done.call)),
            Ok(Some(Body::ToolFailed(failed))) => format!("{} has failed", self.name(failed.call)),
            Ok(Some(Body::ApprovalRequested(asked))) => {
                format!("{} waits for approval", self.name(asked.call))
            }
            _ => return,
        };
        progress.tell(words).await;
    }

    fn name(&self, call: CallId) -> &str {
        self.names.get(&call).map_or("a tool", String::as_str)
    }
}

/// Asks whoever sits before the client about the first call that waits. True, if they have decided.
async fn decided(app: &App, caller: &Caller, asking: &Asking, approvals: &[Approval]) -> Result<bool, Error> {
    let Some(approval) = approvals.first() else { return Ok(false) };
    if !app.engine.may_decide(approval, caller.who()).await? {
        return Ok(false);
    }
    let message = format!("{}\n\n{} {}", approval.why, approval.tool, approval.input.as_str());
    let schema = json!({
        "type": "object",
        "properties": {
            "approve": {"type": "boolean", "title": "Approve", "description": "Whether it may run with these arguments."},
            "message": {"type": "string", "title": "Message", "description": "What to tell the agent, if not."},
        },
        "required": ["approve"],
    });
    let Some(answer) = asking.ask(Ask { message, schema, patience: PATIENCE }).await else {
        return Ok(false);
    };
    let (by, groups) = (caller.principal.clone(), caller.groups.clone());
    let decision = match answer.get("approve").and_then(Value::as_bool) {
        Some(true) => {
            let (call, input_hash) = (approval.id, approval.input_hash);
            let granted = ApprovalGranted { call, by, groups, input_hash, input: None, scope: Scope::Once };
            app.engine.approve(&approval.address, granted).await
        }
        Some(false) => {
            let message = answer.get("message").and_then(Value::as_str).map(str::to_owned);
            app.engine
                .deny(&approval.address, ApprovalDenied { call: approval.id, by, groups, message })
                .await
        }
        None => return Ok(false),
    };
    match decision {
        Ok(_) => Ok(true),
        // Somebody else has decided meanwhile: whatever came of that is what comes of this.
        Err(EngineError::Approval(_)) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn given(address: &Address, outcome: &Outcome) -> Given {
    let is_answer = matches!(outcome.stop, StopReason::End | StopReason::MaxTokens | StopReason::Approval);
    Given {
        content: vec![Block::text(words(address, outcome))],
        structured: Some(structured(address, outcome)),
        failed: !is_answer,
    }
}

/// What came of it, for whoever reads no more than the words.
fn words(address: &Address, outcome: &Outcome) -> String {
    let answer = outcome.answer.clone().unwrap_or_default();
    match outcome.stop {
        StopReason::End | StopReason::MaxTokens => answer,
        StopReason::Approval => {
            let asked = outcome.approvals.iter().map(|asked| {
                format!("- {} {} ({}, call {})", asked.tool, asked.input.as_str(), asked.why, asked.id)
            });
            format!(
                "The agent waits for approval of:\n{}\nOnce that was decided it goes on by itself: session {}.",
                asked.collect::<Vec<_>>().join("\n"),
                address.session,
            )
        }
        stop => {
            let why = outcome.message.as_deref().map_or(String::new(), |message| format!(": {message}"));
            format!("The agent did not answer ({}{why}).", stop.as_str())
        }
    }
}

fn structured(address: &Address, outcome: &Outcome) -> Value {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = outcome.usage;
    let asked = outcome.approvals.iter().map(|asked| {
        json!({
            "id": asked.id.to_string(),
            "session": asked.address.session.to_string(),
            "tool": asked.tool,
            "input": asked.input.to_value(),
            "why": asked.why,
        })
    });
    json!({
        "session": address.session.to_string(),
        "run": outcome.run.map(|run| run.to_string()),
        "stop": outcome.stop.as_str(),
        "message": outcome.message,
        "usage": {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_tokens": cache_read_tokens,
            "cache_write_tokens": cache_write_tokens,
        },
        "cost_usd": outcome.cost.as_usd(),
        "approvals": asked.collect::<Vec<_>>(),
    })
}

fn failed(words: String) -> Given {
    Given { content: vec![Block::text(words)], structured: None, failed: true }
}
