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

use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use weir_types::{BranchId, BranchName, Seq, StreamName};

use crate::app::App;
use crate::error::Error;
use crate::idempotency::Claimed;

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

/// The name of a branch to be made: the one that is wanted, or a free one. A request that is repeated gets the same.
async fn new_branch(
    app: &App,
    stream: &StreamName,
    wanted: Option<&str>,
    claimed: &Claimed,
) -> Result<BranchName, Error> {
    if let Some(name) = wanted.map(str::to_owned).or_else(|| claimed.name("fork")) {
        return changes::branch_name(&name);
    }
    let branches = app.journal.branches(stream).await?;
    let is_taken = |name: &str| branches.iter().any(|branch| branch.name.as_str() == name);
    let name = (1_u64..).map(|n| format!("fork-{n}")).find(|name| !is_taken(name));
    changes::branch_name(&name.unwrap_or_default())
}

/// Whether the same request has made this very branch before it was cut off.
async fn is_forked(
    app: &App,
    from: &BranchId,
    at: Seq,
    name: &BranchName,
    claimed: &Claimed,
) -> Result<bool, Error> {
    if !claimed.is_repeated() {
        return Ok(false);
    }
    let branches = app.journal.branches(&from.stream).await?;
    let made = branches.into_iter().find(|branch| branch.name == *name).and_then(|branch| branch.parent);
    Ok(made.is_some_and(|parent| parent.branch == from.branch && parent.at == at))
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
