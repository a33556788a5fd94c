//! A server that is reached over streamable HTTP.

mod events;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio_util::sync::CancellationToken;
use weir_support::sse;

use self::events::Origin;
use crate::error::Error;
use crate::headers::Headers;
use crate::inbound::{self, Heard, MESSAGE_BYTES_MAX};
use crate::ledger::{Leaving, Ledger};
use crate::plain::visible;
use crate::stdio::{Extent, OUTPUT_BYTES_MAX};
use crate::trouble::Trouble;

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How much is read of an answer that may be an old server's first event.
const PROBE_BYTES_MAX: usize = 4096;

/// How long a server may take to accept a connection, before anything is sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept. Many servers hang up after five seconds; a request that is sent at that very
/// moment would be lost, and nobody could tell whether it was read.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// How long a server has to forget a session.
const DELETE_TIMEOUT: Duration = Duration::from_millis(800);

/// A client for one connection: follows no redirect, takes no proxy from the environment, repeats nothing, and stops
/// reading when the server has said too much.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    headers: Headers,
    extent: Extent,
    /// Bytes that may still come.
    left: Arc<AtomicU64>,
    ledger: Ledger,
    trouble: Trouble,
    /// Ends the connection.
    broken: CancellationToken,
    common: Arc<Common>,
}

/// The stream on which a server speaks unasked.
#[derive(Debug, Default)]
struct Common {
    was_open: AtomicBool,
    /// The last event on it.
    event: Mutex<Option<String>>,
}

/// The reason is in the ledger or in [`Trouble`]; `rmcp` needs to know only that there is one.
#[derive(Debug, thiserror::Error)]
#[error("the connection failed")]
pub(crate) struct Failed;

type Answer<T> = Result<T, StreamableHttpError<Failed>>;

/// What is asked: whom a failure concerns.
#[derive(Clone, Copy)]
struct Asked {
    /// The request, if it is one that somebody waits for apart from the connection itself.
    request: Option<i64>,
    is_in_session: bool,
}

