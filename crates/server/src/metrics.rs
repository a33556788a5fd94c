//! `/metrics`: what the server counts, for Prometheus.

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

/// What the server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
