//! A checked blob as an asynchronous reader.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::JoinHandle;

use super::read::{Decode, Step};
use crate::GetError;

/// The second pass, one chunk at a time, each decoded on a blocking thread.
pub(super) struct Stream {
    state: State,
    chunk: Vec<u8>,
    sent: usize,
}

enum State {
    Ready(Box<Decode>),
    Busy(JoinHandle<Result<(Vec<u8>, Step), GetError>>),
    End,
    /// For good: to a caller that tries again, an error must not turn into the end of the content.
    Failed,
}

impl Stream {
    pub(super) fn new(decode: Box<Decode>) -> Self {
        Self { state: State::Ready(decode), chunk: Vec::new(), sent: 0 }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.sent == self.chunk.len() {
            match std::mem::replace(&mut self.state, State::Failed) {
                State::Ready(decode) => {
                    let mut chunk = std::mem::take(&mut self.chunk);
                    self.sent = 0;
                    self.state = State::Busy(tokio::task::spawn_blocking(move || {
                        let step = decode.step(&mut chunk)?;
                        Ok((chunk, step))
                    }));
                }
                State::Busy(mut job) => {
                    let Poll::Ready(done) = Pin::new(&mut job).poll(context) else {
                        self.state = State::Busy(job);
                        return Poll::Pending;
                    };
                    // `GetError::from_reader` unwraps the second.
                    let (chunk, step) = done.map_err(io::Error::other)?.map_err(io::Error::other)?;
                    self.chunk = chunk;
                    self.state = match step {
                        Step::More(decode) => State::Ready(decode),
                        Step::End(_) => State::End,
                    };
                }
                State::End => {
                    self.state = State::End;
                    return Poll::Ready(Ok(()));
                }
                State::Failed => {
                    return Poll::Ready(Err(io::Error::other("reading this blob has failed before")));
                }
            }
        }
        let rest = &self.chunk[self.sent..];
        let length = rest.len().min(into.remaining());
        into.put_slice(&rest[..length]);
        self.sent += length;
        Poll::Ready(Ok(()))
    }
}
