//! From what a project says to policies that can be kept, with everything that is wrong with them.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{ActionConstraint, Effect, Policy, PolicyId, PolicySet, ValidationMode, Validator};
use miette::Diagnostic;
use weir_types::Level;

use crate::policies::{Call, Parts, Policies, terms};
use crate::problem::{Kind, Place, Problem};
use crate::source::{Example, Outcome, Rule, Sample, Source};
use crate::write::{self, Written};
use crate::{schema, written};

/// Policies that can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Everything but what was written by hand, as Cedar text.
    pub text: String,
    /// What is odd about it and does not stand in the way.
    pub warnings: Vec<Problem>,
}

/// Compiles, checks types, and holds rules against their examples.
///
/// # Errors
/// Everything that is wrong, warnings included.
pub fn compile(source: &Source) -> Result<Compiled, Vec<Problem>> {
    let mut problems = Vec::new();
    duplicates(source, &mut problems);
    let written = write::policies(source, &mut problems);
    let mut checked = Checked::default();
    for policy in &written {
        checked.add(policy, &mut problems);
    }
    for (path, text) in &source.written {
        checked.add_file(path, text, &mut problems);
    }
    checked.validate(&mut problems);
    let texts: Vec<&str> = written.iter().map(|policy| policy.text.as_str()).collect();
    let text = texts.join("\n\n") + "\n";
    if !problems.iter().any(Problem::is_error) {
        examples(source, &mut problems);
    }
    problems.sort_by(|a, b| (&a.place, &a.message).cmp(&(&b.place, &b.message)));
    problems.dedup();
    if problems.iter().any(Problem::is_error) {
        return Err(problems);
    }
    Ok(Compiled { text, warnings: problems })
}

fn duplicates(source: &Source, problems: &mut Vec<Problem>) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, rule) in source.rules.iter().enumerate() {
        if seen.insert(&rule.id, index).is_some() {
            problems.push(Problem {
                place: Place::Rule(index),
                kind: Kind::Duplicate,
                message: format!("the rule `{}` is here twice", rule.id),
                help: "give one another id".to_owned(),
            });
        }
    }
}

/// Policies that could be read, each with its place.
#[derive(Default)]
struct Checked {
    set: PolicySet,
    places: BTreeMap<String, Option<Place>>,
    ids: BTreeMap<String, ()>,
}

impl Checked {
    fn add(&mut self, written: &Written, problems: &mut Vec<Problem>) {
        let id = format!("c{}", self.places.len());
        match Policy::parse(Some(PolicyId::new(&id)), &written.text) {
            Ok(policy) => self.keep(policy, written.place.clone()),
            // INVARIANT: what we write can be read; a property test tries.
            Err(error) => problems.push(Problem {
                place: written.place.clone().unwrap_or(Place::Rule(0)),
                kind: Kind::Syntax,
                message: format!("this is a bug in weir: its policy cannot be read: {error}"),
                help: "please report this, with the rule".to_owned(),
            }),
        }
    }

    fn keep(&mut self, policy: Policy, place: Option<Place>) {
        if let Some(id) = policy.annotation("id") {
            self.ids.insert(id.to_owned(), ());
        }
        self.places.insert(policy.id().to_string(), place);
        // INVARIANT: ids are numbered, so that none is there twice.
        let _ = self.set.add(policy);
    }

    fn add_file(&mut self, path: &str, text: &str, problems: &mut Vec<Problem>) {
        let whole = || Place::Written { path: path.to_owned(), start: 0, end: 0 };
        let policies = match written::split(text) {
            Ok(policies) => policies,
            Err(errors) => {
                problems.extend(errors.iter().map(|error| {
                    let place = place_of(error, path).unwrap_or_else(whole);
                    problem(
                        place,
                        Kind::Syntax,
                        error,
                        "see https://docs.cedarpolicy.com/policies/syntax-policy.html",
                    )
                }));
                return;
            }
        };
        if written::has_templates(text) {
            let message = "a template says nothing until someone fills it in, which nobody does".to_owned();
            let help = "write what `?principal` and `?resource` stand for".to_owned();
            let start = text.find("?principal").or_else(|| text.find("?resource")).unwrap_or(0);
            let place = Place::Written { path: path.to_owned(), start, end: start };
            problems.push(Problem { place, kind: Kind::Type, message, help });
        }
        for (range, policy) in policies {
            let place = Place::Written { path: path.to_owned(), start: range.start, end: range.end };
            problems.extend(self.annotations(&policy, &place));
            let id = format!("{path} {}", range.start);
            self.keep(policy.new_id(PolicyId::new(id)), Some(place));
        }
    }

