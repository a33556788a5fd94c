//! What happens to a call.

use cedar_policy::{Context, Entities, EntityUid, PolicySet, Request, RestrictedExpression};
use serde_json::Value;
use weir_types::{ApprovalTerms, Effect, GateStep, Json, Level, Risk, Verdict, Who, wildcard};

use super::{Gated, Known, Policies, Said, Says};
use crate::names;
use crate::principal::Principal;
use crate::source::Outcome;

/// A call that an agent lists and whose arguments fit.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// On whose behalf.
    pub principal: &'a str,
    /// The groups they came with, besides those of the project.
    pub groups: &'a [String],
    /// The agent that makes it.
    pub agent: &'a str,
    /// The tool, by the name the model knows.
    pub tool: &'a str,
    /// Where the tool comes from.
    pub source: &'a str,
    /// The agent behind it, if there is one.
    pub callee: Option<&'a str>,
    /// The arguments.
    pub input: &'a Json,
    /// What repeating this call does.
    pub effect: Effect,
    /// How bad a wrong call can be.
    pub risk: Risk,
    /// The highest level its entry offers.
    pub access: Level,
    /// Who approved it, if someone did, with exactly these arguments.
    pub approved_by: Option<&'a str>,
}

/// What happens to a call, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may run.
    pub verdict: Verdict,
    /// The step that decided: access, or rules; none, if no rule had a say.
    pub step: Option<GateStep>,
    /// The rule that decided; `grant` if access did, `rules` if a policy could not be evaluated.
    pub rule: Option<String>,
    /// Why.
    pub reason: String,
    /// What would change it, if the call is refused.
    pub remedy: Option<String>,
    /// How long an approval is waited for, if the rule that asks says so.
    pub terms: ApprovalTerms,
    /// What rules that are only tried out would have decided.
    pub observed: Vec<Observed>,
}

/// What a rule that is only tried out would have decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The rule.
    pub rule: String,
    /// What it would have decided.
    pub outcome: Outcome,
}

impl<'a> Call<'a> {
    fn who(&self) -> Who<'a> {
        Who::new(self.principal, self.groups)
    }
}

impl Answer {
    fn new(verdict: Verdict, rule: Option<&str>, reason: String) -> Self {
        Self {
            verdict,
            step: rule.map(|_| GateStep::Rules),
            rule: rule.map(str::to_owned),
            reason,
            remedy: None,
            terms: ApprovalTerms::default(),
            observed: Vec::new(),
        }
    }

    /// A policy or a rule refuses.
    fn refused(rule: &str, reason: impl std::fmt::Display, remedy: impl std::fmt::Display) -> Self {
        let remedy = Some(remedy.to_string());
        Self { remedy, ..Self::new(Verdict::Deny, Some(rule), reason.to_string()) }
    }

    /// Why, and what would change it, in a sentence.
    pub fn because(&self) -> String {
        match (self.step, &self.remedy) {
            (Some(step), Some(remedy)) => format!("{step}: {}; {remedy}", self.reason),
            (_, _) => self.reason.clone(),
        }
    }

    /// Somebody lacks something: what, and what would give it to them.
    fn lacking(reason: impl std::fmt::Display, remedy: impl std::fmt::Display) -> Self {
        let refused = Self::refused(GateStep::Grant.as_str(), reason, remedy);
        Self { step: Some(GateStep::Grant), ..refused }
    }
}

impl Policies {
    /// What happens to a call: first whether whoever asks may use the tool at all, then what rules say.
    pub fn decide(&self, call: &Call<'_>) -> Answer {
        let needed = Level::needed_for(call.effect);
        if needed > call.access {
            let (source, word, offered) = (call.source, needed.as_str(), call.access.as_str());
            return Answer::lacking(
                format_args!(
                    "this call needs `access: {word}`, and the agent's entry `{source}` offers `{offered}`"
                ),
                format_args!("`access: {word}` in the agent's spec would allow it"),
            );
        }
        if let Some(refused) = call.callee.and_then(|callee| self.not_admitted(call.who(), callee)) {
            return refused;
        }
        let Some(said) = self.ask_about(call, call.effect, &self.calls) else {
            return broken("its names or its arguments cannot be told to it");
        };
        if let Some(error) = &said.error {
            return broken(error);
        }
        if let Some(forbid) = said.forbid {
            return forbidden(forbid);
        }
        let has_access = || said.permits.iter().any(|permit| permit.says == Says::Access);
        if call.callee.is_none() && !has_access() {
            return self.not_granted(call, needed);
        }
        by_rules(call, needed, &said)
    }

