//! Why a command did not run.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use weir_types::{Explain, Fault};

/// Why a command did not run, or is not known to have.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel cannot do what confinement needs.
    #[error("commands cannot be confined here: {what}")]
    Unconfined {
        /// What it lacks.
        what: String,
    },
    /// The command itself cannot be started.
    #[error("the command cannot be started: {why}")]
    NotStarted {
        /// Why.
        why: String,
    },
    /// The supervisor cannot be started.
    #[error("cannot start the process that watches over commands")]
    Launch {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The supervisor ended without a word.
    #[error("the process that watches over commands was lost")]
    Lost,
    /// There is no room.
    #[error("cannot make a directory for a command in `{}`", .directory.display())]
    Room {
        /// Where rooms are made.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A path that cannot be handed on.
    #[error("the path `{}` is not valid UTF-8", .path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
}

impl Explain for SandboxError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unconfined { .. } => "sandbox::unconfined",
            Self::NotStarted { .. } => "sandbox::not-started",
            Self::Launch { .. } => "sandbox::launch",
            Self::Lost => "sandbox::lost",
            Self::Room { .. } => "sandbox::room",
            Self::Path { .. } => "sandbox::path",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unconfined { .. } => {
                "use Linux 6.2 or newer with Landlock among its `lsm=` modules; `--unsafe-no-sandbox` runs commands without, \
                 with all rights of this user: every file, the network and every process"
                    .into()
            }
            Self::NotStarted { .. } => "check that the program is there and can be run".into(),
            Self::Launch { .. } => "check the limits on processes and memory, then try again".into(),
            Self::Lost => "nothing of it was kept; look for the reason in the system's log, out of memory perhaps".into(),
            Self::Room { .. } => "check free space and permissions there, or set TMPDIR to another directory".into(),
            Self::Path { .. } => "set TMPDIR to a directory whose name is plain text".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Unconfined { .. } | Self::NotStarted { .. } | Self::Path { .. } => Fault::Input,
            Self::Launch { .. } | Self::Room { .. } => Fault::Storage,
            Self::Lost => Fault::Unreachable,
        }
    }
}
