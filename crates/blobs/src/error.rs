//! How storing, reading and sweeping blobs fail.

use std::borrow::Cow;
use std::path::PathBuf;

use weir_types::{Explain, Fault, Hash};

/// Why content was not stored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The content could not be read to its end.
    #[error("cannot read the content to store")]
    Source(#[source] std::io::Error),
    /// The store could not be written.
    #[error("cannot write to the blob store at `{}`", .path.display())]
    Storage {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why a blob was not read.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// It is not there.
    #[error("there is no blob {0}")]
    Missing(Hash),
    /// What is there is not what was stored.
    #[error("hash mismatch: the stored content of blob {hash} is damaged ({what})")]
    Mismatch {
        /// The name asked for.
        hash: Hash,
        /// What gave it away.
        what: String,
    },
    /// More content than the caller can take.
    #[error("blob {hash} has more than {bytes_max} bytes")]
    TooLarge {
        /// The name asked for.
        hash: Hash,
        /// The caller's limit.
        bytes_max: u64,
    },
    /// The store could not be read.
    #[error("cannot read blob {hash} at `{}`", .path.display())]
    Storage {
        /// The name asked for.
        hash: Hash,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl GetError {
    /// The error behind a failed read of a [`crate::Reader`].
    pub fn from_reader(hash: Hash, error: std::io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => ours,
            Err(source) => Self::Storage { hash, path: PathBuf::new(), source },
        }
    }
}

/// Why a sweep ended early. What was removed until then was garbage.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Nobody could say what is in use.
    #[error("cannot tell whether blob {hash} is in use; it was kept")]
    Live {
        /// The blob.
        hash: Hash,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store could not be read or changed.
    #[error("cannot sweep the blob store at `{}`", .path.display())]
    Storage {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Explain for PutError {
    fn code(&self) -> &'static str {
        match self {
            Self::Source(_) => "blobs::source",
            Self::Storage { .. } => "blobs::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Source(_) => "check the file or pipe the content comes from, then repeat".into(),
            Self::Storage { source, .. } => storage_help(source),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Source(_) => Fault::Input,
            Self::Storage { .. } => Fault::Storage,
        }
    }
}

impl Explain for GetError {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "blobs::missing",
            Self::Mismatch { .. } => "blobs::mismatch",
            Self::TooLarge { .. } => "blobs::too-large",
            Self::Storage { .. } => "blobs::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Missing(_) => {
                "check the hash, or restore the blob from a backup with `weir blob put FILE`".into()
            }
            Self::Mismatch { .. } => {
                "put the original content again with `weir blob put FILE`: that repairs it".into()
            }
            Self::TooLarge { hash, .. } => {
                format!("stream it to a file with `weir blob get {hash} --output FILE`").into()
            }
            Self::Storage { source, .. } => storage_help(source),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Missing(_) => Fault::Missing,
            Self::Mismatch { .. } => Fault::Damaged,
            Self::TooLarge { .. } => Fault::Input,
            Self::Storage { .. } => Fault::Storage,
        }
    }
}

impl Explain for SweepError {
    fn code(&self) -> &'static str {
        match self {
            Self::Live { .. } => "blobs::live",
            Self::Storage { .. } => "blobs::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Live { .. } => "check the journal with `weir verify`, then repeat".into(),
            Self::Storage { source, .. } => storage_help(source),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Storage
    }
}

fn storage_help(error: &std::io::Error) -> Cow<'static, str> {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => "free some space on this disk; nothing of this was stored".into(),
        PermissionDenied | ReadOnlyFilesystem => {
            "make the data directory writable for this user, or choose another with `--data-dir DIR`".into()
        }
        _ => "check the disk and the permissions with `weir doctor`; nothing of this was stored".into(),
    }
}
