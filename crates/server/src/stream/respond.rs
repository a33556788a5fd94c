//! Sending a stream: as fast as it is read, with a sign of life where there is nothing to say.
//!
//! Nothing runs ahead of the reader: the next frame is made when the one before it was taken. A reader that does not read costs a
//! bounded number of events and pieces, and nobody waits for it.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio_util::sync::CancellationToken;
use weir_engine::{Address, Engine};
use weir_types::{RunId, Seq};

use super::begin::{Ahead, Begun};
use super::feed::{Feed, Scope};
use super::frame::{Frame, FrameId};
use super::frames::{Frames, ResumeError};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::formats::Encoder;
use crate::saying;

/// Frames that are ready together are sent together, up to about so many bytes.
const BATCH_BYTES: usize = 16 * 1024;

/// A sign of life: a comment, which readers skip.
const SIGN_OF_LIFE: &str = ": keep-alive\n\n";

/// What is streamed.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Whose.
    pub(crate) address: Address,
    /// A run of it, or everything.
    pub(crate) scope: Scope,
    /// The last event before it.
    pub(crate) after: Seq,
    /// What the client has seen of it.
    pub(crate) seen: Option<FrameId>,
    /// What the client has from elsewhere: frames of events up to this one are not sent.
    pub(crate) known: Seq,
    /// Who has followed it so far.
    pub(crate) ahead: Ahead,
}

impl Source {
    /// A run, from its start.
    pub(crate) fn run(begun: &Begun) -> Self {
        Self {
            address: begun.address.clone(),
            scope: Scope::Run(begun.run),
            after: Seq(begun.started.0.saturating_sub(1)),
            seen: None,
            known: Seq(0),
            ahead: begun.ahead.clone(),
        }
    }
}

/// Answers with a stream. A run goes on when its client leaves, and its stream can be asked for again; unless there is someone who
/// notices that.
///
/// # Errors
/// When the client says it has seen a frame that is not in it.
pub(crate) async fn respond(
    app: &App,
    source: &Source,
    encoder: Box<dyn Encoder>,
    leave: Option<Leave>,
) -> Result<Response, Error> {
    let mut headers = headers(source, &*encoder);
    let frames = match frames(app, source, encoder).await {
        Ok(frames) => frames,
        Err(error) => {
            Leave::stay(leave);
            return Err(error);
        }
    };
    if source.seen.is_some() && frames.is_over() {
        Leave::stay(leave);
        // Readers that come back by themselves stop doing so.
        headers.remove(header::CONTENT_TYPE);
        return Ok((StatusCode::NO_CONTENT, headers).into_response());
    }
    // What happens to a session has no end anyway.
    let at_stop = if source.scope == Scope::Session { AtStop::Ends } else { AtStop::BreaksOff };
    let body = body(app, source.address.to_string(), frames, leave, at_stop);
    Ok((headers, body).into_response())
}

/// Frames as they come, with a sign of life where there are none for a while.
pub(super) fn body(
    app: &App,
    name: String,
    frames: impl Outgoing + 'static,
    leave: Option<Leave>,
    at_stop: AtStop,
) -> Body {
    let (stopping, keep_alive) = (app.stopping.clone(), app.settings.keep_alive);
    let sending = Sending { name, frames, leave, stopping, keep_alive, at_stop };
    Body::from_stream(stream::unfold(Some(sending), |sending| async move { sending?.next().await }))
}

/// Frames that are to be sent.
pub(super) trait Outgoing: Send {
    /// Why there can be no more of them.
    type Error: Debug + Send;

    /// The next frame; none at the end.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Result<Option<Frame>, Self::Error>> + Send;

    /// A frame that is ready.
    fn ready(&mut self) -> Option<Frame>;
}

/// What becomes of a stream when the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtStop {
    /// It ends.
    Ends,
    /// Its connection breaks off: what ends like a whole answer would be taken for one, and what breaks off makes its reader come back.
    BreaksOff,
}

