//! What every request passes before a handler sees it: is it meant for us, where is it from, who sent it, is there room for it.
//! And what every answer passes before a client sees it: no panic, no page that could be mistaken for something else, no copy
//! in a cache.

mod body;
mod origin;
mod room;

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use weir_journal::mint;

pub(crate) use self::body::Late;
use self::body::{arriving, holding, standing};
use self::origin::Origin;
pub use self::origin::{is_host, is_origin};
pub(crate) use self::room::Room;
use self::room::Rooms;
use crate::access;
use crate::app::App;
use crate::auth::{Admitted, Ends, Standing, Unknown};
use crate::error::Error;

/// What may be asked without saying who asks. None of it is about anybody.
const OPEN: [&str; 3] = ["/health", "/ready", "/openapi.json"];

/// What lets in by tokens of its own.
const BRIDGE: &str = "/bridge/";

/// What is about everybody.
const ADMINS_ONLY: &str = "/metrics";

/// The longest path and query, in bytes.
const URI_BYTES_MAX: usize = 8 * 1024;

/// The header that names a request, in the answer and in the log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest name that a client may give to its request.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// How long those are asked to wait for whom there is no room.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

#[derive(Clone)]
struct Guard {
    app: App,
    rooms: Rooms,
}

/// The routes behind everything that guards them.
pub(crate) fn guarded(routes: Router<App>, app: &App) -> Router<App> {
    let guard = Guard { app: app.clone(), rooms: Rooms::new(app.settings.requests_max) };
    routes
        .fallback(async || Error::no_page().into_response())
        .method_not_allowed_fallback(async || not_like_this().into_response())
        .layer(axum::middleware::from_fn_with_state(guard, pass))
}

fn not_like_this() -> Error {
    Error::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "server::method",
        "this cannot be asked for with that method",
        "see `/openapi.json` for what there is",
    )
}

/// What the log says about a request.
#[derive(Clone, Debug)]
pub(crate) struct About {
    id: HeaderValue,
    path: String,
}

impl About {
    /// Of one that has passed here.
    pub(crate) fn of(request: &Request) -> Self {
        let known = request.extensions().get::<Self>().cloned();
        known.unwrap_or_else(|| Self {
            id: request_id(request.headers()),
            path: loggable(request.uri().path()),
        })
    }
}

/// The longest segment of a path that the log repeats: session ids and stream names are shorter.
const LOGGED_SEGMENT_MAX: usize = 128;

/// A path without segments that look like credentials, which clients put there by mistake.
fn loggable(path: &str) -> String {
    let is_secret = |segment: &str| {
        let starts = ["weir_", "eyJ", "sk-", "Bearer"].iter().any(|prefix| segment.starts_with(prefix));
        starts || segment.len() > LOGGED_SEGMENT_MAX
    };
    let shown = |segment| if is_secret(segment) { "[redacted]" } else { segment };
    path.split('/').map(shown).collect::<Vec<_>>().join("/")
}

/// A handler has panicked: it is counted, the log says where, and the client is told nothing of it.
pub(crate) fn panicked(app: &App, about: &About) -> Error {
    app.metrics.panicked();
    tracing::error!(request = about.id.to_str().unwrap_or_default(), path = about.path, "a handler panicked");
    Error::bug()
}

async fn pass(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let about = About::of(&request);
    request.extensions_mut().insert(about.clone());
    // Who waits for a word before sending the body sends none of it to whoever does not want it.
    let waits = request.headers().contains_key(header::EXPECT);
    let (arrival, tasks) = (guard.app.settings.arrival, (!waits).then(|| guard.app.tasks.clone()));
    let request = request.map(|body| arriving(body, arrival, tasks));
    let (mut allowed, began) = (None, Instant::now());
    let method = request.method().clone();
    let answered = AssertUnwindSafe(guard.admitted(request, next, &mut allowed)).catch_unwind().await;
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(refused)) => *refused,
        Err(_) => panicked(&guard.app, &about).into_response(),
    };
    let (status, took_ms) = (response.status().as_u16(), began.elapsed().as_millis() as u64);
    let request = about.id.to_str().unwrap_or_default();
    tracing::debug!(request, %method, path = about.path, status, took_ms, "answered");
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, about.id);
    protect(headers);
    if let Some(origin) = allowed {
        origin.share(headers);
    }
    response
}

