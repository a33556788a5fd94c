//! Calls of tools.

use serde::{Deserialize, Serialize};
use weir_types::{
    Block, CallId, Effect, GateStep, Hash, Json, NanoUsd, OnInterrupt, Outcome, Risk, Saw, SessionId, Usage,
    Verdict,
};

/// The model asked for a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRequested {
    /// Our id of the call.
    pub call: CallId,
    /// The provider's.
    pub provider_id: String,
    /// The tool.
    pub tool: String,
    /// Where it comes from.
    pub source: String,
    /// The arguments.
    pub input: Json,
    /// What repeating it does.
    pub effect: Effect,
    /// How bad it can be.
    pub risk: Risk,
    /// What a crash in the middle of it means.
    #[serde(default)]
    pub on_interrupt: OnInterrupt,
    /// Of an errand: a call that the model did not ask for, but someone outside. Asked for again with the same key, it is the
    /// same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Whether it may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDecided {
    /// The call.
    pub call: CallId,
    /// Whether.
    pub outcome: Verdict,
    /// Which rule; the name of the step, if it was no rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Which step decided. [`ToolDecided::decided_by`] also knows it of decisions from before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<GateStep>,
    /// Why.
    pub because: String,
    /// Whether it only pretends.
    pub stub: bool,
    /// What that depended on beside the call. Decisions from before there was a record of it have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saw: Option<Saw>,
}

/// It is about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The call.
    pub call: CallId,
    /// From 1.
    pub attempt: u32,
    /// The idempotency key, the same for each attempt.
    pub key: String,
    /// SHA-256 of the arguments it runs with.
    pub input_hash: Hash,
    /// The session that does it, if an agent does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<SessionId>,
}

/// It answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCompleted {
    /// The call.
    pub call: CallId,
    /// The answer.
    pub content: Vec<Block>,
    /// Files it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_files: Vec<String>,
    /// Whether it only pretended.
    pub stub: bool,
    /// The blob with the whole answer, when only its beginning is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Hash>,
    /// What it wrote to its console.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// What the session behind it used, if an agent did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<Bill>,
}

/// It did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailed {
    /// The call.
    pub call: CallId,
    /// A word for how.
    pub class: String,
    /// What the model is told.
    pub message: String,
    /// What is known about its effect.
    pub outcome: Outcome,
    /// What it wrote to its console.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// What the session behind it used, if an agent did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<Bill>,
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

impl ToolDecided {
    /// The step that decided; none, if nothing was said against the call, nor for it by name.
    pub fn decided_by(&self) -> Option<GateStep> {
        const STEPS: [GateStep; 6] = [
            GateStep::Allowlist,
            GateStep::Schema,
            GateStep::Grant,
            GateStep::Budget,
            GateStep::Stub,
            GateStep::Credentials,
        ];
        self.step.or_else(|| {
            let rule = self.rule.as_deref()?;
            // Before the step was recorded, one that refused said its name twice; a rule of that name did not.
            let says =
                |step: &GateStep| rule == step.as_str() && self.because.starts_with(&format!("{step}: "));
            Some(STEPS.into_iter().find(says).unwrap_or(GateStep::Rules))
        })
    }
}
