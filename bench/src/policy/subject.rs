//! A policy with many rules, calls that it decides about, and the same calls as requests for Cedar.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Authorizer, Context, Entities, Entity, EntityUid, PolicySet, Request, Response,
};
use serde_json::{Value, json};
use weir_bench::Error;
use weir_engine::provision;
use weir_policy::{Agent, AgentRole, Condition, Outcome, Rule, Source, Test, compile};
use weir_spec::{Manifest, Principal};
use weir_tools::{Decision, Gate};
use weir_types::{Effect, Json, Level, Risk, Verdict};

/// What is measured.
pub(crate) struct Subject {
    gate: Arc<dyn Gate>,
    authorizer: Authorizer,
    policies: PolicySet,
    entities: Entities,
    calls: Vec<Call>,
}

/// One call, for the gate and for Cedar.
pub(crate) struct Call {
    principal: &'static str,
    tool: String,
    source: String,
    input: Json,
    effect: Effect,
    risk: Risk,
    request: Request,
}

impl Subject {
    /// A policy with as many rules: about tools, sources, risks, groups, agents and arguments, in turns.
    pub(crate) fn with(rules: usize) -> Result<Self, Error> {
        let source = source(rules);
        let text = compile(&source).map_err(|problems| format!("{problems:?}"))?.text;
        let members: BTreeSet<Principal> = ["user:ada".parse()?, "user:grace".parse()?].into();
        let manifest = Manifest {
            policy: text.clone(),
            groups: Some(BTreeMap::from([("engineering".to_owned(), members)])),
            ..Manifest::default()
        };
        let gate = provision::gate(&manifest, ["user:root".to_owned()]);
        let calls = calls(rules)?;
        let subject = Self {
            gate,
            authorizer: Authorizer::new(),
            policies: about_calls(&text)?,
            entities: people()?,
            calls,
        };
        subject.check()?;
        Ok(subject)
    }

    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The whole decision.
    pub(crate) fn decide(&self, call: &Call) -> Decision {
        self.gate.decide(&weir_tools::Request {
            groups: &[],
            principal: call.principal,
            agent: "helper",
            tool: &call.tool,
            source: &call.source,
            callee: None,
            input: &call.input,
            effect: call.effect,
            risk: call.risk,
            access: Level::Write,
            approved_by: None,
        })
    }

    /// Cedar alone.
    pub(crate) fn evaluate(&self, call: &Call) -> Response {
        self.authorizer.is_authorized(&call.request, &self.policies, &self.entities)
    }

    /// Both are about the same: the rule that decided is one that Cedar found, and there are decisions of all kinds.
    fn check(&self) -> Result<(), Error> {
        let mut verdicts = BTreeSet::new();
        for call in &self.calls {
            let (decision, response) = (self.decide(call), self.evaluate(call));
            verdicts.insert(decision.verdict.as_str());
            let id = |policy| self.policies.annotation(policy, "id").unwrap_or_default().to_owned();
            let found: HashSet<String> = response.diagnostics().reason().map(id).collect();
            let is_found = decision.rule.as_ref().is_none_or(|rule| rule == "grant" || found.contains(rule));
            let (verdict, rule) = (decision.verdict, decision.rule);
            if response.diagnostics().errors().next().is_some() || !is_found {
                return Err(
                    format!("`{}`: {verdict:?} by {rule:?}, but Cedar found {found:?}", call.tool).into()
                );
            }
        }
        let all: BTreeSet<&str> = [Verdict::Allow, Verdict::Ask, Verdict::Deny].map(Verdict::as_str).into();
        if verdicts == all { Ok(()) } else { Err(format!("the calls only show {verdicts:?}").into()) }
    }
}

