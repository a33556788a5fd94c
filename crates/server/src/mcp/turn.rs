//! A turn of an agent, as a call of a tool.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_engine::{Address, Approval, ApprovalError, Engine, EngineError, Outcome, Update, Updates};
use weir_events::{Body, RunsAs};
use weir_mcp::serving::{Ask, Asking, Given, Incoming, Progress, Refusal};
use weir_types::{Block, CallId, Seq, StopReason, Usage};

use super::asked;
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::decisions::{self, Answer, RunsAsWord, Undecided};
use crate::error::Error;
use crate::idempotency::{self, Claimed, UnderWay};
use crate::saying::{self, Place, Unheard, Where};

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
    // As long as this is held, whoever repeats the call waits.
    let (claimed, _under_way) = match claimed(app, caller, agent, &incoming).await {
        Some(Ok((claimed, under_way))) => (claimed, Some(under_way)),
        Some(Err(error)) => return not_done(error),
        None => (Claimed::default(), None),
    };
    let came = converse(app, caller, agent, arguments, &claimed, &incoming).await;
    claimed.let_go(app, caller).await;
    match came {
        Ok((address, outcome)) => Ok(given(&address, &outcome)),
        Err(error) => not_done(error),
    }
}

/// A model can mend what it said, and come back later; a key is its client's.
fn not_done(error: Error) -> Result<Given, Refusal> {
    match error.status {
        status if status.is_server_error() => Err(Refusal::internal(error.message)),
        StatusCode::UNPROCESSABLE_ENTITY => Err(Refusal::invalid_params(error.message)),
        _ => Ok(failed(format!("{}: {}", error.message, error.help))),
    }
}

/// A call with a key is found again by it, after any restart; nothing, if it has none.
async fn claimed(
    app: &App,
    caller: &Caller,
    agent: &str,
    incoming: &Incoming,
) -> Option<Result<(Claimed, UnderWay), Error>> {
    let key = incoming.key.as_deref()?;
    let place = format!("/agents/{agent}/mcp");
    let call = idempotency::call(app, caller, &place, key, incoming.arguments.as_str().as_bytes());
    tokio::select! {
        claimed = call => Some(claimed),
        () = incoming.cancelled.cancelled() => Some(Err(Error::bad("cancelled", "call it again"))),
    }
}

async fn converse(
    app: &App,
    caller: &Caller,
    agent: &str,
    arguments: Arguments,
    claimed: &Claimed,
    incoming: &Incoming,
) -> Result<(Address, Outcome), Error> {
    if arguments.message.trim().is_empty() {
        return Err(Error::bad("there is nothing in `message`", "say something"));
    }
    let wanted = match arguments.session {
        Some(session) => Where::Known(access::session_with(app, caller, agent, &session, None).await?),
        None => Where::New(app.engine.new_address(), saying::new(caller, agent)),
    };
    let place = Place::of(app, claimed, wanted).await?;
    let (address, before) = (place.address.clone(), place.before);
    let said = place.say(app, caller, claimed, vec![Block::text(arguments.message)]).await?;
    // What is said and what it leads to may be written down together: whoever wants to know how far it is hears all of that.
    let following = Following { updates: app.engine.watch(&address, before), names: BTreeMap::new() };
    let outcome = following.outcome(app, &address, caller, incoming, said).await;
    let outcome = outcome.map_err(|error| Unheard::after(&address, error))?;
    Ok((address, outcome))
}

/// What is told when the server goes before the run is done.
fn goes_on() -> Error {
    let message =
        "the server stops, and the run goes on: call again with the same idempotency key, or in its session";
    Error::new(StatusCode::SERVICE_UNAVAILABLE, "server::stopping", message, "call again later")
}

/// A session that is followed for whoever wants to know how far it is.
struct Following {
    updates: Updates,
    /// The tools of the calls that were asked for.
    names: BTreeMap<CallId, String>,
}

