//! How looking at a directory and writing into one fail.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use weir_blobs::{GetError, PutError};
use weir_types::{Explain, Fault, Hash};

use crate::{Path, disk};

/// Why no changes were found in a directory. None of them was taken.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    /// The directory itself cannot be looked at.
    #[error("cannot read the directory `{}`", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something in it cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// Where it is, relative to the directory; `.` is the directory.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file or directory was there and is gone, or is something else now.
    #[error("`{path}` was replaced while the directory was read")]
    Replaced {
        /// Where it was, relative to the directory.
        path: String,
    },
    /// More entries than allowed.
    #[error("the directory has more than {entries_max} files and directories")]
    TooMany {
        /// The limit.
        entries_max: usize,
    },
    /// A file longer than allowed.
    #[error("`{path}` has more than {bytes_max} bytes")]
    FileTooLarge {
        /// The file.
        path: Path,
        /// The limit.
        bytes_max: u64,
    },
    /// Files that are longer than allowed together.
    #[error("the files have more than {bytes_max} bytes together")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// A checkout into the directory was interrupted, or has not ended yet.
    #[error("the checkout in this directory is not complete: it has a `{}`", Path::MARKER)]
    Unfinished,
    /// A content cannot be stored.
    #[error("cannot store the content of `{path}`")]
    Store {
        /// The file.
        path: Path,
        /// Why.
        #[source]
        source: PutError,
    },
}

impl ChangesError {
    /// What a failed look at `path` means.
    pub(crate) fn read(path: &str, source: io::Error) -> Self {
        let path = if path.is_empty() { ".".to_owned() } else { path.to_owned() };
        if disk::is_replaced(&source) { Self::Replaced { path } } else { Self::Unreadable { path, source } }
    }
}

/// Why files were not written into a directory, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// There is something in it.
    #[error("the directory `{}` is not empty", .directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// Something that we did not put there.
    #[error("something else was put at `{}`, or on the way to it, while files were written there", .path.display())]
    InTheWay {
        /// The file that was not written.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A content cannot be read.
    #[error("cannot read the content of `{path}`")]
    Blob {
        /// The file.
        path: Path,
        /// Why.
        #[source]
        source: GetError,
    },
    /// A content is not what the file is said to have.
    #[error("hash mismatch: the content of `{path}` is not {hash}")]
    Mismatch {
        /// The file.
        path: Path,
        /// What was asked for.
        hash: Hash,
    },
}

impl Explain for ChangesError {
    fn code(&self) -> &'static str {
        match self {
            Self::Directory { .. } | Self::Unreadable { .. } => "workspace::unreadable",
            Self::Replaced { .. } => "workspace::replaced",
            Self::TooMany { .. } => "workspace::too-many",
            Self::FileTooLarge { .. } | Self::TooLarge { .. } => "workspace::too-large",
            Self::Unfinished => "workspace::unfinished",
            Self::Store { source, .. } => source.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Directory { .. } => "check that it is a directory this user can read".into(),
            Self::Unreadable { .. } => {
                "make it readable for this user, or leave it out; nothing was taken".into()
            }
            Self::Replaced { .. } => "repeat when nothing writes to the directory; nothing was taken".into(),
            Self::TooMany { .. } | Self::FileTooLarge { .. } | Self::TooLarge { .. } => {
                "remove or leave out what is not needed; nothing was taken".into()
            }
            Self::Unfinished => "check out again, into another directory".into(),
            Self::Store { source, .. } => source.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Directory { source, .. } if source.kind() == io::ErrorKind::NotFound => Fault::Missing,
            Self::Directory { .. } | Self::Unreadable { .. } => Fault::Input,
            Self::TooMany { .. } | Self::FileTooLarge { .. } | Self::TooLarge { .. } => Fault::Input,
            Self::Replaced { .. } => Fault::Conflict,
            Self::Unfinished => Fault::Input,
            Self::Store { source, .. } => source.fault(),
        }
    }
}

impl Explain for CheckoutError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotEmpty { .. } => "workspace::not-empty",
            Self::InTheWay { .. } => "workspace::in-the-way",
            Self::Write { .. } => "workspace::unwritable",
            Self::Blob { source, .. } => source.code(),
            Self::Mismatch { .. } => "workspace::mismatch",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotEmpty { .. } => "name a directory that is empty, or one that is not there yet".into(),
            Self::InTheWay { .. } => {
                "check out again, into another directory; on a disk that ignores case, two names may be one"
                    .into()
            }
            Self::Write { .. } => {
                "check free space and permissions, then check out into another directory".into()
            }
            Self::Blob { source, .. } => source.help(),
            Self::Mismatch { .. } => "check the data directory with `weir verify`".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotEmpty { .. } => Fault::Input,
            Self::InTheWay { .. } => Fault::Conflict,
            Self::Write { .. } => Fault::Storage,
            Self::Blob { source, .. } => source.fault(),
            Self::Mismatch { .. } => Fault::Damaged,
        }
    }
}
