//! What goes over one connection: which requests are under way on it, and whether the other end takes what it is sent. Everybody who
//! can connect has a place among the connections there may be, so that nobody keeps one without doing something with it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

/// What is taken for a client that takes something, in the long run. Slower is no network that anybody has, but a connection held on
/// purpose.
const BYTES_PER_SECOND_MIN: u64 = 1024;

/// What goes over a connection. Clones are about the same one.
#[derive(Clone)]
pub(super) struct Traffic(Arc<Inner>);

struct Inner {
    /// How long something may wait to be taken.
    stall: Duration,
    under_way: watch::Sender<usize>,
    state: Mutex<State>,
}

struct State {
    /// Bytes that went out so far.
    written: u64,
    /// Whether the socket has no room for what is to be written.
    is_full: bool,
    /// Answers of which the next piece is not asked for.
    untaken: usize,
    /// How long something may go on waiting: less with every second in which something waits, more with every other one, and with what is taken.
    left: Duration,
    /// When that was so.
    at: Instant,
}

impl State {
    fn waits(&self) -> bool {
        self.is_full || self.untaken > 0
    }

    fn settle(&mut self, stall: Duration) {
        let passed = self.at.elapsed();
        self.at += passed;
        self.left = match self.waits() {
            true => self.left.saturating_sub(passed),
            false => (self.left + passed).min(stall),
        };
    }
}

impl Traffic {
    pub(super) fn new(stall: Duration) -> Self {
        let state = State { written: 0, is_full: false, untaken: 0, left: stall, at: Instant::now() };
        Self(Arc::new(Inner { stall, under_way: watch::Sender::new(0), state: Mutex::new(state) }))
    }

    /// A request has arrived.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.under_way.send_modify(|under_way| *under_way += 1);
        UnderWay(self.clone())
    }

    /// Comes to an end when for so long nothing was asked, and nothing sent that was asked before.
    pub(super) async fn quiet(&self, patience: Duration) {
        let mut under_way = self.0.under_way.subscribe();
        let enough = patience.as_secs().max(1) * BYTES_PER_SECOND_MIN;
        loop {
            // There is always a sender: this connection.
            let _ = under_way.wait_for(|under_way| *under_way == 0).await;
            let before = self.settled().written;
            if tokio::time::timeout(patience, under_way.changed()).await.is_ok() {
                continue;
            }
            let state = self.settled();
            if !state.is_full && state.written - before < enough {
                return;
            }
        }
    }

    /// Comes to an end when something has waited for too long to be taken.
    pub(super) async fn stalled(&self) {
        loop {
            let (waits, left) = {
                let state = self.settled();
                (state.waits(), state.left)
            };
            if waits && left.is_zero() {
                return;
            }
            tokio::time::sleep(if waits { left } else { self.0.stall }).await;
        }
    }

    /// How it is now.
    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(self.0.stall);
        state
    }

    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        let mut state = self.settled();
        state.is_full = polled.is_pending();
        if let Poll::Ready(Ok(bytes)) = polled {
            let bytes = *bytes as u64;
            state.written += bytes;
            let more = Duration::from_millis(bytes * 1000 / BYTES_PER_SECOND_MIN);
            state.left = (state.left + more).min(self.0.stall);
        }
    }
}

/// A request that is under way until this is dropped.
pub(super) struct UnderWay(Traffic);

impl UnderWay {
    /// Its answer, with which it comes to its end.
    pub(super) fn answered(self, response: Response) -> Response {
        self.0.settled().untaken += 1;
        response.map(|body| Body::new(Answer { body, is_taken: false, under_way: self }))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.under_way.send_modify(|under_way| *under_way -= 1);
    }
}

/// A body that knows whether it is asked for more.
struct Answer {
    body: Body,
    is_taken: bool,
    under_way: UnderWay,
}

impl Answer {
    fn set_taken(&mut self, is_taken: bool) {
        if is_taken == self.is_taken {
            return;
        }
        self.is_taken = is_taken;
        let mut state = self.under_way.0.settled();
        match is_taken {
            true => state.untaken -= 1,
            false => state.untaken += 1,
        }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.set_taken(true);
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(_))) = polled {
            self.set_taken(false);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.set_taken(true);
    }
}

/// A socket that tells whether it has room.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) traffic: Traffic,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.traffic.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.traffic.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
