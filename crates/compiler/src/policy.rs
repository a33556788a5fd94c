//! Who may do what, compiled and checked: the words of a project for `policy`, and what is wrong with them for people.

mod places;

use std::collections::{BTreeMap, BTreeSet};

use weir_policy::{Agent, AgentRole, Condition, Example, LoopRole, Outcome, Rule, Sample, Source, Test};
use weir_spec::manifest::{self, Manifest};
use weir_spec::{Access, Approval, Diagnostic, Mode, Principal, Role, Sources, Verdict, builtin_names};
use weir_types::{Effect, Json, Level, Risk, wildcard};

use self::places::Places;
use crate::builtin;

/// Who asks in an example that does not say. No principal has white space in its name, so that no rule means this one.
const ANYONE: &str = "user:any one";

/// The compiled policy of a manifest; what is wrong is told.
pub(crate) fn compile(manifest: &Manifest, sources: &Sources, problems: &mut Vec<Diagnostic>) -> String {
    let places = Places { sources };
    if !problems.iter().any(Diagnostic::is_error) {
        problems.extend(unknown_tools(manifest, sources));
    }
    match weir_policy::compile(&source(manifest)) {
        Ok(compiled) => {
            problems.extend(compiled.warnings.iter().filter_map(|problem| places.tell(problem)));
            compiled.text
        }
        Err(found) => {
            problems.extend(found.iter().filter_map(|problem| places.tell(problem)));
            String::new()
        }
    }
}

/// Rules that name a tool that no agent has and that does not come with the program.
fn unknown_tools(manifest: &Manifest, sources: &Sources) -> Vec<Diagnostic> {
    let tools = manifest.agents.values().flat_map(|agent| &agent.tools);
    let mut known: BTreeSet<&str> = tools.flat_map(|tool| [tool.name.as_str(), &tool.source]).collect();
    known.extend(builtin::ALL.iter().flat_map(|builtin| [builtin.entry, builtin.name]));
    let is_known = |pattern: &str| match pattern.contains('*') {
        true => known.iter().any(|name| wildcard::matches(pattern, name)),
        false => known.contains(pattern),
    };
    let named = sources.project.rule_places.iter().flat_map(|places| &places.tools);
    let unknown = named.filter(|tool| !is_known(&tool.value));
    let tell = |tool: &weir_spec::Spanned<String>| {
        let similar = known.iter().map(|name| (strsim::jaro_winkler(name, &tool.value), name));
        let similar = similar.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
        let help = match similar {
            Some((_, name)) => format!("did you mean `{name}`?"),
            None => "write the name that the model sees, as in `weir tools list AGENT`".to_owned(),
        };
        let message = format!("no agent has a tool `{}`", tool.value);
        Diagnostic::error("build::rule-tool", "weir.yaml", tool.span, message, help).warning()
    };
    unknown.map(tell).collect()
}

/// A manifest in the words of `policy`.
fn source(manifest: &Manifest) -> Source {
    let members = |members: &BTreeSet<Principal>| members.iter().map(ToString::to_string).collect();
    let groups = manifest.groups.iter().flatten();
    let granted = |grants: &BTreeMap<Principal, Access>| {
        grants.iter().map(|(principal, access)| (principal.to_string(), level(*access))).collect()
    };
    let agents = manifest.agents.iter();
    let loops = manifest.loops.iter().map(|(name, spec)| {
        let acl = spec.acl.iter().map(|(principal, role)| (principal.to_string(), loop_role(*role)));
        (name.clone(), acl.collect())
    });
    Source {
        groups: groups.map(|(name, group)| (name.clone(), members(group))).collect(),
        agents: agents.map(|(name, spec)| (name.clone(), agent(spec))).collect(),
        loops: loops.collect(),
        grants: manifest.grants.iter().map(|(tool, grants)| (tool.clone(), granted(grants))).collect(),
        rules: manifest.rules.iter().map(|spec| rule(spec, manifest)).collect(),
        written: manifest.policies.clone(),
        four_eyes: manifest.four_eyes,
    }
}

fn agent(agent: &manifest::Agent) -> Agent {
    let execute = agent.acl.keys().map(|who| (who.to_string(), AgentRole::Execute));
    let approve = agent.approvers.iter().map(|who| (who.to_string(), AgentRole::Approve));
    let always = agent.tools.iter().filter(|tool| tool.approval == Some(Approval::Always));
    Agent {
        acl: execute.chain(approve).collect(),
        always_ask: always.map(|tool| tool.name.clone()).collect(),
    }
}

