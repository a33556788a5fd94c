//! Every route, and the document about them, from one place.

use axum::Router;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::{api, compat, guard, idempotency, mcp, metrics, stream, ui};

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
pub fn document() -> serde_json::Value {
    let document = routes().split_for_parts().1;
    // INVARIANT: the document consists of text, numbers, lists and maps with text for keys.
    let mut document = serde_json::to_value(&document).unwrap_or_default();
    api::complete(&mut document);
    document
}

/// The service, with everything in front of it that every request passes.
pub fn router(app: &App) -> Router {
    around(routes().split_for_parts().0, app)
}

/// Routes, and everything that stands around them.
fn around(routes: Router<App>, app: &App) -> Router {
    // Behind the guard, which finds out who asks.
    let routes = routes.layer(axum::middleware::from_fn_with_state(app.clone(), idempotency::once));
    // Last, and so in front of everything: what is refused is counted as well.
    let counted = axum::middleware::from_fn_with_state(app.clone(), metrics::count);
    // Whoever refuses something, vendors' clients are told in the shape that they know.
    let shaped = axum::middleware::from_fn(compat::shaped);
    guard::guarded(routes, app).layer(shaped).layer(counted).with_state(app.clone())
}

#[cfg(test)]
mod tests;
