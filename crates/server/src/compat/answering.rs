//! What all endpoints of vendors have in common: a request becomes a run, and that an answer in the shape it was asked for in.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::collect::{Answered, collect};
use super::fields::Field;
use super::refused::Refused;
use super::turn::{self, Asked};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::formats::Encoder;
use crate::idempotency::Claimed;
use crate::saying;
use crate::stream::{Begun, Source, respond};

/// A request of a vendor's client.
pub(super) type Incoming = (State<App>, Caller, Claimed, HeaderMap, Json<Value>);

/// An endpoint of a vendor, and what one request to it wants besides its turn.
pub(super) trait Endpoint: Sized {
    /// What a request says.
    fn read(body: &Field<'_>) -> Result<(Asked, Self), Refused>;

    /// The answer as it is given.
    fn encoder(self, agent: String, begun: &Begun) -> Box<dyn Encoder>;

    /// The answer in one piece.
    fn whole(self, agent: String, begun: &Begun, told: Answered) -> Value;
}

/// Answers a request. The run goes on when the client leaves.
pub(super) async fn answer<E: Endpoint>(incoming: Incoming) -> Result<Response, Refused> {
    let (State(app), caller, claimed, headers, Json(body)) = incoming;
    let (asked, endpoint) = E::read(&Field::root(&body))?;
    let (agent, stream) = (asked.agent.clone(), asked.stream);
    let begun = turn::begin(&app, &caller, &claimed, &headers, asked).await?;
    if stream {
        let encoder = endpoint.encoder(agent, &begun);
        let response = respond(&app, &Source::run(&begun), encoder, None).await;
        return response.map_err(|error| Refused::from(error).of(&begun));
    }
    let told = collect(&app, &begun).await.map_err(|refused| refused.of(&begun))?;
    Ok((ids(&begun), Json(endpoint.whole(agent, &begun, told))).into_response())
}

/// Where to find what came of it.
pub(super) fn ids(begun: &Begun) -> HeaderMap {
    saying::headers(&begun.address, Some(&begun.run.to_string()))
}
