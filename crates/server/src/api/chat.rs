//! `/agents/{name}/chat`: say something, wait for the answer.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::{Address, Engine, New, Outcome, Said};
use weir_journal::{OfKind, now};
use weir_kernel::{About, Body, kind};
use weir_types::{Block, BranchId, Event, Purpose, RunId, Seq};

use super::content::Content;
use super::views::TurnView;
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path};
use crate::idempotency::Claimed;

/// What is said to an agent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chat {
    message: Content,
    /// The session to go on with: its id, or `ID@branch`; a new one, if left out.
    session: Option<String>,
    /// Its branch; `main` if left out.
    branch: Option<String>,
    /// Where the turn runs: `direct`.
    lane: Option<String>,
    /// What to call a new session.
    #[schema(max_length = 200)]
    title: Option<String>,
    /// For people and filters, on a new session.
    labels: Option<BTreeMap<String, String>>,
}

/// A run that goes on.
#[derive(Serialize, ToSchema)]
struct StillRunning {
    session: String,
    branch: String,
    #[schema(required = true)]
    run: Option<String>,
    /// Always `running`.
    status: &'static str,
    /// Where its events are.
    events: String,
}

/// The most labels of a session.
const LABELS_MAX: usize = 50;

/// The longest title, and the longest name or value of a label, in characters.
const TITLE_CHARS_MAX: usize = 200;

/// How many events are looked at together; the first of them is nearly always the one.
const EVENTS_AT_ONCE: usize = 8;

/// Where a message is to be said.
pub(crate) enum Where {
    /// A session that begins there.
    New(Address, New),
    /// One that goes on.
    Known(Address),
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(chat))
}

/// Say something to an agent and wait for what comes of it. A client that leaves does not stop the run. If it takes longer than
/// the server waits, or it stops, the answer is a 202 that says where to look; the same `Idempotency-Key` waits for the same run again.
#[utoipa::path(
    post, path = "/agents/{name}/chat", tag = "agents", params(("name" = String, Path)), request_body = Chat,
    responses(
        (status = 200, body = TurnView, headers(("x-weir-session" = String), ("x-weir-run" = String))),
        (status = 202, description = "The run goes on.", body = StillRunning, headers(("x-weir-session" = String), ("location" = String))),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
    )
)]
async fn chat(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    claimed: Claimed,
    Json(chat): Json<Chat>,
) -> Result<Response, Error> {
    access::agent(&app, &caller, &name)?;
    let (content, place) = place(&app, &caller, &name, chat).await?;
    let engine = claimed.engine(&app);
    let (address, seq, is_new) = match (claimed.earlier(), place) {
        (Some((address, seq)), _) => (address, seq, false),
        (None, Where::New(address, new)) => {
            let seq = engine.begin(&address, new, said(&caller, content)).await?;
            (address, seq, true)
        }
        (None, Where::Known(address)) => {
            let seq = engine.say(&address, said(&caller, content)).await?;
            (address, seq, false)
        }
    };
    tokio::select! {
        outcome = engine.settle(&address) => {
            let outcome = outcome?;
            let outcome = if is_new { outcome } else { of_message(&app, &address, seq, outcome).await? };
            Ok(told(&address, &outcome))
        }
        () = out_of_patience(&app) => goes_on(&engine, &address).await,
    }
}

/// Comes when nobody should wait any longer.
async fn out_of_patience(app: &App) {
    tokio::select! {
        () = tokio::time::sleep(app.settings.chat_patience) => {}
        () = about_to_stop(app) => {}
    }
}

/// Comes when a server that stops has given runs half of its farewell: there is time left to say where they go on.
pub(crate) async fn about_to_stop(app: &App) {
    app.stopping.cancelled().await;
    tokio::time::sleep(app.settings.farewell / 2).await;
}

/// What is said, and to which session.
///
/// # Errors
/// When it makes no sense, or there is no such session.
pub(crate) async fn place(
    app: &App,
    caller: &Caller,
    name: &str,
    chat: Chat,
) -> Result<(Vec<Block>, Where), Error> {
    let Chat { message, session, branch, lane, title, labels } = chat;
    if lane.as_ref().is_some_and(|lane| lane != "direct") {
        return Err(Error::bad("there is no such lane here", "leave `lane` out, or say `direct`"));
    }
    let content = message.blocks()?;
    let Some(session) = session else {
        if branch.is_some() {
            return Err(Error::bad(
                "a new session has no other branch than `main`",
                "leave `branch` out, or name a `session`",
            ));
        }
        let (title, labels) = (title, labels.unwrap_or_default());
        check(title.as_deref(), &labels)?;
        let (agent, principal) = (name.to_owned(), caller.principal.clone());
        let new = New { agent, principal, groups: caller.groups.clone(), title, labels, ..New::default() };
        return Ok((content, Where::New(app.engine.new_address(), new)));
    };
    if title.is_some() || labels.is_some() {
        return Err(Error::bad("`title` and `labels` are for new sessions", "leave them out"));
    }
    let address = access::session_with(app, caller, name, &session, branch.as_deref()).await?;
    Ok((content, Where::Known(address)))
}