impl Http {
    pub(crate) fn new(
        headers: Headers,
        extent: Extent,
        ledger: Ledger,
        trouble: Trouble,
        broken: CancellationToken,
    ) -> Result<Self, Error> {
        let client = weir_support::http::client()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE)
            .build()
            .map_err(|error| Error::Unreachable { why: weir_support::causes(&error) })?;
        let left = match extent {
            Extent::Listing => OUTPUT_BYTES_MAX,
            Extent::Running => u64::MAX,
        };
        let left = Arc::new(AtomicU64::new(left));
        Ok(Self { client, headers, extent, left, ledger, trouble, broken, common: Arc::default() })
    }

    /// Whether a server that refused a message speaks the transport of 2024: it greets whoever reads with the address
    /// to write to.
    pub(crate) async fn is_old(&self, url: &str) -> bool {
        let Ok(response) = self.client.get(url).header(ACCEPT, EVENT_STREAM).send().await else {
            return false;
        };
        if !response.status().is_success() || !is(response.headers(), EVENT_STREAM) {
            return false;
        }
        let (mut left, mut events) = (PROBE_BYTES_MAX, VecDeque::new());
        let mut reader = sse::Reader::new(PROBE_BYTES_MAX);
        let mut body = response.bytes_stream();
        while let Some(Ok(piece)) = body.next().await {
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            let pushed = reader.push(piece, &mut events);
            if !events.is_empty() || left == 0 || pushed.is_err() {
                return events.iter().any(|event| event.name.as_deref() == Some("endpoint"));
            }
        }
        false
    }

    async fn send(&self, request: RequestBuilder, asked: Asked) -> Answer<Response> {
        match request.send().await {
            Ok(response) => Ok(response),
            Err(error) => {
                // Nothing has been said before there was somebody to say it to.
                let may_have_happened = !(error.is_connect() || error.is_builder());
                let error = Error::Unreachable { why: weir_support::causes(&error.without_url()) };
                self.fail(asked, error, may_have_happened)
            }
        }
    }

    fn fail<T>(&self, asked: Asked, error: Error, may_have_happened: bool) -> Answer<T> {
        match asked.request {
            Some(id) => self.ledger.fail(id, error, may_have_happened),
            None => self.trouble.keep(error),
        }
        Err(StreamableHttpError::Client(Failed))
    }

    /// The body, piece by piece, until the server has sent too much on this connection.
    fn pieces(&self, response: Response) -> impl Stream<Item = Result<Bytes, Error>> + Send + use<> {
        let left = Arc::clone(&self.left);
        response.bytes_stream().map(move |piece| {
            let piece = piece
                .map_err(|error| Error::Unreachable { why: weir_support::causes(&error.without_url()) })?;
            let take = |left: u64| left.checked_sub(piece.len() as u64);
            match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                Ok(_) => Ok(piece),
                Err(_) => Err(Error::TooMuch { bytes_max: OUTPUT_BYTES_MAX }),
            }
        })
    }

    async fn body(&self, response: Response) -> Result<String, Error> {
        let bytes_max = match self.extent {
            Extent::Listing => usize::MAX,
            Extent::Running => MESSAGE_BYTES_MAX,
        };
        let mut pieces = std::pin::pin!(self.pieces(response));
        let mut body = Vec::new();
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece?);
            if body.len() > bytes_max {
                return Err(Error::TooMuch { bytes_max: bytes_max as u64 });
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// What a refusal means. Servers put errors of the protocol into them, too.
    async fn refusal(&self, response: Response, asked: Asked) -> Answer<StreamableHttpPostResponse> {
        let status = response.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return self.fail(asked, Error::Credentials { status: status.as_u16() }, false);
        }
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
            return self.fail(asked, Error::Redirected { to: to.chars().take(200).collect() }, false);
        }
        if status == StatusCode::NOT_FOUND && asked.is_in_session {
            return self.fail(asked, Error::SessionEnded { status: 404, why: String::new() }, false);
        }
        let url = response.url().to_string();
        let body = match self.body(response).await {
            Ok(body) => body,
            Err(error) => return self.fail(asked, error, may_have_happened(status)),
        };
        let refused = inbound::refused_in(&body);
        if status == StatusCode::BAD_REQUEST && asked.is_in_session && inbound::is_of_the_transport(&body) {
            // What many servers say when they do not know the session any more.
            let why = refused.map(inbound::words).unwrap_or_default();
            return self.fail(asked, Error::SessionEnded { status: 400, why }, false);
        }
        if let (Some(error), Some(id)) = (refused, asked.request) {
            self.ledger.answered(id, None);
            return self.message(asked, &inbound::refusal(id, error), None);
        }
        if let Some(error) = refused {
            return self.fail(asked, Error::Refused { why: inbound::words(error) }, false);
        }
        if !asked.is_in_session && status.is_client_error() && self.is_old(&url).await {
            return self.fail(asked, Error::OldTransport, false);
        }
        self.fail(asked, Error::Status { status: status.as_u16() }, may_have_happened(status))
    }

    /// An answer that is one message.
    async fn single(
        &self,
        response: Response,
        asked: Asked,
        message: &ClientJsonRpcMessage,
        session: Option<String>,
    ) -> Answer<StreamableHttpPostResponse> {
        let body = match self.body(response).await {
            Ok(body) => body,
            Err(error) => return self.fail(asked, error, true),
        };
        let JsonRpcMessage::Request(request) = message else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let is_its_own = inbound::answers(&body) == crate::ledger::number(&request.id);
        match inbound::hear(&body, &self.ledger) {
            Heard::Answer(answer) if is_its_own => self.message(asked, &answer, session),
            _ => self.fail(asked, nonsense(&body), true),
        }
    }

    fn message(
        &self,
        asked: Asked,
        message: &str,
        session: Option<String>,
    ) -> Answer<StreamableHttpPostResponse> {
        match serde_json::from_str(message) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) => self.fail(asked, nonsense(message), true),
        }
    }
}

