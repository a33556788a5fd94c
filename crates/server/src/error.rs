//! What a client is told when something does not work: the right status, a stable code, what is wrong and what to do next.
//! Nothing internal: causes of our own go to the log.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use weir_types::{Explain, Fault};

/// What a client is told about what only operators should know, and what to do about it.
const BUG: (&str, &str) = ("something went wrong inside the server", "the server's log says what");

/// What a client is told.
#[derive(Debug)]
pub struct Error {
    /// The status.
    pub status: StatusCode,
    /// A stable name such as `journal::conflict`.
    pub code: Cow<'static, str>,
    /// What is wrong.
    pub message: String,
    /// What to do next.
    pub help: Cow<'static, str>,
}

/// The body of every answer that is an error.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorWords,
}

#[derive(Serialize, ToSchema)]
struct ErrorWords {
    /// A stable name such as `journal::conflict`.
    code: String,
    /// What is wrong.
    message: String,
    /// What to do next.
    help: String,
}

impl Error {
    /// An error of the server's own.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        help: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code: code.into(), message: message.into(), help: help.into() }
    }

    /// What is not there, or not for whoever asks: they cannot tell which.
    pub fn missing(what: &str) -> Self {
        let help = match what {
            "agent" => {
                "`GET /agents` lists those of the deployed build; a new one is there after `weir build` and `weir deploy`"
            }
            // Nothing lists blobs: who may see one has its name from an event.
            "blob" => "check the hash: it is in `refs` of an event that you can read",
            _ => "look for it in the list",
        };
        Self::new(StatusCode::NOT_FOUND, "server::not-found", format!("there is no such {what}"), help)
    }

    /// An address where nothing is.
    pub fn no_page() -> Self {
        Self { help: "`/openapi.json` lists what there is".into(), ..Self::missing("page") }
    }

    /// A request that is wrong and will be wrong again.
    pub fn bad(message: impl Into<String>, help: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "server::bad-request", message, help)
    }

    /// A promise of our own that does not hold. What it is stays in the log.
    pub fn bug() -> Self {
        let (message, help) = BUG;
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server::bug", message, help)
    }

    /// An error of someone below. What only operators should know stays in the log.
    pub fn of(error: &dyn Explain) -> Self {
        let status = status(error.fault());
        if status.is_server_error() {
            tracing::error!(code = error.code(), error = %Chain(error), "request failed");
        }
        let (message, help) = match error.fault() {
            Fault::Damaged | Fault::Bug => (BUG.0.to_owned(), BUG.1.into()),
            // It names a session that the caller uses, and says what must not be repeated.
            Fault::Storage if error.code() == weir_engine::NOT_STORED => (error.to_string(), error.help()),
            Fault::Storage => {
                ("the server cannot store anything at the moment".to_owned(), "try again later".into())
            }
            _ => (error.to_string(), error.help()),
        };
        Self { status, code: error.code().into(), message, help }
    }
}

impl<E: Explain> From<E> for Error {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

/// The status for whose move it is.
fn status(fault: Fault) -> StatusCode {
    match fault {
        Fault::Input => StatusCode::BAD_REQUEST,
        Fault::Denied => StatusCode::FORBIDDEN,
        Fault::Missing => StatusCode::NOT_FOUND,
        Fault::Conflict => StatusCode::CONFLICT,
        Fault::Storage | Fault::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        Fault::Damaged | Fault::Bug => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// An error with all its causes, for the log.
struct Chain<'a>(&'a dyn Explain);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let words = ErrorWords {
            code: self.code.clone().into_owned(),
            message: self.message.clone(),
            help: self.help.clone().into_owned(),
        };
        let mut response = (self.status, Json(ErrorBody { error: words })).into_response();
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            // Nobody reads the rest of it, so nothing can follow it.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        // Clients of others know errors in another shape.
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
