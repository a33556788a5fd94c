//! What can happen to a disk, and what is left of it afterwards.

use std::ffi::c_int;

use libsqlite3_sys as ffi;

/// What happens to a disk, and at which operation. Operations are counted from 0, as [`Disk::operations`] counts
/// them; a number that has already passed means the next one.
///
/// [`Disk::operations`]: crate::Disk::operations
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Operation `at` and all later ones return an error.
    FailFrom {
        /// The first operation that fails.
        at: u64,
        /// The error that SQLite gets.
        error: IoFault,
    },
    /// Operation `at` returns an error; the ones after it succeed.
    FailOnce {
        /// The operation that fails.
        at: u64,
        /// The error that SQLite gets.
        error: IoFault,
    },
    /// The power goes out before operation `at`. It and all later ones claim success, so the process runs on without
    /// noticing, but [`Disk::image`](crate::Disk::image) no longer changes. What the process acknowledges from then
    /// on does not count.
    StopPersisting {
        /// The first operation that never reaches the platter.
        at: u64,
    },
}

impl Fault {
    pub(crate) fn at(self) -> u64 {
        match self {
            Self::FailFrom { at, .. } | Self::FailOnce { at, .. } | Self::StopPersisting { at } => at,
        }
    }
}

/// How a failing operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoFault {
    /// The device reports an error: `SQLITE_IOERR_WRITE`, `_FSYNC`, `_TRUNCATE` or `_DELETE`.
    IoErr,
    /// There is no space left, whatever the operation: `SQLITE_FULL`.
    Full,
}

impl IoFault {
    /// The result code for SQLite, given the one that an I/O error of this operation has.
    pub(crate) fn code(self, io_error: c_int) -> c_int {
        match self {
            Self::IoErr => io_error,
            Self::Full => ffi::SQLITE_FULL,
        }
    }
}

/// What becomes of the operations that were not synced when the power went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All are lost.
    Everything,
    /// All are kept. Also what `kill -9` leaves: the process dies, the operating system does not.
    Nothing,
    /// Each sector of each write, each change of a file's size, and each creation or deletion of a file is kept or
    /// lost on its own. The seed decides which, and how likely each is to be kept.
    Random {
        /// The same seed on the same disk gives the same image.
        seed: u64,
    },
}

/// How often SQLite has called for a sync, by the role of the file. Failed calls count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Syncs of database files: in WAL mode, one per checkpoint.
    pub database: u64,
    /// Syncs of write-ahead logs: one per commit, one per new WAL header, one per checkpoint.
    pub wal: u64,
    /// Syncs of rollback journals and of anything else.
    pub other: u64,
}
