//! Reading policies: from the text of a build to what can be asked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr as _;

use cedar_policy::{ActionConstraint, Authorizer, Effect, Policy, PolicyId, PolicySet};
use weir_types::{ApprovalTerms, Escalate, Explain};

use super::{Gated, Known, Policies, Says};
use crate::fact::{self, Fact};
use crate::names::{self, Kinds};
use crate::principal::Principal;
use crate::source::Outcome;
use crate::text::duration_ms;
use crate::written;

/// What policies are read from: what a build holds, and who runs it.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The compiled text; see [`crate::Compiled`].
    pub text: &'a str,
    /// Policies written by hand, by path.
    pub written: &'a BTreeMap<String, String>,
    /// Groups and their members.
    pub groups: &'a BTreeMap<String, BTreeSet<String>>,
    /// Who is in the group `admin` besides.
    pub admins: &'a [String],
}

/// Why policies cannot be read. Whoever has none to ask says no.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no text: the build is older than policies.
    #[error("the build has no policy")]
    Absent,
    /// A text is no Cedar.
    #[error("the policy in `{place}` cannot be read: {why}")]
    Unreadable {
        /// The file, or the build.
        place: String,
        /// What Cedar says.
        why: String,
    },
    /// An annotation is not one that can be understood.
    #[error("the policy `{policy}` cannot be understood: its `@{annotation}` is not right")]
    Annotation {
        /// The policy.
        policy: String,
        /// The annotation.
        annotation: &'static str,
    },
}

impl Explain for LoadError {
    fn code(&self) -> &'static str {
        match self {
            Self::Absent => "policy::absent",
            Self::Unreadable { .. } => "policy::unreadable",
            Self::Annotation { .. } => "policy::annotation",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        "build the project again with `weir build`; until then nothing is allowed".into()
    }

    fn fault(&self) -> weir_types::Fault {
        weir_types::Fault::Input
    }
}

/// Where rules that were written by hand begin: after all others.
const WRITTEN_ORDER: usize = 1 << 24;

impl Policies {
    /// Reads policies.
    ///
    /// # Errors
    /// When one of them cannot be understood; then none of them is to be asked.
    pub fn new(parts: &Parts<'_>) -> Result<Self, LoadError> {
        if parts.text.trim().is_empty() {
            return Err(LoadError::Absent);
        }
        // INVARIANT: names of kinds are constants; a test reads them.
        let broken = |why: &str| LoadError::Unreadable { place: "the build".to_owned(), why: why.to_owned() };
        let kinds = Kinds::get().ok_or_else(|| broken("the schema has no such kinds"))?;
        let people = names::people(kinds, parts.groups, parts.admins);
        let people = people.ok_or_else(|| broken("groups contain one another"))?;
        let mut policies = Self {
            kinds,
            authorizer: Authorizer::new(),
            calls: PolicySet::new(),
            access: PolicySet::new(),
            others: PolicySet::new(),
            known: HashMap::new(),
            facts: Vec::new(),
            people,
            reads_arguments: parts.written.values().any(|text| written::reads_arguments(text)),
        };
        policies.take_compiled(parts.text)?;
        for (number, (path, text)) in parts.written.iter().enumerate() {
            policies.take_written(number, path, text)?;
        }
        policies.share_facts();
        Ok(policies)
    }

    fn take_compiled(&mut self, text: &str) -> Result<(), LoadError> {
        let set = PolicySet::from_str(text).map_err(|errors| LoadError::Unreadable {
            place: "the build".to_owned(),
            why: errors.to_string(),
        })?;
        for policy in set.policies() {
            let known = known(policy, policy.id().as_ref(), None)?;
            self.facts.extend(facts(policy, &known.id)?);
            let id = format!("c{}", self.known.len());
            self.take(policy.new_id(PolicyId::new(&id)), known);
        }
        Ok(())
    }

    fn take_written(&mut self, number: usize, path: &str, text: &str) -> Result<(), LoadError> {
        let policies = written::split(text)
            .map_err(|why| LoadError::Unreadable { place: path.to_owned(), why: why.to_string() })?;
        for (index, (place, policy)) in policies.into_iter().enumerate() {
            let name = format!("{path}:{}", written::line(text, place.start));
            let order = WRITTEN_ORDER + self.known.len();
            let known = known(&policy, &name, Some(order))?;
            self.take(policy.new_id(PolicyId::new(format!("w{number}.{index}"))), known);
        }
        Ok(())
    }

