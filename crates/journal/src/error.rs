//! The three ways an operation on a journal fails, one enum each.

use std::borrow::Cow;
use std::path::PathBuf;

use weir_types::{BranchId, BranchName, Explain, Fault, OwnerId, Seq, StreamName};

use crate::append::Key;

/// The storage under an engine failed. Nothing was changed, unless a sync failed and the process ends before the next
/// append: then what was refused may turn up after a restart.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the journal at `{}`: {what}", .path.display())]
pub struct StorageError {
    /// The file.
    pub path: PathBuf,
    /// What went wrong, in a word or two.
    pub what: StorageFailure,
    /// The engine's own words.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// How storage fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageFailure {
    /// No space left.
    #[error("the disk is full")]
    Full,
    /// The file or its directory cannot be written.
    #[error("it is read-only")]
    ReadOnly,
    /// Another process kept it locked for longer than we wait.
    #[error("another process has kept it locked for too long")]
    Busy,
    /// The file is damaged below the level of events.
    #[error("the file is damaged")]
    Corrupt,
    /// Anything else.
    #[error("the storage failed")]
    Other,
    /// The journal was closed, or its writer died.
    #[error("the journal is closed")]
    Closed,
}

impl StorageFailure {
    fn help(self) -> &'static str {
        match self {
            Self::Full => "free some space on this disk; nothing of this was stored",
            Self::ReadOnly => {
                "make the data directory writable for this user, or choose another with `--data-dir DIR`"
            }
            Self::Busy => {
                "find the process that holds it with `weir doctor`, and let it finish; nothing of this was stored"
            }
            Self::Corrupt => {
                "stop writing and keep a copy of the data directory, then restore a `weir backup`, or `weir import` an \
                 older `weir export` into a new one; `weir verify` lists the damaged parts"
            }
            Self::Other => {
                "check free space and permissions with `weir doctor`, then see what is stored with `weir cat` before you repeat it"
            }
            Self::Closed => "open the data directory again",
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::Corrupt => Fault::Damaged,
            Self::Full | Self::ReadOnly | Self::Busy | Self::Other | Self::Closed => Fault::Storage,
        }
    }
}

impl Explain for StorageError {
    fn code(&self) -> &'static str {
        "journal::storage"
    }

    fn help(&self) -> Cow<'static, str> {
        self.what.help().into()
    }

    fn fault(&self) -> Fault {
        self.what.fault()
    }
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// `expected` did not hold.
    #[error("{branch} is at seq {actual}, not at {expected}")]
    Conflict {
        /// The branch.
        branch: BranchId,
        /// What the caller expected (0: no stream).
        expected: Seq,
        /// What is there.
        actual: Seq,
    },
    /// The key was used before with other events.
    #[error("key `{key}` was already used on {branch} for other content")]
    KeyReused {
        /// The branch.
        branch: BranchId,
        /// The key.
        key: Key,
    },
    /// The stream belongs to somebody else by now.
    #[error("stream `{stream}` is owned by {}", show_owner(.owner))]
    Fenced {
        /// The stream.
        stream: StreamName,
        /// Its owner, if any.
        owner: Option<OwnerId>,
    },
    /// Branches other than `main` come from a fork.
    #[error("stream `{}` has no branch `{}`", .0.stream, .0.branch)]
    NoBranch(BranchId),
    /// An id that an event already has.
    #[error("an event with id {id} already exists")]
    DuplicateId {
        /// The id.
        id: weir_types::EventId,
    },
    /// The request breaks a limit.
    #[error("{what}")]
    Invalid {
        /// Which.
        what: String,
    },
    /// The blob store refused a large payload.
    #[error("cannot store a large payload")]
    Blob(#[source] weir_blobs::PutError),
    /// An event names a blob that is not in the store.
    #[error("an event names blob {hash}, which is not in the blob store")]
    NoBlob {
        /// The blob.
        hash: weir_types::Hash,
    },
    /// What is there already is damaged; nothing is appended behind it.
    #[error("cannot append: {0}")]
    Damaged(#[source] ReadError),
    /// The storage failed; nothing was appended.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn show_owner(owner: &Option<OwnerId>) -> String {
    owner.map_or_else(|| "nobody".to_owned(), |owner| owner.to_string())
}

impl Explain for AppendError {
    fn code(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "journal::conflict",
            Self::KeyReused { .. } => "journal::key-reused",
            Self::Fenced { .. } => "journal::fenced",
            Self::NoBranch(_) => "journal::no-branch",
            Self::DuplicateId { .. } => "journal::duplicate-id",
            Self::Invalid { .. } => "journal::invalid",
            Self::Blob(source) => source.code(),
            Self::NoBlob { .. } => "journal::no-blob",
            Self::Damaged(source) => source.code(),
            Self::Storage(_) => "journal::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Conflict { branch, .. } => format!(
                "read what is new with `weir cat --stream '{}' --branch '{}'`, then decide again",
                branch.stream, branch.branch
            )
            .into(),
            Self::KeyReused { .. } => "use a new key for new content; a key names one append for ever".into(),
            Self::Fenced { .. } => "another process runs this session now; this one must stop".into(),
            Self::NoBranch(branch) => no_branch_help(branch),
            Self::DuplicateId { .. } => {
                "leave the id out, a fresh one is minted; imports skip what is there".into()
            }
            Self::Invalid { .. } => {
                "split the request, or put large content into the blob store with `weir blob put`".into()
            }
            Self::Blob(source) => source.help(),
            Self::NoBlob { .. } => {
                "put the content again with `weir blob put FILE`, then repeat: nothing was appended".into()
            }
            Self::Damaged(source) => source.help(),
            Self::Storage(error) => error.what.help().into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Conflict { .. } | Self::Fenced { .. } => Fault::Conflict,
            Self::KeyReused { .. }
            | Self::DuplicateId { .. }
            | Self::Invalid { .. }
            | Self::NoBlob { .. } => Fault::Input,
            Self::NoBranch(_) => Fault::Missing,
            Self::Blob(source) => source.fault(),
            Self::Damaged(source) => source.fault(),
            Self::Storage(error) => error.what.fault(),
        }
    }
}

