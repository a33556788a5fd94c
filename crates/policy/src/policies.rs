//! Policies that were read, and what they say about people and about what is stored.

mod decide;
mod load;

use std::borrow::Cow;
use std::collections::HashMap;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityUid, PolicyId, PolicySet, Request, RestrictedExpression,
};

pub use self::decide::{Answer, Call, Observed};
pub(crate) use self::load::terms;
pub use self::load::{LoadError, Parts};
use crate::fact::Fact;
use crate::names::{self, Kinds};
use crate::principal::Principal;
use crate::source::{LoopRole, Outcome};
use weir_types::{ApprovalTerms, Who, Whose};

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
    /// How long an approval that it asks for is waited for.
    terms: ApprovalTerms,
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
    /// Whose it is.
    pub owner: Whose<'a>,
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
    pub fn admit<'a>(&self, who: impl Into<Who<'a>>, agent: &str) -> Permission {
        self.may_do(who.into(), "execute", names::uid(&self.kinds.agent, agent), Vec::new())
    }

    /// Whether `by` may say yes to what `agent` does on behalf of `asker`.
    pub fn may_approve<'a>(&self, by: impl Into<Who<'a>>, asker: &str, agent: &str) -> Permission {
        let by = by.into();
        let own = vec![("own", by.principal == asker)];
        self.may_do(by, "approve", names::uid(&self.kinds.agent, agent), own)
    }

    /// Whether someone has a role at a loop.
    pub fn may_use_loop<'a>(&self, who: impl Into<Who<'a>>, role: LoopRole, name: &str) -> Permission {
        let who = who.into();
        let resource = names::uid(&self.kinds.routine, name);
        match role {
            LoopRole::Execute => self.may_do(who, "execute", resource, Vec::new()),
            LoopRole::Read => self.may_do(who, "read", resource, vec![("mine", false), ("shared", false)]),
        }
    }

    /// Whether someone may look at something that is stored, or change it.
    pub fn may<'a>(
        &self,
        who: impl Into<Who<'a>>,
        level: weir_types::Level,
        stored: &Stored<'_>,
    ) -> Permission {
        let who = who.into();
        let kind = match stored.kind {
            StoredKind::Stream => &self.kinds.stream,
            StoredKind::Blob => &self.kinds.blob,
            StoredKind::Knowledge => &self.kinds.knowledge,
        };
        let (mine, shared) = match stored.owner {
            Whose::Someone(owner) => (owner == who.principal, false),
            Whose::Nobody => (false, true),
            Whose::Unsaid => (false, false),
        };
        let context = vec![("mine", mine), ("shared", shared)];
        self.may_do(who, level.as_str(), names::uid(kind, stored.name), context)
    }

    /// The groups someone is in, as `group:…`: what the project says, and what they came with.
    pub fn groups_of<'a>(&self, who: impl Into<Who<'a>>) -> Vec<String> {
        let who = who.into();
        let Some(principal) = Principal::parse(who.principal) else { return Vec::new() };
        let Some(people) = self.people_with(who) else { return Vec::new() };
        let principal = self.kinds.who(principal);
        let above = people.ancestors(&principal).into_iter().flatten();
        let groups = above.filter(|uid| self.kinds.is_group(uid));
        let mut names: Vec<String> = groups.map(|uid| format!("group:{}", uid.id().unescaped())).collect();
        names.sort_unstable();
        names
    }

    /// Who is in which group, with the groups that someone came with. Nothing, if one of them is no group.
    fn people_with(&self, who: Who<'_>) -> Option<Cow<'_, Entities>> {
        if who.groups.is_empty() {
            return Some(Cow::Borrowed(&self.people));
        }
        names::with_groups(self.kinds, &self.people, who).map(Cow::Owned)
    }

    fn may_do(&self, who: Who<'_>, action: &str, on: EntityUid, context: Vec<(&str, bool)>) -> Permission {
        let refused = |by: Option<String>, why| Permission { allowed: false, by, why };
        let Some(people) = self.people_with(who) else { return refused(None, None) };
        let Some(who) = Principal::parse(who.principal) else { return refused(None, None) };
        let flags =
            context.into_iter().map(|(name, is)| (name.to_owned(), RestrictedExpression::new_bool(is)));
        let Ok(context) = Context::from_pairs(flags) else { return refused(None, None) };
        let request = Request::new(self.kinds.who(who), self.kinds.action(action), on, context, None);
        let Ok(request) = request else { return refused(None, None) };
        let said = self.ask(&request, &self.others, &people);
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
