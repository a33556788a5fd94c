//! Connections to the file, and what their errors mean.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use weir_journal::{StorageError, StorageFailure};

/// Where the file is and how to reach it; shared by everything that opens a connection.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) path: Arc<Path>,
    pub(crate) vfs: Option<Arc<str>>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Commit,
    Checkpoint,
    Read,
}

/// How long a writer waits for another process before it gives up.
const BUSY_MAX: Duration = Duration::from_secs(60);

impl Location {
    /// Opens a connection. The file is created if it is not there and this is the one that commits.
    pub(crate) fn connect(&self, role: Role) -> rusqlite::Result<Connection> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, role == Role::Commit);
        let mut connection = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&*self.path, flags, &**vfs)?,
            None => Connection::open_with_flags(&*self.path, flags)?,
        };
        connection.busy_handler(Some(wait_for_other_process))?;
        connection.set_prepared_statement_cache_capacity(64);
        configure(&connection, role)?;
        Ok(connection)
    }

    /// What a failed statement means to the user.
    pub(crate) fn explain(&self, error: rusqlite::Error) -> StorageError {
        StorageError { path: self.path.to_path_buf(), what: failure(&error), source: Box::new(error) }
    }

    /// The journal has been closed, or its thread has died.
    pub(crate) fn closed(&self) -> StorageError {
        let source = "its writer has stopped".into();
        StorageError { path: self.path.to_path_buf(), what: StorageFailure::Closed, source }
    }

    /// The write-ahead log beside the file.
    pub(crate) fn wal(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push("-wal");
        name.into()
    }
}

fn configure(connection: &Connection, role: Role) -> rusqlite::Result<()> {
    // Kibibytes. Only the committing connection keeps the hot pages of many sessions.
    let cache = if role == Role::Commit { -8_000 } else { -2_000 };
    connection.pragma_update(None, "cache_size", cache)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    // Plans do not depend on what is bound. Otherwise SQLite would prepare some statements again at every use.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    if role == Role::Read {
        connection.pragma_update(None, "query_only", true)?;
    }
    Ok(())
}

thread_local! {
    /// Whether statements of this thread wait for other processes.
    static WAITS: Cell<bool> = const { Cell::new(true) };
}

/// Runs statements that fail at once where they would have to wait for another process.
pub(crate) fn without_waiting<T>(work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            WAITS.set(true);
        }
    }
    WAITS.set(false);
    let _reset = Reset;
    work()
}

/// Called by SQLite, again and again, while another process holds the lock it needs. Short sleeps keep the wait close
/// to the other's commit; SQLite's own handler would back off to 100 ms.
fn wait_for_other_process(tries: i32) -> bool {
    thread_local! {
        static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    if !WAITS.get() {
        return false;
    }
    if tries == 0 {
        SINCE.set(Some(Instant::now()));
    }
    let waited = SINCE.get().map_or(Duration::ZERO, |since| since.elapsed());
    if waited > BUSY_MAX {
        return false;
    }
    std::thread::sleep(Duration::from_micros(if tries < 20 { 250 } else { 1_000 }));
    true
}

/// What a failed statement means.
pub(crate) fn failure(error: &rusqlite::Error) -> StorageFailure {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, QueryReturnedNoRows,
    };
    use rusqlite::ffi;
    let error = match error {
        rusqlite::Error::SqliteFailure(error, _) => error,
        // A value that we never write: somebody or something else did.
        FromSqlConversionFailure(..)
        | IntegralValueOutOfRange(..)
        | InvalidColumnType(..)
        | QueryReturnedNoRows => {
            return StorageFailure::Corrupt;
        }
        _ => return StorageFailure::Other,
    };
    match (error.code, error.extended_code) {
        (ErrorCode::DiskFull, _) => StorageFailure::Full,
        (ErrorCode::ReadOnly | ErrorCode::PermissionDenied, _) => StorageFailure::ReadOnly,
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => StorageFailure::Busy,
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => StorageFailure::Corrupt,
        // The shared memory file cannot grow on a full disk; SQLite has no better word for it.
        (_, ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMMAP) => StorageFailure::Full,
        _ => StorageFailure::Other,
    }
}