fn source(rules: usize) -> Source {
    let none = Condition::default;
    let text = |text: String| Some(text);
    let condition = |number: usize| match number % 6 {
        0 => Condition { tool: text(format!("tool_{number}")), ..none() },
        1 => Condition { tool: text(format!("group_{number}_*")), effect: Some(Effect::Write), ..none() },
        2 => Condition {
            source: text(format!("mcp://server-{number}/*")),
            group: text("engineering".to_owned()),
            ..none()
        },
        3 => Condition {
            tool: text(format!("send_{number}")),
            input: BTreeMap::from([("to".to_owned(), Test::Matches("@evil\\.example$".to_owned()))]),
            ..none()
        },
        4 => Condition { agent: text(format!("agent-{number}")), risk_at_least: Some(Risk::High), ..none() },
        _ => Condition {
            any: vec![
                Condition { principal: text(format!("user:someone-{number}")), ..none() },
                Condition { tool: text(format!("tool_{number}")), ..none() },
            ],
            not: Some(Box::new(Condition { effect: Some(Effect::Read), ..none() })),
            ..none()
        },
    };
    let rule = |number: usize| Rule {
        id: format!("rule-{number}"),
        when: condition(number),
        then: if number.is_multiple_of(2) { Outcome::RequireApproval } else { Outcome::Deny },
        why: None,
        terms: Default::default(),
        observe: false,
        matches: Vec::new(),
        not: Vec::new(),
    };
    let grants = BTreeMap::from([("group:engineering".to_owned(), Level::Write)]);
    let acl = vec![("group:engineering".to_owned(), AgentRole::Execute)];
    Source {
        agents: BTreeMap::from([("helper".to_owned(), Agent { acl, ..Agent::default() })]),
        grants: BTreeMap::from([("tools/all".to_owned(), grants)]),
        rules: (0..rules).map(rule).collect(),
        ..Source::default()
    }
}

/// A call about which no rule is, one for the first and one for the last that asks, one whose arguments are looked at, one that
/// nobody may make.
fn calls(rules: usize) -> Result<Vec<Call>, Error> {
    let last = (rules - 1) / 6 * 6;
    let sends = format!("send_{}", (rules - 4) / 6 * 6 + 3);
    let evil = json!({"to": "someone@evil.example", "text": "hello"});
    Ok(vec![
        call("user:ada", "free", json!({"path": "notes/today.md"}), &[])?,
        call("user:grace", "tool_0", json!({"n": 1}), &[])?,
        call("user:ada", &format!("tool_{last}"), json!({"n": 1}), &[])?,
        call("user:ada", &sends, evil, &[r#"to matches "@evil\\.example$""#])?,
        call("user:ada", &sends, json!({"to": "someone@good.example"}), &[])?,
        call("user:eve", "free", json!({}), &[])?,
    ])
}

fn call(principal: &'static str, tool: &str, input: Value, facts: &[&str]) -> Result<Call, Error> {
    let entity = |kind: &str, id: &str| json!({"__entity": {"type": kind, "id": id}});
    let context = json!({
        "agent": entity("Agent", "helper"),
        "effect": entity("Effect", "write"),
        "input": facts,
        "risk": entity("Risk", "high"),
        "source": "tools/all",
        "tool": tool,
    });
    let name = principal.trim_start_matches("user:");
    let request = Request::new(
        format!("User::\"{name}\"").parse()?,
        "Action::\"call\"".parse()?,
        format!("Tool::\"{tool}\"").parse()?,
        Context::from_json_value(context, None)?,
        None,
    )?;
    Ok(Call {
        principal,
        tool: tool.to_owned(),
        source: "tools/all".to_owned(),
        input: Json::of(&input),
        effect: Effect::Write,
        risk: Risk::High,
        request,
    })
}

/// What can have a say about calls: a decision looks at nothing else either.
fn about_calls(text: &str) -> Result<PolicySet, Error> {
    let all: PolicySet = text.parse()?;
    let call: EntityUid = "Action::\"call\"".parse()?;
    let says = |constraint: ActionConstraint| match constraint {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(action) => action == call,
        ActionConstraint::In(actions) => actions.contains(&call),
    };
    let about = all.policies().filter(|policy| says(policy.action_constraint())).cloned();
    Ok(PolicySet::from_policies(about)?)
}

fn people() -> Result<Entities, Error> {
    let engineering: EntityUid = "Group::\"engineering\"".parse()?;
    let admin: EntityUid = "Group::\"admin\"".parse()?;
    let mut people = Vec::new();
    for (name, group) in [("ada", &engineering), ("grace", &engineering), ("root", &admin)] {
        let uid = format!("User::\"{name}\"").parse()?;
        people.push(Entity::new_no_attrs(uid, HashSet::from([group.clone()])));
    }
    Ok(Entities::from_entities(people, None)?)
}
