//! MCP: agents as servers, and the bridge that lends an agent's tools to a remote runner.

mod agent;
mod bridge;
mod fixtures;
mod token;
mod turn;

use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use weir_engine::Approval;
use weir_mcp::serving::{Door, Lifecycle, Reply, Rules};

pub use self::token::{BridgeSecretError, bridge_token, check_bridge_secret};
use crate::app::{App, Settings};
use crate::error::Error;
use crate::extract::is_json;

/// How long a session of MCP that nobody uses is kept. One with a call under way is used; a stream that is merely open is not.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// The endpoints.
pub(crate) struct Doors {
    agents: Door,
    bridge: Door,
    fixtures: Door,
}

impl Doors {
    pub(crate) fn new(settings: &Settings, closing: &CancellationToken) -> Self {
        let door = |lifecycle| {
            let rules = Rules {
                lifecycle,
                // The guard in front of every route has looked, and knows more: which address the connection came to.
                hosts: Vec::new(),
                body_bytes_max: settings.body_bytes_max,
                keep_alive: settings.keep_alive,
                idle: IDLE,
            };
            Door::new(rules, closing.clone())
        };
        Self {
            agents: door(Lifecycle::Sessions),
            bridge: door(Lifecycle::Single),
            fixtures: door(Lifecycle::Sessions),
        }
    }
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(agent::routes()).merge(bridge::routes()).merge(fixtures::routes())
}

/// What somebody is asked, as part of an answer.
fn asked(approval: &Approval) -> Value {
    json!({
        "id": approval.id.to_string(),
        "session": approval.address.to_string(),
        "tool": approval.tool,
        "input": approval.input.to_value(),
        "why": approval.why,
    })
}

/// The most of a refusal that is read.
const REFUSAL_BYTES_MAX: usize = 4 * 1024;

/// What is answered. A refusal that says why in plain text says it in the server's own shape instead.
async fn response(reply: Reply) -> Response {
    let reply = reply.map(Body::new);
    if !reply.status().is_client_error() || is_json(reply.headers()) {
        return reply;
    }
    let (parts, body) = reply.into_parts();
    let words = axum::body::to_bytes(body, REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    let help = "see the transport of the Model Context Protocol for what belongs into a request";
    let mut told = Error::new(parts.status, "server::mcp", words, help).into_response();
    for (name, value) in &parts.headers {
        if name != header::CONTENT_LENGTH && name != header::CONTENT_TYPE {
            told.headers_mut().insert(name.clone(), value.clone());
        }
    }
    told
}
