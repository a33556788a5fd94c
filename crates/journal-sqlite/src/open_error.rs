//! Why a journal is not opened, and what to do about it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use weir_journal::StorageError;
use weir_types::{Explain, Fault};

/// Why a journal was not opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is not a journal.
    #[error("`{}` is not a journal", .path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// The file was a journal, and is damaged so badly that it cannot be opened.
    #[error("the journal at `{}` is damaged: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A newer version wrote it.
    #[error("`{}` has format version {found}; this version of weir reads up to {supported}", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// Ours.
        supported: i32,
    },
    /// Locks and shared memory do not work there.
    #[error("`{}` is on a network file system ({kind})", .path.display())]
    Network {
        /// The directory.
        path: PathBuf,
        /// Which.
        kind: &'static str,
    },
    /// An older file must be brought up to date, but others are using it.
    #[error("`{}` must be brought from format version {found} to {wanted}, but other processes are using it", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// Ours.
        wanted: i32,
    },
    /// Another user owns the directory.
    #[error("the data directory `{}` belongs to another user (uid {owner})", .path.display())]
    NotOwner {
        /// The directory.
        path: PathBuf,
        /// The user.
        owner: u32,
    },
    /// Other users can enter the directory, which is not used by Weir alone.
    #[error("other users can use the data directory `{}` (mode {mode:04o}), and it holds other files", .path.display())]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The directory cannot be used.
    #[error("cannot use `{}`", .path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The log cannot be recovered where it is, and there is no room for a copy.
    #[error("`{}` can only be read, and cannot be copied to be read elsewhere", .path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// SQLite cannot use the file.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl Explain for OpenError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotAJournal { .. } => "journal::not-a-journal",
            Self::Damaged { .. } => "journal::damaged",
            Self::Newer { .. } => "journal::newer",
            Self::Network { .. } => "journal::network",
            Self::InUse { .. } => "journal::in-use",
            Self::NotOwner { .. } => "journal::not-owner",
            Self::Exposed { .. } => "journal::exposed",
            Self::Directory { .. } | Self::Copy { .. } | Self::Storage(_) => "journal::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotAJournal { .. } => {
                "move that file away, or choose another directory with `--data-dir DIR`".into()
            }
            Self::Damaged { path, .. } => damaged_help(path).into(),
            Self::Newer { .. } => {
                "use the newer weir that wrote it, or choose another `--data-dir DIR`".into()
            }
            Self::Network { .. } => "keep the data on a local disk: choose one with `--data-dir DIR`".into(),
            Self::InUse { .. } => {
                "stop the other weir processes, then repeat; `weir doctor` names them".into()
            }
            Self::NotOwner { path, .. } => format!(
                "run weir as that user, or give the directory to yourself with `sudo chown -R \"$(id -u)\" '{}'`",
                path.display()
            )
            .into(),
            Self::Exposed { path, .. } => format!(
                "close it to others with `chmod 700 '{}'`, or choose a directory for weir alone with `--data-dir DIR`",
                path.display()
            )
            .into(),
            Self::Directory { .. } => {
                "make the data directory writable for this user, or choose another with `--data-dir DIR`"
                    .into()
            }
            Self::Copy { .. } => {
                "its log has to be recovered: make room in the directory for temporary files (TMPDIR), or copy the data \
                 directory to where it can be written"
                    .into()
            }
            Self::Storage(error) => error.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotAJournal { .. }
            | Self::Network { .. }
            | Self::Newer { .. }
            | Self::NotOwner { .. }
            | Self::Exposed { .. } => Fault::Input,
            Self::InUse { .. } => Fault::Conflict,
            Self::Damaged { .. } => Fault::Damaged,
            Self::Directory { .. } | Self::Copy { .. } => Fault::Storage,
            Self::Storage(error) => error.fault(),
        }
    }
}

fn damaged_help(file: &Path) -> String {
    let directory = file.parent().unwrap_or(Path::new(".")).display();
    format!(
        "stop every weir process that uses it and keep a copy (`cp -a '{directory}' '{directory}.damaged'`); then \
         unpack a `weir backup` into a new directory and use that with `--data-dir`. Without a backup, `weir import` of \
         an older `weir export` into a new directory brings back what was in that export"
    )
}
