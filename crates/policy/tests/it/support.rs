//! A small project, and short ways to speak about it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weir_policy::{
    Agent, AgentRole, Answer, Call, Condition, Outcome, Parts, Policies, Problem, Rule, Source, compile,
};
use weir_types::Level;
use weir_types::{Effect, Json, Risk};

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Ada is an admin, Alan one by group, Olga by a group of admins; Grace and the account `ci` are engineers; nobody knows Eve.
pub(crate) fn groups() -> BTreeMap<String, BTreeSet<String>> {
    BTreeMap::from([
        ("admin".to_owned(), set(&["user:alan"])),
        ("owners".to_owned(), set(&["user:olga"])),
        ("engineers".to_owned(), set(&["user:grace", "serviceaccount:ci"])),
        ("user".to_owned(), set(&["user:grace"])),
        ("reader".to_owned(), set(&["user:rita"])),
    ])
}

pub(crate) fn source() -> Source {
    let writer = Agent {
        acl: vec![
            ("group:engineers".to_owned(), AgentRole::Execute),
            ("user:boss".to_owned(), AgentRole::Approve),
        ],
        always_ask: set(&["drop"]),
    };
    let grants = |grants: &[(&str, Level)]| {
        grants.iter().map(|(who, level)| ((*who).to_owned(), *level)).collect::<BTreeMap<_, _>>()
    };
    Source {
        groups: groups(),
        agents: BTreeMap::from([("writer".to_owned(), writer)]),
        grants: BTreeMap::from([
            (
                "mcp://mail".to_owned(),
                grants(&[("group:engineers", Level::Read), ("serviceaccount:ci", Level::Write)]),
            ),
            ("send".to_owned(), grants(&[("user:grace", Level::Write)])),
        ]),
        ..Source::default()
    }
}

pub(crate) fn rule(id: &str, when: Condition, then: Outcome) -> Rule {
    let (matches, not) = (Vec::new(), Vec::new());
    Rule { id: id.to_owned(), when, then, why: None, observe: false, terms: Default::default(), matches, not }
}

pub(crate) fn tool(name: &str) -> Condition {
    Condition { tool: Some(name.to_owned()), ..Condition::default() }
}

pub(crate) fn text(value: &Value) -> Json {
    Json::of(value)
}

/// Policies of a source that has nothing wrong with it; Ada is an admin.
pub(crate) fn policies(source: &Source) -> Policies {
    let compiled = compile(source).unwrap();
    let parts = Parts {
        text: &compiled.text,
        written: &source.written,
        groups: &source.groups,
        admins: &["user:ada".to_owned(), "group:admin".to_owned(), "group:owners".to_owned()],
    };
    Policies::new(&parts).unwrap()
}

pub(crate) fn problems(source: &Source) -> Vec<Problem> {
    match compile(source) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    }
}

/// A call of `send` from `mcp://mail` that writes, by the agent `writer`.
pub(crate) fn call(principal: &str) -> Owned {
    Owned {
        principal: principal.to_owned(),
        agent: "writer".to_owned(),
        tool: "send".to_owned(),
        source: "mcp://mail".to_owned(),
        callee: None,
        input: json!({}),
        effect: Effect::Write,
        risk: Risk::High,
        access: Level::Write,
        approved_by: None,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) principal: String,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) source: String,
    pub(crate) callee: Option<String>,
    pub(crate) input: Value,
    pub(crate) effect: Effect,
    pub(crate) risk: Risk,
    pub(crate) access: Level,
    pub(crate) approved_by: Option<String>,
}

impl Owned {
    pub(crate) fn decide(&self, policies: &Policies) -> Answer {
        let input = Json::of(&self.input);
        policies.decide(&Call {
            groups: &[],
            principal: &self.principal,
            agent: &self.agent,
            tool: &self.tool,
            source: &self.source,
            callee: self.callee.as_deref(),
            input: &input,
            effect: self.effect,
            risk: self.risk,
            access: self.access,
            approved_by: self.approved_by.as_deref(),
        })
    }
}
