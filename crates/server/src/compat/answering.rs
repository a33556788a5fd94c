//! What every answer to a vendor's client has: the session, the run, and the shape it was asked for in.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde_json::Value;

use super::refused::Refused;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::formats::Encoder;
use crate::stream::{Begun, Leaving, Source, respond};

/// An answer in one piece.
pub(super) fn answered(begun: &Begun, body: Value) -> (HeaderMap, Json<Value>) {
    (ids(begun), Json(body))
}

/// Where to find what came of it.
pub(super) fn ids(begun: &Begun) -> HeaderMap {
    let ids = [("x-weir-session", begun.address.to_string()), ("x-weir-run", begun.run.to_string())];
    let header =
        |(name, id): (&'static str, String)| Some((name.parse().ok()?, HeaderValue::from_str(&id).ok()?));
    ids.into_iter().filter_map(header).collect()
}

/// An answer as it is given. The run goes on when the client leaves.
pub(super) async fn streamed(
    app: &App,
    caller: &Caller,
    begun: &Begun,
    encoder: Box<dyn Encoder>,
) -> Result<Response, Refused> {
    let response = respond(app, caller, &Source::run(begun), encoder, Leaving::GoesOn).await;
    let mut response = response.map_err(|error| Refused::from(error).of(begun))?;
    response.headers_mut().extend(ids(begun));
    Ok(response)
}
