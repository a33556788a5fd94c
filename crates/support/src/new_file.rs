//! Files that appear complete or not at all: written beside their place, synced, then renamed.
//!
//! An unfinished file is locked by its writer for as long as the file is open. So a later command can tell what a
//! killed writer left behind from what is being written: see [`remove_leftovers`].

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};

/// How the name of an unfinished file begins.
const PREFIX: &str = ".weir-out-";
/// How the name of an unfinished file ends.
const SUFFIX: &str = ".tmp";

/// Whether a name is that of an unfinished file of ours.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Replaces `path` by a file with these bytes. Blocks until it is on the disk.
///
/// # Errors
/// When the file cannot be written; then what was there before is still there.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = unfinished(directory_of(path), mode)?;
    file.write_all(bytes)?;
    finish(file, path, Existing::Replace)
}

/// What to do with a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Put the new one in its place.
    Replace,
    /// Keep it and fail with [`io::ErrorKind::AlreadyExists`].
    Keep,
}

/// Makes an unfinished file in a directory. Dropping it removes it. The umask applies to `mode`.
///
/// # Errors
/// When the directory cannot be written.
pub fn unfinished(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    loop {
        let file = named().permissions(Permissions::from_mode(mode)).tempfile_in(directory).map_err(plain)?;
        file.as_file().lock()?;
        // Between creation and lock, another process may have removed it as a leftover.
        if rustix::fs::fstat(file.as_file())?.st_nlink > 0 {
            return Ok(file);
        }
    }
}

/// A directory for unfinished work; dropping it removes it.
#[derive(Debug)]
pub struct UnfinishedDirectory {
    directory: TempDir,
    _lock: File,
}

impl UnfinishedDirectory {
    /// Makes it in `directory`.
    ///
    /// # Errors
    /// When `directory` cannot be written.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let directory = named().tempdir_in(directory).map_err(plain)?;
        let lock = File::open(directory.path())?;
        lock.lock()?;
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Makes a file durable and gives it its name. Blocks until both are on the disk.
///
/// # Errors
/// When it cannot be synced or renamed; then the unfinished file is removed.
pub fn finish(file: NamedTempFile, path: &Path, existing: Existing) -> io::Result<()> {
    file.as_file().sync_all()?;
    match existing {
        Existing::Replace => file.persist(path),
        Existing::Keep => file.persist_noclobber(path),
    }
    .map_err(|error| plain(error.error))?;
    File::open(directory_of(path))?.sync_all()
}

/// Removes the unfinished files and directories of writers that were killed. Best effort.
pub fn remove_leftovers(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if is_unfinished(&entry.file_name().to_string_lossy()) {
            remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(path: &Path) {
    // A link is not followed, and a pipe is not opened: opening would wait.
    let Ok(facts) = std::fs::symlink_metadata(path) else { return };
    if !facts.is_file() && !facts.is_dir() {
        return;
    }
    let Ok(file) = File::open(path) else { return };
    if file.try_lock().is_err() {
        return;
    }
    let _ = if facts.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

/// The system's own words: `tempfile` appends the path of a temporary file, which means nothing to a reader.
pub fn plain(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((words, _)) => io::Error::new(error.kind(), words.to_owned()),
        None => error,
    }
}

/// The directory of a file: `.` for a bare name.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "before").unwrap();
        write(&path, b"after", 0o600).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_file_that_must_stay_stays_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "before").unwrap();
        let file = unfinished(directory.path(), 0o600).unwrap();
        let error = finish(file, &path, Existing::Keep).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn leftovers_of_the_dead_are_removed_and_the_work_of_the_living_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(".weir-out-dead.tmp");
        std::fs::write(&left, "half").unwrap();
        let other = directory.path().join(".weir-out-notes");
        std::fs::write(&other, "of somebody").unwrap();
        let alive = unfinished(directory.path(), 0o600).unwrap();
        remove_leftovers(directory.path());
        assert!(!left.exists());
        assert!(other.exists() && alive.path().exists());
    }

    #[test]
    fn an_error_has_no_name_of_a_temporary_file() {
        let error = write(Path::new("/nonexistent/a"), b"", 0o600).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!error.to_string().contains("weir-out"), "{error}");
    }
}
