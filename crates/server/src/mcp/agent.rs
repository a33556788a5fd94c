//! `/agents/{name}/mcp`: the agent as a server with one tool, itself.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::provision;
use weir_mcp::serving::{About, Given, Hints, Incoming, Offer, Offered, Owner, Refusal};
use weir_types::{Effect, Json};

use super::{response, turn};
use crate::access;
use crate::app::{App, Build};
use crate::auth::Caller;
use crate::error::ErrorBody;
use crate::extract::Path;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(post, get, delete))
}

/// A message of MCP (JSON-RPC 2.0) to the agent: `initialize`, `tools/list`, `tools/call`. The agent is a tool of its own name; a call
/// that sends a progress token is told of every model and tool call while it works. One with a `weir/idempotency-key` in its `_meta`, or an
/// `Idempotency-Key`, is one turn however often it is repeated. A client with `elicitation` is asked about calls that its user may approve: `approve`, and
/// `runs_as` (`live_writes` or `dry_run`) where the call would be a dry run.
#[utoipa::path(
    post, path = "/agents/{name}/mcp", tag = "mcp", params(("name" = String, Path)),
    request_body(content = Object, content_type = "application/json"),
    responses(
        (status = 200, description = "The answer, as JSON or as a stream of events."),
        (status = 202, description = "A notification was taken."),
        (status = 404, description = "There is no such agent, or no such session of MCP.", body = ErrorBody),
    )
)]
async fn post(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    enter(app, caller, name, request).await
}

/// What the server has to say to a session of MCP, as a stream of events.
#[utoipa::path(
    get, path = "/agents/{name}/mcp", tag = "mcp", params(("name" = String, Path)),
    responses(
        (status = 200, description = "A stream of events."),
        (status = 404, description = "There is no such agent, or no such session of MCP.", body = ErrorBody),
    )
)]
async fn get(State(app): State<App>, caller: Caller, Path(name): Path<String>, request: Request) -> Response {
    enter(app, caller, name, request).await
}

/// Ends a session of MCP. Runs go on.
#[utoipa::path(
    delete, path = "/agents/{name}/mcp", tag = "mcp", params(("name" = String, Path)),
    responses(
        (status = 202, description = "It has ended."),
        (status = 404, description = "There is no such agent, or no such session of MCP.", body = ErrorBody),
    )
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    enter(app, caller, name, request).await
}

async fn enter(app: App, caller: Caller, name: String, request: Request) -> Response {
    let build = match access::agent(&app, &caller, &name) {
        Ok(build) => build,
        Err(missing) => return missing.into_response(),
    };
    // What a session of MCP can do was settled when it began, by the groups of that moment: with others, it is none. No name has a line
    // break in it, so that no two owners look alike.
    let mut groups = caller.groups.clone();
    groups.sort_unstable();
    let owner = Owner { who: caller.principal.clone(), what: format!("{name}\n{}", groups.join("\n")) };
    let offer = Arc::new(AsTool { app: app.clone(), caller, name, build });
    response(app.mcp.agents.enter(request, &owner, offer).await).await
}

/// An agent as a tool, for one caller.
struct AsTool {
    app: App,
    caller: Caller,
    name: String,
    build: Arc<Build>,
}

impl AsTool {
    fn offered(&self) -> Offered {
        let agent = self.build.manifest.agents.get(&self.name);
        let described = agent.map(|agent| agent.description.clone()).filter(|words| !words.is_empty());
        let tools = agent.map(|agent| provision::offers(&self.build.manifest, agent)).unwrap_or_default();
        // It writes down what is said, which is its own affair; beyond that it can do what its tools can.
        let reads = tools.iter().all(|tool| tool.effect == Effect::Read);
        Offered {
            name: self.name.clone(),
            description: described.unwrap_or_else(|| format!("Talk to the agent `{}`.", self.name)),
            input_schema: Json::of(&json!({
                "type": "object",
                "properties": {
                    "message": {"type": "string", "minLength": 1, "description": "What to say to the agent."},
                    "session": {
                        "type": "string",
                        "description": "The session to go on with, as an earlier result names it; leave it out to begin one.",
                    },
                },
                "required": ["message"],
                "additionalProperties": false,
            })),
            output_schema: Some(Json::of(&turn::schema())),
            hints: Hints {
                read_only: Some(reads),
                destructive: (!reads).then_some(true),
                idempotent: (!reads).then_some(false),
                open_world: Some(!tools.is_empty()),
            },
        }
    }
}

impl Offer for AsTool {
    fn about(&self) -> About {
        About {
            name: format!("weir/{}", self.name),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
        }
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Offered>, Refusal>> {
        async { Ok(vec![self.offered()]) }.boxed()
    }

    fn call(&self, incoming: Incoming) -> BoxFuture<'_, Result<Given, Refusal>> {
        async move {
            if incoming.tool != self.name {
                return Err(Refusal::invalid_params(format!("there is no tool but `{}` here", self.name)));
            }
            turn::take(&self.app, &self.caller, &self.name, incoming).await
        }
        .boxed()
    }
}
