//! The fixtures of the MCP conformance suite, where a test asks for them: not documented, and nowhere else.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use utoipa_axum::router::OpenApiRouter;
use weir_mcp::serving::{Owner, conformance_fixtures};

use super::response;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::from(Router::new().route("/conformance/mcp", any(fixtures)))
}

async fn fixtures(State(app): State<App>, caller: Caller, request: Request) -> Response {
    if !app.settings.mcp_fixtures {
        return Error::no_page().into_response();
    }
    let owner = Owner { who: caller.principal, what: String::new() };
    response(app.mcp.fixtures.enter_fixtures(request, &owner, &conformance_fixtures()).await).await
}