    /// Whether a single rule is about a call, whatever else there is. Nothing, if it cannot be told.
    pub(crate) fn is_about(&self, rule: &str, call: &Call<'_>) -> Option<bool> {
        let said = self.ask_about(call, call.effect, &self.calls)?;
        let found = said.permits.iter().any(|permit| permit.id == rule);
        said.error.is_none().then_some(found)
    }

    fn not_admitted(&self, who: Who<'_>, callee: &str) -> Option<Answer> {
        let (permission, principal) = (self.admit(who, callee), who.principal);
        if permission.allowed {
            return None;
        }
        let [reason, remedy] = permission.refusal(
            format_args!("`{principal}` may not talk to agent `{callee}`"),
            format_args!("an `acl` entry with role `execute` in agents/{callee}/spec.yaml would allow it"),
        );
        Some(match &permission.by {
            Some(forbid) => Answer::refused(forbid, reason, remedy),
            None => Answer::lacking(reason, remedy),
        })
    }

    fn not_granted(&self, call: &Call<'_>, needed: Level) -> Answer {
        let Call { principal, source, .. } = *call;
        let word = needed.as_str();
        // Only whoever is refused pays for knowing what they have.
        let reads = || {
            let said = self.ask_about(call, Effect::Read, &self.access)?;
            Some(said.permits.iter().any(|permit| permit.says == Says::Access))
        };
        let holds = match needed {
            Level::Write if reads().unwrap_or(false) => "only `read`",
            Level::Read | Level::Write => "no grant",
        };
        Answer::lacking(
            format_args!("`{principal}` holds {holds} on `{source}`, and the call needs `{word}`"),
            format_args!(
                "a `tool_grants` entry for `{source}` with `access: {word}` in weir.yaml would allow it"
            ),
        )
    }

    /// What policies say about a call. Nothing, if they cannot be asked.
    fn ask_about(&self, call: &Call<'_>, effect: Effect, set: &PolicySet) -> Option<Said<'_>> {
        let who = Principal::parse(call.principal)?;
        let known = self.people_with(call.who())?;
        let mut input = None;
        let facts = self.facts_of(call, &mut input);
        let mut pairs = vec![
            ("agent".to_owned(), entity(names::uid(&self.kinds.agent, call.agent))),
            ("effect".to_owned(), entity(self.kinds.effect(effect))),
            ("input".to_owned(), RestrictedExpression::new_set(facts)),
            ("risk".to_owned(), entity(self.kinds.risk(call.risk))),
            ("source".to_owned(), RestrictedExpression::new_string(call.source.to_owned())),
            ("tool".to_owned(), RestrictedExpression::new_string(call.tool.to_owned())),
        ];
        let mut with_arguments = None;
        if self.reads_arguments {
            let [arguments, numbers] = self.kinds.arguments();
            pairs.push(("arguments".to_owned(), entity(arguments)));
            pairs.push(("numbers".to_owned(), entity(numbers)));
            let input = input.get_or_insert_with(|| call.input.to_value());
            let arguments = names::arguments(self.kinds, input)?;
            with_arguments = Some(known.clone().into_owned().add_entities(arguments, None).ok()?);
        }
        let people: &Entities = with_arguments.as_ref().unwrap_or(&known);
        let context = Context::from_pairs(pairs).ok()?;
        let tool = names::uid(&self.kinds.tool, call.tool);
        let request = Request::new(self.kinds.who(who), self.kinds.action("call"), tool, context, None);
        Some(self.ask(&request.ok()?, set, people))
    }

    /// The tests that the arguments pass, of those that matter for the tool.
    fn facts_of(&self, call: &Call<'_>, input: &mut Option<Value>) -> Vec<RestrictedExpression> {
        let matter = self.facts.iter().filter(|gated| gated.matters(call.tool, call.source));
        let hold =
            matter.filter(|gated| gated.fact.holds(input.get_or_insert_with(|| call.input.to_value())));
        hold.map(|gated| RestrictedExpression::new_string(gated.fact.name.clone())).collect()
    }
}

impl super::Permission {
    /// The policy that is against it, for a sentence.
    fn reason(&self) -> String {
        match (&self.by, &self.why) {
            (Some(by), Some(why)) => format!(": `{by}` forbids it: {why}"),
            (Some(by), None) => format!(": `{by}` forbids it"),
            (None, Some(error)) => format!(": a policy cannot be evaluated: {error}"),
            (None, None) => String::new(),
        }
    }

