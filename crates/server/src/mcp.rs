//! MCP: agents as servers, and the bridge that lends an agent's tools to a remote runner.

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
