//! `/agents`: which there are, for whoever asks.

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
