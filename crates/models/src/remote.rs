//! A model over HTTP: one request, one stream of events, one answer. What the bytes mean is the wire's business.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, Url};
use weir_support::sse;
use weir_types::{Answer, FailureClass, Request, Secret, Usage, Wire};

use crate::error::printable;
use crate::failure;
use crate::http::Limits;
use crate::{Delta, Model, ModelError, Piece};

/// How long a finished answer waits for the end of its body, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(50);

/// A provider's language.
pub(crate) trait Dialect: Send + Sync + 'static {
    fn wire(&self) -> Wire;

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError>;

    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Understands the events of one answer.
pub(crate) trait Decoder: Send {
    /// Takes an event and appends what it adds to the answer.
    fn event(&mut self, name: Option<&str>, data: &str, deltas: &mut Vec<Delta>) -> Result<Step, ModelError>;

    /// Whether the answer is whole although its body ended here without an end event.
    fn is_whole(&self, end: BodyEnd) -> bool;

    /// What was used, as far as the server has said.
    fn usage(&self) -> Option<Usage>;

    /// The answer, once it is whole. Its usage is filled in by the caller.
    fn answer(&mut self) -> Result<Answer, ModelError>;
}

/// What comes after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// This was the end event.
    End,
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// As HTTP says a body ends.
    Proper,
    /// The connection broke.
    Broken,
}

/// Where and how to ask.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) client: reqwest::Client,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) key: Option<Secret>,
    pub(crate) limits: Limits,
}

/// A model that is reached over a [`Line`] in a [`Dialect`].
pub(crate) struct Remote<D> {
    pub(crate) dialect: D,
    pub(crate) line: Line,
}

impl<D: Dialect> Model for Remote<D> {
    fn wire(&self) -> Wire {
        self.dialect.wire()
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        self.dialect.encode(request)
    }

    fn stream(&self, body: Bytes, _attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>> {
        let line = self.line.clone();
        let decoder = self.dialect.decoder();
        let opened = async move {
            let sent_bytes = body.len();
            let response = line.open(body).await;
            match response {
                Ok(response) => Ok(Reading::new(line, response, decoder, sent_bytes)),
                Err(error) => Err(line.masked(error)),
            }
        };
        let pieces = stream::once(opened).flat_map(|opened| match opened {
            Ok(reading) => stream::unfold(reading, |mut reading| async move {
                let piece = reading.next().await?;
                Some((piece, reading))
            })
            .left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        });
        pieces.boxed()
    }
}

impl Line {
    /// Asks, and returns the answer if it is a stream of events.
    async fn open(&self, body: Bytes) -> Result<Response, ModelError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = match tokio::time::timeout(self.limits.idle, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let why = weir_support::causes(&error.without_url());
                let message = format!("no answer from `{}`: {why}", self.host());
                return Err(ModelError::new(FailureClass::Transport, message));
            }
            Err(_) => return Err(self.silent()),
        };
        let status = response.status();
        if status.is_redirection() {
            let message = format!(
                "`{}` answers {} with a redirect, which is not followed: a key goes to one place only",
                self.host(),
                status.as_u16()
            );
            return Err(ModelError::invalid(message));
        }
        let content_type = media_type(&response);
        let is_stream =
            content_type.is_none_or(|kind| !matches!(kind.as_str(), "application/json" | "text/html"));
        if status.is_success() && is_stream {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = self.error_body(response).await?;
        Err(failure::of_response(status.as_u16(), &headers, &String::from_utf8_lossy(&body)))
    }

    /// As much of an error as is worth reading.
    async fn error_body(&self, mut response: Response) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        while body.len() < self.limits.error_bytes_max {
            match tokio::time::timeout(self.limits.idle, response.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                // What there is of a broken error still says more than that it broke.
                Ok(Ok(None) | Err(_)) => break,
                Err(_) => return Err(self.silent()),
            }
        }
        body.truncate(self.limits.error_bytes_max);
        Ok(body)
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    fn silent(&self) -> ModelError {
        let message = format!("`{}` has said nothing for {:?}", self.host(), self.limits.idle);
        ModelError::new(FailureClass::Transport, message)
    }

    /// The error as it may be shown: without the key, whatever the server echoed, and only then cut to size.
    fn masked(&self, error: ModelError) -> ModelError {
        let message = match &self.key {
            Some(key) => key.masked_in(error.message),
            None => error.message,
        };
        ModelError { message: printable(&message), ..error }
    }
}

