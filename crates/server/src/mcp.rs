//! MCP: agents as servers, and the bridge that lends an agent's tools to a remote runner.

mod agent;
mod bridge;
mod fixtures;
mod token;
mod turn;

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use weir_engine::Approval;
use weir_mcp::serving::{Door, Lifecycle, Reply, Rules};

pub use self::token::{BridgeSecretError, bridge_token, check_bridge_secret};
use crate::app::{App, Settings};
use crate::error::Error;
use crate::extract::{is_json, whole};

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

/// A POST whose body is a message of JSON-RPC, as far as that can be seen without the protocol; else what is answered. The transport
/// below refuses such bodies, but without saying so in the words of JSON-RPC.
async fn checked(request: Request, body_bytes_max: usize) -> Result<Request, Box<Response>> {
    if request.method() != Method::POST || !is_json(request.headers()) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let bytes = whole(body, body_bytes_max).await.map_err(|error| Box::new(error.into_response()))?;
    match wrong(&bytes) {
        None => Ok(Request::from_parts(parts, Body::from(bytes))),
        Some(refused) => Err(Box::new(refused.into_response())),
    }
}

/// A message that is none, or that asks for something without saying what.
struct Wrong {
    status: StatusCode,
    code: i32,
    message: &'static str,
    id: Value,
}

fn wrong(bytes: &[u8]) -> Option<Wrong> {
    let bad = |code, message, id| Some(Wrong { status: StatusCode::BAD_REQUEST, code, message, id });
    let Ok(message) = serde_json::from_slice::<Value>(bytes) else {
        return bad(-32_700, "the body is not JSON", Value::Null);
    };
    let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default();
    let has_method = message.get("method").is_some_and(Value::is_string);
    let is_answer = message.get("result").is_some() || message.get("error").is_some();
    if !message.is_object() || message.get("jsonrpc") != Some(&json!("2.0")) || !(has_method || is_answer) {
        return bad(
            -32_600,
            "the message is no request of JSON-RPC 2.0: it needs `jsonrpc` and `method`",
            id,
        );
    }
    let calls = message["method"] == "tools/call" && !id.is_null();
    if calls && !message["params"]["name"].is_string() {
        let message = "`params.name` must name the tool to call";
        return Some(Wrong { status: StatusCode::OK, code: -32_602, message, id });
    }
    None
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let Self { status, code, message, id } = self;
        let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        (status, axum::Json(body)).into_response()
    }
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
