//! Files that a command writes: there complete, or not at all.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use weir_support::new_file::{self, Existing, directory_of};
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
        new_file::remove_leftovers(directory_of(&place));
        let file = new_file::unfinished(directory_of(&place), mode).map_err(fail)?;
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
                new_file::finish(file, &place, existing).map_err(|source| match source.kind() {
                    io::ErrorKind::AlreadyExists => TargetError::Exists(path),
                    _ => TargetError::Unwritable { path, source },
                })
            }
        }
    }

    /// The error for a failed write.
    pub(crate) fn unwritable(&self, source: io::Error) -> TargetError {
        let (Self::Beside { path, .. } | Self::Through { path, .. }) = self;
        TargetError::Unwritable { path: path.clone(), source }
    }
}
