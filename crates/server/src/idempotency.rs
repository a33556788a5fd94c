//! `Idempotency-Key`: a POST that is repeated is not done again.
//!
//! A request with a key is written down before it is handled, in the stream `engine:requests`, under a name made of who asks,
//! what for and the key; and so is its answer, if it is one that something was done for. Whoever repeats it gets that answer,
//! from this process or the next one. If the first one was cut off before it was answered, what it had led to by then is found by
//! the event of the request: handlers are told, and go on from there instead of doing it again.
//!
//! Of several servers over one data directory, the one that wrote a request down handles it; others take it over only when that one
//! is dead, or has let go of it.
//!
//! Nothing is written down about requests of those who can do nothing here: they would fill the journal with what was refused.
//!
//! Limits: answers that are streams, 202s and errors are not kept (a request that failed may be repeated); the body must fit
//! into the limit of bodies. Keys are kept for as long as the journal.

mod claim;

use std::collections::HashSet;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use tokio::sync::Notify;
use weir_engine::{Address, Engine};
use weir_events::{About, Payload, RequestAnswered, RequestReceived};
use weir_journal::{Key, NewEvent, Part};
use weir_types::{BranchId, Event, EventId, Hash, Json, Seq};

use self::claim::Found;
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::extract::whole;
use crate::guard;

/// Where requests and their answers are written down.
const STREAM: &str = "engine:requests";

/// The longest route that is written down as it is.
const ROUTE_BYTES_MAX: usize = 256;

/// The longest answer that is kept.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// More than this is hashed away from the threads that must not wait.
const HASHED_HERE_MAX: usize = 64 * 1024;

/// Headers of an answer that are part of it.
const KEPT_HEADERS: [&str; 4] = ["content-type", "location", "x-weir-session", "x-weir-run"];

/// The requests with a key that are being handled.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    under_way: Mutex<HashSet<Hash>>,
    /// Told whenever one of them is no longer.
    one_less: Notify,
}

impl Requests {
    fn all(&self) -> MutexGuard<'_, HashSet<Hash>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request with a key.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// The event that says that it arrived.
    event: EventId,
    /// Who asks, what for, and the key.
    name: Hash,
    /// Whether it arrived before, and was cut off.
    is_repeated: bool,
    /// What it had led to by then.
    led_to: Arc<Vec<Event>>,
}

impl Claim {
    /// One of somebody who has nothing to do here, so that nothing is written down about it. If a policy lets them write a stream after all,
    /// the key of that append makes it happen once.
    fn unwritten(name: Hash) -> Self {
        Self { event: weir_journal::mint(), name, is_repeated: true, led_to: Arc::default() }
    }
}

/// What handlers are told about the key of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimed(Option<Claim>);

impl<S: Send + Sync> FromRequestParts<S> for Claimed {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

impl Claimed {
    pub(crate) fn of(parts: &Parts) -> Self {
        Self(parts.extensions.get::<Claim>().cloned())
    }

    /// The engine, through which what is done can be found by the request.
    pub(crate) fn engine(&self, app: &App) -> Engine {
        self.0.as_ref().map_or_else(|| app.engine.clone(), |claim| app.engine.because(claim.event))
    }

    /// The session and the event that the same request has led to before, when it was cut off.
    pub(crate) fn earlier(&self) -> Option<(Address, Seq)> {
        let last = self.0.as_ref()?.led_to.last()?;
        Some((Address::of(&last.branch_id())?, last.seq))
    }

    /// What was claimed by [`call`] is done, as far as this process is concerned: whoever repeats it may do so anywhere.
    pub(crate) async fn let_go(&self, app: &App, caller: &Caller) {
        if let Some(claim) = &self.0 {
            claim::release(app, caller, claim).await;
        }
    }

    /// Whether the same request arrived before, and was cut off.
    pub(crate) fn is_repeated(&self) -> bool {
        self.0.as_ref().is_some_and(|claim| claim.is_repeated)
    }

    /// A key for an append that the request is about.
    pub(crate) fn key(&self) -> Option<Key> {
        format!("request:{}", self.0.as_ref()?.name).parse().ok()
    }

