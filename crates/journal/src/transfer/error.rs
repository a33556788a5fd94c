//! How an export or an import ends early.

use std::borrow::Cow;

use weir_types::{BranchId, Explain, Fault, Hash, Seq, StreamName};

use crate::error::{AppendError, ForkError, ReadError};
use crate::lines::LineError;

/// Why an export is not complete.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A blob that an event refers to cannot be read.
    #[error("event {seq} of {branch} needs a blob that cannot be read")]
    Blob {
        /// The event's branch.
        branch: BranchId,
        /// The event.
        seq: Seq,
        /// Why.
        #[source]
        source: weir_blobs::GetError,
    },
    /// The output cannot be written.
    #[error("cannot write the export")]
    Write(#[source] std::io::Error),
}

impl Explain for ExportError {
    fn code(&self) -> &'static str {
        match self {
            Self::Read(error) => error.code(),
            Self::Blob { source, .. } => source.code(),
            Self::Write(_) => "journal::export-output",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Read(error) => error.help(),
            Self::Blob { source, .. } => source.help(),
            Self::Write(_) => "check free space and permissions where the export goes, then repeat".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Read(error) => error.fault(),
            Self::Blob { source, .. } => source.fault(),
            Self::Write(_) => Fault::Storage,
        }
    }
}

/// Why an import ended early. Everything on the lines before stays imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input cannot be read.
    #[error("cannot read line {line} of the export")]
    Input {
        /// Where.
        line: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The first line is not an export's.
    #[error("this is not an export: its first line is not {{\"weir_export\":1}}")]
    NotAnExport,
    /// A line that is none of ours.
    #[error("line {line} of the export is wrong")]
    Line {
        /// Where.
        line: u64,
        /// What is wrong with it.
        #[source]
        source: LineError,
    },
    /// An event, fork or blob is not what its hashes say.
    #[error("line {line} of the export was altered: {what}")]
    Altered {
        /// Where.
        line: u64,
        /// What gave it away.
        what: String,
    },
    /// A line that cannot stand where it does.
    #[error("line {line} of the export does not follow from what is before it: {what}")]
    OutOfPlace {
        /// Where.
        line: u64,
        /// Why not.
        what: String,
    },
    /// The journal has something else in this place.
    #[error("line {line} of the export: {what} already exists here and is another one")]
    Conflict {
        /// Where.
        line: u64,
        /// The event or branch.
        what: String,
    },
    /// A line of a stream in which the runtime keeps what people may do and spend here.
    #[error(
        "line {line} of the export is of stream `{stream}`, which only the runtime of this data directory writes"
    )]
    Authority {
        /// Where.
        line: u64,
        /// The stream.
        stream: StreamName,
    },
    /// There is something in the journal already.
    #[error("an export is restored into an empty journal, and this one has events")]
    NotEmpty,
    /// An event names a blob that is neither in the export nor in the store.
    #[error("line {line} of the export needs blob {hash}, which is not in the export")]
    NoBlob {
        /// Where.
        line: u64,
        /// The blob.
        hash: Hash,
    },
    /// A blob was not stored.
    #[error("cannot store the blob that ends on line {line} of the export")]
    PutBlob {
        /// Where.
        line: u64,
        /// Why.
        #[source]
        source: weir_blobs::PutError,
    },
    /// The blob store cannot be read.
    #[error("cannot look up a blob that line {line} of the export needs")]
    GetBlob {
        /// Where.
        line: u64,
        /// Why.
        #[source]
        source: weir_blobs::GetError,
    },
    /// The journal refused events.
    #[error("cannot append the events up to line {line} of the export")]
    Append {
        /// The last of the lines.
        line: u64,
        /// Why.
        #[source]
        source: AppendError,
    },
    /// The journal refused a branch.
    #[error("cannot make the branch on line {line} of the export")]
    Fork {
        /// Where.
        line: u64,
        /// Why.
        #[source]
        source: ForkError,
    },
    /// The journal cannot be read.
    #[error("cannot compare line {line} of the export with the journal")]
    Read {
        /// Where.
        line: u64,
        /// Why.
        #[source]
        source: ReadError,
    },
}

impl Explain for ImportError {
    fn code(&self) -> &'static str {
        match self {
            Self::Input { .. } => "journal::import-input",
            Self::NotAnExport => "journal::not-an-export",
            Self::Line { source, .. } => source.code(),
            Self::Altered { .. } => "journal::altered-export",
            Self::OutOfPlace { .. } => "journal::bad-export",
            Self::Conflict { .. } => "journal::import-conflict",
            Self::Authority { .. } => "journal::import-authority",
            Self::NotEmpty => "journal::restore-not-empty",
            Self::NoBlob { .. } => "blobs::missing",
            Self::PutBlob { source, .. } => source.code(),
            Self::GetBlob { source, .. } => source.code(),
            Self::Append { source, .. } => source.code(),
            Self::Fork { source, .. } => source.code(),
            Self::Read { source, .. } => source.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Input { .. } => "check the file or pipe, then repeat: what is there is skipped".into(),
            Self::NotAnExport => "pass a file that `weir export` wrote".into(),
            Self::Line { source, .. } => source.help(),
            Self::Altered { .. } | Self::OutOfPlace { .. } => {
                "make the file again with `weir export`; what is before that line is imported".into()
            }
            Self::Conflict { .. } => {
                "import into another data directory with `--data-dir DIR`: the two have gone different ways"
                    .into()
            }
            Self::Authority { .. } => {
                "nothing was imported: tokens, deployments, budgets and agents' memory do not travel. Import the rest with \
                 `weir import --without-runtime-streams FILE`; if the export is your own backup, restore all of it with \
                 `weir import --as-restore --data-dir NEW_DIR FILE`"
                    .into()
            }
            Self::NotEmpty => {
                "name a new data directory with `--data-dir DIR`, or import without `--as-restore`".into()
            }
            Self::NoBlob { .. } => "put it first with `weir blob put FILE`, or export again".into(),
            Self::PutBlob { source, .. } => source.help(),
            Self::GetBlob { source, .. } => source.help(),
            Self::Append { source, .. } => source.help(),
            Self::Fork { source, .. } => source.help(),
            Self::Read { source, .. } => source.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Input { .. } => Fault::Storage,
            Self::NotAnExport | Self::Line { .. } | Self::OutOfPlace { .. } => Fault::Input,
            Self::Altered { .. } => Fault::Damaged,
            Self::Conflict { .. } | Self::NotEmpty => Fault::Conflict,
            Self::Authority { .. } => Fault::Denied,
            Self::NoBlob { .. } => Fault::Missing,
            Self::PutBlob { source, .. } => source.fault(),
            Self::GetBlob { source, .. } => source.fault(),
            Self::Append { source, .. } => source.fault(),
            Self::Fork { source, .. } => source.fault(),
            Self::Read { source, .. } => source.fault(),
        }
    }
}
