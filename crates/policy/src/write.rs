//! From what a project says to Cedar text, one policy at a time, each with its place.

use weir_types::{Effect, Escalate, Level, Risk};

use crate::fact;
use crate::principal::Principal;
use crate::problem::{Kind, Place, Problem};
use crate::source::{AgentRole, Condition, LoopRole, Outcome, Rule, Source, Test};
use crate::text::{annotation, entity, joined, literal, pattern};

/// One policy, as text.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// Where it comes from; nothing for what always holds.
    pub(crate) place: Option<Place>,
    pub(crate) text: String,
}

/// What the built-in groups may do: five rules for journal, blobs and knowledge.
const BUILTIN: &str = r#"@id("builtin:admin")
@why("admins hold every role and every grant")
permit (principal in Group::"admin", action, resource);

@id("builtin:user-journal")
@why("users read and extend the streams that are theirs")
permit (principal in Group::"user", action in [Action::"read", Action::"write"], resource is Stream)
when { context.mine };

@id("builtin:user-blobs")
@why("users read and store the blobs that are theirs")
permit (principal in Group::"user", action in [Action::"read", Action::"write"], resource is Blob)
when { context.mine };

@id("builtin:user-knowledge")
@why("users find what is theirs or everybody's, and change what is theirs")
permit (principal in Group::"user", action in [Action::"read", Action::"write"], resource is Knowledge)
when { context.mine || (context.shared && action == Action::"read") };

@id("builtin:reader")
@why("readers see what is theirs, and what everybody may know")
permit (principal in Group::"reader", action == Action::"read", resource)
when { context.mine || (context.shared && resource is Knowledge) };"#;

/// What decisions about tools that always need approval are explained with. No rule can be called that.
const ALWAYS: &str = "approval: always";

/// Whoever asked may say yes.
const ASKER: &str = r#"@id("builtin:asker")
@why("people decide about what is done on their behalf")
permit (principal is User, action == Action::"approve", resource)
when { context.own };"#;

/// Whoever asked may not.
const FOUR_EYES: &str = r#"@id("builtin:four-eyes")
@why("nobody approves what they asked for themselves")
forbid (principal, action == Action::"approve", resource)
when { context.own };"#;

/// All policies but those that were written by hand. What cannot be one is told.
pub(crate) fn policies(source: &Source, problems: &mut Vec<Problem>) -> Vec<Written> {
    let builtin = BUILTIN.split("\n\n").chain([if source.four_eyes { FOUR_EYES } else { ASKER }]);
    let mut written: Vec<Written> =
        builtin.map(|text| Written { place: None, text: text.to_owned() }).collect();
    written.extend(agents(source, problems));
    written.extend(loops(source, problems));
    written.extend(grants(source, problems));
    written.extend(always(source));
    for (index, rule) in source.rules.iter().enumerate() {
        let place = Place::Rule(index);
        problems.extend(faults(&rule.when, &place));
        written.push(Written { place: Some(place), text: of_rule(rule, index) });
    }
    written
}

fn agents(source: &Source, problems: &mut Vec<Problem>) -> Vec<Written> {
    let mut written = Vec::new();
    for (name, agent) in &source.agents {
        for (principal, role) in &agent.acl {
            let action = match role {
                AgentRole::Execute => "execute",
                AgentRole::Approve => "approve",
            };
            let place = Place::Agent { agent: name.clone(), principal: principal.clone() };
            let id = format!("acl:{name}:{principal}:{action}");
            let scope = |who: &str| {
                format!(
                    "permit ({who}, action == {}, resource == {});",
                    entity("Action", action),
                    entity("Agent", name)
                )
            };
            written.extend(access(principal, place, &id, scope, problems));
        }
    }
    written
}

