//! Why a call has no result, and whether the tool may have run all the same.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use weir_types::{Explain, Fault};

use crate::error::{Error, Seconds};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server cannot be started or reached, or does not list its tools.
    #[error(transparent)]
    NotConnected(Arc<Error>),
    /// The server failed a moment ago, more than once, and is left alone for a while.
    #[error("the server has failed and is tried again in {}: {why}", Seconds(*.retry_in))]
    BackingOff {
        /// For how long it is left alone.
        retry_in: Duration,
        /// What went wrong last.
        why: String,
    },
    /// The arguments are no JSON object.
    #[error("the arguments of `{tool}` are no JSON object")]
    Arguments {
        /// The tool.
        tool: String,
    },
    /// The tool is not the one that was pinned, or not there.
    #[error("the server's tool `{tool}` is not what it was: {why}")]
    Changed {
        /// The tool.
        tool: String,
        /// How it differs.
        why: String,
    },
    /// There was no answer in time.
    #[error("the server did not answer within {}{}", Seconds(*.after), Outcome(*.may_have_happened))]
    Late {
        /// How long it had.
        after: Duration,
        /// Whether the call had left.
        may_have_happened: bool,
    },
    /// The call was cancelled.
    #[error("the call was cancelled{}", Outcome(*.may_have_happened))]
    Cancelled {
        /// Whether the call had left.
        may_have_happened: bool,
    },
    /// The server refused the call, with an error of the protocol.
    #[error("the server refused the call ({code}): {words}")]
    Refused {
        /// The error's code.
        code: i32,
        /// The server's words.
        words: String,
    },
    /// The call, or the connection under it, broke.
    #[error("{error}{}", Outcome(*.may_have_happened))]
    Broken {
        /// What went wrong.
        error: Arc<Error>,
        /// Whether the server may have acted on it.
        may_have_happened: bool,
    },
    /// The server answered with something that is no result.
    #[error("the server's answer cannot be used: {why}")]
    Answer {
        /// What is wrong with it.
        why: String,
    },
    /// No more calls are made: [`Connections::close`](crate::Connections::close) was called.
    #[error("the connections to servers are closed")]
    Closed,
}

impl CallError {
    /// Whether the server may have acted on the call. `false` is a promise: the call was not sent, or the server refused
    /// it before it ran anything.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::NotConnected(_)
            | Self::BackingOff { .. }
            | Self::Arguments { .. }
            | Self::Changed { .. }
            | Self::Closed => false,
            Self::Late { may_have_happened, .. }
            | Self::Cancelled { may_have_happened }
            | Self::Broken { may_have_happened, .. } => *may_have_happened,
            // Parse error, invalid request, method not found, invalid parameters: said before anything runs. Everything
            // else may be said in the middle.
            Self::Refused { code, .. } => !matches!(code, -32_700 | -32_602..=-32_600),
            Self::Answer { .. } => true,
        }
    }
}

impl Explain for CallError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotConnected(error) | Self::Broken { error, .. } => error.code(),
            Self::BackingOff { .. } => "mcp::backing-off",
            Self::Arguments { .. } => "mcp::arguments",
            Self::Changed { .. } => "mcp::changed",
            Self::Late { .. } => "mcp::late",
            Self::Cancelled { .. } => "mcp::cancelled",
            Self::Refused { .. } => "mcp::call-refused",
            Self::Answer { .. } => "mcp::answer",
            Self::Closed => "mcp::closed",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotConnected(error) | Self::Broken { error, .. } => match error.as_ref() {
                // What helps while building does not help here.
                Error::Unreachable { .. } => {
                    "check the address, the network, and that the server runs".into()
                }
                other => other.help(),
            },
            Self::BackingOff { .. } => "find out why the server fails; it is tried again by itself".into(),
            Self::Arguments { .. } => "tools take an object with one field for each argument".into(),
            Self::Changed { .. } => {
                "run `weir build` to see what changed, and pin it anew if it is right".into()
            }
            Self::Late { .. } => "give the tool a longer timeout, or ask it for less".into(),
            Self::Cancelled { .. } => "call it again if it is still wanted".into(),
            Self::Refused { .. } => "check the arguments against the tool's schema".into(),
            Self::Answer { .. } => "tell the server's author, or use another version of it".into(),
            Self::Closed => "start again".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotConnected(error) | Self::Broken { error, .. } => error.fault(),
            Self::BackingOff { .. } | Self::Late { .. } | Self::Closed => Fault::Unreachable,
            Self::Changed { .. } => Fault::Conflict,
            Self::Arguments { .. } | Self::Cancelled { .. } | Self::Refused { .. } | Self::Answer { .. } => {
                Fault::Input
            }
        }
    }
}

/// The end of a message, for whoever decides what to do next.
struct Outcome(bool);

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0 { "; the tool may have run all the same" } else { "" })
    }
}