fn check(title: Option<&str>, labels: &BTreeMap<String, String>) -> Result<(), Error> {
    let is_long = |text: &str| text.chars().count() > TITLE_CHARS_MAX;
    if title.is_some_and(is_long) {
        return Err(Error::bad(
            format!("a title has at most {TITLE_CHARS_MAX} characters"),
            "choose a shorter one",
        ));
    }
    if labels.len() > LABELS_MAX || labels.iter().any(|(name, value)| is_long(name) || is_long(value)) {
        return Err(Error::bad(
            format!("a session has at most {LABELS_MAX} labels of {TITLE_CHARS_MAX} characters"),
            "use fewer or shorter ones",
        ));
    }
    Ok(())
}

/// What someone says. What changes from turn to turn travels with the message, so that the system prompt can be cached.
pub(crate) fn said(caller: &Caller, content: Vec<Block>) -> Said {
    let runtime = BTreeMap::from([("time".to_owned(), now().to_string())]);
    Said { content, runtime, actor: caller.principal.clone() }
}

/// What came of the run that took a message up: there may have been one before it, and the session may have gone on since.
pub(crate) async fn of_message(
    app: &App,
    address: &Address,
    said: Seq,
    latest: Outcome,
) -> Result<Outcome, Error> {
    let branch = address.branch_id();
    let asks = |event: &Event| match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::ModelRequested(asked))) => asked.params.purpose == Purpose::Turn,
        _ => true,
    };
    let taken_up = first_of(app, &branch, &["run.started", "model.requested"], said, asks).await?;
    let Some((began, Some(run))) = taken_up.map(|event| (event.seq, run_of(&event))) else {
        return Ok(latest);
    };
    let ends = ["run.finished", "run.errored", "run.cancelled", "run.parked"];
    let is_its = |event: &Event| run_of(event) == Some(run);
    let end = first_of(app, &branch, &ends, began, is_its).await?.map(|event| event.seq);
    let head = app.journal.head(&branch).await?.map(|head| head.seq);
    match end {
        Some(seq) if Some(seq) != head => {
            Ok(Outcome::of(address, &app.engine.state(address, Some(seq)).await?))
        }
        _ => Ok(latest),
    }
}

/// The run that an event belongs to; the one that begins it names it itself.
fn run_of(event: &Event) -> Option<RunId> {
    match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::RunStarted(started))) => Some(started.run),
        _ => About::decode(&event.meta).run,
    }
}

/// The first event of some kinds after another, of those that count.
async fn first_of(
    app: &App,
    branch: &BranchId,
    kinds: &[&'static str],
    after: Seq,
    counts: impl Fn(&Event) -> bool,
) -> Result<Option<Event>, Error> {
    let mut first: Option<Event> = None;
    for name in kinds {
        let mut pages = OfKind::new(&*app.journal, branch, kind(name)).after(after).at_once(EVENTS_AT_ONCE);
        while let Some(page) = pages.next().await? {
            if let Some(found) = page.into_iter().find(&counts) {
                first = first.into_iter().chain([found]).min_by_key(|event| event.seq);
                break;
            }
        }
    }
    Ok(first)
}

fn told(address: &Address, outcome: &Outcome) -> Response {
    let run = outcome.run.map(|run| run.to_string());
    let headers = headers(address, run.as_deref());
    (headers, Json(TurnView::new(address, outcome))).into_response()
}

async fn goes_on(engine: &Engine, address: &Address) -> Result<Response, Error> {
    let run = engine.state(address, None).await?.run.map(|run| run.id.to_string());
    let (session, branch) = (address.session.to_string(), address.branch.to_string());
    let mut headers = headers(address, run.as_deref());
    if let Ok(value) = format!("/sessions/{session}").parse() {
        headers.insert(header::LOCATION, value);
    }
    let events = format!("/sessions/{session}/events?branch={}", super::encoded(&branch));
    let body = StillRunning { session, branch, run, status: "running", events };
    Ok((StatusCode::ACCEPTED, headers, Json(body)).into_response())
}

/// The headers that every answer about a run has. The session is named with its branch (`ID@branch`) unless that is `main`, as it can be
/// wherever a session is asked for.
pub(crate) fn headers(address: &Address, run: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set("x-weir-session", &address.to_string());
    if let Some(run) = run {
        set("x-weir-run", run);
    }
    headers
}
