//! `/bridge/mcp`: the tools of a session's agent, for a remote runner. One gate: a call from there is authorised, approved,
//! started and written down as one of the agent's own.
//!
//! A call that needs someone's yes is not waited for, since that may take days: it is answered as not allowed, with what to
//! approve. Once it was approved it runs by itself. Asked for again, with the same idempotency key, with the id of the call as the key, or
//! while it waits with the same tool and arguments and no key, it tells what came of it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::{Address, Became, Called, EngineError, Errand, ErrandError, provision};
use weir_events::SessionCreated;
use weir_kernel::Lifecycle;
use weir_mcp::KEY_FIELD;
use weir_mcp::serving::{About, Given, Hints, Incoming, Offer, Offered, Owner, Refusal};
use weir_types::{Effect, Explain, Fault, GateStep};

use super::{asked, response, token};
use crate::app::App;
use crate::error::{Error, ErrorBody};

/// What a remote runner may be told, besides the codes of JSON-RPC itself.
const NOT_ALLOWED: i32 = -32_001;
const INVALID_ARGUMENTS: i32 = -32_003;
const FAILED: i32 = -32_004;

/// Headers that name the session, if a client wants to be sure that its token is for that one.
const SESSION: [&str; 2] = ["x-weir-session", "x-lavern-session-id"];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(post))
}

/// A message of MCP (JSON-RPC 2.0) to the tools of a session's agent. The bearer token names the session. Codes: not allowed -32001
/// (also for a tool that the agent does not have), invalid arguments -32003, the tool failed -32004.
#[utoipa::path(
    post, path = "/bridge/mcp", tag = "mcp",
    request_body(content = Object, content_type = "application/json"),
    responses(
        (status = 200, description = "The answer."),
        (status = 202, description = "A notification was taken."),
        (status = 401, description = "The token is none, or its session is closed or halted.", body = ErrorBody),
        (status = 404, description = "The bridge is closed.", body = ErrorBody),
    )
)]
async fn post(State(app): State<App>, request: Request) -> Response {
    match admitted(&app, request.headers()).await {
        Ok((address, created)) => {
            let request = match super::checked(request, app.settings.body_bytes_max).await {
                Ok(request) => request,
                Err(refused) => return *refused,
            };
            let owner = Owner { who: address.to_string(), what: String::new() };
            let offer = Arc::new(Lent { app: app.clone(), address, created });
            response(app.mcp.bridge.enter(request, &owner, offer).await).await
        }
        Err(error) => error.into_response(),
    }
}

/// The session that a request is for, if it may be.
async fn admitted(app: &App, headers: &HeaderMap) -> Result<(Address, SessionCreated), Refused> {
    let secret =
        app.settings.bridge_secret.as_ref().filter(|secret| token::check_bridge_secret(secret).is_ok());
    let secret = secret.ok_or(Refused::Closed)?;
    let address =
        bearer(headers).and_then(|token| token::address_of(secret, token)).ok_or(Refused::Unauthorized)?;
    let name = address.to_string();
    let mut named = SESSION.into_iter().flat_map(|header| headers.get_all(header));
    if named.any(|named| named.as_bytes() != name.as_bytes()) {
        return Err(Refused::Unauthorized);
    }
    let state = match app.engine.state(&address, None).await {
        Ok(state) => state,
        Err(EngineError::NoSession(_)) => return Err(Refused::Unauthorized),
        Err(error) => return Err(Refused::Broken(error.into())),
    };
    let created = state.created.filter(|_| state.lifecycle == Lifecycle::Open);
    Ok((address, created.ok_or(Refused::Unauthorized)?))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Why a request is not even looked at.
enum Refused {
    /// There is no bridge.
    Closed,
    /// The token is none, or no longer.
    Unauthorized,
    /// Something of ours.
    Broken(Error),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Closed => Error::no_page().into_response(),
            Self::Unauthorized => {
                let error = Error::new(
                    StatusCode::UNAUTHORIZED,
                    "server::bridge-token",
                    "this is no token for a session that is open",
                    "send the session's own token as `Authorization: Bearer …`; `weir session bridge-token` prints it",
                );
                let mut response = error.into_response();
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                response
            }
            Self::Broken(error) => error.into_response(),
        }
    }
}