    /// What would allow it, if all that lacks is this.
    fn remedy(&self, lacks: impl std::fmt::Display) -> String {
        match (&self.by, &self.why) {
            (None, None) => lacks.to_string(),
            _ => "only a change to that policy would allow it".to_owned(),
        }
    }

    /// Why not, and what would allow it, if all that lacks is this; as a sentence.
    pub fn refusal(&self, what: impl std::fmt::Display, lacks: impl std::fmt::Display) -> [String; 2] {
        [format!("{what}{}", self.reason()), self.remedy(lacks)]
    }
}

impl Gated {
    fn matters(&self, tool: &str, source: &str) -> bool {
        let covers = |pattern: &String| match pattern.contains('*') {
            true => wildcard::matches(pattern, tool),
            false => pattern == tool || pattern == source,
        };
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(covers))
    }
}

fn entity(uid: EntityUid) -> RestrictedExpression {
    RestrictedExpression::new_entity_uid(uid)
}

/// What could not be evaluated says no.
fn broken(error: impl std::fmt::Display) -> Answer {
    let reason = format_args!("a policy cannot be evaluated, and what cannot be evaluated denies: {error}");
    Answer::refused(GateStep::Rules.as_str(), reason, "mend it and build again")
}

fn forbidden(forbid: &Known) -> Answer {
    let why = forbid.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let reason = format_args!("the policy `{}` forbids it{why}", forbid.id);
    Answer::refused(&forbid.id, reason, "only a change to that policy would allow it")
}

/// The first rule that matches decides. Whatever it says, a tool that always needs approval is not just let through.
fn by_rules(call: &Call<'_>, needed: Level, said: &Said<'_>) -> Answer {
    let mut rules: Vec<(usize, Outcome, bool, &Known)> = Vec::new();
    let mut always = None;
    for permit in &said.permits {
        match permit.says {
            Says::Rule { order, outcome, observe } => rules.push((order, outcome, observe, permit)),
            Says::Always => always = Some(*permit),
            Says::Access | Says::Forbid => {}
        }
    }
    rules.sort_unstable_by_key(|(order, ..)| *order);
    let decides = rules.iter().position(|(_, _, observe, _)| !observe);
    let tried = rules[..decides.unwrap_or(rules.len())].iter();
    let observed = tried.map(|(_, outcome, _, rule)| Observed { rule: rule.id.clone(), outcome: *outcome });
    let observed: Vec<Observed> = observed.collect();
    let first = decides.map(|at| (rules[at].1, rules[at].3));
    let answer = match (first, always) {
        (Some((Outcome::Deny, rule)), _) => denied(rule),
        (Some((Outcome::RequireApproval, rule)), _) | (_, Some(rule)) => asked(call, rule),
        (Some((Outcome::Allow, rule)), None) => {
            Answer::new(Verdict::Allow, Some(&rule.id), because(rule, "allows it"))
        }
        (None, None) => Answer::new(Verdict::Allow, None, held(call, needed)),
    };
    Answer { observed, ..answer }
}

fn denied(rule: &Known) -> Answer {
    let remedy = "a rule above it in weir.yaml, or a change to it, would allow it";
    Answer::refused(&rule.id, because(rule, "denies it"), remedy)
}

/// Someone has to say yes, or has.
fn asked(call: &Call<'_>, rule: &Known) -> Answer {
    match call.approved_by {
        Some(by) => Answer::new(Verdict::Allow, Some(&rule.id), format!("`{by}` approved it")),
        None if rule.says == Says::Always => {
            Answer::new(Verdict::Ask, Some(&rule.id), rule.why.clone().unwrap_or_default())
        }
        None => Answer {
            terms: rule.terms.clone(),
            ..Answer::new(Verdict::Ask, Some(&rule.id), because(rule, "asks for approval"))
        },
    }
}

fn because(rule: &Known, does: &str) -> String {
    match &rule.why {
        Some(why) => format!("the rule `{}` {does}: {why}", rule.id),
        None => format!("the rule `{}` {does}", rule.id),
    }
}

/// Nothing but access had a say.
fn held(call: &Call<'_>, needed: Level) -> String {
    match call.callee {
        Some(callee) => format!("`{}` may talk to agent `{callee}`", call.principal),
        None => format!("`{}` holds `{}` on `{}`", call.principal, needed.as_str(), call.source),
    }
}
