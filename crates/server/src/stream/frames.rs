//! From items to frames with ids, from the start or from where a client has got to.
//!
//! Whoever comes back gets the stream made again from its start, without what it has seen. So an encoder needs no memory
//! between two connections, and a stream that was cut is the same as one that was not.

use std::collections::VecDeque;

use futures_util::FutureExt;
use weir_engine::EngineError;
use weir_types::Seq;

use super::feed::Feed;
use super::frame::{Chunk, Frame, FrameId, Place};
use super::item::Item;
use super::respond::{Outgoing, Source};
use crate::formats::Encoder;

/// Frames that may follow an event where a stream ended, and are not there when it goes on.
const LAST_FRAMES_MAX: u32 = 256;

/// The frames of a stream.
pub(crate) struct Frames {
    feed: Feed,
    encoder: Box<dyn Encoder>,
    chunks: Vec<Chunk>,
    ready: VecDeque<Frame>,
    /// The newest event, how many frames it has, and whether the stream may end there.
    event: (Seq, u32, bool),
    /// What the client has seen; until that has come by, nothing is sent.
    seen: Option<FrameId>,
    /// What it has from elsewhere.
    known: Seq,
    over: bool,
}

/// Why a stream cannot go on from where a client says it is.
#[derive(Debug)]
pub(crate) enum ResumeError {
    /// There is no such frame in it.
    NoSuchFrame,
    /// It cannot be read.
    Engine(EngineError),
}

impl From<EngineError> for ResumeError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl Frames {
    /// The frames of `feed` that the client does not have.
    pub(crate) async fn after(
        feed: Feed,
        encoder: Box<dyn Encoder>,
        source: &Source,
    ) -> Result<Self, ResumeError> {
        let mut frames = Self {
            feed,
            encoder,
            chunks: Vec::new(),
            ready: VecDeque::new(),
            event: (Seq(0), 0, false),
            seen: source.seen,
            known: source.known,
            over: false,
        };
        if frames.seen.is_some() {
            frames.find_place().await?;
        }
        Ok(frames)
    }

    /// Whether there is nothing more, and nothing left to send.
    pub(crate) fn is_over(&self) -> bool {
        self.over && self.ready.is_empty()
    }

    /// Goes to where the client is. In an answer that is still being given, that may not have been said yet as far as we know:
    /// then it is waited for.
    async fn find_place(&mut self) -> Result<(), ResumeError> {
        // What was seen may have been the last of it: that is found out, too.
        while (self.seen.is_some() || self.ready.is_empty()) && !self.over {
            let item = if self.feed.is_caught_up() {
                let Some(item) = self.feed.next().now_or_never() else { return self.may_wait() };
                item?
            } else {
                self.feed.next().await?
            };
            match item {
                Some(item) => self.take(&item)?,
                None => self.finish()?,
            }
        }
        Ok(())
    }

    fn may_wait(&self) -> Result<(), ResumeError> {
        match self.seen {
            None => Ok(()),
            Some(FrameId { seq, place: Place::Answer { .. } }) if self.feed.answering() == Some(seq) => {
                Ok(())
            }
            Some(_) => Err(ResumeError::NoSuchFrame),
        }
    }

    fn finish(&mut self) -> Result<(), ResumeError> {
        self.over = true;
        match self.seen {
            Some(_) => Err(ResumeError::NoSuchFrame),
            None => Ok(()),
        }
    }

    fn take(&mut self, item: &Item) -> Result<(), ResumeError> {
        self.encoder.encode(item, &mut self.chunks);
        if let Item::Event(told) = item {
            if self.is_seen_at_rest(told.event.seq) {
                self.seen = None;
            }
            self.event = (told.event.seq, 0, told.rests);
        }
        let count = self.chunks.len();
        for (at, chunk) in std::mem::take(&mut self.chunks).into_iter().enumerate() {
            let n = u32::try_from(at + 1).unwrap_or(u32::MAX);
            let id = match item {
                Item::Event(_) | Item::End(_) => {
                    self.event.1 += 1;
                    FrameId::event(self.event.0, self.event.1)
                }
                Item::Piece(piece) if at + 1 == count => {
                    FrameId::answer(piece.request, piece.attempt, piece.end(), 0)
                }
                Item::Piece(piece) => FrameId::answer(piece.request, piece.attempt, piece.offset, n),
                Item::Reset(reset) => reset.id,
            };
            self.offer(item, id, chunk)?;
        }
        // An encoder that ends here has told what it can; a client that has seen more is not from here.
        if self.encoder.is_over() { self.finish() } else { Ok(()) }
    }

    /// Sends a frame, unless the client has it.
    fn offer(&mut self, item: &Item, id: FrameId, chunk: Chunk) -> Result<(), ResumeError> {
        let frame = Frame { id: self.encoder.is_resumable().then_some(id), chunk };
        let Some(seen) = self.seen else {
            if id.seq > self.known && frame.chunk.is_sent {
                self.ready.push_back(frame);
            }
            return Ok(());
        };
        if id < seen {
            return Ok(());
        }
        if id == seen {
            self.seen = None;
            return Ok(());
        }
        // What it has seen is gone, and it is told so.
        let is_gone = match (item, seen.place) {
            (Item::Reset(reset), Place::Answer { attempt, .. }) => {
                (reset.request, reset.attempt) == (seen.seq, attempt)
            }
            _ => false,
        };
        if !is_gone {
            return Err(ResumeError::NoSuchFrame);
        }
        self.seen = None;
        self.ready.push_back(frame);
        Ok(())
    }

    /// Whether the client was told that the run rests: then it has seen frames that are not there any more when the run goes on with
    /// event `next`.
    fn is_seen_at_rest(&self, next: Seq) -> bool {
        let (seq, count, rests) = self.event;
        let Some(FrameId { seq: at, place: Place::Event(n) }) = self.seen else { return false };
        at == seq && at < next && rests && n > count && n - count <= LAST_FRAMES_MAX
    }
}

impl Outgoing for Frames {
    type Error = ResumeError;

    async fn next(&mut self) -> Result<Option<Frame>, ResumeError> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Some(frame));
            }
            if self.over {
                return Ok(None);
            }
            match self.feed.next().await? {
                Some(item) => self.take(&item)?,
                None => self.finish()?,
            }
        }
    }

    fn ready(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }
}