impl Following {
    /// What came of what was said there, when those have decided who could be asked.
    async fn outcome(
        mut self,
        app: &App,
        address: &Address,
        caller: &Caller,
        incoming: &Incoming,
        said: Seq,
    ) -> Result<Outcome, Error> {
        let mut outcome = self.settled(app, address, caller, incoming).await?;
        // Whoever sits before the client may decide, if they are someone who may.
        for _ in 0..ASKED_MAX {
            let Some(asking) = incoming.asking.as_ref().filter(|_| outcome.stop == StopReason::Approval)
            else {
                break;
            };
            if !decided(app, caller, asking, &outcome.approvals).await? {
                break;
            }
            outcome = self.settled(app, address, caller, incoming).await?;
        }
        // The session may have gone on since, by others or before the call was repeated.
        saying::of_message(app, address, said, outcome).await
    }

    /// Waits until the session has nothing to do, and tells what it does. Whoever asks for it to stop makes it stop.
    async fn settled(
        &mut self,
        app: &App,
        address: &Address,
        caller: &Caller,
        incoming: &Incoming,
    ) -> Result<Outcome, Error> {
        let engine = &app.engine;
        let settled = engine.settle(address).fuse();
        let about_to_stop = saying::about_to_stop(app);
        tokio::pin!(settled, about_to_stop);
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
                () = &mut about_to_stop => return Err(goes_on()),
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
    let Some(runs) = decisions::can_be_asked(&app.engine, caller, approval).await? else {
        return Ok(false);
    };
    let Some(answer) = asking.ask(question(approval, runs)).await else { return Ok(false) };
    let Some(decision) = decision(answer) else { return Ok(false) };
    match decisions::decide(&app.engine, caller, &approval.address, approval.id, approvals, decision).await {
        Ok(_) => Ok(true),
        // It still waits, and whoever called is told so.
        Err(
            Undecided::WouldPretend { .. }
            | Undecided::Refused(EngineError::Approval(ApprovalError::WouldHappen { .. })),
        ) => Ok(false),
        // Somebody else has decided meanwhile: whatever came of that is what comes of this.
        Err(Undecided::Refused(EngineError::Approval(_))) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// What they are asked. Where the call would be a dry run, a yes has to say that this is what is wanted.
fn question(approval: &Approval, runs: RunsAs) -> Ask {
    let mut message = format!("{}\n\n{} {}", approval.why, approval.tool, approval.input.as_str());
    let mut schema = json!({
        "type": "object",
        "properties": {
            "approve": {"type": "boolean", "title": "Approve", "description": "Whether it may run with these arguments."},
            "message": {"type": "string", "title": "Message", "description": "What to tell the agent, if not."},
        },
        "required": ["approve"],
    });
    if runs == RunsAs::DryRun {
        message.push_str(
            "\n\nHere it would be a dry run: nothing would happen, and the approval would be used up.",
        );
        schema["properties"]["runs_as"] = json!({
            "type": "string",
            "enum": ["live_writes", "dry_run"],
            "title": "Runs as",
            "description": "Approve it as `dry_run`; as `live_writes` it waits for a server that lets writes happen.",
            "default": "live_writes",
        });
    }
    Ask { message, schema, patience: PATIENCE }
}

/// What they said. It is nothing that leaves open whether they approve, or what.
fn decision(answer: Value) -> Option<Answer> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Said {
        approve: bool,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        runs_as: Option<RunsAsWord>,
    }
    let Said { approve, message, runs_as } = serde_json::from_value(answer).ok()?;
    Some(if approve { Answer::yes(RunsAsWord::runs(runs_as)) } else { Answer::No { message } })
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
                address,
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
    json!({
        "session": address.to_string(),
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
        "approvals": outcome.approvals.iter().map(asked).collect::<Vec<_>>(),
    })
}

fn failed(words: String) -> Given {
    Given { content: vec![Block::text(words)], structured: None, failed: true }
}