fn loops(source: &Source, problems: &mut Vec<Problem>) -> Vec<Written> {
    let mut written = Vec::new();
    for (name, acl) in &source.loops {
        for (principal, role) in acl {
            let (word, action) = match role {
                LoopRole::Read => ("read", r#"action == Action::"read""#),
                LoopRole::Execute => ("execute", r#"action in [Action::"execute", Action::"read"]"#),
            };
            let place = Place::Loop { name: name.clone(), principal: principal.clone() };
            let id = format!("loop:{name}:{principal}:{word}");
            let scope =
                |who: &str| format!("permit ({who}, {action}, resource == {});", entity("Loop", name));
            written.extend(access(principal, place, &id, scope, problems));
        }
    }
    written
}

fn grants(source: &Source, problems: &mut Vec<Problem>) -> Vec<Written> {
    let mut written = Vec::new();
    for (tool, grants) in &source.grants {
        for (principal, level) in grants {
            let place = Place::Grant { tool: tool.clone(), principal: principal.clone() };
            let id = format!("grant:{tool}:{principal}:{}", level.as_str());
            let only = match level {
                Level::Read => r#" && context.effect == Effect::"read""#,
                Level::Write => "",
            };
            let scope = |who: &str| {
                format!(
                    "permit ({who}, action == Action::\"call\", resource)\nwhen {{ {}{only} }};",
                    named(tool)
                )
            };
            written.extend(access(principal, place, &id, scope, problems));
        }
    }
    written
}

/// A permit for one principal.
fn access(
    principal: &str,
    place: Place,
    id: &str,
    scope: impl Fn(&str) -> String,
    problems: &mut Vec<Problem>,
) -> Option<Written> {
    let Some(who) = Principal::parse(principal) else {
        problems.push(Problem {
            place,
            kind: Kind::Value,
            message: format!("`{principal}` is not a principal"),
            help: "write `user:…`, `group:…` or `serviceaccount:…`".to_owned(),
        });
        return None;
    };
    let text = annotation("id", id) + &scope(&is(who));
    Some(Written { place: Some(place), text })
}

/// Tools that always need approval. It is the least that happens: a rule can deny the call, and none can let it through.
fn always(source: &Source) -> Vec<Written> {
    let mut written = Vec::new();
    for (agent, of) in &source.agents {
        for tool in &of.always_ask {
            let text = [
                annotation("id", ALWAYS),
                annotation("outcome", Outcome::RequireApproval.as_str()),
                annotation("always", ""),
                annotation("why", "its entry in the agent's spec says `approval: always`"),
                "permit (principal, action == Action::\"call\", resource)\n".to_owned(),
                format!("when {{ context.tool == {} && ", literal(tool)),
                format!("context.agent == {} }};", entity("Agent", agent)),
            ];
            let place = Place::Always { agent: agent.clone(), tool: tool.clone() };
            written.push(Written { place: Some(place), text: text.concat() });
        }
    }
    written
}

/// A rule.
pub(crate) fn of_rule(rule: &Rule, index: usize) -> String {
    let mut text = annotation("id", &rule.id);
    text += &annotation("outcome", rule.then.as_str());
    text += &annotation("order", &index.to_string());
    if let Some(why) = &rule.why {
        text += &annotation("why", why);
    }
    if rule.observe {
        text += &annotation("mode", "observe");
    }
    if let Some(within) = rule.terms.within_ms {
        text += &annotation("within", &format!("{within}ms"));
    }
    if let Some(Escalate { to, after_ms }) = &rule.terms.escalate {
        text += &annotation("escalate", to);
        text += &annotation("escalate_after", &format!("{after_ms}ms"));
    }
    let mut tests = Vec::new();
    tests_of(&rule.when, &mut tests);
    if !tests.is_empty() {
        text += &annotation("input", &fact::to_annotation(&tests));
        // What no call of other tools can meet is not looked at for them.
        if let Some(tool) = &rule.when.tool {
            text += &annotation("tool", tool);
        }
    }
    text += "permit (principal, action == Action::\"call\", resource)";
    if let Some(when) = condition(&rule.when) {
        text += &format!("\nwhen {{ {when} }}");
    }
    text + ";"
}

/// The tests of a condition, wherever they are in it.
fn tests_of<'c>(condition: &'c Condition, tests: &mut Vec<(&'c str, &'c Test)>) {
    tests.extend(condition.input.iter().map(|(path, test)| (path.as_str(), test)));
    let inner = condition.all.iter().chain(&condition.any).chain(condition.not.as_deref());
    inner.for_each(|inner| tests_of(inner, tests));
}

/// What of a condition cannot be looked at.
fn faults(condition: &Condition, place: &Place) -> Vec<Problem> {
    let problem = |message: String, help: &str| Problem {
        place: place.clone(),
        kind: Kind::Value,
        message,
        help: help.to_owned(),
    };
    let mut tests = Vec::new();
    tests_of(condition, &mut tests);
    let wrong = tests.into_iter().filter_map(|(path, test)| fact::Fact::new(path, test).err());
    let mut problems: Vec<Problem> = wrong
        .map(|message| problem(message, "make it simpler; bounds such as `{60}` make it large"))
        .collect();
    let mut principals = Vec::new();
    principals_of(condition, &mut principals);
    let strangers = principals.into_iter().filter(|principal| Principal::parse(principal).is_none());
    problems.extend(strangers.map(|principal| {
        let help = "write `user:…`, `group:…` or `serviceaccount:…`";
        problem(format!("`{principal}` is not a principal"), help)
    }));
    problems
}

fn principals_of<'c>(condition: &'c Condition, principals: &mut Vec<&'c str>) {
    principals.extend(condition.principal.as_deref());
    let inner = condition.all.iter().chain(&condition.any).chain(condition.not.as_deref());
    inner.for_each(|inner| principals_of(inner, principals));
}