    /// Keeps a policy where it can have a say.
    fn take(&mut self, policy: Policy, known: Known) {
        let call = self.kinds.action("call");
        let (calls, others) = match policy.action_constraint() {
            ActionConstraint::Any => (true, true),
            ActionConstraint::Eq(action) => (action == call, action != call),
            ActionConstraint::In(actions) => {
                (actions.contains(&call), actions.iter().any(|action| *action != call))
            }
        };
        // A rule is about calls; it gives nobody access to anything else.
        let others = others && matches!(known.says, Says::Access | Says::Forbid);
        let access = calls && known.says == Says::Access;
        self.known.insert(policy.id().clone(), known);
        // INVARIANT: ids are numbered, so that none is there twice.
        if others {
            let _ = self.others.add(policy.clone());
        }
        if access {
            let _ = self.access.add(policy.clone());
        }
        if calls {
            let _ = self.calls.add(policy);
        }
    }

    /// Tests that several rules make are made once.
    fn share_facts(&mut self) {
        let mut shared: BTreeMap<String, Gated> = BTreeMap::new();
        for gated in std::mem::take(&mut self.facts) {
            match shared.get_mut(&gated.fact.name) {
                Some(there) => {
                    there.tools = match (there.tools.take(), gated.tools) {
                        (Some(mut tools), Some(more)) => {
                            tools.extend(more);
                            Some(tools)
                        }
                        _ => None,
                    };
                }
                None => {
                    shared.insert(gated.fact.name.clone(), gated);
                }
            }
        }
        self.facts = shared.into_values().collect();
    }
}

/// What the annotations of a policy say. One that was written by hand comes in the order of its file.
fn known(policy: &Policy, name: &str, order: Option<usize>) -> Result<Known, LoadError> {
    let id = policy.annotation("id").filter(|id| !id.is_empty()).unwrap_or(name).to_owned();
    let wrong = |annotation| LoadError::Annotation { policy: id.clone(), annotation };
    let observe = match policy.annotation("mode") {
        None | Some("enforce") => false,
        Some("observe") => true,
        Some(_) => return Err(wrong("mode")),
    };
    let outcome =
        policy.annotation("outcome").map(|word| Outcome::named(word).ok_or_else(|| wrong("outcome")));
    let says = match (policy.effect(), outcome.transpose()?) {
        (Effect::Forbid, None) if !observe => Says::Forbid,
        (Effect::Forbid, _) => return Err(wrong("outcome")),
        (Effect::Permit, None) if !observe => Says::Access,
        (Effect::Permit, None) => return Err(wrong("mode")),
        (Effect::Permit, Some(_)) if order.is_none() && policy.annotation("always").is_some() => Says::Always,
        (Effect::Permit, Some(outcome)) => {
            let own = || policy.annotation("order")?.parse().ok();
            let order = order.or_else(own).ok_or_else(|| wrong("order"))?;
            Says::Rule { order, outcome, observe }
        }
    };
    let terms = terms(policy).map_err(wrong)?;
    Ok(Known { why: policy.annotation("why").map(str::to_owned), says, terms, id })
}

/// How long an approval is waited for, and who may give it later on; or the annotation that is not right.
pub(crate) fn terms(policy: &Policy) -> Result<ApprovalTerms, &'static str> {
    let time = |name: &'static str| match policy.annotation(name) {
        Some(text) => duration_ms(text).map(Some).ok_or(name),
        None => Ok(None),
    };
    let (within_ms, after_ms) = (time("within")?, time("escalate_after")?);
    let is_group = |to: &&str| matches!(Principal::parse(to), Some(Principal::Group(_)));
    let escalate = match (policy.annotation("escalate"), after_ms) {
        (None, None) => None,
        (None, Some(_)) => return Err("escalate_after"),
        (Some(to), Some(after_ms)) if is_group(&to) => Some(Escalate { to: to.to_owned(), after_ms }),
        (Some(_), _) => return Err("escalate"),
    };
    match (&escalate, within_ms) {
        (Some(escalate), Some(within)) if escalate.after_ms >= within => Err("escalate_after"),
        _ => Ok(ApprovalTerms { within_ms, escalate }),
    }
}

/// The tests that a compiled policy asks for.
fn facts(policy: &Policy, id: &str) -> Result<Vec<Gated>, LoadError> {
    let Some(tests) = policy.annotation("input") else { return Ok(Vec::new()) };
    let wrong = || LoadError::Annotation { policy: id.to_owned(), annotation: "input" };
    let tests = fact::from_annotation(tests).ok_or_else(wrong)?;
    let tools = policy.annotation("tool").map(|tool| vec![tool.to_owned()]);
    let gated = |(path, test): (String, _)| {
        let fact = Fact::new(&path, &test).map_err(|_| wrong())?;
        Ok(Gated { fact, tools: tools.clone() })
    };
    tests.into_iter().map(gated).collect()
}
