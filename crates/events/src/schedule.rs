//! Loops: schedules that start sessions.

use serde::{Deserialize, Serialize};
use weir_types::{RunId, SessionId, Timestamp};

/// A schedule came due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopFired {
    /// Which.
    pub r#loop: String,
    /// When it was due.
    pub scheduled_for: Timestamp,
    /// The session it started.
    pub session: SessionId,
}

/// A firing was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSkipped {
    /// Of which loop.
    pub r#loop: String,
    /// When it was due.
    pub scheduled_for: Timestamp,
    /// Why.
    pub why: String,
}

/// A firing's run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopFinished {
    /// The run.
    pub run: RunId,
    /// How.
    pub status: String,
}
