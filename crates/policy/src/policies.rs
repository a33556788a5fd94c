//! Policies that were read, and what they say about people and about what is stored.

mod decide;
mod load;

use std::collections::HashMap;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityUid, PolicyId, PolicySet, Request, RestrictedExpression,
};

pub use self::decide::{Answer, Call, Observed};
pub use self::load::{LoadError, Parts};
use crate::fact::Fact;
use crate::names::{self, Kinds};
use crate::principal::Principal;
use crate::source::{LoopRole, Outcome};

/// Policies, read once and asked often. The same question always gets the same answer.
pub struct Policies {
    kinds: &'static Kinds,
    authorizer: Authorizer,
    /// What can have a say about calls.
    calls: PolicySet,
    /// What of that gives access to tools: few, beside many rules.
    access: PolicySet,
    /// What can have a say about anything else.
    others: PolicySet,
    known: HashMap<PolicyId, Known>,
    facts: Vec<Gated>,
    /// Who is in which group.
    people: Entities,
    /// Whether a policy reads arguments by itself.
    reads_arguments: bool,
}

/// What is known about a policy.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    why: Option<String>,
    says: Says,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// Somebody may do something.
    Access,
    /// Nobody may.
    Forbid,
    /// A rule about calls.
    Rule { order: usize, outcome: Outcome, observe: bool },
    /// A tool that always needs approval.
    Always,
}

/// A fact, and the tools for which somebody asks for it; all, if nothing.
struct Gated {
    fact: Fact,
    tools: Option<Vec<String>>,
}

/// Whether somebody may do something, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Whether.
    pub allowed: bool,
    /// The policy that says so.
    pub by: Option<String>,
    /// Why, where a policy says more than that it is so.
    pub why: Option<String>,
}

/// Something that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// What it is.
    pub kind: StoredKind,
    /// Its name.
    pub name: &'a str,
    /// Whose it is; nobody's, if absent.
    pub owner: Option<&'a str>,
}

/// The kinds of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A stream of the journal.
    Stream,
    /// A blob.
    Blob,
    /// A document that can be searched.
    Knowledge,
}

/// What policies said about a request.
struct Said<'p> {
    error: Option<String>,
    forbid: Option<&'p Known>,
    permits: Vec<&'p Known>,
}

impl Policies {
    /// Whether someone may talk to an agent.
    pub fn admit(&self, who: &str, agent: &str) -> Permission {
        self.may_do(who, "execute", names::uid(&self.kinds.agent, agent), Vec::new())
    }

    /// Whether `by` may say yes to what `agent` does on behalf of `asker`.
    pub fn may_approve(&self, by: &str, asker: &str, agent: &str) -> Permission {
        self.may_do(by, "approve", names::uid(&self.kinds.agent, agent), vec![("own", by == asker)])
    }

    /// Whether someone has a role at a loop.
    pub fn may_use_loop(&self, who: &str, role: LoopRole, name: &str) -> Permission {
        let resource = names::uid(&self.kinds.routine, name);
        match role {
            LoopRole::Execute => self.may_do(who, "execute", resource, Vec::new()),
            LoopRole::Read => self.may_do(who, "read", resource, vec![("mine", false), ("shared", false)]),
        }
    }

    /// Whether someone may look at something that is stored, or change it.
    pub fn may(&self, who: &str, level: weir_types::Level, stored: &Stored<'_>) -> Permission {
        let kind = match stored.kind {
            StoredKind::Stream => &self.kinds.stream,
            StoredKind::Blob => &self.kinds.blob,
            StoredKind::Knowledge => &self.kinds.knowledge,
        };
        let context = vec![("mine", stored.owner == Some(who)), ("shared", stored.owner.is_none())];
        self.may_do(who, level.as_str(), names::uid(kind, stored.name), context)
    }

    /// The groups someone is in, as `group:…`.
    pub fn groups_of(&self, who: &str) -> Vec<String> {
        let Some(who) = Principal::parse(who) else { return Vec::new() };
        let who = self.kinds.who(who);
        let above = self.people.ancestors(&who).into_iter().flatten();
        let groups = above.filter(|uid| self.kinds.is_group(uid));
        let mut names: Vec<String> = groups.map(|uid| format!("group:{}", uid.id().unescaped())).collect();
        names.sort_unstable();
        names
    }

    fn may_do(&self, who: &str, action: &str, on: EntityUid, context: Vec<(&str, bool)>) -> Permission {
        let refused = |by: Option<String>, why| Permission { allowed: false, by, why };
        let Some(who) = Principal::parse(who) else { return refused(None, None) };
        let flags =
            context.into_iter().map(|(name, is)| (name.to_owned(), RestrictedExpression::new_bool(is)));
        let Ok(context) = Context::from_pairs(flags) else { return refused(None, None) };
        let request = Request::new(self.kinds.who(who), self.kinds.action(action), on, context, None);
        let Ok(request) = request else { return refused(None, None) };
        let said = self.ask(&request, &self.others, &self.people);
        if let Some(error) = said.error {
            return refused(None, Some(error));
        }
        if let Some(forbid) = said.forbid {
            return refused(Some(forbid.id.clone()), forbid.why.clone());
        }
        match said.permits.first() {
            Some(permit) => {
                Permission { allowed: true, by: Some(permit.id.clone()), why: permit.why.clone() }
            }
            None => refused(None, None),
        }
    }

    /// Evaluates policies. An error of one of them is the answer of all.
    fn ask(&self, request: &Request, set: &PolicySet, entities: &Entities) -> Said<'_> {
        let response = self.authorizer.is_authorized(request, set, entities);
        let diagnostics = response.diagnostics();
        let error = diagnostics.errors().map(ToString::to_string).min();
        let mut found: Vec<&Known> =
            diagnostics.reason().filter_map(|policy| self.known.get(policy)).collect();
        // Whatever order Cedar has them in, an answer names the same one each time.
        found.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        match response.decision() {
            Decision::Allow => Said { error, forbid: None, permits: found },
            Decision::Deny => Said { error, forbid: found.first().copied(), permits: Vec::new() },
        }
    }
}
