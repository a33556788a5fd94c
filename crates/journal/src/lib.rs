//! The journal: the only truth, behind a port.

pub mod anchor;
mod append;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod follow;
pub mod lines;
mod listing;
mod memory;
mod mint;
mod port;
pub mod rules;
mod snapshot;
pub mod transfer;
mod verify;

pub use append::{
    Appended, EVENTS_MAX, Expected, Key, KeyError, KeyedPart, NewEvent, Ownership, PAYLOAD_MAX, Part,
    REFS_MAX, content,
};
pub use error::{AppendError, ForkError, ReadError, StorageError, StorageFailure};
pub use listing::{
    Attrs, Branch, Fork, ForkPoint, Head, ListAfter, ListFilter, Listed, Status, StatusError, StreamSummary,
};
pub use memory::MemoryJournal;
pub use mint::{mint, mint_owner, now};
pub use port::{Answer, Journal, PAGE_MAX, Tail};
pub use snapshot::{FoldVersion, SNAPSHOT_MAX, SNAPSHOTS_KEPT, Snapshot};
pub use verify::{Problem, Report, VerifyProgress, silent};