    /// A name for something that the request makes, always the same.
    pub(crate) fn name(&self, prefix: &str) -> Option<String> {
        let name = self.0.as_ref()?.name.to_string();
        Some(format!("{prefix}-{}", &name[..8]))
    }
}

/// What is written down about a request.
fn received(route: String, body: Hash, session: Option<&HeaderValue>) -> RequestReceived {
    let is_long = route.len() > ROUTE_BYTES_MAX;
    let route = if is_long { format!("sha256:{}", Hash::of(route.as_bytes())) } else { route };
    RequestReceived { route, body, session: session.map(|value| Hash::of(value.as_bytes())) }
}

/// Passes requests on; those with a key at most once.
pub(crate) async fn once(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_keyed = request.method() == Method::POST && request.headers().contains_key("idempotency-key");
    // Calls over MCP have keys of their own, whichever message of whichever session brings them.
    let route = request.extensions().get::<MatchedPath>();
    let is_mcp = route.is_some_and(|route| route.as_str().ends_with("/mcp"));
    if !is_keyed || is_mcp {
        return next.run(request).await;
    }
    handle(app, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

async fn handle(app: App, request: Request, next: Next) -> Result<Response, Error> {
    let (mut parts, body) = request.into_parts();
    let key = key(&parts.headers)?;
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    let body = whole(body, app.settings.body_bytes_max).await?;
    let route = parts.uri.path_and_query().map_or_else(|| parts.uri.path().to_owned(), ToString::to_string);
    let name = name(&caller, &route, key.as_str());
    if !access::does_anything(&app, &caller).await? {
        parts.extensions.insert(Claim::unwritten(name));
        return Ok(next.run(Request::from_parts(parts, Body::from(body))).await);
    }
    let under_way = UnderWay::enter(&app, name)?;
    let received = received(route, hash(&body).await, parts.headers.get("x-weir-session"));
    let room = guard::Room::of(&parts.extensions);
    let request = Request::from_parts(parts, Body::from(body));
    let keeper = app.clone();
    // From here on it is written down who handles it, so that it goes on to its end whether its client waits or not.
    let task = app.tasks.spawn(async move {
        let response = handle_once(&keeper, &caller, name, &received, request, next).await;
        drop((under_way, room));
        response
    });
    task.await.map_err(|_| Error::bug())?
}

async fn handle_once(
    app: &App,
    caller: &Caller,
    name: Hash,
    received: &RequestReceived,
    mut request: Request,
    next: Next,
) -> Result<Response, Error> {
    let claim = match claim::claim(app, caller, name, received).await? {
        Found::Answer(answer) => return again(answer),
        Found::Claim(claim) => claim,
    };
    request.extensions_mut().insert(claim.clone());
    let about = guard::About::of(&request);
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => Ok(keep(app, caller, &claim, response).await),
        Err(_) => {
            claim::release(app, caller, &claim).await;
            Err(guard::panicked(app, &about))
        }
    }
}

/// A call with a key of its own, inside of a request. Whoever repeats it while it is under way waits for it, and is told then
/// what it has led to; no answer is kept, since that can be told again.
///
/// # Errors
/// 422 for the key of another call, 409 while another process is at it.
pub(crate) async fn call(
    app: &App,
    caller: &Caller,
    place: &str,
    key: &str,
    what: &[u8],
) -> Result<(Claimed, UnderWay), Error> {
    let name = name(caller, place, key);
    let under_way = UnderWay::wait_for(app, name).await;
    let received = received(place.to_owned(), Hash::of(what), None);
    match claim::claim(app, caller, name, &received).await? {
        Found::Claim(claim) => Ok((Claimed(Some(claim)), under_way)),
        Found::Answer(_) => Err(Error::bug()),
    }
}

fn key(headers: &HeaderMap) -> Result<Key, Error> {
    let help = "send one key, such as a UUID, and a new one for a new request";
    let mut given = headers.get_all("idempotency-key").iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return Err(Error::bad("there is more than one `Idempotency-Key`", help));
    };
    let text = value.to_str().map_err(|_| Error::bad("the `Idempotency-Key` is not plain text", help))?;
    text.parse().map_err(|error: weir_journal::KeyError| Error::bad(error.to_string(), help))
}

/// Keys of different callers, and for different things, do not meet.
fn name(caller: &Caller, route: &str, key: &str) -> Hash {
    Hash::of_parts(&[&caller.principal, route, key])
}

async fn hash(body: &Bytes) -> Hash {
    if body.len() <= HASHED_HERE_MAX {
        return Hash::of(body);
    }
    let content = body.clone();
    let hashed = tokio::task::spawn_blocking(move || Hash::of(&content)).await;
    hashed.unwrap_or_else(|_| Hash::of(body))
}

/// A request that is being handled, until this is dropped.
pub(crate) struct UnderWay {
    app: App,
    name: Hash,
}

impl UnderWay {
    fn enter(app: &App, name: Hash) -> Result<Self, Error> {
        Self::new(app, name).ok_or_else(under_way)
    }

