//! Following a session: what is durable, in order, and in between what is being said right now.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use weir_events::{
    AssistantMessage, ModelFailed, ModelRequested, Payload, RunCancelled, RunParked, SessionReleased,
    SessionResumed,
};
use weir_journal::{Journal, Tail};
use weir_types::{Event, Seq};

use crate::address::Address;
use crate::error::EngineError;
use crate::live::{Live, LiveDelta};

/// Something new about a session.
#[derive(Clone, Debug)]
pub enum Update {
    /// A durable event.
    Event(Arc<Event>),
    /// A piece of an answer that is being given. Never comes before the request it answers, nor after its end, and always
    /// after everything that was said before it.
    Delta(LiveDelta),
}

/// Follows a session.
pub struct Updates {
    tail: Tail,
    pieces: Option<Receiver<LiveDelta>>,
    /// Pieces whose request has not been seen yet.
    early: VecDeque<LiveDelta>,
    seen: Seq,
    /// The newest request seen, while it is not answered.
    open: Option<Seq>,
    /// An event that comes after the pieces that are still to be told.
    held: Option<Arc<Event>>,
    /// How far its answer has been told, in bytes of output.
    told: u64,
    live: Arc<Live>,
}

impl Updates {
    pub(crate) fn new(journal: &dyn Journal, address: &Address, after: Seq, live: Arc<Live>) -> Self {
        let tail = journal.tail(&address.branch_id(), after);
        let (current, pieces) = live.listen();
        Self {
            tail,
            pieces: Some(pieces),
            early: current.into(),
            seen: after,
            open: None,
            held: None,
            told: 0,
            live,
        }
    }

    /// Begins to look for what is there already, so that it need not be waited for later.
    pub fn start(&mut self) {
        if self.held.is_none()
            && let Some(Some(Ok(event))) = self.tail.next().now_or_never()
        {
            self.held = Some(event);
        }
    }

    /// The newest event that was told.
    pub fn seen(&self) -> Seq {
        self.seen
    }

    /// The next piece of news.
    ///
    /// # Errors
    /// When the journal cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Update>, EngineError> {
        loop {
            if let Some(piece) = self.ready() {
                return Ok(Some(Update::Delta(piece)));
            }
            if let Some(event) = self.held.take() {
                self.note(&event);
                return Ok(Some(Update::Event(event)));
            }
            let piece = async {
                match &mut self.pieces {
                    Some(pieces) => pieces.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = self.tail.next() => {
                    let Some(event) = event.transpose()? else { return Ok(None) };
                    // What was said before this was written down is waiting already.
                    self.take_waiting();
                    self.held = Some(event);
                }
                piece = piece => match piece {
                    Ok(piece) => self.early.push_back(piece),
                    // Too slow: what was missed is in what the attempt has said so far.
                    Err(RecvError::Lagged(_)) => self.catch_up(),
                    Err(RecvError::Closed) => self.pieces = None,
                },
            }
        }
    }

    fn take_waiting(&mut self) {
        let Some(pieces) = &mut self.pieces else { return };
        loop {
            match pieces.try_recv() {
                Ok(piece) => self.early.push_back(piece),
                Err(TryRecvError::Lagged(_)) => return self.catch_up(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn catch_up(&mut self) {
        let (current, pieces) = self.live.listen();
        (self.early, self.pieces) = (current.into(), Some(pieces));
    }

    /// A piece that can be told: its request has been seen, and its end has not. What was told already is left out; after a
    /// gap nothing is told, and the answer comes as a whole.
    fn ready(&mut self) -> Option<LiveDelta> {
        while let Some(piece) = self.early.front() {
            if piece.request > self.seen {
                return None;
            }
            let mut piece = self.early.pop_front()?;
            if Some(piece.request) != self.open || piece.offset > self.told {
                continue;
            }
            let known = usize::try_from(self.told - piece.offset).unwrap_or(usize::MAX);
            let Some(news) = piece.delta.text.get(known..).filter(|news| !news.is_empty()) else { continue };
            (piece.offset, piece.delta.text) = (self.told, news.to_owned());
            self.told += piece.delta.text.len() as u64;
            return Some(piece);
        }
        None
    }

    fn note(&mut self, event: &Event) {
        self.seen = event.seq;
        match event.kind.as_str() {
            ModelRequested::KIND => (self.open, self.told) = (Some(event.seq), 0),
            AssistantMessage::KIND
            | ModelFailed::KIND
            | RunCancelled::KIND
            | RunParked::KIND
            | SessionResumed::KIND
            | SessionReleased::KIND => {
                self.open = None;
            }
            _ => {}
        }
    }
}
