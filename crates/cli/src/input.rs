//! What a command reads: a file, or standard input for `-`.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncReadExt};
use weir_types::{Explain, Fault};

use crate::output::Out;
use crate::report::Outcome;
use crate::show::size;

/// Where content comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// Content, read once from start to end.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Why there is no content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// It cannot be opened or read.
    #[error("cannot read {input}")]
    Unreadable {
        /// Where from.
        input: Input,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// More than the command can take.
    #[error("{input} has more than {}", size(*.bytes_max))]
    TooLong {
        /// Where from.
        input: Input,
        /// The limit.
        bytes_max: u64,
    },
}

impl Explain for InputError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "cli::unreadable",
            Self::TooLong { .. } => "cli::too-long",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unreadable { .. } => "check the path and its permissions; `-` reads standard input".into(),
            Self::TooLong { .. } => {
                "give it less; `weir blob put FILE` stores large content, and an event can name its hash"
                    .into()
            }
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

impl Input {
    /// Opens it; tells a person who would otherwise wonder why nothing happens.
    pub(crate) async fn open(&self, out: &Out) -> Outcome<Reader> {
        match self {
            Self::Stdin => {
                if io::stdin().is_terminal() {
                    out.note(format_args!("reading standard input; end it with Ctrl-D"));
                }
                Ok(Box::new(tokio::io::stdin()))
            }
            Self::File(path) => {
                let file = tokio::fs::File::open(path).await.map_err(|error| self.unreadable(error))?;
                // A directory opens, but cannot be read.
                let metadata = file.metadata().await.map_err(|error| self.unreadable(error))?;
                if metadata.is_dir() {
                    return Err(self.unreadable(io::ErrorKind::IsADirectory.into()).into());
                }
                Ok(Box::new(file))
            }
        }
    }

    /// All of it, if it is not too much.
    pub(crate) async fn read(&self, bytes_max: usize, out: &Out) -> Outcome<Vec<u8>> {
        let mut content = Vec::new();
        let reader = self.open(out).await?;
        let read = reader.take(bytes_max as u64 + 1).read_to_end(&mut content).await;
        read.map_err(|error| self.unreadable(error))?;
        if content.len() > bytes_max {
            return Err(InputError::TooLong { input: self.clone(), bytes_max: bytes_max as u64 }.into());
        }
        Ok(content)
    }

    fn unreadable(&self, source: io::Error) -> InputError {
        InputError::Unreadable { input: self.clone(), source }
    }
}

impl FromStr for Input {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "-" { Self::Stdin } else { Self::File(text.into()) })
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}