    /// What annotations of a policy that was written by hand cannot say.
    fn annotations(&self, policy: &Policy, place: &Place) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut tell = |kind, message: String, help: &str| {
            found.push(Problem { place: place.clone(), kind, message, help: help.to_owned() });
        };
        if let Some(id) = policy.annotation("id") {
            if self.ids.contains_key(id) {
                tell(Kind::Duplicate, format!("the policy `{id}` is here twice"), "give one another id");
            } else if id.is_empty() {
                tell(Kind::Annotation, "`@id` is empty".to_owned(), "give it a name, or leave it out");
            }
        }
        let outcome = policy.annotation("outcome");
        if let Some(word) = outcome.filter(|word| Outcome::named(word).is_none()) {
            let help = "write `allow`, `require_approval` or `deny`";
            tell(Kind::Annotation, format!("`@outcome` is `{word}`"), help);
        }
        if policy.annotation("mode").is_some_and(|mode| !["observe", "enforce"].contains(&mode)) {
            tell(Kind::Annotation, "`@mode` is not a mode".to_owned(), "write `observe`, or leave it out");
        }
        if policy.annotation("mode").is_some() && outcome.is_none() {
            let help = "give it an `@outcome`, or remove `@mode`";
            tell(Kind::Annotation, "only rules have a `@mode`".to_owned(), help);
        }
        let asks = outcome == Some(Outcome::RequireApproval.as_str());
        let timed = ["within", "escalate", "escalate_after"];
        if let Some(name) = timed.into_iter().find(|name| policy.annotation(name).is_some() && !asks) {
            let help = "give it `@outcome(\"require_approval\")`, or remove it";
            tell(Kind::Annotation, format!("only rules that ask for approval have an `@{name}`"), help);
        } else if let Err(name) = terms(policy) {
            let help = "write `@within(\"1h\")`, and `@escalate(\"group:NAME\")` with an `@escalate_after(\"30m\")` before that";
            tell(Kind::Annotation, format!("`@{name}` is not right"), help);
        }
        if outcome.is_some() {
            let is_call = matches!(policy.action_constraint(), ActionConstraint::Eq(action) if action.id().unescaped() == "call");
            if policy.effect() == Effect::Forbid {
                let help = "remove `@outcome`, or write `permit`, which then is a rule among the others";
                tell(Kind::Annotation, "a `forbid` always denies".to_owned(), help);
            } else if !is_call {
                let help = "write `action == Action::\"call\"`, or remove `@outcome`";
                tell(Kind::Annotation, "an `@outcome` is for calls".to_owned(), help);
            }
        }
        found
    }

    fn validate(&self, problems: &mut Vec<Problem>) {
        // INVARIANT: the schema is a constant; a test reads it.
        let Some(schema) = schema::READ.clone() else { return };
        let result = Validator::new(schema).validate(&self.set, ValidationMode::Strict);
        for error in result.validation_errors() {
            let place = self.place(error.policy_id(), error);
            let help = "docs/policies.md has what policies may speak about";
            problems.extend(place.map(|place| problem(place, Kind::Type, error, help)));
        }
        let wrong: BTreeSet<&PolicyId> = result.validation_errors().map(|error| error.policy_id()).collect();
        let warnings = result.validation_warnings().filter(|warning| !wrong.contains(warning.policy_id()));
        let mut told = BTreeSet::new();
        for warning in warnings {
            // What we write ourselves may well be about nothing that exists yet. One reason is enough.
            let place = self.place(warning.policy_id(), warning);
            let written =
                place.filter(|place| matches!(place, Place::Written { .. }) && told.insert(place.clone()));
            let help = "it has no effect as it is; mend it, or remove it";
            problems.extend(written.map(|place| problem(place, Kind::Never, warning, help)));
        }
    }

    fn place(&self, policy: &PolicyId, diagnostic: &dyn Diagnostic) -> Option<Place> {
        match self.places.get(&policy.to_string())? {
            Some(Place::Written { path, start, end }) => {
                let within = place_of(diagnostic, path);
                Some(within.unwrap_or_else(|| Place::Written {
                    path: path.clone(),
                    start: *start,
                    end: *end,
                }))
            }
            place => Some(place.clone().unwrap_or(Place::Rule(0))),
        }
    }
}