/// Whether a server that answers with this status may have done what it was asked.
fn may_have_happened(status: StatusCode) -> bool {
    // A request that was late, or met another one, may have met it half done.
    !status.is_client_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT)
}

fn nonsense(body: &str) -> Error {
    Error::Nonsense { line: visible(body.chars().take(120)), stderr: String::new() }
}

impl StreamableHttpClient for Http {
    type Error = Failed;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<StreamableHttpPostResponse> {
        let leaving = self.ledger.leaves(&message);
        let is_introduction = matches!(
            &message,
            JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::InitializeRequest(_))
        );
        let (request, _replied) = match leaving {
            Leaving::Withdrawn => return Err(StreamableHttpError::Client(Failed)),
            Leaving::Request(id) => (Some(id).filter(|_| !is_introduction), None),
            Leaving::Reply(replied) => (None, Some(replied)),
            Leaving::Notification => (None, None),
        };
        let asked = Asked { request, is_in_session: session_id.is_some() };
        let post = self.client.post(uri.as_ref()).headers(self.headers.to_map());
        let post = in_session(post.headers(custom_headers.into_iter().collect()), session_id)
            .header(ACCEPT, format!("{JSON}, {EVENT_STREAM}"))
            .header(CONTENT_TYPE, JSON)
            .body(crate::verbatim::encode(&message)?);
        let response = self.send(post, asked).await?;
        if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !response.status().is_success() {
            return self.refusal(response, asked).await;
        }
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is(response.headers(), EVENT_STREAM) {
            let origin = asked.request.map_or(Origin::Introduction, Origin::Request);
            return Ok(StreamableHttpPostResponse::Sse(self.events(response, origin), session));
        }
        self.single(response, asked, &message, session).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<()> {
        let request = self.client.delete(uri.as_ref()).headers(self.headers.to_map());
        let request = request.headers(custom_headers.into_iter().collect()).timeout(DELETE_TIMEOUT);
        // A server need not know how to end a session; it will forget this one.
        let _ = in_session(request, Some(session_id)).send().await;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        // `rmcp` asks no more after this error.
        let never = Err(StreamableHttpError::ServerDoesNotSupportSse);
        let Some(origin) = self.origin(last_event_id.as_deref()) else { return never };
        let get = self.client.get(uri.as_ref()).headers(self.headers.to_map());
        let get = in_session(get.headers(custom_headers.into_iter().collect()), session_id);
        let get = last_event_id.iter().fold(get, |get, event| get.header(LAST_EVENT, event));
        let Ok(response) = get.header(ACCEPT, EVENT_STREAM).send().await else {
            return Err(StreamableHttpError::Client(Failed));
        };
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(StreamableHttpError::Client(Failed));
        }
        if !status.is_success() || !is(response.headers(), EVENT_STREAM) {
            return never;
        }
        if matches!(origin, Origin::Common) && self.common.was_open.swap(true, Ordering::Relaxed) {
            // Nobody knows what the server said while it was closed.
            self.ledger.tools_changed();
        }
        Ok(self.events(response, origin))
    }
}

impl Http {
    /// What a stream is for that is opened after this event; `None` when nobody waits for it.
    fn origin(&self, last_event: Option<&str>) -> Option<Origin> {
        let common = || self.common.event.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match last_event {
            // Nothing that a server might say unasked is of use while its tools are listed.
            None if self.extent == Extent::Listing => None,
            None => Some(Origin::Common),
            Some(event) if common().as_deref() == Some(event) => Some(Origin::Common),
            Some(event) => self.ledger.resumed(event).map(Origin::Request),
        }
    }
}

fn in_session(request: RequestBuilder, session: Option<Arc<str>>) -> RequestBuilder {
    match session {
        Some(session) => request.header(SESSION, session.as_ref()),
        None => request,
    }
}

fn is(headers: &HeaderMap, media_type: &str) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(media_type.as_bytes()))
}
