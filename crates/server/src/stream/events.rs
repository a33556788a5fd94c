//! The events of a plain stream as frames: those that there are, and then whatever is appended.
//!
//! An event is one frame, whose id names its place: a client that comes back is sent what follows it. Nothing is kept for a reader but what
//! it has not taken of one page, or of what was published while it read.

use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, StreamExt};
use weir_journal::{ReadError, Tail};
use weir_types::{BranchId, Event, Kind, Seq};

use super::frame::{Chunk, Frame, FrameId};
use super::respond::{AtStop, Outgoing, body, last_event_id, no_such_frame, sse_headers};
use crate::app::App;
use crate::error::Error;

/// What is followed, and how it is shown.
pub(crate) struct Followed {
    /// Where.
    pub(crate) branch: BranchId,
    /// The last event that is not wanted.
    pub(crate) after: Seq,
    /// Only events of this kind.
    pub(crate) kind: Option<Kind>,
    /// An event as whoever asks knows it.
    pub(crate) view: Box<dyn Fn(&Event) -> String + Send>,
}

/// Answers with the events of a stream, from where the client is.
///
/// # Errors
/// When the client says it has seen a frame that is not in it.
pub(crate) async fn follow_events(
    app: &App,
    followed: Followed,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let Followed { branch, after, kind, view } = followed;
    let after = match last_event_id(headers)? {
        None => after,
        Some(seen) => {
            // What has not happened was not seen: it was another stream, or one that lost its end since.
            let head = app.journal.head(&branch).await?.map_or(Seq(0), |head| head.seq);
            let is_there = seen == place(seen.seq) && (Seq(1)..=head).contains(&seen.seq);
            if is_there { seen.seq } else { return Err(no_such_frame()) }
        }
    };
    let (tail, name) = (app.journal.tail(&branch, after), branch.to_string());
    let frames = EventFrames { tail, kind, view, broken: None };
    Ok((sse_headers(), body(app, name, frames, None, AtStop::BreaksOff)).into_response())
}

/// The id of an event's frame.
fn place(seq: Seq) -> FrameId {
    FrameId::event(seq, 1)
}

struct EventFrames {
    tail: Tail,
    kind: Option<Kind>,
    view: Box<dyn Fn(&Event) -> String + Send>,
    /// Found while looking for what is ready, and told after it.
    broken: Option<ReadError>,
}

impl EventFrames {
    fn frame(&self, event: &Event) -> Option<Frame> {
        let is_wanted = self.kind.as_ref().is_none_or(|kind| *kind == event.kind);
        let chunk = || Chunk::named(event.kind.to_string(), (self.view)(event));
        is_wanted.then(|| Frame { id: Some(place(event.seq)), chunk: chunk() })
    }
}

impl Outgoing for EventFrames {
    type Error = ReadError;

    async fn next(&mut self) -> Result<Option<Frame>, ReadError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        while let Some(event) = self.tail.next().await {
            if let Some(frame) = self.frame(&*event?) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    fn ready(&mut self) -> Option<Frame> {
        if self.broken.is_some() {
            return None;
        }
        loop {
            match self.tail.next().now_or_never()?? {
                Ok(event) => {
                    if let Some(frame) = self.frame(&event) {
                        return Some(frame);
                    }
                }
                Err(error) => {
                    self.broken = Some(error);
                    return None;
                }
            }
        }
    }
}
