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
    pub(crate) access: Access,
}

/// What may be done with the file.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Everything.
    Full,
    /// Reading, with a log that others may be writing.
    ReadOnly,
    /// Reading a file that nobody changes, as long as that holds.
    Unchanging(Arc<Unchanging>),
}

/// A file as it was found, without a log.
#[derive(Debug)]
pub(crate) struct Unchanging {
    path: PathBuf,
    log: PathBuf,
    facts: FileFacts,
}

/// Device, inode, size, and the time of the last change.
type FileFacts = (u64, u64, u64, i64, i64);

impl Unchanging {
    pub(crate) fn new(path: &Path, log: PathBuf) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), log, facts: facts(path)? })
    }

    /// Whether anybody has begun to write.
    fn has_changed(&self) -> bool {
        let has_log = std::fs::metadata(&self.log).is_ok_and(|facts| facts.len() > 0);
        has_log || facts(&self.path).map_or(true, |facts| facts != self.facts)
    }
}

fn facts(path: &Path) -> std::io::Result<FileFacts> {
    use std::os::unix::fs::MetadataExt;
    let facts = std::fs::metadata(path)?;
    Ok((facts.dev(), facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()))
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
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = match (&self.access, &self.vfs) {
            (Access::Full, vfs) => {
                flags |= OpenFlags::SQLITE_OPEN_READ_WRITE;
                flags.set(OpenFlags::SQLITE_OPEN_CREATE, role == Role::Commit);
                match vfs {
                    Some(vfs) => Connection::open_with_flags_and_vfs(&*self.path, flags, &**vfs)?,
                    None => Connection::open_with_flags(&*self.path, flags)?,
                }
            }
            (Access::ReadOnly, _) => {
                Connection::open_with_flags(&*self.path, flags | OpenFlags::SQLITE_OPEN_READ_ONLY)?
            }
            (Access::Unchanging(_), _) => {
                flags |= OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(immutable_uri(&self.path), flags)?
            }
        };
        connection.busy_handler(Some(wait_for_other_process))?;
        connection.set_prepared_statement_cache_capacity(64);
        configure(&connection, role)?;
        Ok(connection)
    }

    /// Fails if what was just read may have been changed meanwhile.
    pub(crate) fn check_unchanged(&self) -> Result<(), StorageError> {
        match &self.access {
            Access::Unchanging(file) if file.has_changed() => {
                let source = "another process has begun to write it; repeat the command".into();
                Err(StorageError { path: self.path.to_path_buf(), what: StorageFailure::Busy, source })
            }
            _ => Ok(()),
        }
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

/// A name under which SQLite neither locks a file nor looks for its log.
fn immutable_uri(path: &Path) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = b"file://".to_vec();
    for byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(*byte),
            other => uri.extend(format!("%{other:02X}").bytes()),
        }
    }
    uri.extend(b"?immutable=1");
    std::ffi::OsString::from_vec(uri)
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
