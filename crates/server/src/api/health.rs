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

#[derive(Serialize, ToSchema)]
struct Ready {
    status: &'static str,
    /// The build that new sessions begin with; none, where the persistence layer is served alone.
    build: Option<String>,
    /// The version of the server.
    version: &'static str,
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
#[utoipa::path(get, path = "/ready", responses((status = 200, body = Ready), (status = 503, body = ErrorBody)))]
async fn ready(State(app): State<App>) -> Result<Json<Ready>, Error> {
    app.journal.end().await?;
    let build = app.builds.current().map(|build| build.hash.to_string());
    Ok(Json(Ready { status: "ready", build, version: env!("CARGO_PKG_VERSION") }))
}
