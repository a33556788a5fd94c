//! Following a session: what is durable, in order, and in between what is being said right now.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
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
    /// A piece of an answer that is being given. Never comes before the request it answers, nor after its end.
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
    /// Keeps the session's live output alive.
    _live: Arc<Live>,
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
            _live: live,
        }
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
                    // Too slow: the rest of this answer comes as a whole.
                    Err(RecvError::Lagged(_)) => self.early.clear(),
                    Err(RecvError::Closed) => self.pieces = None,
                },
            }
        }
    }

    fn take_waiting(&mut self) {
        let Some(pieces) = &mut self.pieces else { return };
        while let Ok(piece) = pieces.try_recv() {
            self.early.push_back(piece);
        }
    }

    /// A piece that can be told: its request has been seen, and its end has not.
    fn ready(&mut self) -> Option<LiveDelta> {
        while let Some(piece) = self.early.front() {
            if piece.request > self.seen {
                return None;
            }
            let piece = self.early.pop_front();
            if piece.as_ref().map(|piece| piece.request) == self.open {
                return piece;
            }
        }
        None
    }

    fn note(&mut self, event: &Event) {
        self.seen = event.seq;
        match event.kind.as_str() {
            "model.requested" => self.open = Some(event.seq),
            "assistant.message" | "model.failed" | "run.cancelled" | "run.parked" | "session.resumed" => {
                self.open = None;
            }
            _ => {}
        }
    }
}