fn rule(rule: &weir_spec::Rule, manifest: &Manifest) -> Rule {
    let examples = |examples: &[weir_spec::Example]| {
        examples.iter().map(|one| example(one, manifest)).collect::<Vec<Example>>()
    };
    Rule {
        id: rule.id.clone(),
        when: condition(&rule.when),
        then: match rule.then {
            Verdict::Allow => Outcome::Allow,
            Verdict::RequireApproval => Outcome::RequireApproval,
            Verdict::Deny => Outcome::Deny,
        },
        why: rule.why.clone(),
        observe: rule.mode == Mode::Observe,
        terms: rule.approval_terms.clone(),
        matches: examples(&rule.examples.matches),
        not: examples(&rule.examples.not),
    }
}

/// Recursion is bounded by the depth of a document.
fn condition(of: &weir_spec::Condition) -> Condition {
    let test = |test: &weir_spec::Test| match test.clone() {
        weir_spec::Test::Equals(value) => Test::Equals(value),
        weir_spec::Test::Matches(pattern) => Test::Matches(pattern),
        weir_spec::Test::OneOf(values) => Test::OneOf(values),
        weir_spec::Test::Above(bound) => Test::Above(bound),
        weir_spec::Test::Below(bound) => Test::Below(bound),
    };
    Condition {
        tool: of.tool.clone(),
        source: of.source.clone(),
        effect: of.effect,
        risk_at_least: of.risk_at_least,
        principal: of.principal.as_ref().map(ToString::to_string),
        group: of.group.clone(),
        agent: of.agent.clone(),
        input: of.input.iter().map(|(path, of)| (path.clone(), test(of))).collect(),
        all: of.all.iter().map(condition).collect(),
        any: of.any.iter().map(condition).collect(),
        not: of.not.as_deref().map(|inner| Box::new(condition(inner))),
    }
}

/// The calls that an example may stand for: one per agent that has the tool, unless it names one.
fn example(example: &weir_spec::Example, manifest: &Manifest) -> Example {
    let input = example.input.clone().unwrap_or_else(Json::empty_object);
    let sample = |agent: &str, source: &str, effect, risk| Sample {
        principal: example.principal.as_ref().map_or_else(|| ANYONE.to_owned(), ToString::to_string),
        agent: agent.to_owned(),
        tool: example.tool.clone(),
        source: source.to_owned(),
        input: input.clone(),
        effect,
        risk,
    };
    let is_meant = |name: &String| example.agent.as_ref().is_none_or(|agent| agent == name);
    let mut calls = Vec::new();
    for (name, agent) in manifest.agents.iter().filter(|(name, _)| is_meant(name)) {
        for tool in agent.tools.iter().filter(|tool| tool.name == example.tool) {
            let (effect, risk) = strictness(tool, &input);
            calls.push(sample(name, &tool.source, effect, risk));
        }
    }
    if calls.is_empty() {
        // A tool that nobody has is one that nobody knows.
        let (agent, source) = (example.agent.as_deref().unwrap_or_default(), entry_of(&example.tool));
        calls.push(sample(agent, source, Effect::Write, Risk::High));
    }
    Example { calls }
}

/// How strict the gate is with this very call, as `weir_tools::Toolbox::strictness` says.
fn strictness(tool: &manifest::Tool, input: &Json) -> (Effect, Risk) {
    let method = input.to_value().get("method").and_then(|method| Some(method.as_str()?.to_owned()));
    let method = method.as_deref().unwrap_or("GET");
    let looks = ["GET", "HEAD"].iter().any(|known| method.eq_ignore_ascii_case(known));
    if tool.name == "http" && tool.source == "http" && looks {
        return (Effect::Read, Risk::Low);
    }
    (tool.effect, tool.risk)
}

/// The entry that a tool of the program belongs to.
fn entry_of(tool: &str) -> &str {
    let entries = weir_spec::BUILTIN_TOOLS.iter();
    entries.copied().find(|entry| builtin_names(entry).contains(&tool)).unwrap_or(tool)
}

fn level(access: Access) -> Level {
    match access {
        Access::Read => Level::Read,
        Access::Write => Level::Write,
    }
}

fn loop_role(role: Role) -> LoopRole {
    match role {
        Role::Execute => LoopRole::Execute,
        // Loops have no other role than these two.
        Role::Read | Role::Approve => LoopRole::Read,
    }
}
