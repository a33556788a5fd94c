//! What people who look for trouble want to know about the file, and a copy of it.

use std::path::{Path, PathBuf};

use weir_journal::StorageError;

use crate::connection::{Location, Role};
use crate::read::Reader;
use crate::rows::Result;

/// Facts about a journal file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The file's format version.
    pub format: i64,
    /// The newest format this program writes.
    pub format_supported: i64,
    /// The SQLite inside this program.
    pub sqlite: &'static str,
    /// Streams in it.
    pub streams: u64,
    /// Branches in it.
    pub branches: u64,
    /// Events in it.
    pub events: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the write-ahead log beside it.
    pub wal_bytes: u64,
}

pub(crate) fn gather(reader: &mut Reader, wal: &Path) -> Result<Facts> {
    let number =
        |sql: &str| -> Result<i64> { Ok(reader.rows.one(sql, [], |row| row.get(0))?.unwrap_or_default()) };
    let pages = number("PRAGMA page_count")?;
    Ok(Facts {
        format: number("PRAGMA user_version")?,
        format_supported: crate::schema::STEPS.len() as i64,
        sqlite: rusqlite::version(),
        streams: number("SELECT count(*) FROM streams")? as u64,
        branches: number("SELECT count(*) FROM branches")? as u64,
        events: number(
            "SELECT coalesce(sum(seq - at), 0) FROM heads JOIN branches ON branches.no = heads.branch",
        )? as u64,
        bytes: (pages * number("PRAGMA page_size")?) as u64,
        wal_bytes: std::fs::metadata(wal).map_or(0, |facts| facts.len()),
    })
}

/// A compact copy of one moment. `VACUUM INTO` reads one snapshot, so writers go on; the log cannot shrink meanwhile.
pub(crate) async fn backup(location: Location, target: PathBuf) -> std::result::Result<(), StorageError> {
    let done = tokio::task::spawn_blocking(move || {
        let copy = || {
            let connection = location.connect(Role::Checkpoint)?;
            // SQLite knows only names in UTF-8; another one would be written under a name nobody asked for.
            let not_text = || rusqlite::Error::InvalidPath(target.clone());
            connection.execute("VACUUM INTO ?1", [target.to_str().ok_or_else(not_text)?])
        };
        match copy() {
            Ok(_) => Ok(()),
            Err(error) => Err(location.explain(error)),
        }
    });
    match done.await {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
