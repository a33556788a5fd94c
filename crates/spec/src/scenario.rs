//! `tests/<name>.yaml`: what an agent is told, and what is expected of it.

use weir_types::{Json, NanoUsd};

use crate::diagnostic::Spanned;

/// The tests of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSpec {
    /// The agent.
    pub agent: Spanned<String>,
    /// The model that answers instead of the agent's own: `scripted/NAME`, or `recorded/NAME`, which plays the export at
    /// `tests/recordings/NAME.jsonl`.
    pub model: Option<Spanned<TestModel>>,
    /// Each a session of its own.
    pub scenarios: Vec<Scenario>,
    /// Where its file is.
    pub file: String,
}

/// A model that answers the same each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestModel {
    /// `scripted/NAME`.
    Scripted(String),
    /// `recorded/NAME`.
    Recorded(String),
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What it shows.
    pub name: Spanned<String>,
    /// What is said, in order.
    pub steps: Vec<Step>,
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the user says.
    pub say: Spanned<String>,
    /// What has to happen.
    pub expect: Expect,
}

/// What has to happen in a turn. What is absent is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// A regular expression that is found in the answer.
    pub answer: Option<Spanned<String>>,
    /// The tools that are called: exactly these, in this order.
    pub calls: Option<Spanned<Vec<ExpectedCall>>>,
    /// Tools whose calls are refused.
    pub denied: Option<Spanned<Vec<String>>>,
    /// It costs less than this.
    pub cost_below: Option<Spanned<NanoUsd>>,
    /// Why the turn ends.
    pub stop: Option<Spanned<RunStop>>,
}

/// A call that has to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedCall {
    /// The tool, by the name the model sees.
    pub tool: String,
    /// Arguments that are among those of the call.
    pub input: Option<Json>,
}

/// Why a run ends, in the words of `weir chat --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStop {
    /// The model was done.
    End,
    /// The answer reached its limit.
    MaxTokens,
    /// The model declined.
    Refused,
    /// Too many rounds.
    Iterations,
    /// A limit was reached.
    Budget,
    /// Someone has to approve a call.
    Approval,
    /// It was cancelled.
    Cancelled,
    /// The session was halted.
    Halted,
    /// It failed.
    Failed,
}

impl RunStop {
    pub(crate) const WORDS: &[(&'static str, Self)] = &[
        ("end", Self::End),
        ("max_tokens", Self::MaxTokens),
        ("refused", Self::Refused),
        ("iterations", Self::Iterations),
        ("budget", Self::Budget),
        ("approval", Self::Approval),
        ("cancelled", Self::Cancelled),
        ("halted", Self::Halted),
        ("failed", Self::Failed),
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, stop)| *stop == self).map_or("", |(word, _)| word)
    }
}