async fn frames(app: &App, source: &Source, encoder: Box<dyn Encoder>) -> Result<Frames, Error> {
    let feed = Feed::new(&app.engine, &app.journal, source).await?;
    Frames::after(feed, encoder, source).await.map_err(|error| match error {
        ResumeError::NoSuchFrame => no_such_frame(),
        ResumeError::Engine(error) => error.into(),
    })
}

fn headers(source: &Source, encoder: &dyn Encoder) -> HeaderMap {
    let run = match source.scope {
        Scope::Run(run) => Some(run.to_string()),
        Scope::Session => None,
    };
    let mut headers = saying::headers(&source.address, run.as_deref());
    headers.extend(sse_headers());
    for (name, value) in encoder.headers() {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    headers
}

/// What says that an answer is a stream of events, which nobody on the way may keep or hold back.
pub(super) fn sse_headers() -> HeaderMap {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    headers.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect()
}

/// The frame that a client saw last, if it says so.
///
/// # Errors
/// When that is no id of a frame.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<FrameId>, Error> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    id.map(Some).ok_or_else(no_such_frame)
}

pub(super) fn no_such_frame() -> Error {
    Error::new(
        StatusCode::BAD_REQUEST,
        "server::no-such-frame",
        "`Last-Event-ID` is not the id of a frame of this stream",
        "send the id of the last frame that came from this very stream in this format, or none to get it from its start",
    )
}

/// A stream on its way out.
struct Sending<F> {
    /// What the log calls it.
    name: String,
    frames: F,
    leave: Option<Leave>,
    stopping: CancellationToken,
    keep_alive: Duration,
    at_stop: AtStop,
}

impl<F: Outgoing> Sending<F> {
    /// The next bytes, and what sends those after them.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let next = tokio::select! {
            biased;
            () = self.stopping.cancelled() => {
                Leave::stay(self.leave);
                let half_told = || (Err(io::Error::other("the server stops")), None);
                return (self.at_stop == AtStop::BreaksOff).then(half_told);
            }
            next = tokio::time::timeout(self.keep_alive, self.frames.next()) => next,
        };
        match next {
            Err(_) => Some((Ok(Bytes::from_static(SIGN_OF_LIFE.as_bytes())), Some(self))),
            Ok(Ok(None)) => {
                Leave::stay(self.leave);
                None
            }
            Ok(Ok(Some(first))) => {
                let mut text = first.to_text();
                while text.len() < BATCH_BYTES
                    && let Some(frame) = self.frames.ready()
                {
                    text.push_str(&frame.to_text());
                }
                Some((Ok(text.into()), Some(self)))
            }
            Ok(Err(error)) => {
                // The client cannot be told in every format; a connection that breaks off makes it come back.
                tracing::warn!(stream = self.name, ?error, "a stream broke off");
                Leave::stay(self.leave);
                Some((Err(io::Error::other("the stream broke off")), None))
            }
        }
    }
}

/// Notices that a client leaves before the end of a run that is to end with that, wherever it is dropped. Other runs go on.
pub(crate) struct Leave {
    app: App,
    address: Address,
    run: RunId,
    actor: String,
    cancels: bool,
}

impl Leave {
    /// For a client of this run.
    pub(crate) fn of(app: &App, caller: &Caller, begun: &Begun) -> Self {
        let (address, run, actor) = (begun.address.clone(), begun.run, caller.principal.clone());
        Self { app: app.clone(), address, run, actor, cancels: true }
    }

    /// The run goes on, if there is one.
    fn stay(leave: Option<Self>) {
        if let Some(mut leave) = leave {
            leave.cancels = false;
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        // It is not the client that leaves when the server does.
        if !self.cancels || self.app.stopping.is_cancelled() {
            return;
        }
        let (engine, address, actor): (Engine, _, _) =
            (self.app.engine.clone(), self.address.clone(), std::mem::take(&mut self.actor));
        let run = self.run;
        self.app.tasks.spawn(async move {
            if let Err(error) = engine.cancel_run(&address, run, &actor).await {
                tracing::warn!(session = %address, %error, "a run whose client left could not be cancelled");
            }
        });
    }
}
