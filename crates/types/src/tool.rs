//! What a tool may do to the world.

use std::fmt;

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

/// What a call needs and a grant gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Looking.
    Read,
    /// Changing.
    Write,
}

impl Level {
    /// What a call with this effect needs.
    pub fn needed_for(effect: Effect) -> Self {
        match effect {
            Effect::Read => Self::Read,
            Effect::Idempotent | Effect::Write => Self::Write,
        }
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
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

impl Verdict {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

/// What a decision about a call depended on that is not in the call itself. With it, the call can be decided again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saw {
    /// On whose behalf.
    pub principal: String,
    /// The groups that one was in, as `group:…`, sorted. None, where it did not come to that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The highest level that the agent's entry offered. None, where the agent did not list the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Level>,
    /// Who had approved it, with exactly these arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// What rules that only watch would have done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Observed>,
}

/// What a rule that only watches would have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Which rule.
    pub rule: String,
    /// What it would have said.
    pub outcome: Verdict,
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

/// A step of the gate that every call passes, in order. Those after [`GateStep::Stub`] belong to running the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateStep {
    /// The agent lists the tool.
    Allowlist,
    /// The arguments fit its schema.
    Schema,
    /// The principal may use it.
    Grant,
    /// No rule is against it.
    Rules,
    /// There is enough left to spend.
    Budget,
    /// Whether it is a dry run.
    Stub,
    /// The secret that its server wants.
    Credentials,
}

impl GateStep {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::Schema => "schema",
            Self::Grant => "grant",
            Self::Rules => "rules",
            Self::Budget => "budget",
            Self::Stub => "stub",
            Self::Credentials => "credentials",
        }
    }
}

impl fmt::Display for GateStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How long an approval is waited for, and who may give it later on. Nothing said means for ever, and nobody else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalTerms {
    /// Milliseconds after which it is too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// Who may approve, too, after a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate: Option<Escalate>,
}

/// Who may approve, too, when nobody has decided for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Escalate {
    /// The group, as `group:…`.
    pub to: String,
    /// Milliseconds after the call was asked about.
    pub after_ms: u64,
}

impl ApprovalTerms {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
