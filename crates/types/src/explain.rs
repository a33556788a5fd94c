//! Errors are written once and shown three times: in a terminal, over HTTP and over MCP.

use std::borrow::Cow;

/// What every error of the product can say beside its message.
pub trait Explain: std::error::Error {
    /// A stable name such as `journal::conflict`.
    fn code(&self) -> &'static str;

    /// The next step, with a command to paste where there is one.
    fn help(&self) -> Cow<'static, str>;

    /// Whose move it is; the edges turn this into exit codes and statuses.
    fn fault(&self) -> Fault;
}

/// Whose move it is after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request itself is wrong and will be wrong again.
    Input,
    /// Whoever asks may not have it.
    Denied,
    /// What was asked for is not there.
    Missing,
    /// The world has moved on; look again and repeat.
    Conflict,
    /// The storage under us failed: full, read-only, unreachable. Nothing was changed.
    Storage,
    /// A service we need cannot be reached, or is too busy.
    Unreachable,
    /// Stored data is not what was written.
    Damaged,
    /// A broken promise of our own.
    Bug,
}

impl Fault {
    /// Whether the same request may succeed later without being changed.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Storage | Self::Unreachable => true,
            Self::Input | Self::Denied | Self::Missing | Self::Conflict | Self::Damaged | Self::Bug => false,
        }
    }
}