/// The tools of a session's agent, lent to whoever has its token.
struct Lent {
    app: App,
    address: Address,
    created: SessionCreated,
}

impl Offer for Lent {
    fn about(&self) -> About {
        About {
            name: format!("weir/{}", self.created.agent),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
        }
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Offered>, Refusal>> {
        async {
            let build = self.app.builds.of(self.created.manifest).await.map_err(|error| internal(&*error))?;
            let Some(agent) = build.manifest.agents.get(&self.created.agent) else { return Ok(Vec::new()) };
            let offers = provision::offers(&build.manifest, agent);
            Ok(provision::tools(agent, &offers).into_iter().map(offered).collect())
        }
        .boxed()
    }

    fn call(&self, incoming: Incoming) -> BoxFuture<'_, Result<Given, Refusal>> {
        async move {
            let Incoming { tool, arguments, key, .. } = incoming;
            let errand = Errand { tool, input: arguments, key };
            // Its token stands for the session, and the session acts for whoever began it.
            let called = self.app.engine.call(&self.address, errand, &self.created.principal).await;
            match called {
                Ok(called) => became(&self.address, called),
                Err(error) => Err(not_taken_up(&error)),
            }
        }
        .boxed()
    }
}

fn offered(tool: weir_kernel::Tool) -> Offered {
    let hints = Hints {
        read_only: Some(tool.effect == Effect::Read),
        idempotent: (tool.effect != Effect::Read).then_some(tool.effect == Effect::Idempotent),
        ..Hints::default()
    };
    Offered {
        name: tool.definition.name,
        description: tool.definition.description,
        input_schema: tool.definition.schema,
        output_schema: None,
        hints,
    }
}

fn became(address: &Address, called: Called) -> Result<Given, Refusal> {
    let Called { call, result } = called;
    let about = |more: Value| {
        let mut data = json!({"session": address.to_string(), "call": call.to_string()});
        if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
            data.extend(more);
        }
        Some(data)
    };
    match result {
        Became::Done { content, stub: _ } => Ok(Given { content, structured: None, failed: false }),
        Became::Refused { rule, step, message } => {
            let code = match step {
                Some(GateStep::Schema) => INVALID_ARGUMENTS,
                _ => NOT_ALLOWED,
            };
            Err(Refusal { code, message, data: about(json!({"rule": rule})) })
        }
        Became::Failed { class, message, outcome } => {
            let outcome = serde_json::to_value(outcome).unwrap_or_default();
            Err(Refusal { code: FAILED, message, data: about(json!({"class": class, "outcome": outcome})) })
        }
        Became::Waits(approvals) => {
            let why = approvals.first().map_or("it requires approval", |asked| asked.why.as_str());
            let message = format!(
                "{why}; it waits, and runs once that was given. For what came of it send the same call again \
                 with its idempotency key, or with `data.call` as the key: in `_meta` as `{KEY_FIELD}`, or in the header \
                 `Idempotency-Key`"
            );
            let asked = approvals.iter().map(asked).collect::<Vec<_>>();
            Err(Refusal {
                code: NOT_ALLOWED,
                message,
                data: about(json!({"waits": true, "approvals": asked})),
            })
        }
    }
}

/// Why a call was not even written down.
fn not_taken_up(error: &EngineError) -> Refusal {
    let refused = |code| {
        let data = json!({"code": error.code(), "help": error.help()});
        Refusal { code, message: error.to_string(), data: Some(data) }
    };
    match error {
        EngineError::Errand(ErrandError::Reused { .. }) => refused(INVALID_ARGUMENTS),
        _ if matches!(error.fault(), Fault::Input | Fault::Denied | Fault::Missing | Fault::Conflict) => {
            refused(NOT_ALLOWED)
        }
        _ => internal(error),
    }
}

/// Something of ours: whoever runs the server reads what in its log.
fn internal(error: &dyn Explain) -> Refusal {
    Refusal::internal(Error::of(error).message)
}
