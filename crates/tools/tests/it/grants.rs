//! A gate for tests of what is behind it: who holds what, in plain lists. The real one is made of a policy, in `engine`.

use std::collections::{BTreeMap, BTreeSet};

use weir_tools::{Decision, Gate, Level, Request};
use weir_types::GateStep;
use weir_types::{Saw, Who};

/// Access lists and grants of a project. Principals are `user:…`, `serviceaccount:…` and `group:…`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    /// Who holds every role and grant: the owner of the data directory.
    pub(crate) admins: BTreeSet<String>,
    /// Groups and their members.
    pub(crate) groups: BTreeMap<String, BTreeSet<String>>,
    /// Who may use which source or tool, up to which level.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, Level>>,
    /// Who may talk to which agent.
    pub(crate) acl: BTreeMap<String, BTreeSet<String>>,
}

impl Grants {
    /// Whether someone may talk to an agent.
    fn may_talk_to(&self, principal: &str, agent: &str) -> bool {
        let listed = self.acl.get(agent);
        self.is_admin(principal.into())
            || self.names_of(principal).any(|name| listed.is_some_and(|acl| acl.contains(name)))
    }

    /// The highest level at which someone may use a tool or a source.
    fn level_of(&self, principal: &str, tool: &str, source: &str) -> Option<Level> {
        if self.is_admin(principal.into()) {
            return Some(Level::Write);
        }
        let levels = self.names_of(principal).flat_map(|name| {
            [tool, source].into_iter().filter_map(move |what| self.grants.get(what)?.get(name).copied())
        });
        levels.max()
    }

    /// A principal and the groups it is in.
    fn names_of<'a>(&'a self, principal: &'a str) -> impl Iterator<Item = &'a str> {
        let groups = self.groups.iter().filter(move |(_, members)| members.contains(principal));
        std::iter::once(principal).chain(groups.map(|(group, _)| group.as_str()))
    }
}

impl Gate for Grants {
    fn admit(&self, who: Who<'_>, agent: &str) -> Decision {
        let principal = who.principal;
        if self.may_talk_to(principal, agent) {
            return Decision::allow(format!("`{principal}` may talk to agent `{agent}`"));
        }
        Decision::refuse(
            GateStep::Grant,
            format_args!("`{principal}` may not talk to agent `{agent}`"),
            format_args!("an `acl` entry with role `execute` in agents/{agent}/spec.yaml would allow it"),
        )
    }

    fn groups_of(&self, who: Who<'_>) -> Vec<String> {
        self.names_of(who.principal).skip(1).map(str::to_owned).collect()
    }

    fn is_admin(&self, who: Who<'_>) -> bool {
        self.names_of(who.principal).any(|name| self.admins.contains(name))
    }

    fn decide(&self, request: &Request<'_>) -> Decision {
        let groups = self.groups_of(request.principal.into());
        Decision { saw: Saw { groups, ..Saw::default() }, ..self.granted(request) }
    }
}

impl Grants {
    fn granted(&self, request: &Request<'_>) -> Decision {
        let Request { principal, tool, source, effect, access, .. } = *request;
        let needed = Level::needed_for(effect);
        let (word, offered) = (needed.as_str(), access.as_str());
        if needed > access {
            return Decision::refuse(
                GateStep::Grant,
                format_args!(
                    "this call needs `access: {word}`, and the agent's entry `{source}` offers `{offered}`"
                ),
                format_args!("`access: {word}` in the agent's spec would allow it"),
            );
        }
        if let Some(callee) = request.callee {
            return self.admit(principal.into(), callee);
        }
        match self.level_of(principal, tool, source) {
            Some(level) if level >= needed => {
                Decision::allow(format!("`{principal}` holds `{word}` on `{source}`"))
            }
            held => {
                let holds = held
                    .map_or("no grant", |level| if level == Level::Read { "only `read`" } else { "`write`" });
                Decision::refuse(
                    GateStep::Grant,
                    format_args!("`{principal}` holds {holds} on `{source}`, and the call needs `{word}`"),
                    format_args!(
                        "a `tool_grants` entry for `{source}` with `access: {word}` in weir.yaml would allow it"
                    ),
                )
            }
        }
    }
}
