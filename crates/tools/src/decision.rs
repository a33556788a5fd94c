//! Whether a call may run, which step of the pipeline said so, and what would change its mind.

use std::fmt;

use weir_types::{ApprovalTerms, GateStep, Saw, Verdict};

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether.
    pub verdict: Verdict,
    /// The step that decided; none, if nothing was said against the call, nor for it by name.
    pub step: Option<GateStep>,
    /// The rule that decided, or the name of the step.
    pub rule: Option<String>,
    /// Why, and what would change it, in a sentence.
    pub because: String,
    /// Why, alone.
    pub reason: String,
    /// What would change it, alone.
    pub remedy: Option<String>,
    /// Whether it only pretends.
    pub stub: bool,
    /// How long an approval is waited for, as the rule that asks says.
    pub terms: ApprovalTerms,
    /// What it depended on beside the call.
    pub saw: Saw,
}

impl Decision {
    /// It may.
    pub fn allow(because: impl Into<String>) -> Self {
        let because = because.into();
        Self {
            verdict: Verdict::Allow,
            step: None,
            rule: None,
            reason: because.clone(),
            because,
            remedy: None,
            stub: false,
            terms: ApprovalTerms::default(),
            saw: Saw::default(),
        }
    }

    /// It may not.
    pub fn deny(because: impl Into<String>) -> Self {
        Self { verdict: Verdict::Deny, ..Self::allow(because) }
    }

    /// A step refuses: why, and what would allow it.
    pub fn refuse(step: GateStep, reason: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self {
            step: Some(step),
            rule: Some(step.to_string()),
            reason: reason.to_string(),
            remedy: Some(remedy.to_string()),
            ..Self::deny(format!("{step}: {reason}; {remedy}"))
        }
    }

    /// It may if someone says so.
    pub fn ask(rule: impl Into<String>, because: impl Into<String>) -> Self {
        let (step, rule) = (Some(GateStep::Rules), Some(rule.into()));
        Self { verdict: Verdict::Ask, step, rule, ..Self::allow(because) }
    }
}
