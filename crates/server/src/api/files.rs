//! The files of a session, now or then.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_types::Hash;

use super::at;
use super::sessions::AtQuery;
use super::views::{self, FileView};
use crate::access::{self, Reached};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, Query};

/// How much of a file is in memory at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// The files of a session.
#[derive(Serialize, ToSchema)]
struct Files {
    files: Vec<FileView>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(session_files)).routes(routes!(session_file))
}

/// Its files.
#[utoipa::path(
    get, path = "/sessions/{id}/files", tag = "sessions", params(("id" = String, Path), AtQuery),
    responses((status = 200, body = Files), (status = 404, body = ErrorBody))
)]
async fn session_files(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<AtQuery>,
) -> Result<Json<Files>, Error> {
    let files = files(&app, &caller, &id, &query).await?;
    Ok(Json(Files { files: views::files(&files) }))
}

/// The content of one of them. Slashes in its path may stand as they are.
#[utoipa::path(
    get, path = "/sessions/{id}/files/{*path}", tag = "sessions",
    params(("id" = String, Path), ("path" = String, Path), AtQuery),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, body = ErrorBody),
    )
)]
async fn session_file(
    State(app): State<App>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
    Query(query): Query<AtQuery>,
) -> Result<Response, Error> {
    let files = files(&app, &caller, &id, &query).await?;
    let entry = files.get(&path).ok_or_else(|| Error::missing("file"))?;
    content(&app, entry.hash, entry.size).await
}

async fn files(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &AtQuery,
) -> Result<weir_workspace::Files, Error> {
    let Reached { address, .. } = access::session(app, caller, id, query.branch.as_deref()).await?;
    let at = at::place(&*app.journal, &address.branch_id(), query.at.as_deref()).await?;
    Ok(app.engine.files(&address, at).await?)
}

/// Content by its hash, checked and in pieces. Browsers neither guess what it is nor show it.
pub(super) async fn content(app: &App, hash: Hash, bytes: u64) -> Result<Response, Error> {
    let reader = app.blobs.get(hash).await?;
    let mut response = Body::from_stream(ReaderStream::with_capacity(reader, CHUNK_BYTES)).into_response();
    headers(&mut response, hash, bytes);
    Ok(response)
}

pub(super) fn headers(response: &mut Response, hash: Hash, bytes: u64) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{hash}\"")) {
        headers.insert(header::ETAG, tag);
    }
}
