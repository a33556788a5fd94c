//! `POST /v1/chat/completions`.

mod request;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weir_types::StopReason;

use super::answering::{answered, streamed};
use super::collect::collect;
use super::docs::{ChatAnswer, ChatRequest, VendorError};
use super::fields::Field;
use super::refused::Refused;
use super::turn;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::formats::{Named, OpenAi, openai};
use crate::idempotency::Claimed;

/// Say something to an agent, as a chat completion.
///
/// Without `X-Weir-Session` a new session begins with the whole conversation as its history; with it, that session goes on with what the user said
/// after the newest answer. The run goes on when the client leaves; `GET /sessions/{id}/runs/{run}/stream?format=openai` takes its stream up again.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "compatible",
    params(("X-Weir-Session" = Option<String>, Header, description = "The session that goes on.")),
    request_body = ChatRequest,
    responses(
        (
            status = 200,
            description = "The answer, as JSON or as server-sent events, as `stream` says.",
            content((ChatAnswer = "application/json"), (String = "text/event-stream")),
            headers(("X-Weir-Session" = String, description = "The session."), ("X-Weir-Run" = String, description = "The run.")),
        ),
        (status = "4XX", body = VendorError),
        (status = "5XX", body = VendorError),
    ),
)]
pub(super) async fn completions(
    State(app): State<App>,
    caller: Caller,
    claimed: Claimed,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Response, Refused> {
    let (asked, with_usage) = request::read(&Field::root(&body))?;
    let (agent, stream) = (asked.agent.clone(), asked.stream);
    let begun = turn::begin(&app, &caller, &claimed, &headers, asked).await?;
    if stream {
        let encoder = OpenAi::new(Named { agent, run: begun.run });
        let encoder = if with_usage { encoder.with_usage() } else { encoder };
        return streamed(&app, &caller, &begun, Box::new(encoder)).await;
    }
    let told = collect(&app, &begun).await.map_err(|refused| refused.of(&begun))?;
    let mut message =
        json!({"role": "assistant", "content": told.text(false).unwrap_or_default(), "refusal": null});
    if let Some(reasoning) = told.text(true) {
        message["reasoning_content"] = reasoning.into();
    }
    let stop = openai::reason(told.stop.unwrap_or(StopReason::End));
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": stop});
    let body = json!({
        "id": format!("chatcmpl-{}", begun.run),
        "object": "chat.completion",
        "created": told.created,
        "model": agent,
        "choices": [choice],
        "usage": openai::usage_of(told.usage),
    });
    Ok(answered(&begun, body).into_response())
}