    /// # Cancel safety
    /// Whoever no longer waits has done nothing.
    async fn wait_for(app: &App, name: Hash) -> Self {
        loop {
            let one_less = app.requests.one_less.notified();
            tokio::pin!(one_less);
            // What ends between the look and the wait is heard of as well.
            one_less.as_mut().enable();
            if let Some(entered) = Self::new(app, name) {
                return entered;
            }
            one_less.await;
        }
    }

    fn new(app: &App, name: Hash) -> Option<Self> {
        let is_new = app.requests.all().insert(name);
        is_new.then(|| Self { app: app.clone(), name })
    }
}

fn under_way() -> Error {
    Error::new(
        StatusCode::CONFLICT,
        "server::under-way",
        "a request with this `Idempotency-Key` is still being handled",
        "repeat it later to get its answer",
    )
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.app.requests.all().remove(&self.name);
        self.app.requests.one_less.notify_waiters();
    }
}

/// Writes an answer down, if something was done for it, and passes it on. Otherwise whoever repeats the request may do so anywhere.
async fn keep(app: &App, caller: &Caller, claim: &Claim, response: Response) -> Response {
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    if !response.status().is_success() || response.status() == StatusCode::ACCEPTED || is_stream {
        claim::release(app, caller, claim).await;
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = match axum::body::to_bytes(body, ANSWER_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => {
            tracing::error!(%error, "an answer cannot be kept");
            claim::release(app, caller, claim).await;
            return Error::bug().into_response();
        }
    };
    let answered = answered(parts.status, &parts.headers, &body);
    if let Err(error) = write(app, caller, claim, &answered).await {
        tracing::warn!(code = %error.code, "an answer was not kept");
        claim::release(app, caller, claim).await;
    }
    Response::from_parts(parts, Body::from(body))
}

async fn write(app: &App, caller: &Caller, claim: &Claim, answered: &RequestAnswered) -> Result<(), Error> {
    let event = event(answered, &claim::about(caller, claim.event))?;
    app.journal.append(vec![Part::new(branch()?, vec![event])]).await?;
    Ok(())
}

fn event<P: Payload>(body: &P, about: &About) -> Result<NewEvent, Error> {
    let event = NewEvent::new(P::kind(), body.encode().map_err(|_| Error::bug())?);
    Ok(event.with_meta(about.encode().map_err(|_| Error::bug())?))
}

fn branch() -> Result<BranchId, Error> {
    Ok(BranchId::main(STREAM.parse().map_err(|_| Error::bug())?))
}

/// What is written down about an answer.
fn answered(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> RequestAnswered {
    let headers = KEPT_HEADERS.iter().filter_map(|name| {
        let value = headers.get(*name)?.to_str().ok()?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    let json = std::str::from_utf8(body).ok().and_then(|text| Json::parse(text).ok());
    // Only what stands there byte for byte is written down as it is.
    let json = json.filter(|json| json.as_str().as_bytes() == body);
    let body_base64 = json.is_none().then(|| STANDARD.encode(body));
    RequestAnswered { status: status.as_u16(), headers: headers.collect(), body: json, body_base64 }
}

/// The same answer again, marked as that.
fn again(answered: RequestAnswered) -> Result<Response, Error> {
    let body = match (answered.body, answered.body_base64) {
        (Some(json), _) => Bytes::from(json.as_str().to_owned()),
        (None, Some(text)) => STANDARD.decode(text).map_err(|_| Error::bug())?.into(),
        (None, None) => Bytes::new(),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(answered.status).map_err(|_| Error::bug())?;
    let headers = response.headers_mut();
    for (name, value) in answered.headers {
        let name: HeaderName = name.parse().map_err(|_| Error::bug())?;
        headers.insert(name, value.parse().map_err(|_| Error::bug())?);
    }
    headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}
