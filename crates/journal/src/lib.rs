//! The journal: the only truth, behind a port. Everything else in the product is a fold of it.
//!
//! [`Journal`] is the port: atomic multi-part appends, branches by reference, indexed reads, tails without gap or
//! duplicate. [`MemoryJournal`] is the engine in memory; others live in crates of their own. What engines share is here
//! too: the decisions of an append ([`rules`]), following ([`follow`]), lines of JSON ([`lines`]), export and import
//! ([`transfer`]), anchors ([`anchor`]), and the suite that each of them passes (`conformance`).
//!
//! What this crate leaves to others: what events mean, and who may write them.
//!
//! ```
//! use std::sync::Arc;
//! use weir_blobs::MemoryBlobs;
//! use weir_journal::{Expected, Fork, Journal, MemoryJournal, NewEvent, Part};
//! use weir_types::{BranchId, Seq};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let journal = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
//! let main = BranchId::main("lake".parse()?);
//! let note = |text: &'static str| Ok::<_, weir_types::NameError>(NewEvent::new("note.made".parse()?, text));
//!
//! // Append two events to a stream that must be new.
//! let part = Part::new(main.clone(), vec![note("\"rain\"")?, note("\"sun\"")?]);
//! let appended = journal.append(vec![Part { expected: Expected::NoStream, ..part }]).await?;
//! assert_eq!((appended[0].first, appended[0].last), (Seq(1), Seq(2)));
//!
//! // Go another way from the first event on; nothing is copied, and `main` is not touched.
//! let dry = BranchId { branch: "dry".parse()?, ..main.clone() };
//! journal.fork(Fork { from: main.clone(), at: Seq(1), name: dry.branch.clone() }).await?;
//! journal.append(vec![Part::new(dry.clone(), vec![note("\"drought\"")?])]).await?;
//!
//! // Read the fork's lineage; each event is chained to the one before it.
//! let events = journal.read(&dry, Seq(0), 10).await?;
//! let texts: Vec<&[u8]> = events.iter().map(|event| &*event.payload).collect();
//! assert_eq!(texts, [b"\"rain\"".as_slice(), b"\"drought\""]);
//! assert_eq!(events[1].chain, events[1].chain_after(events[0].chain));
//! # Ok(())
//! # }
//! ```

mod port;

mod append;
mod at;
mod error;
mod listing;
mod mint;
mod pages;
pub mod payloads;
mod snapshot;
mod verify;

pub mod anchor;
pub mod follow;
pub mod lines;
mod memory;
pub mod rules;
pub mod transfer;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use append::{
    Appended, EVENTS_MAX, Expected, Key, KeyError, KeyedPart, NewEvent, Ownership, PAYLOAD_MAX, Part,
    REFS_MAX, content,
};
pub use at::last_at;
pub use error::{AppendError, ForkError, ReadError, StorageError, StorageFailure};
pub use listing::{
    Attrs, Branch, Fork, ForkPoint, Head, ListAfter, ListFilter, Listed, Looked, Status, StatusError,
    StreamSummary,
};
pub use memory::MemoryJournal;
pub use mint::{mint, mint_call, mint_owner, mint_run, mint_session, now};
pub use pages::{OfKind, newest_of_kind};
pub use port::{Answer, Journal, PAGE_MAX, Tail};
pub use snapshot::{FoldVersion, SNAPSHOT_MAX, SNAPSHOTS_KEPT, STORED_SNAPSHOTS_MAX, Snapshot};
pub use verify::{Problem, Report, VerifyProgress, silent};
