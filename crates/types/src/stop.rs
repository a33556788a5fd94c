//! Why a run stopped, in the words of the command line, the API and tests.

use serde::{Serialize, Serializer};

use crate::Stop;

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    End,
    /// The answer reached its limit.
    MaxTokens,
    /// The model declined.
    Refused,
    /// Too many iterations.
    Iterations,
    /// Another limit.
    Budget,
    /// Someone has to decide.
    Approval,
    /// Someone stopped it.
    Cancelled,
    /// The session was halted, or its process went down too often.
    Halted,
    /// It failed.
    Failed,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::End,
        Self::MaxTokens,
        Self::Refused,
        Self::Iterations,
        Self::Budget,
        Self::Approval,
        Self::Cancelled,
        Self::Halted,
        Self::Failed,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::MaxTokens => "max_tokens",
            Self::Refused => "refused",
            Self::Iterations => "iterations",
            Self::Budget => "budget",
            Self::Approval => "approval",
            Self::Cancelled => "cancelled",
            Self::Halted => "halted",
            Self::Failed => "failed",
        }
    }

    /// Whether it goes on when someone decides or allows more.
    pub const fn is_parked(self) -> bool {
        match self {
            Self::Iterations | Self::Budget | Self::Approval | Self::Halted => true,
            Self::End | Self::MaxTokens | Self::Refused | Self::Cancelled | Self::Failed => false,
        }
    }
}

/// Why a run stopped that ended with an answer.
impl From<Stop> for StopReason {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::End | Stop::ToolUse | Stop::Paused => Self::End,
            Stop::MaxTokens => Self::MaxTokens,
            Stop::Refused => Self::Refused,
        }
    }
}

impl Serialize for StopReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
