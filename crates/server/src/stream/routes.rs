//! The routes of streams.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_types::{RunId, Seq};

use super::begin::{Ahead, locate, say, say_while_there};
use super::feed::{Scope, before_answer};
use super::respond::{Leave, Source, last_event_id, respond};
use crate::access::{self, Reached};
use crate::api::chat::{Chat, wanted};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, Query};
use crate::formats::{Extras, Format, Named, Native};
use crate::idempotency::Claimed;
use crate::saying::Unheard;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(chat_stream))
        .routes(routes!(run_stream))
        .routes(routes!(session_events_stream))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ChatQuery {
    /// `native` (also `lago`), `openai`, `anthropic` or `vercel`; `native` without it.
    format: Option<String>,
    /// Whether `openai` has a chunk with what was used before its end, as `stream_options.include_usage` of `/v1/chat/completions`. Other formats
    /// are not changed by it.
    include_usage: Option<bool>,
    /// Whether the run is cancelled when the client leaves before its end. It goes on without it.
    cancel_on_disconnect: Option<bool>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunQuery {
    /// `native` (also `lago`), `openai`, `anthropic` or `vercel`; `native` without it.
    format: Option<String>,
    /// The branch of the session; `main` without it.
    branch: Option<String>,
    /// Whether `openai` has a chunk with what was used before its end, as `stream_options.include_usage` of `/v1/chat/completions`. Other formats
    /// are not changed by it.
    include_usage: Option<bool>,
    /// Whether the run is cancelled when the client leaves before its end. It goes on without it.
    cancel_on_disconnect: Option<bool>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// The last event that is not wanted; from the first one on without it.
    #[serde(alias = "since")]
    after: Option<u64>,
    /// The branch of the session; `main` without it.
    branch: Option<String>,
}

/// Say something, and follow the run that deals with it.
///
/// The run goes on when the client leaves, unless `cancel_on_disconnect` says otherwise; `GET /sessions/{id}/runs/{run}/stream` takes it up
/// again, with the ids from `X-Weir-Session` and `X-Weir-Run`.
#[utoipa::path(
    post,
    path = "/agents/{name}/chat/stream",
    tag = "agents",
    params(("name" = String, Path, description = "The agent."), ChatQuery),
    request_body = Chat,
    responses(
        (status = 200, description = "Server-sent events in the format asked for.", body = String, content_type = "text/event-stream"),
        (status = "4XX", body = ErrorBody),
    ),
)]
async fn chat_stream(
    State(app): State<App>,
    caller: Caller,
    Path(agent): Path<String>,
    Query(query): Query<ChatQuery>,
    (headers, claimed): (HeaderMap, Claimed),
    Json(chat): Json<Chat>,
) -> Result<Response, Unheard> {
    refuse_last_event_id(&headers)?;
    let format = format(query.format.as_deref())?;
    access::agent(&app, &caller, &agent)?;
    let (content, wanted) = wanted(&app, &caller, &agent, chat).await?;
    let (begun, leave) = if query.cancel_on_disconnect == Some(true) {
        let (begun, leave) = say_while_there(&app, &caller, &claimed, content, wanted).await?;
        (begun, Some(leave))
    } else {
        (say(&app, &caller, &claimed, content, wanted).await?, None)
    };
    let told = extras(&app, &caller, query.include_usage);
    let encoder = format.encoder(Named { agent, run: begun.run }, told);
    let response = respond(&app, &Source::run(&begun), encoder, leave).await;
    response.map_err(|error| Unheard::after(&begun.address, error))
}

/// Follow a run, from its start or from where `Last-Event-ID` says.
#[utoipa::path(
    get,
    path = "/sessions/{id}/runs/{run}/stream",
    tag = "sessions",
    params(
        ("id" = String, Path, description = "The session."),
        ("run" = String, Path, description = "The run."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last frame that came from this stream in this format."),
        RunQuery,
    ),
    responses(
        (status = 200, description = "Server-sent events in the format asked for.", body = String, content_type = "text/event-stream"),
        (status = 204, description = "There is nothing after that frame."),
        (status = "4XX", body = ErrorBody),
    ),
)]
async fn run_stream(
    State(app): State<App>,
    caller: Caller,
    Path((session, run)): Path<(String, String)>,
    Query(query): Query<RunQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (format, cancels) = (format(query.format.as_deref())?, query.cancel_on_disconnect == Some(true));
    let branch = query.branch.as_deref();
    let Reached { address, agent } = match cancels {
        false => access::session(&app, &caller, &session, branch).await?,
        true => access::session_to_change(&app, &caller, &session, branch).await?,
    };
    let agent = agent.unwrap_or_default();
    let run: RunId = run.parse().map_err(|_| Error::missing("run"))?;
    let begun = locate(&app, &address, run).await?;
    let source = Source { seen: last_event_id(&headers)?, ..Source::run(&begun) };
    let encoder = format.encoder(Named { agent, run }, extras(&app, &caller, query.include_usage));
    let leave = cancels.then(|| Leave::of(&app, &caller, &begun));
    respond(&app, &source, encoder, leave).await
}

/// Follow a session: every event there is, or after one, and whatever happens from then on. Native frames.
#[utoipa::path(
    get,
    path = "/sessions/{id}/events/stream",
    tag = "sessions",
    params(
        ("id" = String, Path, description = "The session."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last frame that came from this stream."),
        EventsQuery,
    ),
    responses(
        (status = 200, description = "Server-sent events.", body = String, content_type = "text/event-stream"),
        (status = "4XX", body = ErrorBody),
    ),
)]
async fn session_events_stream(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let Reached { address, .. } = access::session(&app, &caller, &session, query.branch.as_deref()).await?;
    let seen = last_event_id(&headers)?;
    let after = match seen {
        Some(seen) => before_answer(&*app.journal, &address, seen).await?,
        None => Seq(query.after.unwrap_or_default()),
    };
    let source =
        Source { address, scope: Scope::Session, after, seen, known: Seq(0), ahead: Ahead::default() };
    respond(&app, &source, Box::new(Native::new(access::positions(&app, &caller))), None).await
}

/// A stream that goes on is asked for with GET; a POST would say something twice.
pub(crate) fn refuse_last_event_id(headers: &HeaderMap) -> Result<(), Error> {
    if headers.contains_key("last-event-id") {
        return Err(Error::bad(
            "a POST cannot go on with a stream",
            "send `Last-Event-ID` to `GET /sessions/{id}/runs/{run}/stream`, with the ids from `X-Weir-Session` and `X-Weir-Run`",
        ));
    }
    Ok(())
}

pub(crate) fn format(word: Option<&str>) -> Result<Format, Error> {
    word.map_or(Ok(Format::Native), |word| {
        word.parse().map_err(|error: crate::formats::FormatError| {
            Error::bad(error.to_string(), "say `?format=` native, openai, anthropic or vercel")
        })
    })
}

fn extras(app: &App, caller: &Caller, include_usage: Option<bool>) -> Extras {
    Extras { positions: access::positions(app, caller), usage: include_usage == Some(true) }
}
