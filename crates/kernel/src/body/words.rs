//! The words that payloads are made of.

use serde::{Deserialize, Serialize};
use weir_types::{BranchName, CallId, NanoUsd, Purpose, SessionId, Timestamp, Usage};

// What becomes of a call: words that tools speak, too.
pub use weir_types::{Outcome, Verdict};

/// The call that started a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session that made the call.
    pub session: SessionId,
    /// On which branch.
    #[serde(default = "BranchName::main", skip_serializing_if = "is_main")]
    pub branch: BranchName,
    /// The call.
    pub call: CallId,
    /// How many sessions wait for it, one within the other: 1 for the child of one that a person began.
    #[serde(default = "one")]
    pub depth: u32,
    /// What its parent draws from: it does, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purses: Vec<Share>,
}

/// A purse that a session draws from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which; without the day, where there is one for each day.
    pub scope: String,
    /// What it holds.
    pub limit: Allowance,
}

/// A purse that a request is paid from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// Which.
    pub scope: String,
    /// Whether the session's parent draws from it, too. Its time is the parent's time, and counts once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_main(branch: &BranchName) -> bool {
    *branch == BranchName::main()
}

/// A parent without a depth is from before there were any below it.
fn one() -> u32 {
    1
}

/// What may be used and spent; nothing said means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allowance {
    /// Model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Tokens in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nano: Option<NanoUsd>,
    /// Milliseconds of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_clock_ms: Option<u64>,
}

impl Allowance {
    /// Whether it limits nothing.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// What a child session used and spent, told to its parent: the purses they share have it already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bill {
    /// Tokens.
    pub usage: Usage,
    /// Tokens of attempts whose end is unknown, as reserved.
    #[serde(default)]
    pub reserved_tokens: u64,
    /// Money.
    pub cost: NanoUsd,
    /// Model calls.
    pub model_calls: u64,
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

/// Why someone is asked about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedBecause {
    /// A rule asks, or the tool's entry.
    #[default]
    Rule,
    /// It was cut off, and its entry says `on_interrupt: ask`.
    Interrupted,
    /// The session behind it waits for someone.
    Child,
}

/// Who may approve, too, from when on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalates {
    /// The group, as `group:…`.
    pub to: String,
    /// From when on.
    pub at: Timestamp,
}

/// What of a conversation a request leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Messages and answers; an answer counts once, with the results of its calls.
    pub messages: u64,
    /// What they would have taken, as estimated.
    pub tokens: u64,
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

/// How long an approval holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For this call.
    Once,
    /// For calls like it in this session.
    Session,
}

/// What a call that is approved does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunsAs {
    /// It happens.
    Live,
    /// It only pretends.
    DryRun,
}

impl RunsAs {
    /// Whether a call that is a dry run, or is not, is what was approved.
    pub fn fits(self, stub: bool) -> bool {
        stub == (self == Self::DryRun)
    }
}
