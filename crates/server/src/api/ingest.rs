//! `/ingest`: recorded streams of any format, as events.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_types::{BranchId, BranchName, Level};

use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::branches::branch_name;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, Query, content_type, whole};
use crate::formats::{Format, FormatError, LeftOut};
use crate::idempotency::Claimed;
use crate::ingest::Recording;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(ingest))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct IngestQuery {
    /// `native` (also `lago`), `openai`, `anthropic` or `vercel`.
    format: String,
    /// The branch; `main` if left out.
    branch: Option<String>,
}

/// What was appended.
#[derive(Serialize, ToSchema)]
struct IngestedView {
    stream: String,
    branch: String,
    /// The first event's place.
    first: u64,
    /// The last one's.
    seq: u64,
    /// How many.
    events: u64,
    /// Whether the recording ends in the middle; what was complete in it was taken.
    cut: bool,
    /// What was not taken of it: how often, and in which frame first.
    left_out: Vec<LeftOut>,
    /// Whether it had been appended before, with the same key.
    replayed: bool,
}

/// Append what a recorded stream of server-sent events says. All of it or nothing.
///
/// What has no kind of its own is kept as `ingested.part`, as it stands in the recording; what is not taken is counted in `left_out`.
#[utoipa::path(
    post, path = "/ingest/{stream}", tag = "streams", params(("stream" = String, Path), IngestQuery),
    request_body(content = String, content_type = "text/event-stream", description = "The stream as it was sent."),
    responses(
        (status = 200, body = IngestedView), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 413, body = ErrorBody), (status = 415, body = ErrorBody),
    )
)]
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
async fn ingest(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<IngestQuery>,
    headers: HeaderMap,
    claimed: Claimed,
    body: Body,
) -> Result<Json<IngestedView>, Error> {
    let format: Format = query.format.parse().map_err(|error: FormatError| {
        Error::bad(error.to_string(), "say `?format=` native, openai, anthropic or vercel")
    })?;
    check_type(&headers)?;
    let stream = access::stream(&app, &caller, &name, Level::Write).await?;
    let branch = query.branch.as_deref().map_or_else(|| Ok(BranchName::main()), branch_name)?;
    let id = BranchId { stream, branch };
    let bytes = whole(body, app.settings.body_bytes_max).await?;
    let actor = caller.principal.clone();
    // A body of megabytes takes a while.
    let read = tokio::task::spawn_blocking(move || Recording::read(format, &bytes, &actor)).await;
    let recording = read.map_err(|_| Error::bad("the recording cannot be read", "check its format"))??;
    for event in &recording.events {
        app.engine.ask_first(&id, event.kind().as_str(), event.payload(), &caller.principal).await?;
    }
    let (events, cut, left_out) =
        (recording.events.len() as u64, recording.is_cut, recording.left_out.clone());
    let appended = recording.append(&*app.journal, id.clone(), claimed.key()).await?;
    let appended = appended.ok_or_else(|| Error::missing("stream"))?;
    Ok(Json(IngestedView {
        stream: access::shown(&app, &caller, &id.stream).to_owned(),
        branch: id.branch.to_string(),
        first: appended.first.0,
        seq: appended.last.0,
        events,
        cut,
        left_out,
        replayed: appended.replayed,
    }))
}

/// What a page of somebody else's could send without asking is not taken.
fn check_type(headers: &HeaderMap) -> Result<(), Error> {
    if ["text/event-stream", "application/octet-stream"].contains(&content_type(headers).as_str()) {
        return Ok(());
    }
    Err(Error::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "server::not-a-stream",
        "the body is not said to be a stream of events",
        "send it with `Content-Type: text/event-stream`",
    ))
}
