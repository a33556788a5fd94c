//! `/agents/{name}/chat`: say something, wait for the answer.

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
