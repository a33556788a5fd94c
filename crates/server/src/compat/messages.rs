//! `POST /v1/messages`.

mod request;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weir_types::StopReason;

use super::answering::{answered, streamed};
use super::collect::{Said, collect};
use super::docs::{MessageAnswer, MessageRequest, VendorError};
use super::fields::Field;
use super::refused::Refused;
use super::turn;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::formats::{Anthropic, Named, anthropic};
use crate::idempotency::Claimed;

/// Say something to an agent, as a message.
///
/// Without `X-Weir-Session` a new session begins with the whole conversation as its history; with it, that session goes on with what the user said
/// after the newest answer. The run goes on when the client leaves; `GET /sessions/{id}/runs/{run}/stream?format=anthropic` takes its stream up
/// again. Tokens are taken from `Authorization: Bearer` and from `x-api-key`.
#[utoipa::path(
    post,
    path = "/v1/messages",
    tag = "compatible",
    params(("X-Weir-Session" = Option<String>, Header, description = "The session that goes on.")),
    request_body = MessageRequest,
    responses(
        (
            status = 200,
            description = "The answer, as JSON or as server-sent events, as `stream` says.",
            content((MessageAnswer = "application/json"), (String = "text/event-stream")),
            headers(("X-Weir-Session" = String, description = "The session."), ("X-Weir-Run" = String, description = "The run.")),
        ),
        (status = "4XX", body = VendorError),
        (status = "5XX", body = VendorError),
    ),
)]
pub(super) async fn messages(
    State(app): State<App>,
    caller: Caller,
    claimed: Claimed,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Response, Refused> {
    let asked = request::read(&Field::root(&body))?;
    let (agent, stream) = (asked.agent.clone(), asked.stream);
    let begun = turn::begin(&app, &caller, &claimed, &headers, asked).await?;
    if stream {
        let encoder = Anthropic::new(Named { agent, run: begun.run });
        return streamed(&app, &caller, &begun, Box::new(encoder)).await;
    }
    let told = collect(&app, &begun).await.map_err(|refused| refused.of(&begun))?;
    let body = json!({
        "id": format!("msg_{}", begun.run),
        "type": "message",
        "role": "assistant",
        "model": agent,
        "content": told.said.iter().map(block).collect::<Vec<_>>(),
        "stop_reason": anthropic::reason(told.stop.unwrap_or(StopReason::End)),
        "stop_sequence": null,
        "usage": anthropic::usage_of(told.usage),
    });
    Ok(answered(&begun, body).into_response())
}

fn block(said: &Said) -> Value {
    match said.reasoning {
        // Whose proof it is, the client cannot need: what it sends back as reasoning is left out.
        true => json!({"type": "thinking", "thinking": said.text, "signature": ""}),
        false => json!({"type": "text", "text": said.text, "citations": null}),
    }
}
