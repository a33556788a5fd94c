//! Runs and their iterations.

use serde::{Deserialize, Serialize};
use weir_types::{FailureClass, NanoUsd, RunId, Stop, Usage};

use crate::budget::Limit;
use crate::skip::is_zero;

/// A run begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Its id.
    pub run: RunId,
    /// What set it off.
    pub trigger: Trigger,
    /// Where it runs.
    pub lane: String,
}

/// The next model call, and the tools it asks for, begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationStarted {
    /// From 1.
    pub n: u32,
}

/// A run ends with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFinished {
    /// Why.
    pub stop: Stop,
    /// The answer's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What the run used.
    pub usage: Usage,
    /// What it cost.
    pub cost: NanoUsd,
}

/// A run ends without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunErrored {
    /// How.
    pub class: FailureClass,
    /// In words.
    pub message: String,
}

/// Someone wants it to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCancelRequested {}

/// It stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCancelled {
    /// What the model had said of the answer that was cut off, as far as it is text; empty if it had said nothing yet,
    /// absent if it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// It pauses until someone resumes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunParked {
    /// Why.
    pub why: Parked,
}

/// What set a run off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Someone said something, or something happened.
    Input,
    /// Someone resumed the session after a run that had not answered.
    Resume,
}

/// Why a run pauses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Parked {
    /// A limit of the run is reached.
    Limit {
        /// Which: `iterations`, `model_calls`, `tokens`, `usd` or `wall_clock`.
        limit: Limit,
        /// Its value, in its own unit.
        max: u64,
    },
    /// A purse has too little left for the next call.
    Budget {
        /// Which.
        scope: String,
        /// Which of its limits: `model_calls`, `tokens`, `usd` or `wall_clock`.
        limit: Limit,
        /// What it may hold, in its own unit.
        max: u64,
        /// What of that someone had put in beyond the limit.
        #[serde(default, skip_serializing_if = "is_zero")]
        raised: u64,
        /// What of it was spent, or set aside for others.
        spent: u64,
        /// What the call would have taken at most.
        need: u64,
    },
    /// The same call came to the same, again and again.
    Loop {
        /// The tool.
        tool: String,
        /// How often.
        count: u32,
    },
    /// The session was halted.
    Halted,
    /// The process went down several times in the same iteration.
    Crashes {
        /// How often.
        count: u32,
    },
    /// What happened could not be written down.
    Storage {
        /// In words.
        message: String,
    },
}
