//! How a model call fails: the classes that every adapter reports and the engine retries by.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a model call did not end with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Too many requests; the provider may have said when to come back.
    RateLimited,
    /// The provider has no capacity right now.
    Overloaded,
    /// The key is missing, wrong or not allowed to do this.
    Auth,
    /// The account is out of credit; waiting does not help.
    Quota,
    /// The request has more tokens than the model takes.
    ContextOverflow,
    /// The provider declined to answer.
    Refused,
    /// The provider does not understand the request, or we do not understand the answer.
    Invalid,
    /// No connection, or it broke.
    Transport,
    /// The answer stopped without its end.
    Truncated,
}

impl FailureClass {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::RateLimited,
        Self::Overloaded,
        Self::Auth,
        Self::Quota,
        Self::ContextOverflow,
        Self::Refused,
        Self::Invalid,
        Self::Transport,
        Self::Truncated,
    ];

    /// Whether the very same request may succeed later.
    pub const fn is_transient(self) -> bool {
        match self {
            Self::RateLimited | Self::Overloaded | Self::Transport | Self::Truncated => true,
            Self::Auth | Self::Quota | Self::ContextOverflow | Self::Refused | Self::Invalid => false,
        }
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::ContextOverflow => "context_overflow",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Transport => "transport",
            Self::Truncated => "truncated",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no class of failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an error class (rate_limited, overloaded, auth, quota, context_overflow, refused, invalid, transport or truncated)"
)]
pub struct FailureClassError(String);

impl FromStr for FailureClass {
    type Err = FailureClassError;

    fn from_str(word: &str) -> Result<Self, FailureClassError> {
        let found = Self::ALL.into_iter().find(|class| class.as_str() == word);
        found.ok_or_else(|| FailureClassError(word.chars().take(40).collect()))
    }
}
