//! A stream of events, bounded and looked at on its way to `rmcp`.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use reqwest::Response;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use weir_support::sse;

use super::Http;
use crate::error::Error;
use crate::inbound::{self, Heard, MESSAGE_BYTES_MAX, Meter, UNASKED_BYTES_MAX};
use crate::stdio::Extent;

/// Most bytes of an event's id, which is sent back to resume a stream.
const EVENT_ID_BYTES_MAX: usize = 1024;

/// A server says how long to wait before a stream is resumed. It may not make us hammer it, nor wait for ever.
const RETRY: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);

/// What a stream was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The server's introduction, or something that has no answer.
    Introduction,
    /// The answer to this request.
    Request(i64),
    /// Whatever the server wants to say.
    Common,
}

impl Http {
    /// The messages of an answer that is a stream. It ends when it breaks: `rmcp` then resumes it as if it had been
    /// closed, after the time the server asked for, instead of at once.
    pub(super) fn events(
        &self,
        response: Response,
        origin: Origin,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let event_bytes_max = match self.extent {
            Extent::Listing => usize::MAX,
            Extent::Running => MESSAGE_BYTES_MAX,
        };
        let listener = Listener {
            http: self.clone(),
            origin,
            pieces: self.pieces(response).boxed(),
            reader: sse::Reader::new(event_bytes_max),
            ready: VecDeque::new(),
            broken: None,
            meter: Meter::default(),
            is_over: false,
        };
        futures_util::stream::unfold(listener, |mut listener| async move {
            Some((Ok(listener.next().await?), listener))
        })
        .boxed()
    }
}

/// Reads the events of one stream.
struct Listener {
    http: Http,
    origin: Origin,
    pieces: BoxStream<'static, Result<Bytes, Error>>,
    reader: sse::Reader,
    /// Events that were read and not looked at yet.
    ready: VecDeque<sse::Event>,
    /// Why no event follows those.
    broken: Option<Error>,
    meter: Meter,
    is_over: bool,
}

impl Listener {
    /// The next event as `rmcp` is to see it; `None` ends the stream.
    async fn next(&mut self) -> Option<Sse> {
        while !self.is_over {
            if let Some(event) = self.ready.pop_front() {
                return Some(self.hear(event));
            }
            if let Some(error) = self.broken.take() {
                return self.broke(error);
            }
            let piece = self.pieces.next().await?;
            self.broken = piece.and_then(|bytes| self.read(&bytes)).err();
        }
        None
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !self.meter.add(bytes.len()) {
            return Err(Error::TooMuch { bytes_max: UNASKED_BYTES_MAX });
        }
        self.reader.push(bytes, &mut self.ready).map_err(|error| match error {
            sse::Error::TooLong(bytes_max) => Error::TooMuch { bytes_max: bytes_max as u64 },
            sse::Error::NotText => Error::Unreachable { why: error.to_string() },
        })
    }

    fn hear(&mut self, event: sse::Event) -> Sse {
        let retry = event.retry.map(|time| time.clamp(*RETRY.start(), *RETRY.end()));
        let id = event.id.filter(|id| id.len() <= EVENT_ID_BYTES_MAX);
        if let Some(id) = &id {
            self.resumable(id);
        }
        let is_message = matches!(event.name.as_deref(), None | Some("" | "message"));
        let data = event.data.filter(|data| is_message && !data.trim().is_empty());
        let heard = match data.as_deref().map(|data| inbound::hear(data, &self.http.ledger)) {
            Some(Heard::Answer(answer)) => {
                let bytes = data.as_ref().map_or(0, String::len);
                self.meter.refund(bytes);
                Some(answer.into_owned())
            }
            Some(Heard::Request(request)) => Some(request),
            Some(Heard::Unasked | Heard::Nonsense) | None => None,
        };
        let retry = retry.map(|time| time.as_millis() as u64);
        Sse { event: event.name, data: heard, id, retry }
    }

    fn resumable(&self, event: &str) {
        match self.origin {
            Origin::Introduction => {}
            Origin::Request(id) => self.http.ledger.resumable(id, event),
            Origin::Common => {
                let mut last = self.http.common.event.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some(event.to_owned());
            }
        }
    }

    fn broke(&mut self, error: Error) -> Option<Sse> {
        match (&error, self.origin) {
            (Error::TooMuch { .. }, _) => self.fail(error),
            // It may be resumed, and then the answer counts.
            (_, Origin::Request(id)) => {
                self.http.ledger.fail(id, error, true);
                None
            }
            (_, Origin::Introduction) => {
                self.http.trouble.keep(error);
                None
            }
            (_, Origin::Common) => None,
        }
    }

    /// The stream is given up. A request fails alone; a server that floods where nobody asked loses its connection.
    fn fail(&mut self, error: Error) -> Option<Sse> {
        self.is_over = true;
        match self.origin {
            Origin::Request(id) => {
                self.http.ledger.fail(id, error, true);
                Some(Sse { event: None, data: Some(inbound::failed(id)), id: None, retry: None })
            }
            Origin::Introduction | Origin::Common => {
                self.http.trouble.keep(error);
                self.http.broken.cancel();
                None
            }
        }
    }
}
