//! What is being said right now, before it is written down: from the session's task to whoever listens.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use weir_models::Delta;
use weir_types::Seq;

/// Pieces kept for the slowest listener; one that falls further behind gets what it missed in one piece. Every session in memory
/// has room for so many, whether it says anything or not.
const PIECES_MAX: usize = 64;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveDelta {
    /// The `model.requested` event it answers.
    pub request: Seq,
    /// Which attempt.
    pub attempt: u32,
    /// Where it starts in the attempt's output, in bytes over all blocks.
    pub offset: u64,
    /// The piece.
    pub delta: Delta,
}

/// The live output of one session.
#[derive(Debug)]
pub(crate) struct Live {
    /// What the current attempt has said so far, for those who come late.
    current: Mutex<Vec<LiveDelta>>,
    sender: broadcast::Sender<LiveDelta>,
}

impl Default for Live {
    fn default() -> Self {
        Self { current: Mutex::default(), sender: broadcast::Sender::new(PIECES_MAX) }
    }
}

impl Live {
    /// Everything the current attempt has said, and whatever it says from now on.
    pub(crate) fn listen(&self) -> (Vec<LiveDelta>, broadcast::Receiver<LiveDelta>) {
        let current = self.current();
        (current.clone(), self.sender.subscribe())
    }

    pub(crate) fn say(&self, delta: LiveDelta) {
        let mut current = self.current();
        join(&mut current, &delta);
        // Nobody may be listening.
        let _ = self.sender.send(delta);
    }

    /// The attempt is over.
    pub(crate) fn clear(&self) {
        self.current().clear();
    }

    fn current(&self) -> MutexGuard<'_, Vec<LiveDelta>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a piece, as part of the one before where both belong to the same block.
pub(crate) fn join(pieces: &mut Vec<LiveDelta>, piece: &LiveDelta) {
    match pieces.last_mut() {
        Some(last)
            if (last.request, last.attempt) == (piece.request, piece.attempt)
                && (last.delta.block, last.delta.channel) == (piece.delta.block, piece.delta.channel) =>
        {
            last.delta.text.push_str(&piece.delta.text);
        }
        _ => pieces.push(piece.clone()),
    }
}
