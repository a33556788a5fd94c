//! What a stream is made of, whatever its format.

use std::sync::Arc;

use weir_events::{Body, Parked};
use weir_models::Channel;
use weir_types::{CallId, Event, Seq};

use super::frame::FrameId;

/// One thing that a stream tells.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A durable event.
    Event(Told),
    /// A piece of an answer. All pieces of an answer come before the event that holds it.
    Piece(Piece),
    /// What was told of an attempt will not be said again: it ended without an answer.
    Reset(Reset),
    /// There is nothing more to tell, for now or for good.
    End(End),
}

/// A durable event.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// As it is in the journal.
    pub(crate) event: Arc<Event>,
    /// What it says, if it is one of the runtime's own.
    pub(crate) body: Option<Box<Body>>,
    /// Whether the run rests after it, so that a stream may have ended there.
    pub(crate) rests: bool,
}

/// An attempt that ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reset {
    /// The request it was.
    pub(crate) request: Seq,
    /// Which attempt.
    pub(crate) attempt: u32,
    /// What the frame that says so is called.
    pub(crate) id: FrameId,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The `model.requested` event it answers.
    pub(crate) request: Seq,
    /// Which attempt.
    pub(crate) attempt: u32,
    /// Where it starts, in bytes over all that is shown of the answer: text and reasoning.
    pub(crate) offset: u64,
    /// The block it belongs to.
    pub(crate) block: u32,
    /// Text or reasoning.
    pub(crate) channel: Channel,
    /// The piece; never empty.
    pub(crate) text: String,
}

impl Piece {
    /// Where it ends.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.text.len() as u64
    }
}

/// Why a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The run is over.
    Over,
    /// It pauses until someone resumes it.
    Parked(Parked),
    /// Someone has to decide.
    Waiting(Vec<Asked>),
}

/// A call that someone has to decide about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// What a decision names.
    pub(crate) id: CallId,
    /// The call of this session that waits for it: the same, or one that another agent deals with.
    pub(crate) call: CallId,
    /// Why, in words that name the tool.
    pub(crate) why: String,
}