/// A condition as an expression; nothing for one that always holds. Recursion is bounded by whoever made it.
fn condition(of: &Condition) -> Option<String> {
    let mut parts = Vec::new();
    // What differs most between calls comes first.
    parts.extend(of.tool.as_deref().map(tool));
    parts.extend(of.source.as_deref().map(|source| text_is("source", source)));
    parts.extend(of.agent.as_deref().map(|agent| format!("context.agent == {}", entity("Agent", agent))));
    parts.extend(of.effect.map(effect));
    parts.extend(of.risk_at_least.and_then(risk));
    let principal = of.principal.as_deref();
    parts.extend(principal.map(|principal| Principal::parse(principal).map_or("false".to_owned(), is)));
    parts.extend(of.group.as_deref().map(|group| is(Principal::Group(group))));
    let input = of.input.iter().map(|(path, test)| literal(&fact::name(path, test)));
    parts.extend(input.map(|fact| format!("context.input.contains({fact})")));
    let whole = |inner: &Condition| condition(inner).unwrap_or_else(|| "true".to_owned());
    parts.extend(of.all.iter().map(whole));
    parts.extend(joined(of.any.iter().map(whole).collect(), "||"));
    parts.extend(of.not.as_deref().map(|inner| format!("!({})", whole(inner))));
    joined(parts, "&&")
}

/// The name that the model sees, or the entry it comes from; a pattern is about the name.
fn tool(tool: &str) -> String {
    if tool.contains('*') { text_is("tool", tool) } else { named(tool) }
}

fn named(tool: &str) -> String {
    let tool = literal(tool);
    format!("(context.tool == {tool} || context.source == {tool})")
}

fn text_is(attribute: &str, text: &str) -> String {
    if text.contains('*') {
        format!("context.{attribute} like {}", pattern(text))
    } else {
        format!("context.{attribute} == {}", literal(text))
    }
}

fn effect(effect: Effect) -> String {
    format!("context.effect == {}", entity("Effect", effect.as_str()))
}

fn risk(at_least: Risk) -> Option<String> {
    let named = |risk: Risk| entity("Risk", risk.as_str());
    match at_least {
        Risk::Low => None,
        Risk::Medium => {
            Some(format!("[{}, {}].contains(context.risk)", named(Risk::Medium), named(Risk::High)))
        }
        Risk::High => Some(format!("context.risk == {}", named(Risk::High))),
    }
}

/// That whoever asks is this, or in it.
fn is(who: Principal<'_>) -> String {
    match who {
        Principal::User(name) => format!("principal == {}", entity("User", name)),
        Principal::ServiceAccount(name) => format!("principal == {}", entity("ServiceAccount", name)),
        Principal::Group(name) => format!("principal in {}", entity("Group", name)),
    }
}
