//! `/health` and `/ready`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::error::{Error, ErrorBody};
use crate::extract::Json;

#[derive(Serialize, ToSchema)]
struct Health {
    status: &'static str,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(ready))
}

/// Whether the process lives.
#[utoipa::path(get, path = "/health", responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether it can do something: the journal answers.
#[utoipa::path(get, path = "/ready", responses((status = 200, body = Health), (status = 503, body = ErrorBody)))]
async fn ready(State(app): State<App>) -> Result<Json<Health>, Error> {
    app.journal.end().await?;
    Ok(Json(Health { status: "ready" }))
}