/// Where Cedar points at in a file.
fn place_of(diagnostic: &(impl Diagnostic + ?Sized), path: &str) -> Option<Place> {
    let label = diagnostic.labels()?.next()?;
    let start = label.offset();
    Some(Place::Written { path: path.to_owned(), start, end: start + label.len() })
}

fn problem(place: Place, kind: Kind, diagnostic: &(impl Diagnostic + ?Sized), otherwise: &str) -> Problem {
    let help = diagnostic.help().map_or_else(|| otherwise.to_owned(), |help| without_id(&help.to_string()));
    Problem { place, kind, message: without_id(&diagnostic.to_string()), help }
}

/// Cedar begins with the name it has for a policy, which nobody else knows.
fn without_id(message: &str) -> String {
    let rest = message.strip_prefix("for policy `").and_then(|rest| rest.split_once("`, "));
    rest.map_or(message, |(_, rest)| rest).to_owned()
}

/// Holds rules against their examples. Each rule alone: what others say is not what its examples are about.
fn examples(source: &Source, problems: &mut Vec<Problem>) {
    let with = |rule: &Rule| !rule.matches.is_empty() || !rule.not.is_empty();
    for (index, rule) in source.rules.iter().enumerate().filter(|(_, rule)| with(rule)) {
        let (text, written) = (write::of_rule(rule, index), BTreeMap::new());
        let parts = Parts { text: &text, written: &written, groups: &source.groups, admins: &[] };
        let policies = match Policies::new(&parts) {
            Ok(policies) => policies,
            Err(error) => {
                let message = format!("the rule cannot be tried: {error}");
                let help = "please report this, with the rule".to_owned();
                problems.push(Problem { place: Place::Rule(index), kind: Kind::Value, message, help });
                continue;
            }
        };
        for (matches, examples) in [(true, &rule.matches), (false, &rule.not)] {
            for (at, example) in examples.iter().enumerate() {
                let place = Place::Example { rule: index, matches, index: at };
                problems.extend(contradiction(&policies, rule, example, matches, place));
            }
        }
    }
}

fn contradiction(
    policies: &Policies,
    rule: &Rule,
    example: &Example,
    matches: bool,
    place: Place,
) -> Option<Problem> {
    let is_about =
        example.calls.iter().any(|sample| policies.is_about(&rule.id, &call(sample)) == Some(true));
    if is_about == matches {
        return None;
    }
    let tool = example.calls.first().map(|sample| sample.tool.as_str()).unwrap_or_default();
    let (message, help) = if matches {
        let message = format!("the rule `{}` is not about this call of `{tool}`", rule.id);
        (message, "change `when`, or the example; `principal`, `agent` and `input` may have to be in it")
    } else {
        let message = format!("the rule `{}` is about this call of `{tool}`, and should not be", rule.id);
        (message, "change `when`, or the example")
    };
    Some(Problem { place, kind: Kind::Example, message, help: help.to_owned() })
}

fn call(sample: &Sample) -> Call<'_> {
    Call {
        principal: &sample.principal,
        agent: &sample.agent,
        tool: &sample.tool,
        source: &sample.source,
        callee: None,
        input: &sample.input,
        effect: sample.effect,
        risk: sample.risk,
        access: Level::Write,
        groups: &[],
        approved_by: None,
    }
}
