//! The routes of the AI SDK's chat transport.

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
