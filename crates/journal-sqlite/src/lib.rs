//! The embedded journal engine: one SQLite file that several processes may use at once.
//!
//! Appends are committed in groups by one thread per process, with one sync per group; reads go through a small pool
//! of connections. What is promised here is what the port promises, and the port's conformance suite checks it.
//!
//! ```
//! use std::sync::Arc;
//! use weir_blobs::MemoryBlobs;
//! use weir_journal::{Journal, NewEvent, Part};
//! use weir_journal_sqlite::{Options, SqliteJournal};
//! use weir_types::{BranchId, Seq};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("journal.db");
//! let journal = SqliteJournal::open(Options { path, blobs: Arc::new(MemoryBlobs::default()), vfs: None }).await?;
//!
//! let notes = BranchId::main("notes".parse()?);
//! let event = NewEvent::new("note.taken".parse()?, r#"{"text":"water is high"}"#);
//! let appended = journal.append(vec![Part::new(notes.clone(), vec![event])]).await?;
//! assert_eq!(appended[0].last, Seq(1));
//! assert_eq!(journal.read(&notes, Seq(0), 10).await?[0].payload, r#"{"text":"water is high"}"#);
//! # Ok(())
//! # }
//! ```

mod journal;
mod open;
mod open_error;

mod anchor_file;
mod block;
mod check;
mod checkpoint;
mod commit;
mod connection;
mod damage;
mod desk;
mod dictionary;
mod facts;
mod filesystem;
mod listing;
mod log_check;
mod pool;
mod private;
mod queue;
mod read;
mod read_only;
mod record;
mod rows;
mod schema;
mod source;
mod witness;
mod write;

pub use damage::{DamageAccepted, DamageKind, DamageRecord, accept_damage, damage_records};
pub use facts::Facts;
pub use journal::{SqliteJournal, Stats};
pub use log_check::{LogDamage, LogInspection, inspect_log};
pub use open::{Findings, Options};
pub use open_error::OpenError;
