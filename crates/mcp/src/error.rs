//! What can go wrong with a server, and what to do about it.

use std::borrow::Cow;
use std::time::Duration;

use weir_types::{Explain, Fault};

use crate::stdio::Ending;

/// Why a server's tools are not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its program cannot be started.
    #[error("`{program}` cannot be started")]
    NotStarted {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Its program ended before it answered.
    #[error("the server ended before it answered ({status}){said}", said = Said(.stderr))]
    Ended {
        /// How it ended.
        status: String,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// It wrote something that is not a message.
    #[error("the server wrote `{line}`, which is not a message of MCP{said}", said = Said(.stderr))]
    Nonsense {
        /// The beginning of what it wrote.
        line: String,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// It wrote more than is read.
    #[error("the server sends more than {bytes_max} bytes")]
    TooMuch {
        /// The limit.
        bytes_max: u64,
    },
    /// It offers more tools than anybody can use, or a list without an end.
    #[error("the server's list of tools does not end: {what}")]
    Endless {
        /// What there is too much of.
        what: String,
    },
    /// One of its tools cannot be pinned.
    #[error("the server describes a tool in a way that is not MCP: {why}")]
    Definition {
        /// What is wrong with it.
        why: String,
    },
    /// It did not answer in time.
    #[error("the server did not answer within {}{said}", Seconds(*.after), said = Said(.stderr))]
    Late {
        /// How long it had.
        after: Duration,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// It cannot be reached.
    #[error("the server cannot be reached: {why}")]
    Unreachable {
        /// Why, without the address.
        why: String,
    },
    /// Anybody on the way could read and change what it says.
    #[error("the server would be spoken to in the clear, over the network")]
    InTheClear,
    /// It wants to know who asks.
    #[error("the server wants credentials (HTTP {status})")]
    Credentials {
        /// Its answer's status.
        status: u16,
    },
    /// It is elsewhere.
    #[error("the server redirects to `{to}`, and redirects are not followed")]
    Redirected {
        /// Where it says it is.
        to: String,
    },
    /// It answered with an error of HTTP.
    #[error("the server answered HTTP {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// It speaks the transport of 2024.
    #[error("the server speaks the old HTTP+SSE transport")]
    OldTransport,
    /// It does not know the session any more.
    #[error("the server has ended the session (HTTP {status}){said}", said = Said(.why))]
    SessionEnded {
        /// Its answer's status.
        status: u16,
        /// Its words.
        why: String,
    },
    /// It takes nothing any more.
    #[error("the server does not read what it is sent")]
    Stuck,
    /// There is no place for another connection.
    #[error("there are {connections_max} connections to servers already, and all are in use")]
    TooMany {
        /// The limit.
        connections_max: usize,
    },
    /// It answered, but refused or broke off.
    #[error("the server refused: {why}")]
    Refused {
        /// Its words.
        why: String,
    },
}

impl Error {
    /// The connection is gone, and nobody knows why yet.
    pub(crate) fn ended() -> Self {
        Self::Ended { status: "it closed the connection".to_owned(), stderr: String::new() }
    }

    /// The same, with what its program said at the end.
    pub(crate) fn with(mut self, ending: Ending) -> Self {
        if let (Self::Ended { status, .. }, Some(left)) = (&mut self, ending.status) {
            *status = left.to_string();
        }
        if let Self::Ended { stderr, .. } | Self::Nonsense { stderr, .. } | Self::Late { stderr, .. } =
            &mut self
        {
            *stderr = ending.stderr;
        }
        self
    }
}

impl Explain for Error {
    fn code(&self) -> &'static str {
        match self {
            Self::NotStarted { .. } => "mcp::not-started",
            Self::Ended { .. } => "mcp::ended",
            Self::Nonsense { .. } => "mcp::nonsense",
            Self::TooMuch { .. } => "mcp::too-much",
            Self::Endless { .. } => "mcp::endless",
            Self::Definition { .. } => "mcp::definition",
            Self::Late { .. } => "mcp::late",
            Self::Unreachable { .. } => "mcp::unreachable",
            Self::InTheClear => "mcp::in-the-clear",
            Self::Credentials { .. } => "mcp::credentials",
            Self::Redirected { .. } => "mcp::redirected",
            Self::Status { .. } => "mcp::status",
            Self::OldTransport => "mcp::old-transport",
            Self::SessionEnded { .. } => "mcp::session-ended",
            Self::Stuck => "mcp::stuck",
            Self::TooMany { .. } => "mcp::too-many",
            Self::Refused { .. } => "mcp::refused",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotStarted { program, .. } => match program.as_str() {
                "npx" => "install Node.js, which brings `npx`, and see that it is on the `PATH`".into(),
                "uvx" => "install `uv`, which brings `uvx`, and see that it is on the `PATH`".into(),
                program => format!("check that `{program}` is there and may be executed").into(),
            },
            Self::Ended { .. } => {
                "start the command in a terminal to see what it lacks: arguments, or variables in `env`".into()
            }
            Self::Nonsense { .. } => {
                "standard output is for messages alone; the server's log belongs on standard error".into()
            }
            Self::TooMuch { .. } | Self::Endless { .. } | Self::Definition { .. } => {
                "tell the server's author, or use another version of it".into()
            }
            Self::Late { .. } => "check that it is an MCP server; one that is downloaded first may be quicker the second time".into(),
            Self::Unreachable { .. } => "check the address and the network, or build with `--offline`".into(),
            Self::InTheClear => "use https; http is for this machine alone".into(),
            Self::Credentials { .. } => "give it the credential that it wants, or another one".into(),
            Self::Redirected { .. } => "if you trust that place, write its address in the spec".into(),
            Self::Status { .. } => "check the path of the address; many servers are at `/mcp`".into(),
            Self::OldTransport => {
                "use the server's streamable HTTP address, often `/mcp` instead of `/sse`, or a newer version of it"
                    .into()
            }
            Self::SessionEnded { .. } => "the next call begins a new one".into(),
            Self::TooMany { .. } => "try again when other calls have ended".into(),
            Self::Stuck => "the next call starts it anew; if that does not help, tell the server's author".into(),
            Self::Refused { .. } => "check that the server is meant for this version of MCP".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotStarted { .. } | Self::Ended { .. } => Fault::Input,
            Self::Late { .. }
            | Self::Unreachable { .. }
            | Self::Status { .. }
            | Self::SessionEnded { .. }
            | Self::Stuck
            | Self::TooMany { .. } => Fault::Unreachable,
            Self::Nonsense { .. }
            | Self::TooMuch { .. }
            | Self::Endless { .. }
            | Self::Definition { .. }
            | Self::InTheClear
            | Self::Credentials { .. }
            | Self::Redirected { .. }
            | Self::OldTransport
            | Self::Refused { .. } => Fault::Input,
        }
    }
}

/// The end of a message: what the server itself said last, if it said anything.
pub(crate) struct Said<'s>(pub(crate) &'s str);

impl std::fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            "" => Ok(()),
            words => write!(f, "; it said: {words}"),
        }
    }
}

pub(crate) struct Seconds(pub(crate) Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.subsec_millis() {
            0 => write!(f, "{} s", self.0.as_secs()),
            _ => write!(f, "{} ms", self.0.as_millis()),
        }
    }
}
