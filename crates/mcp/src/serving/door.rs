//! One endpoint: the protocol over HTTP, and its sessions.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::handler::server::ServerHandler;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::fixtures::Fixtures;
use super::offer::Offer;
use super::sessions::{Owner, Owners, Place, Theirs};
use super::speak::Speaker;

/// What a client is answered.
pub type Reply = Response<BoxBody<Bytes, Infallible>>;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// What [`Lifecycle::Sessions`] speaks.
const WITH_SESSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// What [`Lifecycle::Single`] speaks: from 2026-07-28 on the protocol takes −32002 for itself, which here means something else.
const SINGLE: &[ProtocolVersion] = &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25];

/// Whether clients have sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// They have, as their version of the protocol says: streams, progress, and cancelling.
    Sessions,
    /// Each request stands for itself, and is answered with JSON.
    Single,
}

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether clients have sessions.
    pub lifecycle: Lifecycle,
    /// The hosts that requests may name; with a port, only that. None: whoever is in front of the door has looked.
    pub hosts: Vec<String>,
    /// The longest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// How often a stream that has nothing to say says so.
    pub keep_alive: Duration,
    /// How long a session that nobody uses is kept.
    pub idle: Duration,
}

/// An endpoint.
pub struct Door {
    rules: Rules,
    sessions: Arc<LocalSessionManager>,
    owners: Arc<Owners>,
    closing: CancellationToken,
}

impl Door {
    /// An endpoint. `closing` is cancelled when its server goes.
    pub fn new(rules: Rules, closing: CancellationToken) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(rules.idle);
        Self { rules, sessions: Arc::new(sessions), owners: Arc::default(), closing }
    }

    /// Answers a request. A session that another owner has begun is none.
    pub async fn enter<B>(&self, request: Request<B>, owner: &Owner, offer: Arc<dyn Offer>) -> Reply
    where
        B: http_body_util::BodyExt<Error: Display> + Send + 'static,
    {
        let versions = match self.rules.lifecycle {
            Lifecycle::Sessions => WITH_SESSIONS,
            Lifecycle::Single => SINGLE,
        };
        if let Some(refused) = version_refused(&request, versions) {
            return refused;
        }
        self.handle(request, owner, Speaker::new(offer, versions, self.closing.clone())).await
    }

    /// Answers a request of the conformance suite.
    pub async fn enter_fixtures<B>(&self, request: Request<B>, owner: &Owner, fixtures: &Fixtures) -> Reply
    where
        B: http_body_util::BodyExt<Error: Display> + Send + 'static,
    {
        self.handle(request, owner, fixtures.clone()).await
    }

    async fn handle<B, S>(&self, request: Request<B>, owner: &Owner, speaker: S) -> Reply
    where
        B: http_body_util::BodyExt<Error: Display> + Send + 'static,
        S: ServerHandler + Clone + Sync,
    {
        let session =
            request.headers().get(SESSION).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        let _place = match &session {
            Some(session) if !self.owners.is_of(session, owner) => return ended(),
            None if self.has_sessions() && begins_a_session(&request) => match self.place(owner).await {
                Some(place) => Some(place),
                None => return full(),
            },
            _ => None,
        };
        let (sessions, owners) = (Arc::clone(&self.sessions), Arc::clone(&self.owners));
        let theirs = Arc::new(Theirs { sessions, owners, owner: owner.clone() });
        let config = self.config(request.method());
        StreamableHttpService::new(move || Ok(speaker.clone()), theirs, config).handle(request).await
    }

    fn has_sessions(&self) -> bool {
        self.rules.lifecycle == Lifecycle::Sessions
    }

    fn config(&self, method: &Method) -> StreamableHttpServerConfig {
        let single = !self.has_sessions();
        // What is only listened to ends with the server; what was asked for may come to its end.
        let ends = if method == Method::GET { self.closing.clone() } else { CancellationToken::new() };
        StreamableHttpServerConfig::default()
            .with_allowed_hosts(self.rules.hosts.iter().cloned())
            .with_legacy_session_mode(!single)
            .with_json_response(single)
            .with_sse_keep_alive(Some(self.rules.keep_alive))
            .with_max_request_body_bytes(self.rules.body_bytes_max)
            .with_cancellation_token(ends)
    }

    /// A place for a session that is about to begin, if there is one.
    async fn place(&self, owner: &Owner) -> Option<Place> {
        let living = self.sessions.sessions.read().await;
        self.owners.place(&owner.who, |session| living.contains_key(session))
    }
}

/// Whether a request without a session may begin one.
fn begins_a_session<B>(request: &Request<B>) -> bool {
    let version = request.headers().get(VERSION).and_then(|version| version.to_str().ok());
    let is_later = version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str());
    request.method() == Method::POST && !is_later
}

/// A version of before our time, in the header that names the one agreed on. Of those after it the protocol speaks itself.
fn version_refused<B>(request: &Request<B>, versions: &[ProtocolVersion]) -> Option<Reply> {
    let said = request.headers().get(VERSION)?;
    let is_known =
        ProtocolVersion::KNOWN_VERSIONS.iter().any(|version| version.as_str().as_bytes() == said.as_bytes());
    let oldest = versions.first()?.as_str();
    if !is_known || said.as_bytes() >= oldest.as_bytes() {
        return None;
    }
    let words =
        format!("this version of the protocol is too old to be spoken here; {oldest} is the oldest that is");
    Some(plain(StatusCode::BAD_REQUEST, words))
}

/// As the protocol wants it: then a client begins another session.
fn ended() -> Reply {
    plain(StatusCode::NOT_FOUND, "there is no such session; initialize another")
}

fn full() -> Reply {
    let mut reply =
        plain(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions at the moment; come back later");
    reply.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("30"));
    reply
}

fn plain(status: StatusCode, words: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(words.into()).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}
