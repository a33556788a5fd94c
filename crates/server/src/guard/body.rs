//! Bodies that have to arrive, and bodies that hold on to something.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::task::TaskTracker;

use super::room::Room;
use crate::app::App;
use crate::auth::Standing;

/// What a body has to come in at, in the long run. Slower is no network that anybody has, but a connection held on purpose.
const BYTES_PER_SECOND_MIN: u64 = 32 * 1024;

/// A body did not arrive in time.
#[derive(Debug, thiserror::Error)]
#[error("the body took too long to arrive")]
pub(crate) struct Late;

/// How much of a body is read that nobody wants, and for how long. Whoever is still sending when the connection ends may never hear the
/// answer.
const UNWANTED_BYTES_MAX: usize = 16 * 1024 * 1024;
const UNWANTED_FOR: Duration = Duration::from_secs(2);

/// A body that fails with [`Late`] if it stays away: it has this long, and longer the more of it has come. What is left of it when it is
/// dropped is thrown away by one of `tasks`, if there are any.
pub(super) fn arriving(body: Body, patience: Duration, tasks: Option<TaskTracker>) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(Arriving {
        body,
        began: Instant::now(),
        patience,
        bytes: 0,
        sleep: None,
        is_over: false,
        tasks,
    })
}

struct Arriving {
    body: Body,
    /// It has ended, failed, or is not waited for any more.
    is_over: bool,
    tasks: Option<TaskTracker>,
    began: Instant,
    patience: Duration,
    bytes: u64,
    /// Made when somebody has to wait.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.is_over = !matches!(frame, Some(Ok(_)));
            if let Some(Ok(frame)) = &frame {
                this.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                let extra = Duration::from_secs(this.bytes / BYTES_PER_SECOND_MIN);
                if let Some(sleep) = &mut this.sleep {
                    sleep.as_mut().reset(this.began + this.patience + extra);
                }
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let until = this.began + this.patience;
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(sleep.as_mut().poll(context));
        this.is_over = true;
        Poll::Ready(Some(Err(Late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let is_left = !self.is_over && !self.body.is_end_stream();
        if let Some(tasks) = self.tasks.as_ref().filter(|_| is_left) {
            tasks.spawn(throw_away(std::mem::take(&mut self.body)));
        }
    }
}

async fn throw_away(body: Body) {
    let mut pieces = body.into_data_stream();
    let (until, mut bytes) = (Instant::now() + UNWANTED_FOR, 0);
    while bytes <= UNWANTED_BYTES_MAX
        && let Ok(Some(Ok(piece))) = tokio::time::timeout_at(until, pieces.next()).await
    {
        bytes += piece.len();
    }
}

/// A body that holds a place until it is read or given up.
pub(super) fn holding(body: Body, room: Room) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(Holding { body, _room: room })
}

struct Holding {
    body: Body,
    _room: Room,
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What credentials were good for when it was asked for is given whole, up to so many bytes.
const AT_ONCE_BYTES_MAX: u64 = 64 * 1024;

/// The credential that something was asked for with has ended.
#[derive(Debug, thiserror::Error)]
#[error("what this was asked for with is good no more")]
struct Ended;

/// A body that breaks off when what it was asked for with is good no more. What is had at once is not looked at again.
pub(super) fn standing(body: Body, app: &App, standing: Standing) -> Body {
    if body.size_hint().exact().is_some_and(|bytes| bytes <= AT_ONCE_BYTES_MAX) {
        return body;
    }
    match app.auth.ends(standing) {
        Some(ends) => Body::new(While { body, ends }),
        None => body,
    }
}

struct While {
    body: Body,
    ends: BoxFuture<'static, ()>,
}

impl HttpBody for While {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ends.as_mut().poll(context).is_ready() {
            tracing::debug!("a stream ends with its credential");
            // It cannot be asked whether it has ended a second time.
            self.ends = Box::pin(std::future::ready(()));
            return Poll::Ready(Some(Err(axum::Error::new(Ended))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
