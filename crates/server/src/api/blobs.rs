//! `/blobs`: content by its hash. It belongs to whoever has stored it, and to whoever has a stream that refers to it.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use http_body_util::Limited;
use serde::Serialize;
use tokio_util::io::StreamReader;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_types::Hash;

use super::files::{content, headers};
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, unreadable};

/// A blob that is stored.
#[derive(Serialize, ToSchema)]
#[schema(as = Blob)]
struct BlobView {
    /// Its name: the SHA-256 of its content.
    hash: String,
    /// Its length.
    bytes: u64,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(put_blob)).routes(routes!(put_named_blob, get_blob, head_blob))
}

/// Store content. The answer is the same whether it was there before or not.
#[utoipa::path(
    put, path = "/blobs", tag = "blobs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = BlobView), (status = 408, body = ErrorBody), (status = 413, body = ErrorBody))
)]
async fn put_blob(State(app): State<App>, caller: Caller, body: Body) -> Result<Json<BlobView>, Error> {
    put(&app, &caller, None, body).await
}

/// Store content whose hash is known; other content is refused.
#[utoipa::path(
    put, path = "/blobs/{hash}", tag = "blobs", params(("hash" = String, Path)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = BlobView), (status = 408, body = ErrorBody), (status = 413, body = ErrorBody))
)]
async fn put_named_blob(
    State(app): State<App>,
    caller: Caller,
    Path(hash): Path<String>,
    body: Body,
) -> Result<Json<BlobView>, Error> {
    let hash = hash.parse().map_err(|error: weir_types::HashError| {
        Error::bad(
            error.to_string(),
            "the name of a blob is the SHA-256 of its content, in hexadecimal digits",
        )
    })?;
    put(&app, &caller, Some(hash), body).await
}

/// Content goes from the connection to the disk in pieces.
async fn put(app: &App, caller: &Caller, named: Option<Hash>, body: Body) -> Result<Json<BlobView>, Error> {
    access::may_store(app, caller)?;
    let bytes_max = app.settings.blob_bytes_max;
    let pieces = Body::new(Limited::new(body, bytes_max)).into_data_stream().map_err(io::Error::other);
    let stored = app.blobs.put(Box::new(StreamReader::new(Box::pin(pieces)))).await;
    let stored = stored.map_err(|error| match error {
        weir_blobs::PutError::Source(error) => unreadable(&error, bytes_max),
        error => error.into(),
    })?;
    if named.is_some_and(|named| named != stored.hash) {
        return Err(Error::new(
            axum::http::StatusCode::BAD_REQUEST,
            "server::hash-mismatch",
            "the content has another hash than its name says",
            "send it again, or with `PUT /blobs`, which says what its hash is",
        ));
    }
    access::keep_blob(app, caller, stored.hash, stored.bytes).await?;
    Ok(Json(BlobView { hash: stored.hash.to_string(), bytes: stored.bytes }))
}

/// Content by its hash.
#[utoipa::path(
    get, path = "/blobs/{hash}", tag = "blobs", params(("hash" = String, Path)),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = 404, body = ErrorBody))
)]
async fn get_blob(
    State(app): State<App>,
    caller: Caller,
    Path(hash): Path<String>,
) -> Result<Response, Error> {
    let (hash, bytes) = find(&app, &caller, &hash).await?;
    content(&app, hash, bytes).await
}

/// Whether it is there, and how long it is.
#[utoipa::path(
    head, path = "/blobs/{hash}", tag = "blobs", params(("hash" = String, Path)),
    responses((status = 200), (status = 404))
)]
async fn head_blob(
    State(app): State<App>,
    caller: Caller,
    Path(hash): Path<String>,
) -> Result<Response, Error> {
    let (hash, bytes) = find(&app, &caller, &hash).await?;
    let mut response = Body::empty().into_response();
    headers(&mut response, hash, bytes);
    Ok(response)
}

async fn find(app: &App, caller: &Caller, hash: &str) -> Result<(Hash, u64), Error> {
    let missing = || Error::missing("blob");
    let hash: Hash = hash.parse().map_err(|_| missing())?;
    access::blob(app, caller, hash).await?;
    let stored = app.blobs.stat(hash).await?.ok_or_else(missing)?;
    Ok((hash, stored.bytes))
}
