//! `POST /v1/responses`.

mod encoder;
mod request;

use axum::response::Response;
use serde_json::{Value, json};
use weir_types::StopReason;

use self::encoder::{Responses, Snapshot};
use super::answering::{Endpoint, Incoming, answer};
use super::collect::Answered;
use super::docs::{ResponseAnswer, ResponseRequest, VendorError};
use super::fields::Field;
use super::refused::Refused;
use super::turn::Asked;
use crate::formats::Encoder;
use crate::stream::Begun;

/// Say something to an agent, as a response.
///
/// Without `X-Weir-Session` or `previous_response_id` a new session begins with the whole input as its history; with one of them, that session goes
/// on with what the user said after the newest answer. A `previous_response_id` that is not the newest answer of its session forks it after that one. The run goes on when the client leaves; `GET /sessions/{id}/runs/{run}/stream` has its stream
/// in another format, from its start: the frames of this one have no ids.
#[utoipa::path(
    post,
    path = "/v1/responses",
    tag = "compatible",
    params(("X-Weir-Session" = Option<String>, Header, description = "The session that goes on: its id, or `ID@branch`.")),
    request_body = ResponseRequest,
    responses(
        (
            status = 200,
            description = "The answer, as JSON or as server-sent events, as `stream` says.",
            content((ResponseAnswer = "application/json"), (String = "text/event-stream")),
            headers(("X-Weir-Session" = String, description = "The session: its id, with `@branch` unless that is `main`."), ("X-Weir-Run" = String, description = "The run.")),
        ),
        (status = "4XX", body = VendorError),
        (status = "5XX", body = VendorError),
    ),
)]
pub(super) async fn create(incoming: Incoming) -> Result<Response, Refused> {
    answer::<Reply>(incoming).await
}

/// A response.
struct Reply {
    /// The one that it follows.
    previous: Option<String>,
}

impl Endpoint for Reply {
    fn read(body: &Field<'_>) -> Result<(Asked, Self), Refused> {
        let asked = request::read(body)?;
        let previous = asked.previous.clone();
        Ok((asked, Self { previous }))
    }

    fn encoder(self, agent: String, begun: &Begun) -> Box<dyn Encoder> {
        Box::new(Responses::new(Snapshot::new(begun, agent, self.previous)))
    }

    fn whole(self, agent: String, begun: &Begun, told: Answered) -> Value {
        let mut snapshot = Snapshot::new(begun, agent, self.previous);
        snapshot.created_at = told.created;
        for said in &told.said {
            snapshot.say(said.reasoning, &said.text);
        }
        snapshot.finish(told.stop.unwrap_or(StopReason::End), told.usage);
        snapshot.json()
    }
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
