//! `Idempotency-Key`: a POST that is repeated is not done again.
//!
//! A request with a key is written down before it is handled, in the stream `engine:requests`, under a name made of who asks,
//! what for and the key; and so is its answer, if it is one that something was done for. Whoever repeats it gets that answer,
//! from this process or the next one. If the first one was cut off before it was answered, what it had led to by then is found by
//! the event of the request: handlers are told, and go on from there instead of doing it again.
//!
//! Limits: answers that are streams, 202s and errors are not kept (a request that failed may be repeated); the body must fit
//! into the limit of bodies; two servers that share a data directory and get the same request at the same moment may both do
//! it. Keys are kept for as long as the journal.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;
use weir_engine::{Address, Engine};
use weir_journal::{AppendError, Key, NewEvent, PAGE_MAX, Part};
use weir_kernel::About;
use weir_types::{BranchId, Event, EventId, Hash, Hasher, Json, Position, Seq};

use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::extract::whole;

/// Where requests and their answers are written down.
const STREAM: &str = "engine:requests";

const RECEIVED: &str = "request.received";
const ANSWERED: &str = "request.answered";

/// The longest answer that is kept.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// More than this is hashed away from the threads that must not wait.
const HASHED_HERE_MAX: usize = 64 * 1024;

/// Headers of an answer that are part of it.
const KEPT_HEADERS: [&str; 4] = ["content-type", "location", "x-weir-session", "x-weir-run"];

/// The requests with a key that are being handled.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    under_way: Arc<Mutex<HashSet<Hash>>>,
    /// They go on to their end when their client has left.
    tasks: TaskTracker,
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

/// What handlers are told about the key of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimed(Option<Claim>);

impl<S: Send + Sync> FromRequestParts<S> for Claimed {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Claim>().cloned()))
    }
}

impl Claimed {
    /// The engine, through which what is done can be found by the request.
    pub(crate) fn engine(&self, app: &App) -> Engine {
        self.0.as_ref().map_or_else(|| app.engine.clone(), |claim| app.engine.because(claim.event))
    }

