//! A stream of events, bounded and looked at on its way to `rmcp`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use reqwest::Response;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::Http;
use crate::error::Error;
use crate::inbound::{self, Heard, MESSAGE_BYTES_MAX, Meter, UNASKED_BYTES_MAX};
use crate::stdio::Extent;

/// Most bytes of an event's id, which is sent back to resume a stream.
const EVENT_ID_BYTES_MAX: usize = 1024;

/// A server says how long to wait before a stream is resumed. It may not make us hammer it, nor wait for ever.
const RETRY_MILLISECONDS: std::ops::RangeInclusive<u64> = 100..=30_000;

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
        let meter = Arc::new(Mutex::new(Meter::default()));
        let pieces = Bounded {
            pieces: self.pieces(response).boxed(),
            event: Event::default(),
            event_bytes_max,
            meter: Arc::clone(&meter),
        };
        let listener = Listener { http: self.clone(), origin, meter, is_over: false };
        let events = SseStream::from_bytes_stream(pieces);
        futures_util::stream::unfold((listener, events), |(mut listener, mut events)| async move {
            if listener.is_over {
                return None;
            }
            let event = match events.next().await? {
                Ok(event) => listener.hear(event),
                Err(error) => listener.broke(error),
            }?;
            Some((Ok(event), (listener, events)))
        })
        .boxed()
    }
}

/// Looks at the events of one stream.
struct Listener {
    http: Http,
    origin: Origin,
    meter: Arc<Mutex<Meter>>,
    is_over: bool,
}

impl Listener {
    /// The event as `rmcp` is to see it; `None` ends the stream.
    fn hear(&mut self, mut event: Sse) -> Option<Sse> {
        event.retry =
            event.retry.map(|time| time.clamp(*RETRY_MILLISECONDS.start(), *RETRY_MILLISECONDS.end()));
        event.id = event.id.filter(|id| id.len() <= EVENT_ID_BYTES_MAX);
        if let Some(id) = &event.id {
            self.resumable(id);
        }
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        let data = event.data.take().filter(|data| is_message && !data.trim().is_empty());
        event.data = match data.as_deref().map(|data| inbound::hear(data, &self.http.ledger)) {
            Some(Heard::Answer(answer)) => {
                let bytes = data.as_ref().map_or(0, String::len);
                self.meter.lock().unwrap_or_else(PoisonError::into_inner).refund(bytes);
                Some(answer.into_owned())
            }
            Some(Heard::Request(request)) => Some(request),
            Some(Heard::Unasked | Heard::Nonsense) | None => None,
        };
        Some(event)
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

    fn broke(&mut self, error: SseError) -> Option<Sse> {
        let error = match error {
            SseError::Body(error) => match error.downcast::<Error>() {
                Ok(error) => *error,
                Err(other) => Error::Unreachable { why: other.to_string() },
            },
            other => Error::Unreachable { why: other.to_string() },
        };
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

/// The bytes of a stream, until one event is too long, or there is too much that nobody asked for.
struct Bounded {
    pieces: BoxStream<'static, Result<Bytes, Error>>,
    event: Event,
    event_bytes_max: usize,
    meter: Arc<Mutex<Meter>>,
}

impl Stream for Bounded {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = ready!(self.pieces.poll_next_unpin(context));
        let Some(Ok(bytes)) = &piece else { return Poll::Ready(piece) };
        self.event.read(bytes);
        let is_within = self.meter.lock().unwrap_or_else(PoisonError::into_inner).add(bytes.len());
        let bytes_max = self.event_bytes_max;
        Poll::Ready(if self.event.bytes > bytes_max {
            Some(Err(Error::TooMuch { bytes_max: bytes_max as u64 }))
        } else if !is_within {
            Some(Err(Error::TooMuch { bytes_max: UNASKED_BYTES_MAX }))
        } else {
            piece
        })
    }
}

/// How long the event is that has not ended yet. An event ends with an empty line.
#[derive(Debug, Default)]
struct Event {
    bytes: usize,
    is_at_line_start: bool,
}

impl Event {
    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' if self.is_at_line_start => self.bytes = 0,
                b'\n' => self.is_at_line_start = true,
                // Lines may end with either or both.
                b'\r' => {}
                _ => {
                    self.is_at_line_start = false;
                    self.bytes += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_an_empty_line() {
        for (text, left) in [
            ("data: a\n\n", 0),
            ("data: a\r\n\r\n", 0),
            ("data: a\ndata: b\n", 14),
            (": alive\n\n: alive\n\ndata", 4),
            ("data: a\n\n\n\nid: 1", 5),
        ] {
            let mut event = Event::default();
            event.read(text.as_bytes());
            assert_eq!(event.bytes, left, "{text:?}");
        }
    }
}
