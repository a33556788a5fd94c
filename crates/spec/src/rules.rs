//! Rules, budgets, hooks and routing: what governs every agent of a project. Shared by `weir.yaml` and the manifest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{ApprovalTerms, Effect, Json, NanoUsd, Risk};

use crate::Principal;

/// One rule. The first that matches, from the top, decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What decisions are explained with.
    pub id: String,
    /// Which calls it is about.
    #[serde(default)]
    pub when: Condition,
    /// What happens to them.
    pub then: Verdict,
    /// What people are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether it takes effect.
    #[serde(default)]
    pub mode: Mode,
    /// How long an approval that it asks for is waited for.
    #[serde(default, skip_serializing_if = "ApprovalTerms::is_default")]
    pub approval_terms: ApprovalTerms,
    /// Calls that show what it means.
    #[serde(default)]
    pub examples: Examples,
}

/// Which calls a rule is about. Everything that is there has to hold; nothing there holds for every call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// The name the model sees, an entry such as `fs`, or a pattern with `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Where the tool comes from, or a pattern with `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What repeating the call does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// How bad a wrong call can be, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_at_least: Option<Risk>,
    /// Who asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// A group of which whoever asks is a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whose call it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the arguments say, by their path: `to.0.address`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, Test>,
    /// All of these hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<Condition>,
    /// One of these holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any: Vec<Condition>,
    /// This does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Condition>>,
}

/// What an argument is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// It is this value.
    Equals(Json),
    /// It is text in which this regular expression is found.
    Matches(String),
    /// It is one of these values.
    OneOf(Vec<Json>),
    /// It is a number above this one.
    Above(Json),
    /// It is a number below this one.
    Below(Json),
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs, if whoever asks may use the tool.
    Allow,
    /// Someone is asked first.
    RequireApproval,
    /// It does not run.
    Deny,
}

/// Whether a rule takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It does.
    #[default]
    Enforce,
    /// It is only written down what it would have done.
    Observe,
}

/// Calls that show what a rule means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Examples {
    /// Calls it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Example>,
    /// Calls it is not about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<Example>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The tool, by the name the model sees.
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// Who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// Whose call it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Over what a budget is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One run.
    PerRun,
    /// One session, with its branches.
    PerSession,
    /// One agent.
    PerAgent,
    /// Whoever asks.
    PerPrincipal,
    /// One day, in UTC.
    PerDay,
}

impl Scope {
    /// All of them, with their fields.
    pub(crate) const WORDS: &[(&'static str, Self)] = &[
        ("per_run", Self::PerRun),
        ("per_session", Self::PerSession),
        ("per_agent", Self::PerAgent),
        ("per_principal", Self::PerPrincipal),
        ("per_day", Self::PerDay),
    ];

    /// Its field in `budgets`.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, scope)| *scope == self).map_or("", |(word, _)| word)
    }
}

/// What may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Money, in billionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<NanoUsd>,
    /// Tokens of all requests and answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Time, without waiting for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_clock_ms: Option<u64>,
}

/// What the programs that are asked before an append are called, where somebody is asked whether they may be started.
pub const PRE_APPEND: &str = "hooks.pre_append";

/// What happens around every append.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// May refuse an event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_append: Vec<Hook>,
    /// React to one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_append: Vec<Hook>,
}

/// One hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// What is done.
    #[serde(rename = "do")]
    pub action: HookAction,
    /// The kinds of events it is about; all, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What a hook does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookAction {
    /// Starts a program, without a shell: the program and its arguments.
    Run(Vec<String>),
    /// Runs a script of the project.
    Script(String),
}

/// Where turns run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Here.
    #[default]
    Direct,
    /// At a remote service.
    Managed,
}

/// Which lane a session takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// The lane that is taken when nothing else says so.
    pub default: Lane,
    /// How many of a hundred new sessions take the managed lane instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_pct: Option<u64>,
    /// Whose sessions always take the managed lane.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Principal>,
    /// Whose sessions never do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Principal>,
    /// When the canary stops growing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// When it is taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
}

/// When the canary stops growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hold {
    /// Fewer answers delivered, in percentage points.
    pub delivered_pp: u64,
    /// More cost, in percent.
    pub cost_pct: u64,
    /// A later first token at the 95th percentile, in percent.
    pub first_token_pct: u64,
}

/// When the canary is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rollback {
    /// Fewer answers delivered, in percentage points.
    pub delivered_pp: u64,
    /// Counted over this time.
    pub within_ms: u64,
}

impl Default for Hold {
    fn default() -> Self {
        Self { delivered_pp: 2, cost_pct: 10, first_token_pct: 25 }
    }
}

impl Default for Rollback {
    fn default() -> Self {
        Self { delivered_pp: 5, within_ms: 24 * 3_600_000 }
    }
}
