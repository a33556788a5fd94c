//! `POST /v1/responses`.

mod encoder;
mod request;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weir_types::StopReason;

use self::encoder::{Responses, Snapshot};
use super::answering::{answered, streamed};
use super::collect::collect;
use super::docs::{ResponseAnswer, ResponseRequest, VendorError};
use super::fields::Field;
use super::refused::Refused;
use super::turn;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::idempotency::Claimed;

/// Say something to an agent, as a response.
///
/// Without `X-Weir-Session` or `previous_response_id` a new session begins with the whole input as its history; with one of them, that session goes
/// on with what the user said after the newest answer. The run goes on when the client leaves; `GET /sessions/{id}/runs/{run}/stream` takes its stream
/// up again, in another format.
#[utoipa::path(
    post,
    path = "/v1/responses",
    tag = "compatible",
    params(("X-Weir-Session" = Option<String>, Header, description = "The session that goes on.")),
    request_body = ResponseRequest,
    responses(
        (
            status = 200,
            description = "The answer, as JSON or as server-sent events, as `stream` says.",
            content((ResponseAnswer = "application/json"), (String = "text/event-stream")),
            headers(("X-Weir-Session" = String, description = "The session."), ("X-Weir-Run" = String, description = "The run.")),
        ),
        (status = "4XX", body = VendorError),
        (status = "5XX", body = VendorError),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    claimed: Claimed,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Response, Refused> {
    let asked = request::read(&Field::root(&body))?;
    let (model, stream, previous) = (asked.agent.clone(), asked.stream, asked.previous.clone());
    let begun = turn::begin(&app, &caller, &claimed, &headers, asked).await?;
    let mut snapshot = Snapshot::new(&begun, model, previous);
    if stream {
        return streamed(&app, &caller, &begun, Box::new(Responses::new(snapshot))).await;
    }
    let told = collect(&app, &begun).await.map_err(|refused| refused.of(&begun))?;
    snapshot.created_at = told.created;
    for said in &told.said {
        snapshot.say(said.reasoning, &said.text);
    }
    snapshot.finish(told.stop.unwrap_or(StopReason::End), told.usage);
    Ok(answered(&begun, snapshot.json()).into_response())
}

/// What was used, in the words of responses.
fn usage_of(usage: weir_types::Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total(),
    })
}
