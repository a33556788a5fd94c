//! MCP: agents as servers, and the bridge that lends an agent's tools to a remote runner.

mod agent;
mod bridge;
mod fixtures;
mod token;
mod turn;

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use weir_mcp::serving::{Door, Lifecycle, Reply, Rules};

pub use self::token::{BridgeSecretError, bridge_token, check_bridge_secret};
use crate::app::{App, Settings};

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

fn response(reply: Reply) -> Response {
    reply.map(Body::new)
}
