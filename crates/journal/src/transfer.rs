//! Moving streams between journals as JSON Lines, in constant memory, ids and chains included.
//!
//! An export is a header, then events, each preceded by what it needs: its branch's fork, its part's key, the blobs it
//! refers to. An import checks every chain before it appends, skips what is already there and can be repeated after
//! any failure; so a file that was cut imports as far as it goes, and goes on where the whole file is imported later.
//!
//! INVARIANT: an export is someone's word. [`import`] takes no stream in which the runtime keeps what people may do and spend
//! here, such as tokens, deployments and budgets: see [`is_runtime_stream`]. [`restore`] takes all of them, and only where there is
//! nothing yet. So that an export can be imported, it holds such streams only if [`Selection`] asks for them.

mod error;
mod export;
mod import;
mod input;
#[cfg(test)]
mod tests;

use weir_types::{BranchId, Seq, StreamName, is_reserved_stream};

pub use error::{ExportError, ImportError};
pub use export::export;
pub use import::{check_streams, import, restore};

/// What the names of sessions' streams begin with. They come in halted, and nothing they bring along counts as approved.
const SESSIONS: &str = "session:";

/// Whether only the runtime of one data directory writes this stream, and sessions are not in it: tokens, deployments, budgets,
/// agents' memory.
pub fn is_runtime_stream(stream: &StreamName) -> bool {
    is_reserved_stream(stream) && !stream.as_str().starts_with(SESSIONS)
}

/// Which streams an export has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// This one, whatever it is.
    Stream(StreamName),
    /// All that an [`import`] takes.
    Portable,
    /// All: for a [`restore`].
    Everything,
}

impl Selection {
    /// Whether the events of a stream are in the export.
    fn takes(&self, stream: &StreamName) -> bool {
        match self {
            Self::Stream(one) => one == stream,
            Self::Portable => !is_runtime_stream(stream),
            Self::Everything => true,
        }
    }
}

/// What an import does about the streams of the runtime that it must not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeStreams {
    /// Refuses the export at the first line of one of them.
    Refuse,
    /// Leaves them out.
    LeaveOut,
}

/// Streams that were left out on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Streams of the runtime.
    pub streams: u64,
    /// Their events.
    pub events: u64,
}

/// What an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Events.
    pub events: u64,
    /// Branches other than `main`.
    pub forks: u64,
    /// Blobs, apart from large payloads, which are in their events' lines.
    pub blobs: u64,
    /// Branches that are damaged, and so are not complete in the export.
    pub damaged: Vec<DamagedBranch>,
    /// Streams of the runtime itself, which [`Selection::Portable`] does not take.
    pub left_out: LeftOut,
}

/// A branch of which an export has only the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedBranch {
    /// The branch; nothing, if what is damaged does not tell.
    pub branch: Option<BranchId>,
    /// The first event that is not in the export; 0 for a branch that is not known.
    pub seq: Seq,
    /// What is wrong.
    pub what: String,
    /// How many readable events after it are left out: an import could not check them.
    pub left_out: u64,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Events appended.
    pub events: u64,
    /// Events that were there already.
    pub skipped: u64,
    /// Branches made.
    pub forks: u64,
    /// Blobs stored.
    pub blobs: u64,
    /// Bytes at the end of a file that was cut: half a line, or a blob without its last piece. They were dropped.
    pub dropped_tail: Option<u64>,
    /// Events in streams of the runtime, left out as [`RuntimeStreams::LeaveOut`] says.
    pub left_out: u64,
}
