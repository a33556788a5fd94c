//! A server that is reached over streamable HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::error::Error;
use crate::stdio::OUTPUT_BYTES_MAX;
use crate::trouble::Trouble;
use crate::whole;

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// How much is read of an answer that may be an old server's first event.
const PROBE_BYTES_MAX: usize = 4096;

/// A client for one connection: follows no redirect, takes no proxy from the environment, and stops reading when the
/// server has said too much.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    /// Bytes that may still come.
    left: Arc<AtomicU64>,
    trouble: Trouble,
}

/// The reason is in [`Trouble`]; `rmcp` needs to know only that there is one.
#[derive(Debug, thiserror::Error)]
#[error("the connection failed")]
pub(crate) struct Failed;

type Answer<T> = Result<T, StreamableHttpError<Failed>>;

impl Http {
    pub(crate) fn new(trouble: Trouble) -> Result<Self, Error> {
        // Refused when there is a provider already, which then is the one to use.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .build()
            .map_err(|error| Error::Unreachable { why: sources(&error) })?;
        Ok(Self { client, left: Arc::new(AtomicU64::new(OUTPUT_BYTES_MAX)), trouble })
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
        let mut greeting = Vec::new();
        let mut body = response.bytes_stream();
        while let Some(Ok(piece)) = body.next().await {
            greeting.extend_from_slice(&piece[..piece.len().min(PROBE_BYTES_MAX)]);
            let text = String::from_utf8_lossy(&greeting);
            if text.contains("\n\n") || text.contains("\r\n\r\n") || greeting.len() >= PROBE_BYTES_MAX {
                return text.lines().any(|line| line.replace(' ', "") == "event:endpoint");
            }
        }
        false
    }

    async fn send(&self, request: RequestBuilder) -> Answer<Response> {
        match request.send().await {
            Ok(response) => Ok(response),
            Err(error) => self.fail(Error::Unreachable { why: sources(&error.without_url()) }),
        }
    }

    fn fail<T>(&self, error: Error) -> Answer<T> {
        self.trouble.keep(error);
        Err(StreamableHttpError::Client(Failed))
    }

    /// The body, piece by piece, until the server has sent too much on this connection.
    fn pieces(&self, response: Response) -> impl Stream<Item = Result<Bytes, Failed>> + Send + use<> {
        let (left, trouble) = (Arc::clone(&self.left), self.trouble.clone());
        response.bytes_stream().map(move |piece| {
            let piece = piece.map_err(|error| {
                trouble.keep(Error::Unreachable { why: sources(&error.without_url()) });
                Failed
            })?;
            let take = |left: u64| left.checked_sub(piece.len() as u64);
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
                trouble.keep(Error::TooMuch { bytes_max: OUTPUT_BYTES_MAX });
                return Err(Failed);
            }
            Ok(piece)
        })
    }

    async fn body(&self, response: Response) -> Answer<String> {
        let mut pieces = std::pin::pin!(self.pieces(response));
        let mut body = Vec::new();
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece.map_err(StreamableHttpError::Client)?);
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The messages of an answer that is a stream.
    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let wrapped = |event: Result<Sse, SseError>| {
            event.map(|mut event| {
                event.data = event.data.map(|data| whole::wrap(&data).into_owned());
                event
            })
        };
        SseStream::from_bytes_stream(self.pieces(response)).map(wrapped).boxed()
    }

    /// What a refusal means. Servers put errors of the protocol into them, too.
    async fn refusal(&self, response: Response, may_be_old: bool) -> Answer<StreamableHttpPostResponse> {
        let status = response.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return self.fail(Error::Credentials { status: status.as_u16() });
        }
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
            return self.fail(Error::Redirected { to: to.chars().take(200).collect() });
        }
        let url = response.url().to_string();
        let body = self.body(response).await?;
        if let Ok(message @ JsonRpcMessage::Error(_)) = serde_json::from_str::<ServerJsonRpcMessage>(&body) {
            return Ok(StreamableHttpPostResponse::Json(message, None));
        }
        if may_be_old && status.is_client_error() && self.is_old(&url).await {
            return self.fail(Error::OldTransport);
        }
        self.fail(Error::Status { status: status.as_u16() })
    }
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
        let begins = session_id.is_none();
        let request = self.client.post(uri.as_ref()).headers(custom_headers.into_iter().collect());
        let request = in_session(request, session_id)
            .header(ACCEPT, format!("{JSON}, {EVENT_STREAM}"))
            .header(CONTENT_TYPE, JSON)
            .body(serde_json::to_vec(&message)?);
        let response = self.send(request).await?;
        if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !response.status().is_success() {
            return self.refusal(response, begins).await;
        }
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is(response.headers(), EVENT_STREAM) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        let body = self.body(response).await?;
        if body.trim().is_empty() && !matches!(message, ClientJsonRpcMessage::Request(_)) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        match serde_json::from_str(&whole::wrap(&body)) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) => {
                let line = body.chars().filter(|character| !character.is_control()).take(120).collect();
                self.fail(Error::Nonsense { line, stderr: String::new() })
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<()> {
        let request = self.client.delete(uri.as_ref()).headers(custom_headers.into_iter().collect());
        // A server need not know how to end a session; it will forget this one.
        let _ = in_session(request, Some(session_id)).send().await;
        Ok(())
    }

    /// Nothing that a server might say unasked is of use here.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
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

/// An error with everything behind it.
fn sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = error.source();
    }
    text
}
