//! `POST /v1/messages`.

mod request;

use axum::response::Response;
use serde_json::{Value, json};
use weir_types::StopReason;

use super::answering::{Endpoint, Incoming, answer};
use super::collect::{Answered, Said};
use super::docs::{MessageAnswer, MessageRequest, VendorError};
use super::fields::Field;
use super::refused::Refused;
use super::turn::Asked;
use crate::formats::{Anthropic, Encoder, Named, anthropic};
use crate::stream::Begun;

/// Say something to an agent, as a message.
///
/// Without `X-Weir-Session` a new session begins with the whole conversation as its history; with it, that session goes on with what the user said
/// after the newest answer. The run goes on when the client leaves; `GET /sessions/{id}/runs/{run}/stream?format=anthropic` takes its stream up
/// again. Tokens are taken from `Authorization: Bearer` and from `x-api-key`.
#[utoipa::path(
    post,
    path = "/v1/messages",
    tag = "compatible",
    params(("X-Weir-Session" = Option<String>, Header, description = "The session that goes on: its id, or `ID@branch`.")),
    request_body = MessageRequest,
    responses(
        (
            status = 200,
            description = "The answer, as JSON or as server-sent events, as `stream` says.",
            content((MessageAnswer = "application/json"), (String = "text/event-stream")),
            headers(("X-Weir-Session" = String, description = "The session: its id, with `@branch` unless that is `main`."), ("X-Weir-Run" = String, description = "The run.")),
        ),
        (status = "4XX", body = VendorError),
        (status = "5XX", body = VendorError),
    ),
)]
pub(super) async fn messages(incoming: Incoming) -> Result<Response, Refused> {
    answer::<Message>(incoming).await
}

/// A message.
struct Message;

impl Endpoint for Message {
    fn read(body: &Field<'_>) -> Result<(Asked, Self), Refused> {
        Ok((request::read(body)?, Self))
    }

    fn encoder(self, agent: String, begun: &Begun) -> Box<dyn Encoder> {
        Box::new(Anthropic::new(Named { agent, run: begun.run }))
    }

    fn whole(self, agent: String, begun: &Begun, told: Answered) -> Value {
        json!({
            "id": format!("msg_{}", begun.run),
            "type": "message",
            "role": "assistant",
            "model": agent,
            "content": told.said.iter().map(block).collect::<Vec<_>>(),
            "stop_reason": anthropic::reason(told.stop.unwrap_or(StopReason::End)),
            "stop_sequence": null,
            "usage": anthropic::usage_of(told.usage),
        })
    }
}

fn block(said: &Said) -> Value {
    match said.reasoning {
        // Whose proof it is, the client cannot need: what it sends back as reasoning is left out.
        true => json!({"type": "thinking", "thinking": said.text, "signature": ""}),
        false => json!({"type": "text", "text": said.text, "citations": null}),
    }
}
