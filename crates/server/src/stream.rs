//! A run as a stream of frames: what is durable, in order, and in between what is being said right now.

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
