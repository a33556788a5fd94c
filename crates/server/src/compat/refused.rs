//! What vendors' clients are told when something does not work, in the shape of the vendor they talk to.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::answering::ids;
use crate::error::Error;
use crate::formats::{Problem, anthropic_type, openai_type};
use crate::guard::REQUEST_ID;
use crate::saying::{self, Unheard};
use crate::stream::Begun;

/// Why a request is not answered as it wants to be.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    /// A stable name: the vendor's, where its clients look for one, else ours.
    code: Cow<'static, str>,
    message: String,
    /// The field that is wrong.
    param: Option<String>,
    /// Whether clients that try again by themselves are told not to: what was said is kept, and would be said twice.
    is_said: bool,
    /// What was begun before it went wrong.
    ids: Option<Box<HeaderMap>>,
}

/// Whose clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    OpenAi,
    Anthropic,
}

impl Vendor {
    /// Whose client sends a request; nobody's, where the path is not one of theirs.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Option<Self> {
        let below = path.strip_prefix("/v1")?;
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        let is_messages = below == "/messages" || below.starts_with("/messages/");
        let says_so = headers.contains_key("anthropic-version");
        Some(if is_messages || says_so { Self::Anthropic } else { Self::OpenAi })
    }
}

impl Refused {
    pub(super) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self { status, code: code.into(), message: message.into(), param: None, is_said: false, ids: None }
    }

    /// A field that is wrong.
    pub(super) fn field(param: impl Into<String>, why: impl std::fmt::Display) -> Self {
        let param = param.into();
        let message = if param.is_empty() { format!("the body {why}") } else { format!("`{param}` {why}") };
        Self { param: Some(param), ..Self::new(StatusCode::BAD_REQUEST, "invalid_value", message) }
    }

    /// An agent that is not there, or not for whoever asks: they cannot tell which.
    pub(super) fn no_model(name: &str) -> Self {
        let name: String = name.chars().take(200).collect();
        let message = format!("the model `{name}` does not exist, or you do not have access to it");
        Self {
            param: Some("model".to_owned()),
            ..Self::new(StatusCode::NOT_FOUND, "model_not_found", message)
        }
    }

    /// A run that ends without an answer.
    pub(super) fn run(problem: Problem) -> Self {
        let (status, code) = problem.status_and_code();
        Self { is_said: true, ..Self::new(status, code, problem.message) }
    }

    /// A wait that ends before the run does.
    pub(super) fn interrupted(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { is_said: true, ..Self::new(status, code, message) }
    }

    /// The same, of a run that has begun: it can be looked for.
    pub(super) fn of(self, begun: &Begun) -> Self {
        Self { is_said: true, ids: Some(Box::new(ids(begun))), ..self }
    }

    /// As this vendor's clients know errors.
    fn shaped(&self, vendor: Vendor, request_id: &str) -> Response {
        let Self { status, code, message, param, is_said, .. } = self;
        let mut response = match vendor {
            Vendor::OpenAi => {
                let kind = openai_type(*status, code);
                let error = json!({"message": message, "type": kind, "param": param, "code": code});
                (*status, Json(json!({"error": error}))).into_response()
            }
            Vendor::Anthropic => {
                let (status, kind) = anthropic_type(*status, code);
                let error = json!({"type": kind, "message": message});
                let body = json!({"type": "error", "error": error, "request_id": request_id});
                (status, Json(body)).into_response()
            }
        };
        if *is_said {
            response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}

impl From<&Error> for Refused {
    fn from(error: &Error) -> Self {
        let code = match error.status {
            StatusCode::UNAUTHORIZED => Cow::Borrowed("invalid_api_key"),
            _ => error.code.clone(),
        };
        Self::new(error.status, code, format!("{}: {}", error.message, error.help))
    }
}

/// What was said is not to be said again, and can be looked for.
impl From<Unheard> for Refused {
    fn from(unheard: Unheard) -> Self {
        let ids = unheard.said_in().map(|address| Box::new(saying::headers(address, None)));
        Self { is_said: ids.is_some(), ids, ..Self::from(Error::from(unheard)) }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

/// In no shape yet: [`shaped`] gives it the one of the vendor whose client asks.
impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let ids = self.ids.as_deref().cloned().unwrap_or_default();
        let mut response = (self.status, ids).into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// Gives whatever went wrong with a request of a vendor's client the shape that client knows, wherever in the server that was.
/// Whatever is answered says which request it belongs to, by the id that the guard has given it.
pub(crate) async fn shaped(request: Request, next: Next) -> Response {
    let Some(vendor) = Vendor::of(request.uri().path(), request.headers()) else {
        return next.run(request).await;
    };
    let response = next.run(request).await;
    let id = response.headers().get(REQUEST_ID).cloned();
    let named = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    let of_ours = response.extensions().get::<Arc<Error>>().map(|error| Arc::new(Refused::from(&**error)));
    let refused = response.extensions().get::<Arc<Refused>>().cloned().or(of_ours);
    let mut response = match refused {
        Some(refused) => {
            let mut shaped = refused.shaped(vendor, named);
            // Such as who may try again, and when.
            for (name, value) in response.headers() {
                let of_body = name == "content-type" || name == "content-length";
                if !of_body && !shaped.headers().contains_key(name) {
                    shaped.headers_mut().append(name.clone(), value.clone());
                }
            }
            shaped
        }
        None => response,
    };
    if let (Vendor::Anthropic, Some(id)) = (vendor, id) {
        response.headers_mut().insert(HeaderName::from_static("request-id"), id);
    }
    response
}
