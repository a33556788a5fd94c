//! `POST /v1/chat/completions`.

mod request;

use axum::response::Response;
use serde_json::{Value, json};
use weir_types::StopReason;

use super::answering::{Endpoint, Incoming, answer};
use super::collect::Answered;
use super::docs::{ChatAnswer, ChatRequest, VendorError};
use super::fields::Field;
use super::refused::Refused;
use super::turn::Asked;
use crate::formats::{Encoder, Named, OpenAi, openai};
use crate::stream::Begun;

/// Say something to an agent, as a chat completion.
///
/// Without `X-Weir-Session` a new session begins with the whole conversation as its history; with it, that session goes on with what the user said
/// after the newest answer. The run goes on when the client leaves; `GET /sessions/{id}/runs/{run}/stream?format=openai` takes its stream up again,
/// with `&include_usage=true` where `stream_options.include_usage` was.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "compatible",
    params(("X-Weir-Session" = Option<String>, Header, description = "The session that goes on: its id, or `ID@branch`.")),
    request_body = ChatRequest,
    responses(
        (
            status = 200,
            description = "The answer, as JSON or as server-sent events, as `stream` says.",
            content((ChatAnswer = "application/json"), (String = "text/event-stream")),
            headers(("X-Weir-Session" = String, description = "The session: its id, with `@branch` unless that is `main`."), ("X-Weir-Run" = String, description = "The run.")),
        ),
        (status = "4XX", body = VendorError),
        (status = "5XX", body = VendorError),
    ),
)]
pub(super) async fn completions(incoming: Incoming) -> Result<Response, Refused> {
    answer::<Completion>(incoming).await
}

/// A chat completion.
struct Completion {
    /// Whether a stream is to end with what was used.
    with_usage: bool,
}

impl Endpoint for Completion {
    fn read(body: &Field<'_>) -> Result<(Asked, Self), Refused> {
        let (asked, with_usage) = request::read(body)?;
        Ok((asked, Self { with_usage }))
    }

    fn encoder(self, agent: String, begun: &Begun) -> Box<dyn Encoder> {
        Box::new(OpenAi::new(Named { agent, run: begun.run }).with_usage(self.with_usage))
    }

    fn whole(self, agent: String, begun: &Begun, told: Answered) -> Value {
        let text = told.text(false).unwrap_or_default();
        let mut message = json!({"role": "assistant", "content": text, "refusal": null});
        if let Some(reasoning) = told.text(true) {
            message["reasoning_content"] = reasoning.into();
        }
        let stop = openai::reason(told.stop.unwrap_or(StopReason::End));
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": stop});
        json!({
            "id": format!("chatcmpl-{}", begun.run),
            "object": "chat.completion",
            "created": told.created,
            "model": agent,
            "choices": [choice],
            "usage": openai::usage_of(told.usage),
        })
    }
}
