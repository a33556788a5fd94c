//! Whether a call may run, which step of the pipeline said so, and what would change its mind.

use std::fmt;

use weir_types::{Saw, Timestamp, Verdict};

/// The steps of the pipeline, in order. Those after [`Step::Stub`] belong to running the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
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
    /// Whether it only pretends.
    Stub,
    /// The secret that its server wants.
    Credentials,
}

impl Step {
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

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether.
    pub verdict: Verdict,
    /// The step that decided, or the rule.
    pub rule: Option<String>,
    /// Why, and what would change it.
    pub because: String,
    /// Whether it only pretends.
    pub stub: bool,
    /// When a request for approval becomes void.
    pub expires: Option<Timestamp>,
    /// What it depended on beside the call.
    pub saw: Saw,
}

impl Decision {
    /// It may.
    pub fn allow(because: impl Into<String>) -> Self {
        let (verdict, rule, because) = (Verdict::Allow, None, because.into());
        Self { verdict, rule, because, stub: false, expires: None, saw: Saw::default() }
    }

    /// It may not.
    pub fn deny(because: impl Into<String>) -> Self {
        Self { verdict: Verdict::Deny, ..Self::allow(because) }
    }

    /// A step refuses: why, and what would allow it.
    pub fn refuse(step: Step, reason: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self { rule: Some(step.to_string()), ..Self::deny(format!("{step}: {reason}; {remedy}")) }
    }

    /// It may if someone says so.
    pub fn ask(rule: impl Into<String>, because: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ask, rule: Some(rule.into()), ..Self::allow(because) }
    }
}
