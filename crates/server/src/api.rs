//! The server's own API: agents, chat, sessions, approvals, and the persistence layer as a service.

mod agents;
mod approvals;
mod at;
mod blobs;
mod changes;
pub(crate) mod chat;
pub(crate) mod content;
mod curl;
mod events;
mod files;
mod health;
mod ingest;
mod openapi;
mod page;
#[cfg(test)]
mod reference;
mod sessions;
mod streams;
pub(crate) mod views;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::extract::{Path, Query};
use crate::idempotency::Claimed;

pub(crate) use self::health::Readiness;
pub(crate) use self::openapi::complete;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(health::routes())
        .merge(openapi::routes())
        .merge(agents::routes())
        .merge(chat::routes())
        .merge(sessions::routes())
        .merge(changes::routes())
        .merge(files::routes())
        .merge(approvals::routes())
        .merge(streams::routes())
        .merge(blobs::routes())
        .merge(ingest::routes())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BranchQuery {
    /// The branch; `main` if left out.
    branch: Option<String>,
}

/// Who wants to do something about a session, and which.
struct Asking {
    caller: Caller,
    claimed: Claimed,
    id: String,
    branch: Option<String>,
}

/// The session that a path names, whatever else it names.
#[derive(Deserialize)]
struct Id {
    id: String,
}

impl FromRequestParts<App> for Asking {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let Path(Id { id }) = Path::from_request_parts(parts, app).await?;
        let Query(BranchQuery { branch }) = Query::from_request_parts(parts, app).await?;
        Ok(Self { caller, claimed: Claimed::of(parts), id, branch })
    }
}

/// A text as part of a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
