//! Opening a journal to read it where nothing can be written: read-only media, and directories of other users.
//!
//! - With a log and its shared memory beside the file, SQLite reads all three; others may be writing.
//! - With a log alone, somebody has to recover it. That is done in a private copy.
//! - Without a log the file is complete. It is read as it is, and every read checks that it has not changed since.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::connection::{Access, Location, Role, Unchanging};
use crate::open::{self, Findings, Opened, directory_of, refuse};
use crate::open_error::OpenError;
use crate::schema::{self, Identity};
use crate::witness;

/// A log with no frame in it.
const LOG_HEADER: u64 = 32;

/// What a copy needs to tell what the original would tell.
const COPIED: &[&str] = &["anchor", "damage.jsonl"];

/// Opens a journal to read it, and changes nothing in its directory. Blocks.
pub(crate) fn open(path: &Path) -> Result<Opened, OpenError> {
    let fail = |source| OpenError::Directory { path: path.to_owned(), source };
    let location = Location { path: path.into(), vfs: None, access: Access::ReadOnly };
    let log = location.wal();
    let log_bytes = std::fs::metadata(&log).map_or(0, |facts| facts.len());
    let has_memory = witness::beside(path, "-shm").exists();
    if log_bytes > LOG_HEADER {
        return match has_memory.then(|| open_in_place(location)) {
            Some(Ok(opened)) => Ok(opened),
            // Without the right to write, SQLite cannot always make use of what a killed process has left.
            _ => open_copy(path),
        };
    }
    let size = std::fs::metadata(path).map_err(fail)?.len();
    if size <= 1 {
        return Err(witness::missing(path));
    }
    let file = Unchanging::new(path, log).map_err(fail)?;
    open_in_place(Location { access: Access::Unchanging(Arc::new(file)), ..location })
}

fn open_in_place(location: Location) -> Result<Opened, OpenError> {
    let path = Arc::clone(&location.path);
    let directory = directory_of(&path);
    // A share of the lock tells others, if we may have it, that the file is in use.
    let lock = File::open(directory.join("lock")).ok().filter(|lock| lock.try_lock_shared().is_ok());
    let connection = location.connect(Role::Read).map_err(|error| refuse(&location, error))?;
    let supported = schema::STEPS.len() as i32;
    match schema::identify(&connection).map_err(|error| refuse(&location, error))? {
        Identity::Foreign | Identity::Fresh => return Err(witness::foreign(&path)),
        Identity::Journal(found) if found > supported => {
            return Err(OpenError::Newer { path: path.to_path_buf(), found, supported });
        }
        Identity::Journal(found) if found < supported => {
            return Err(OpenError::InUse { path: path.to_path_buf(), found, wanted: supported });
        }
        Identity::Journal(_) => {}
    }
    let damage = witness::read_findings(&connection, directory);
    let findings = Findings { damage, narrowed_from: None };
    Ok(Opened { location, connection, lock, anchor: None, findings, copy: None })
}

/// Opens a copy of the files, where the log can be recovered.
fn open_copy(path: &Path) -> Result<Opened, OpenError> {
    let made = tempfile::Builder::new().prefix("weir-read-").tempdir();
    let copy = made.and_then(|copy| copy_files(path, copy.path()).map(|()| copy));
    let copy = copy.map_err(|source| OpenError::Copy { path: path.to_owned(), source })?;
    let opened = open::open(&copy.path().join("journal.db"), None)?;
    Ok(Opened { copy: Some(copy), ..opened })
}

fn copy_files(path: &Path, target: &Path) -> io::Result<()> {
    std::fs::copy(path, target.join("journal.db"))?;
    std::fs::copy(witness::beside(path, "-wal"), target.join("journal.db-wal"))?;
    for name in COPIED {
        match std::fs::copy(directory_of(path).join(name), target.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
