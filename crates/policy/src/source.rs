//! What policies are made of: who may do what, and what happens to calls, in plain words.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{ApprovalTerms, Effect, Json, Level, Risk};

/// What a project says about who may do what. Principals are `user:…`, `group:…` and `serviceaccount:…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Groups and their members, for what examples say; decisions ask [`crate::Parts::groups`].
    pub groups: BTreeMap<String, BTreeSet<String>>,
    /// The agents, by name.
    pub agents: BTreeMap<String, Agent>,
    /// Who may see and trigger which loop.
    pub loops: BTreeMap<String, Vec<(String, LoopRole)>>,
    /// Who may use which tool or source, up to which level.
    pub grants: BTreeMap<String, BTreeMap<String, Level>>,
    /// What happens to calls; the first that matches decides.
    pub rules: Vec<Rule>,
    /// Policies written by hand, by path.
    pub written: BTreeMap<String, String>,
    /// Whether nobody approves what they asked for themselves.
    pub four_eyes: bool,
}

/// What is said about one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Who may do what with it.
    pub acl: Vec<(String, AgentRole)>,
    /// Tools of it that always need approval, by the names the model sees.
    pub always_ask: BTreeSet<String>,
}

/// What someone may do with an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentRole {
    /// Talk to it.
    Execute,
    /// Say yes to its calls.
    Approve,
}

/// What someone may do with a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopRole {
    /// See it and its history.
    Read,
    /// Trigger it, and see it.
    Execute,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What decisions are explained with.
    pub id: String,
    /// Which calls it is about.
    pub when: Condition,
    /// What happens to them.
    pub then: Outcome,
    /// What people are told.
    pub why: Option<String>,
    /// Whether it only says what it would have done.
    pub observe: bool,
    /// How long an approval that it asks for is waited for.
    pub terms: ApprovalTerms,
    /// Calls it is about.
    pub matches: Vec<Example>,
    /// Calls it is not about.
    pub not: Vec<Example>,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs, if whoever asks may use the tool.
    Allow,
    /// Someone is asked first.
    RequireApproval,
    /// It does not run.
    Deny,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Allow, Self::RequireApproval, Self::Deny];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

/// Which calls a rule is about. Everything that is there has to hold; nothing there holds for every call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The name the model sees, an entry such as `fs`, or a pattern with `*` for the name.
    pub tool: Option<String>,
    /// Where the tool comes from, or a pattern with `*`.
    pub source: Option<String>,
    /// What repeating the call does.
    pub effect: Option<Effect>,
    /// How bad a wrong call can be, at least.
    pub risk_at_least: Option<Risk>,
    /// Who asks, or a group of which they are.
    pub principal: Option<String>,
    /// A group of which whoever asks is a member.
    pub group: Option<String>,
    /// Whose call it is.
    pub agent: Option<String>,
    /// What the arguments say, by their path: `to.0.address`.
    pub input: BTreeMap<String, Test>,
    /// All of these hold.
    pub all: Vec<Condition>,
    /// One of these holds.
    pub any: Vec<Condition>,
    /// This does not hold.
    pub not: Option<Box<Condition>>,
}

/// What an argument is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A call that shows what a rule means. What it leaves open can be several calls: one that the rule is about is about
/// one of them, and one that it is not about is about none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The calls it may stand for.
    pub calls: Vec<Sample>,
}

/// One of the calls that an example may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Who asks; a group stands for someone in it.
    pub principal: String,
    /// Whose call it is.
    pub agent: String,
    /// The tool, by the name the model sees.
    pub tool: String,
    /// Where it comes from.
    pub source: String,
    /// The arguments.
    pub input: Json,
    /// What repeating it does.
    pub effect: Effect,
    /// How bad a wrong call can be.
    pub risk: Risk,
}
