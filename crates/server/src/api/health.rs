//! `/health` and `/ready`.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
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

/// Whether it can do something: the journal stores and answers. It is tried by writing, at most every other second.
#[utoipa::path(get, path = "/ready", responses((status = 200, body = Ready), (status = 503, body = ErrorBody)))]
async fn ready(State(app): State<App>) -> Result<Json<Ready>, Error> {
    app.readiness.check(&app).await?;
    let build = app.builds.current().map(|build| build.hash.to_string());
    Ok(Json(Ready { status: "ready", build, version: env!("CARGO_PKG_VERSION") }))
}

/// How long an answer is given again: asking often is no load.
const KEPT: Duration = Duration::from_secs(2);

/// How long the storage may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing can be stored, if that is so, as it was a moment ago.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

impl Readiness {
    /// Tries it, unless that was done a moment ago. Whoever asks meanwhile waits for the same answer.
    async fn check(&self, app: &App) -> Result<(), Error> {
        let mut last = self.0.lock().await;
        let known = last.as_ref().filter(|(at, _)| at.elapsed() < KEPT).map(|(_, why)| why.clone());
        let why = match known {
            Some(why) => why,
            None => {
                let probed = tokio::time::timeout(PATIENCE, probe(app)).await;
                let why = probed.unwrap_or_else(|_| Some("it does not answer".to_owned()));
                *last = Some((Instant::now(), why.clone()));
                why
            }
        };
        why.map_or(Ok(()), |why| Err(not_ready(&why)))
    }
}

/// Why nothing can be stored, or read.
async fn probe(app: &App) -> Option<String> {
    if let Err(error) = app.journal.probe().await {
        tracing::warn!(%error, "nothing can be stored");
        return Some(error.what.to_string());
    }
    let read = app.journal.end().await.err()?;
    tracing::warn!(error = %read, "the journal cannot be read");
    Some("the journal cannot be read".to_owned())
}

fn not_ready(why: &str) -> Error {
    Error::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "server::not-ready",
        format!("nothing can be stored: {why}"),
        "see the server's log, and `weir doctor`",
    )
}