impl Guard {
    /// The answer of a handler, or why the request does not get there.
    async fn admitted(
        &self,
        mut request: Request,
        next: Next,
        allowed: &mut Option<Origin>,
    ) -> Result<Response, Box<Response>> {
        let refuse = |error: Error| Box::new(error.into_response());
        let app = &self.app;
        if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > URI_BYTES_MAX) {
            return Err(refuse(too_long()));
        }
        // Before anything else is looked at: nothing of what it says about itself can be believed.
        if app.auth.is_forwarded(request.headers()) {
            return Err(Box::new(Unknown::Forwarded.into_response()));
        }
        let ends = request.extensions().get::<Ends>().copied();
        let host = origin::host(&request, &app.settings.hosts, ends).map_err(refuse)?;
        *allowed = Origin::of(request.headers(), &host, &app.settings.origins).map_err(refuse)?;
        if let (Some(origin), &Method::OPTIONS) = (&*allowed, request.method())
            && let Some(answer) = origin.preflight(request.headers())
        {
            return Ok(answer);
        }
        if is_encoded(request.headers()) {
            return Err(refuse(encoded()));
        }
        let path = request.uri().path();
        if OPEN.contains(&path) {
            return Ok(next.run(request).await);
        }
        let Some(place) = self.rooms.place() else { return Err(Box::new(busy())) };
        let (caller, standing_of) = match path.starts_with(BRIDGE) {
            true => (None, Standing::default()),
            false => {
                let admitted = app.auth.caller(&*app.journal, request.headers(), path, ends).await;
                let Admitted { caller, standing } =
                    admitted.map_err(|unknown| Box::new(unknown.into_response()))?;
                (Some(caller), standing)
            }
        };
        if path == ADMINS_ONLY && !caller.as_ref().is_some_and(|caller| access::is_admin(app, caller)) {
            return Err(refuse(admins_only()));
        }
        let share = match &caller {
            // Where there is nobody else, all of the room is theirs.
            Some(caller) if app.auth.local.as_ref() == Some(caller) => None,
            // Remote runners together have the share of one.
            caller => {
                let of = caller.as_ref().map_or(BRIDGE, |caller| &caller.principal);
                Some(self.rooms.share(of).ok_or_else(|| Box::new(too_many()))?)
            }
        };
        let room = Room::new(place, share);
        room.tell(request.extensions_mut());
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let answer = next.run(request).await;
        // A stream is under way for as long as it is read, and no longer than what it was asked for with is good.
        Ok(answer.map(|body| holding(standing(body, app, standing_of), room)))
    }
}

/// The client's name for its request, if that can be one; else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(plain)
    };
    let given = headers.get(REQUEST_ID).filter(is_plain).cloned();
    given.unwrap_or_else(|| {
        HeaderValue::try_from(mint().to_string()).unwrap_or(HeaderValue::from_static("unknown"))
    })
}

/// What browsers are told about every answer, unless its handler has told them already.
fn protect(headers: &mut HeaderMap) {
    let defaults = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ];
    for (name, value) in defaults {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

fn busy() -> Response {
    let error = Error::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "server::busy",
        "the server has as many requests under way as it can have",
        "try again in a moment",
    );
    ([(header::RETRY_AFTER, RETRY_AFTER)], error).into_response()
}

fn too_many() -> Response {
    let error = Error::new(
        StatusCode::TOO_MANY_REQUESTS,
        "server::too-many",
        "you have as many requests under way as one may have",
        "end some of them, such as streams, or try again in a moment",
    );
    ([(header::RETRY_AFTER, RETRY_AFTER)], error).into_response()
}

fn too_long() -> Error {
    Error::new(
        StatusCode::URI_TOO_LONG,
        "server::uri-too-long",
        format!("the address has more than {URI_BYTES_MAX} bytes"),
        "put what is long into the body",
    )
}

/// Whether a body is not what it would be read as.
fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn encoded() -> Error {
    Error::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "server::encoded",
        "compressed bodies are not read here",
        "send the body as it is, without `Content-Encoding`",
    )
}

fn admins_only() -> Error {
    Error::new(
        StatusCode::FORBIDDEN,
        "server::admins-only",
        "this is about everybody, and so for admins alone",
        "use the token of someone in `group:admin`",
    )
}

#[cfg(test)]
mod tests;
