//! The files of a session: a fold of what was written and deleted, with the contents in blobs.
//!
//! [`Files`] is the fold: paths and what is there, no I/O. [`checkout`] puts files into an empty directory for
//! a person or a program to work on; [`changes_in`] finds what is different in a directory, which is both how a
//! program's work comes back and how a directory is imported. Nothing is ever read or written outside of the
//! directory a caller names.
//!
//! What this crate leaves to others: turning a [`Change`] into an event and back, and who may read or change
//! what.
//!
//! ```
//! use weir_blobs::{Blobs, MemoryBlobs};
//! use weir_workspace::{Change, Files, Scan, changes_in, checkout};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let blobs: &dyn Blobs = &MemoryBlobs::new();
//! std::fs::write(directory.join("notes.md"), "a low dam")?;
//! let found = changes_in(directory, &Files::new(), &Scan::default(), blobs).await?;
//!
//! let mut files = Files::new();
//! found.changes.iter().for_each(|change| files.apply(change));
//! assert_eq!(files.get("notes.md").map(|entry| entry.size), Some(9));
//!
//! let elsewhere = directory.join("checkout");
//! checkout(&files, &elsewhere, blobs).await?;
//! std::fs::remove_file(elsewhere.join("notes.md"))?;
//! let found = changes_in(&elsewhere, &files, &Scan::default(), blobs).await?;
//! assert_eq!(found.changes, [Change::Deleted { path: "notes.md".parse()? }]);
//! # Ok(())
//! # }
//! ```

mod files;
mod path;

mod changes;
mod checkout;
mod disk;
mod error;
mod leave_out;
mod survey;

pub use changes::{Found, changes_in};
pub use checkout::checkout;
pub use error::{ChangesError, CheckoutError};
pub use files::{Change, Entry, Files, Mode, diff};
pub use leave_out::{Group, LeaveOut, LeftOut, PatternError, SECRETS, Why};
pub use path::{Path, PathError};
pub use survey::{Limits, Reason, Scan, Skipped};
