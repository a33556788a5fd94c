//! A disk that fails or loses power, under a real SQLite: a test-only VFS.
//!
//! A [`Disk`] lives in memory. It remembers, file by file, what has been synced and what has only been written, so at
//! any moment it can say what a power cut would leave behind: an [`Image`], from which the next disk starts. A
//! [`Fault`] makes the disk fail, or lose power, at one chosen operation; a test that tries every operation in turn
//! has tried every moment that matters.
//!
//! ```
//! use rusqlite::{Connection, OpenFlags};
//! use weir_powercut::{Disk, Fault, Loss};
//!
//! let disk = Disk::new();
//! let db = Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), disk.vfs_name())?;
//! db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (x)")?;
//! db.execute("INSERT INTO t VALUES ('before')", [])?;
//!
//! disk.arm(Fault::StopPersisting { at: disk.operations() }); // the lights go out at the next write
//! db.execute("INSERT INTO t VALUES ('after')", [])?; // SQLite believes that this was stored
//! assert!(disk.fired());
//!
//! let disk = Disk::from_image(&disk.image(Loss::Everything)); // power is back
//! let db = Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), disk.vfs_name())?;
//! let rows: String = db.query_row("SELECT group_concat(x) FROM t", [], |row| row.get(0))?;
//! assert_eq!(rows, "before");
//! # Ok::<(), rusqlite::Error>(())
//! ```
//!
//! # The model
//!
//! - A write or truncation is pending until its file is synced; no other file is concerned.
//! - The creation or deletion of a file is pending until the directory is synced. That happens when a new file is
//!   synced for the first time, as SQLite's own Unix VFS does it, and when a deletion asks for it.
//! - Without power, what was pending is kept or lost as [`Loss`] says: reordered and torn at any sector of 512 bytes.
//! - A write that fails leaves its first half behind. A sync that fails drops what it should have made durable: the
//!   process still reads it, a later sync succeeds, and it is gone after the cut. This is what Linux does.
//! - As SQLite's own Unix VFS does, the disk claims *powersafe overwrite* and nothing else: a write never harms the
//!   bytes beside it. A path such as `file:a.db?psow=0` takes the claim back, and SQLite pads its WAL to whole sectors.
//!
//! Names are plain strings; there are no directories, and `a.db` is not `./a.db`. Reading never fails. Memory-mapped
//! I/O is not offered. Shared memory for the WAL works between the connections of one process.

mod disk;
mod fault;
#[allow(
    unsafe_code,
    reason = "SQLite calls these functions, and passes raw pointers to its files and buffers"
)]
#[warn(clippy::undocumented_unsafe_blocks)]
mod file;
mod image;
mod locks;
mod platter;
#[allow(unsafe_code, reason = "SQLite reads and writes these regions through raw pointers, from any thread")]
#[warn(clippy::undocumented_unsafe_blocks)]
mod shm;
#[allow(unsafe_code, reason = "SQLite keeps a raw pointer to the VFS, and passes it to these functions")]
#[warn(clippy::undocumented_unsafe_blocks)]
mod vfs;

pub use disk::Disk;
pub use fault::{Fault, IoFault, Loss, SyncCounts};
pub use image::Image;
