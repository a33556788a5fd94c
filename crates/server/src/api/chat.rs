//! `/agents/{name}/chat`: say something, wait for the answer.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::{Address, Engine, New, Outcome};
use weir_types::{Block, Seq};

use super::content::Content;
use super::views::TurnView;
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path};
use crate::idempotency::Claimed;
use crate::saying::{self, Place, Unheard, Where, headers, of_message, out_of_patience};

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
) -> Result<Response, Unheard> {
    access::agent(&app, &caller, &name)?;
    let (content, wanted) = wanted(&app, &caller, &name, chat).await?;
    let place = Place::of(&app, &claimed, wanted).await?;
    let (address, is_new) = (place.address.clone(), place.is_new());
    let said = place.say(&app, &caller, &claimed, content).await?;
    let answer = tokio::select! {
        outcome = outcome(&app, &address, (!is_new).then_some(said)) => outcome.map(|it| told(&address, &it)),
        _ = out_of_patience(&app) => goes_on(&app.engine, &address).await,
    };
    answer.map_err(|error| Unheard::after(&address, error))
}

/// What comes of a session, or of what was said in it there.
async fn outcome(app: &App, address: &Address, said: Option<Seq>) -> Result<Outcome, Error> {
    let outcome = app.engine.settle(address).await?;
    match said {
        Some(said) => of_message(app, address, said, outcome).await,
        None => Ok(outcome),
    }
}

/// How much of a lane that is not there is repeated.
const LANE_SHOWN_MAX: usize = 64;

/// What is said, and to which session.
///
/// # Errors
/// When it makes no sense, or there is no such session.
pub(crate) async fn wanted(
    app: &App,
    caller: &Caller,
    name: &str,
    chat: Chat,
) -> Result<(Vec<Block>, Where), Error> {
    let Chat { message, session, branch, lane, title, labels } = chat;
    if let Some(lane) = lane.filter(|lane| lane != "direct") {
        let lane: String = lane.chars().take(LANE_SHOWN_MAX).flat_map(char::escape_debug).collect();
        return Err(Error::bad(format!("there is no lane `{lane}`"), "leave `lane` out, or say `direct`"));
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
        let new = New { title, labels, ..saying::new(caller, name) };
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
