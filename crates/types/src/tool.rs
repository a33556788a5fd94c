//! What a tool may do to the world.

use serde::{Deserialize, Serialize};

/// What repeating a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something, but once per idempotency key.
    Idempotent,
    /// Changes something each time. What is unknown counts as this.
    Write,
}

impl Effect {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Write => "write",
        }
    }
}

/// How bad a wrong call can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Nothing is lost.
    Low,
    /// It can be undone.
    Medium,
    /// It cannot. What is unknown counts as this.
    High,
}

impl Risk {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What happens to a plain write that a crash interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// Its outcome is reported as unknown.
    #[default]
    Report,
    /// Someone is asked whether to repeat it.
    Ask,
    /// It is repeated.
    Retry,
}

/// Whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// If someone says so.
    Ask,
}

/// What is known about the effect of a call that did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It failed.
    Failed,
    /// It may or may not have happened.
    Unknown,
    /// It was stopped before it had one.
    Interrupted,
    /// It was not allowed.
    Denied,
}