fn no_branch_help(branch: &BranchId) -> Cow<'static, str> {
    let BranchId { stream, branch } = branch;
    format!("make it with `weir branch fork --stream '{stream}' --at SEQ --name '{branch}'`").into()
}

/// Why a branch was not made.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// No such stream.
    #[error("there is no stream `{0}`")]
    NoStream(StreamName),
    /// No such parent.
    #[error("stream `{}` has no branch `{}`", .0.stream, .0.branch)]
    NoBranch(BranchId),
    /// The name is taken.
    #[error("stream `{stream}` already has a branch `{name}`")]
    Exists {
        /// The stream.
        stream: StreamName,
        /// The name.
        name: BranchName,
    },
    /// No such event.
    #[error("{from} has no event {at}; its newest is {head}")]
    NoEvent {
        /// The parent.
        from: BranchId,
        /// Where to fork.
        at: Seq,
        /// The parent's head.
        head: Seq,
    },
    /// The event to fork at cannot be read, or the storage failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Explain for ForkError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoStream(_) => "journal::no-stream",
            Self::NoBranch(_) => "journal::no-branch",
            Self::Exists { .. } => "journal::branch-exists",
            Self::NoEvent { .. } => "journal::no-event",
            Self::Read(error) => error.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NoStream(_) => "list the streams with `weir streams`".into(),
            Self::NoBranch(branch) => list_branches(&branch.stream),
            Self::Exists { stream, .. } => list_branches(stream),
            Self::NoEvent { head, .. } => format!("choose a seq from 1 to {head}").into(),
            Self::Read(error) => error.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoStream(_) | Self::NoBranch(_) | Self::NoEvent { .. } => Fault::Missing,
            Self::Exists { .. } => Fault::Conflict,
            Self::Read(error) => error.fault(),
        }
    }
}

fn list_branches(stream: &StreamName) -> Cow<'static, str> {
    format!("list its branches with `weir branch list --stream '{stream}'`").into()
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such stream.
    #[error("there is no stream `{0}`")]
    NoStream(StreamName),
    /// No such branch.
    #[error("stream `{}` has no branch `{}`", .0.stream, .0.branch)]
    NoBranch(BranchId),
    /// An event is not what was appended.
    #[error("event {seq} of {branch} is damaged: {what}")]
    Damaged {
        /// The branch it was appended to.
        branch: BranchId,
        /// Its place.
        seq: Seq,
        /// What is wrong with it.
        what: String,
    },
    /// A large payload cannot be read from the blob store.
    #[error("the payload of event {seq} of {branch} cannot be read")]
    Blob {
        /// The branch it was appended to.
        branch: BranchId,
        /// Its place.
        seq: Seq,
        /// Why.
        #[source]
        source: weir_blobs::GetError,
    },
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ReadError {
    /// Whether what is stored in this place is damaged: other places can be read all the same.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Blob { .. } => true,
            Self::Storage(error) => error.what == StorageFailure::Corrupt,
            Self::NoStream(_) | Self::NoBranch(_) => false,
        }
    }
}

impl Explain for ReadError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoStream(_) => "journal::no-stream",
            Self::NoBranch(_) => "journal::no-branch",
            Self::Damaged { .. } => "journal::damaged",
            Self::Blob { source, .. } => source.code(),
            Self::Storage(_) => "journal::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NoStream(_) => "list the streams with `weir streams`".into(),
            Self::NoBranch(branch) => list_branches(&branch.stream),
            Self::Damaged { branch, .. } => {
                format!("run `weir verify --stream '{}'`, then restore the data from a backup", branch.stream)
                    .into()
            }
            Self::Blob { source, .. } => source.help(),
            Self::Storage(error) => error.what.help().into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoStream(_) | Self::NoBranch(_) => Fault::Missing,
            Self::Damaged { .. } => Fault::Damaged,
            Self::Blob { source, .. } => source.fault(),
            Self::Storage(error) => error.what.fault(),
        }
    }
}
