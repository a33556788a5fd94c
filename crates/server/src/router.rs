//! Every route, and the document about them, from one place.

use axum::Router;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::{api, compat, guard, mcp, metrics, stream, ui};

#[derive(OpenApi)]
#[openapi(info(title = "Weir", description = "A durable, governed runtime for AI agents."))]
struct About;

/// All routes with their descriptions.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(About::openapi())
        .merge(api::routes())
        .merge(stream::routes())
        .merge(ui::routes())
        .merge(compat::routes())
        .merge(mcp::routes())
        .merge(metrics::routes())
}

/// What the server can do, as OpenAPI.
pub fn document() -> Document {
    routes().split_for_parts().1
}

/// The service, with everything in front of it that every request passes.
pub fn router(app: &App) -> Router {
    let (routes, _) = routes().split_for_parts();
    // Last, and so in front of everything: what is refused is counted as well.
    let counted = axum::middleware::from_fn_with_state(app.clone(), metrics::count);
    // Whoever refuses something, vendors' clients are told in the shape that they know.
    let shaped = axum::middleware::from_fn(compat::shaped);
    guard::guarded(routes, app).layer(shaped).layer(counted).with_state(app.clone())
}
