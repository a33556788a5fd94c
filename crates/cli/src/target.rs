//! Files that a command writes: there complete, or not at all.

use std::borrow::Cow;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use weir_types::{Explain, Fault};

/// A file on its way. Dropped before [`Target::finish`], it leaves no trace.
pub(crate) enum Target {
    /// Written beside its place, then renamed.
    Beside {
        /// The unfinished file.
        file: NamedTempFile,
        /// Its place, as it was named.
        path: PathBuf,
        /// Its place, behind all links.
        place: PathBuf,
        /// What may happen to a file that is there.
        existing: Existing,
    },
    /// A pipe or a device: there is nothing to rename.
    Through {
        /// It.
        file: File,
        /// Its place.
        path: PathBuf,
    },
}

/// What to do with a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Put the new one in its place.
    Replace,
    /// Leave it, and fail.
    Keep,
}

/// Who may read the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Whoever the umask allows.
    Usual,
    /// The user alone.
    Owner,
}

/// Why there is no file. What was there before is still there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    /// Something is there.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf),
    /// It cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Unwritable {
        /// Its place.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Explain for TargetError {
    fn code(&self) -> &'static str {
        match self {
            Self::Exists(_) => "cli::exists",
            Self::Unwritable { .. } => "cli::unwritable",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Exists(_) => "choose another name, or replace it with `--force`".into(),
            Self::Unwritable { .. } => {
                "check free space and permissions there; no partial file was left behind".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Exists(_) => Fault::Conflict,
            Self::Unwritable { .. } => Fault::Storage,
        }
    }
}

impl Target {
    /// Begins a file at `path`. Blocks for a moment.
    pub(crate) fn create(path: &Path, existing: Existing, readers: Readers) -> Result<Self, TargetError> {
        let fail = |source| TargetError::Unwritable { path: path.to_owned(), source };
        // What a link points at is replaced, not the link.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let path = path.to_owned();
        match std::fs::metadata(&place) {
            Ok(_) if existing == Existing::Keep => return Err(TargetError::Exists(path)),
            Ok(metadata) if metadata.is_dir() => return Err(fail(io::ErrorKind::IsADirectory.into())),
            // Renaming a file over /dev/null would be a poor answer to `--output /dev/null`.
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(&place).map_err(fail)?;
                return Ok(Self::Through { file, path });
            }
            _ => {}
        }
        let mode = match readers {
            Readers::Usual => 0o666,
            Readers::Owner => 0o600,
        };
        remove_leftovers(directory_of(&place));
        let file = new_file(directory_of(&place), mode).map_err(fail)?;
        Ok(Self::Beside { file, path, place, existing })
    }

    /// A handle to write with, usable on another thread. The file itself stays with `self`, so that an interrupted
    /// command removes it.
    pub(crate) fn writer(&self) -> Result<File, TargetError> {
        let file = match self {
            Self::Beside { file, .. } => file.as_file(),
            Self::Through { file, .. } => file,
        };
        file.try_clone().map_err(|source| self.unwritable(source))
    }

    /// Makes it durable and puts it in its place. Blocks until it is on the disk.
    pub(crate) fn finish(self) -> Result<(), TargetError> {
        match self {
            Self::Through { mut file, path } => {
                file.flush().map_err(|source| TargetError::Unwritable { path, source })
            }
            Self::Beside { file, path, place, existing } => {
                let fail = |source| TargetError::Unwritable { path: path.clone(), source };
                file.as_file().sync_all().map_err(fail)?;
                let placed = match existing {
                    Existing::Replace => file.persist(&place),
                    Existing::Keep => file.persist_noclobber(&place),
                };
                placed.map_err(|error| match error.error.kind() {
                    io::ErrorKind::AlreadyExists => TargetError::Exists(path.clone()),
                    _ => fail(error.error),
                })?;
                File::open(directory_of(&place)).and_then(|directory| directory.sync_all()).map_err(fail)
            }
        }
    }

    /// The error for a failed write.
    pub(crate) fn unwritable(&self, source: io::Error) -> TargetError {
        let (Self::Beside { path, .. } | Self::Through { path, .. }) = self;
        TargetError::Unwritable { path: path.clone(), source }
    }
}

/// Makes an unfinished file, locked for as long as it is open: that tells others that its writer lives.
fn new_file(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(PREFIX).suffix(SUFFIX).permissions(Permissions::from_mode(mode));
    loop {
        let file = temporary.tempfile_in(directory).map_err(plain)?;
        file.as_file().lock()?;
        // Another process may have taken it for a dead one's before it was locked.
        if file.as_file().metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// What unfinished files are called; each is locked by its writer.
pub(crate) const PREFIX: &str = ".weir-out-";
pub(crate) const SUFFIX: &str = ".tmp";

/// Removes what writers have left that were killed. Best effort: what cannot be removed is in nobody's way.
pub(crate) fn remove_leftovers(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(path: &Path) {
    // Not what a link points at, and nothing that opening would wait for.
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

/// The system's own words: `tempfile` adds the name of a file that nobody has heard of.
pub(crate) fn plain(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((words, _)) => io::Error::new(error.kind(), words.to_owned()),
        None => error,
    }
}

/// The directory a file is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
