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