    /// The session and the event that the same request has led to before, when it was cut off.
    pub(crate) fn earlier(&self) -> Option<(Address, Seq)> {
        let last = self.0.as_ref()?.led_to.last()?;
        Some((Address::of(&last.branch_id())?, last.seq))
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
#[derive(Serialize, Deserialize)]
struct Received {
    route: String,
    body: Hash,
}

/// What is written down about its answer.
#[derive(Serialize, Deserialize)]
struct Answered {
    status: u16,
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// Passes requests on; those with a key at most once.
pub(crate) async fn once(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_keyed = request.method() == Method::POST && request.headers().contains_key("idempotency-key");
    // Nobody says who they are there; its calls have keys of their own, of which the engine keeps track.
    if !is_keyed || request.uri().path().starts_with("/bridge/") {
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
    let name = name(&caller, &route, &key);
    let under_way = UnderWay::enter(&app, name)?;
    let received = Received { route, body: hash(&body).await };
    let claim = match claim(&app, &caller, name, &received).await? {
        Found::Answer(answer) => return answer.again(),
        Found::Claim(claim) => claim,
    };
    parts.extensions.insert(claim.clone());
    let request = Request::from_parts(parts, Body::from(body));
    let keeper = app.clone();
    let task = app.requests.tasks.spawn(async move {
        let response = next.run(request).await;
        let response = keep(&keeper, &caller, &claim, response).await;
        drop(under_way);
        response
    });
    task.await.map_err(|_| {
        Error::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server::bug",
            "something went wrong inside the server",
            "the server's log says what",
        )
    })
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
fn name(caller: &Caller, route: &str, key: &Key) -> Hash {
    let mut hasher = Hasher::default();
    for part in [caller.principal.as_str(), route, key.as_str()] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finish()
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
struct UnderWay {
    all: Arc<Mutex<HashSet<Hash>>>,
    name: Hash,
}

impl UnderWay {
    fn enter(app: &App, name: Hash) -> Result<Self, Error> {
        let all = Arc::clone(&app.requests.under_way);
        if !all.lock().unwrap_or_else(PoisonError::into_inner).insert(name) {
            return Err(Error::new(
                StatusCode::CONFLICT,
                "server::under-way",
                "a request with this `Idempotency-Key` is still being handled",
                "repeat it later to get its answer",
            ));
        }
        Ok(Self { all, name })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

enum Found {
    Answer(Answered),
    Claim(Claim),
}

/// Writes down that a request arrived, or finds what came of it when it did before.
async fn claim(app: &App, caller: &Caller, name: Hash, received: &Received) -> Result<Found, Error> {
    let about = About { actor: Some(caller.principal.clone()), ..About::default() };
    let event = event(RECEIVED, received, &about)?;
    let (id, branch) = (event.id(), branch()?);
    let key = name.to_string().parse().map_err(|_| bug())?;
    let part = Part { key: Some(key), ..Part::new(branch.clone(), vec![event]) };
    let appended = match app.journal.append(vec![part]).await {
        Err(AppendError::KeyReused { .. }) => {
            return Err(Error::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "server::key-reused",
                "this `Idempotency-Key` was used for another request",
                "use a new key for a new request",
            ));
        }
        appended => appended?,
    };
    let Some(appended) = appended.first().filter(|appended| appended.replayed) else {
        return Ok(Found::Claim(Claim { event: id, name, is_repeated: false, led_to: Arc::default() }));
    };
    let first = app.journal.read(&branch, Seq(appended.first.0.saturating_sub(1)), 1).await?;
    let id = first.first().map(|event| event.id).ok_or_else(bug)?;
    let mut led_to = app.journal.children(id, Position(0), PAGE_MAX).await?;
    if let Some(answer) = led_to.iter().find(|event| event.kind.as_str() == ANSWERED) {
        return Ok(Found::Answer(serde_json::from_slice(&answer.payload).map_err(|_| bug())?));
    }
    led_to.retain(|event| event.stream != branch.stream);
    Ok(Found::Claim(Claim { event: id, name, is_repeated: true, led_to: led_to.into() }))
}

/// Writes an answer down, if something was done for it, and passes it on.
async fn keep(app: &App, caller: &Caller, claim: &Claim, response: Response) -> Response {
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    if !response.status().is_success() || response.status() == StatusCode::ACCEPTED || is_stream {
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = match axum::body::to_bytes(body, ANSWER_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => {
            tracing::error!(%error, "an answer cannot be kept");
            return bug().into_response();
        }
    };
    let answered = Answered::of(parts.status, &parts.headers, &body);
    if let Err(error) = write(app, caller, claim, &answered).await {
        tracing::warn!(code = %error.code, "an answer was not kept");
    }
    Response::from_parts(parts, Body::from(body))
}

async fn write(app: &App, caller: &Caller, claim: &Claim, answered: &Answered) -> Result<(), Error> {
    let about =
        About { actor: Some(caller.principal.clone()), causation: Some(claim.event), ..About::default() };
    app.journal.append(vec![Part::new(branch()?, vec![event(ANSWERED, answered, &about)?])]).await?;
    Ok(())
}

fn event(kind: &str, body: &impl Serialize, about: &About) -> Result<NewEvent, Error> {
    let payload = serde_json::to_vec(body).map_err(|_| bug())?;
    let event = NewEvent::new(kind.parse().map_err(|_| bug())?, payload);
    Ok(event.with_meta(about.encode().map_err(|_| bug())?))
}

fn branch() -> Result<BranchId, Error> {
    Ok(BranchId::main(STREAM.parse().map_err(|_| bug())?))
}

fn bug() -> Error {
    Error::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "server::bug",
        "something went wrong inside the server",
        "the server's log says what",
    )
}

impl Answered {
    fn of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let headers = KEPT_HEADERS.iter().filter_map(|name| {
            let value = headers.get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        let json = std::str::from_utf8(body).ok().and_then(|text| Json::parse(text).ok());
        // Only what stands there byte for byte is written down as it is.
        let json = json.filter(|json| json.as_str().as_bytes() == body);
        let body_base64 = json.is_none().then(|| STANDARD.encode(body));
        Self { status: status.as_u16(), headers: headers.collect(), body: json, body_base64 }
    }

    /// The same answer again, marked as that.
    fn again(self) -> Result<Response, Error> {
        let body = match (self.body, self.body_base64) {
            (Some(json), _) => Bytes::from(json.as_str().to_owned()),
            (None, Some(text)) => STANDARD.decode(text).map_err(|_| bug())?.into(),
            (None, None) => Bytes::new(),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).map_err(|_| bug())?;
        let headers = response.headers_mut();
        for (name, value) in self.headers {
            let name: HeaderName = name.parse().map_err(|_| bug())?;
            headers.insert(name, value.parse().map_err(|_| bug())?);
        }
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
        Ok(response)
    }
}
