//! The words that payloads are made of.

use serde::{Deserialize, Serialize};
use weir_types::{CallId, NanoUsd, Purpose, SessionId};

/// The call that started a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session that made the call.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
}

/// Why a process takes a session up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeReason {
    /// There is something new to do.
    Input,
    /// The process that had it is gone.
    Recovery,
    /// Someone asked for it, knowing why it had stopped.
    Asked,
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

/// What a request was made of, beside prompt, tools and window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params {
    /// What the answer is for.
    pub purpose: Purpose,
    /// The provider's name of the model.
    pub api_name: String,
    /// The language of the request.
    pub wire: String,
    /// Most tokens of the answer.
    pub output_tokens_max: u64,
    /// Most tokens of one result, or of one message of the user, before it is cut.
    pub share_tokens: u64,
    /// Its size at four characters a token, to compare with what the provider counts.
    pub estimated_tokens: u64,
}

/// The most a call may use and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Tokens in and out.
    pub tokens: u64,
    /// Money, where the price is known.
    pub nano: NanoUsd,
}

/// Files an agent touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Files {
    /// Read.
    pub read: Vec<String>,
    /// Written or deleted.
    pub changed: Vec<String>,
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

/// A limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Iterations.
    Iterations,
    /// Model calls.
    ModelCalls,
    /// Tokens in and out.
    Tokens,
    /// Billionths of a dollar.
    Usd,
    /// Milliseconds of work.
    WallClock,
}

impl Limit {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Iterations => "iterations",
            Self::ModelCalls => "model_calls",
            Self::Tokens => "tokens",
            Self::Usd => "usd",
            Self::WallClock => "wall_clock",
        }
    }
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

/// How long an approval holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For this call.
    Once,
    /// For calls like it in this session.
    Session,
}