fn media_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or(value);
    Some(kind.trim().to_ascii_lowercase())
}

/// An answer that is on its way.
struct Reading {
    line: Line,
    response: Response,
    decoder: Box<dyn Decoder>,
    reader: sse::Reader,
    ready: VecDeque<Result<Piece, ModelError>>,
    over: bool,
    sent_bytes: usize,
    received_bytes: usize,
    /// Characters of all deltas.
    said_chars: usize,
}

impl Reading {
    fn new(line: Line, response: Response, decoder: Box<dyn Decoder>, sent_bytes: usize) -> Self {
        let reader = sse::Reader::new(line.limits.frame_bytes_max);
        let ready = VecDeque::new();
        Self {
            line,
            response,
            decoder,
            reader,
            ready,
            over: false,
            sent_bytes,
            received_bytes: 0,
            said_chars: 0,
        }
    }

    async fn next(&mut self) -> Option<Result<Piece, ModelError>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if self.over {
                return None;
            }
            let read = tokio::time::timeout(self.line.limits.idle, self.response.chunk()).await;
            let step = match read {
                Ok(Ok(Some(bytes))) => self.take(&bytes),
                Ok(Ok(None)) => self.body_ended(BodyEnd::Proper),
                Ok(Err(_)) => self.body_ended(BodyEnd::Broken),
                Err(_) => Err(self.line.silent()),
            };
            match step {
                Ok(Step::More) => {}
                Ok(Step::End) => self.finish().await,
                Err(error) => self.fail(error),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Step, ModelError> {
        self.received_bytes += bytes.len();
        if self.received_bytes > self.line.limits.answer_bytes_max {
            let max = self.line.limits.answer_bytes_max;
            return Err(ModelError::invalid(format!("the answer is longer than {max} bytes")));
        }
        let mut events = VecDeque::new();
        let pushed = self.reader.push(bytes, &mut events);
        for event in events {
            if self.understand(&event)? == Step::End {
                return Ok(Step::End);
            }
        }
        pushed.map(|()| Step::More).map_err(|error| unreadable(&error))
    }

    fn understand(&mut self, event: &sse::Event) -> Result<Step, ModelError> {
        let Some(data) = &event.data else { return Ok(Step::More) };
        let mut deltas = Vec::new();
        let step = self.decoder.event(event.name.as_deref(), data, &mut deltas);
        for delta in deltas.into_iter().filter(|delta| !delta.text.is_empty()) {
            self.said_chars += delta.text.chars().count();
            self.ready.push_back(Ok(Piece::Delta(delta)));
        }
        step
    }

    fn body_ended(&mut self, end: BodyEnd) -> Result<Step, ModelError> {
        let last = match end {
            BodyEnd::Proper => self.reader.finish().map_err(|error| unreadable(&error))?,
            BodyEnd::Broken => None,
        };
        if let Some(event) = last
            && self.understand(&event)? == Step::End
        {
            return Ok(Step::End);
        }
        if self.decoder.is_whole(end) {
            return Ok(Step::End);
        }
        let message = format!("the answer from `{}` broke off", self.line.host());
        Err(ModelError::new(FailureClass::Truncated, message))
    }

    async fn finish(&mut self) {
        // A body that was read to its end leaves a connection that can be used again; one that was not closes it.
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        let _ = tokio::time::timeout(DRAIN, rest).await;
        match self.decoder.answer() {
            Ok(answer) => {
                let usage = self.decoder.usage().unwrap_or_else(|| self.estimate());
                self.ready.push_back(Ok(Piece::Done(Box::new(Answer { usage, ..answer }))));
                self.over = true;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Four characters a token, for a server that does not count.
    fn estimate(&self) -> Usage {
        let tokens = |chars: usize| u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX);
        let (input_tokens, output_tokens) = (tokens(self.sent_bytes), tokens(self.said_chars));
        Usage { input_tokens, output_tokens, ..Usage::default() }
    }

    fn fail(&mut self, error: ModelError) {
        let usage = error.usage.or_else(|| self.decoder.usage());
        self.ready.push_back(Err(self.line.masked(ModelError { usage, ..error })));
        self.over = true;
    }
}

fn unreadable(error: &sse::Error) -> ModelError {
    ModelError::invalid(format!("the answer cannot be read: {error}"))
}
