//! Who may do what. Policy plugs in here; until it does, and below it, access lists and grants decide.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Effect, Json, Level, Risk, Saw};

use crate::decision::{Decision, Step};

/// What decides about a call that the agent lists and whose arguments fit.
pub trait Gate: Send + Sync {
    /// Whether someone may talk to an agent. What says nothing about it lets nobody in.
    fn admit(&self, principal: &str, agent: &str) -> Decision {
        Decision::deny(format!("nothing says that `{principal}` may talk to agent `{agent}`"))
    }

    /// Whether `by` may decide about calls that `agent` makes on behalf of `asker`. What says nothing about it lets nobody.
    fn may_approve(&self, by: &str, asker: &str, agent: &str) -> Decision {
        Decision::deny(format!(
            "nothing says that `{by}` may approve what agent `{agent}` does for `{asker}`"
        ))
    }

    /// The groups someone is in, as `group:…`, sorted.
    fn groups_of(&self, _principal: &str) -> Vec<String> {
        Vec::new()
    }

    /// Whether someone holds every role and grant.
    fn is_admin(&self, _principal: &str) -> bool {
        false
    }

    /// Whether the call may run. Has no effect, and the same request always gets the same answer. Of what it looked at, it
    /// says what nobody else knows: groups, and what rules that only watch would have done.
    fn decide(&self, request: &Request<'_>) -> Decision;
}

/// A call, as policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// On whose behalf.
    pub principal: &'a str,
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

/// Access lists and grants of a project. Principals are `user:…`, `serviceaccount:…` and `group:…`.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Who holds every role and grant: the owner of the data directory.
    pub admins: BTreeSet<String>,
    /// Groups and their members.
    pub groups: BTreeMap<String, BTreeSet<String>>,
    /// Who may use which source or tool, up to which level.
    pub grants: BTreeMap<String, BTreeMap<String, Level>>,
    /// Who may talk to which agent.
    pub acl: BTreeMap<String, BTreeSet<String>>,
}

impl Grants {
    /// Whether someone may talk to an agent.
    pub fn may_talk_to(&self, principal: &str, agent: &str) -> bool {
        let listed = self.acl.get(agent);
        self.is_admin(principal)
            || self.names_of(principal).any(|name| listed.is_some_and(|acl| acl.contains(name)))
    }

    /// The highest level at which someone may use a tool or a source.
    pub fn level_of(&self, principal: &str, tool: &str, source: &str) -> Option<Level> {
        if self.is_admin(principal) {
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
    fn admit(&self, principal: &str, agent: &str) -> Decision {
        if self.may_talk_to(principal, agent) {
            return Decision::allow(format!("`{principal}` may talk to agent `{agent}`"));
        }
        Decision::refuse(
            Step::Grant,
            format_args!("`{principal}` may not talk to agent `{agent}`"),
            format_args!("an `acl` entry with role `execute` in agents/{agent}/spec.yaml would allow it"),
        )
    }

    fn may_approve(&self, by: &str, asker: &str, agent: &str) -> Decision {
        if self.is_admin(by) {
            return Decision::allow(format!("`{by}` is an admin"));
        }
        if by == asker && by.starts_with("user:") {
            return Decision::allow(format!("agent `{agent}` acts on behalf of `{by}`"));
        }
        Decision::refuse(
            Step::Grant,
            format_args!("`{by}` may not approve what agent `{agent}` does for `{asker}`"),
            format_args!("an admin may, and so may `{asker}` if that is a person"),
        )
    }

    fn groups_of(&self, principal: &str) -> Vec<String> {
        self.names_of(principal).skip(1).map(str::to_owned).collect()
    }

    fn is_admin(&self, principal: &str) -> bool {
        self.names_of(principal).any(|name| self.admins.contains(name))
    }

    fn decide(&self, request: &Request<'_>) -> Decision {
        let groups = self.groups_of(request.principal);
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
                Step::Grant,
                format_args!(
                    "this call needs `access: {word}`, and the agent's entry `{source}` offers `{offered}`"
                ),
                format_args!("`access: {word}` in the agent's spec would allow it"),
            );
        }
        if let Some(callee) = request.callee {
            return self.admit(principal, callee);
        }
        match self.level_of(principal, tool, source) {
            Some(level) if level >= needed => {
                Decision::allow(format!("`{principal}` holds `{word}` on `{source}`"))
            }
            held => {
                let holds = held
                    .map_or("no grant", |level| if level == Level::Read { "only `read`" } else { "`write`" });
                Decision::refuse(
                    Step::Grant,
                    format_args!("`{principal}` holds {holds} on `{source}`, and the call needs `{word}`"),
                    format_args!(
                        "a `tool_grants` entry for `{source}` with `access: {word}` in weir.yaml would allow it"
                    ),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_types::Verdict;

    /// Ada is an admin by name and Alan by group; Grace is an engineer; nobody knows Eve.
    fn grants() -> Grants {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let levels = |levels: &[(&str, Level)]| {
            levels.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect::<BTreeMap<_, _>>()
        };
        Grants {
            admins: names(&["user:ada", "group:owners"]),
            groups: BTreeMap::from([
                ("group:owners".to_owned(), names(&["user:alan"])),
                ("group:engineers".to_owned(), names(&["user:grace", "serviceaccount:ci"])),
            ]),
            grants: BTreeMap::from([
                (
                    "mcp://mail".to_owned(),
                    levels(&[("group:engineers", Level::Read), ("serviceaccount:ci", Level::Write)]),
                ),
                ("send".to_owned(), levels(&[("user:grace", Level::Write)])),
            ]),
            acl: BTreeMap::from([("writer".to_owned(), names(&["group:engineers"]))]),
        }
    }

    #[test]
    fn the_highest_level_of_all_names_and_groups_holds() {
        let check = |principal: &str, tool: &str, expected: Option<Level>| {
            assert_eq!(grants().level_of(principal, tool, "mcp://mail"), expected, "{principal} {tool}");
        };
        check("user:ada", "send", Some(Level::Write));
        check("user:alan", "send", Some(Level::Write));
        check("user:grace", "list", Some(Level::Read));
        check("user:grace", "send", Some(Level::Write));
        check("serviceaccount:ci", "list", Some(Level::Write));
        check("user:eve", "list", None);
        // A user who is called like a group is not in it.
        check("group:engineers", "list", Some(Level::Read));
        check("user:engineers", "list", None);
    }

    #[test]
    fn who_may_talk_to_an_agent() {
        for (principal, agent, expected) in [
            ("user:ada", "anyone", true),
            ("user:alan", "writer", true),
            ("user:grace", "writer", true),
            ("user:grace", "other", false),
            ("user:eve", "writer", false),
        ] {
            assert_eq!(grants().may_talk_to(principal, agent), expected, "{principal} {agent}");
        }
    }

    fn decide(principal: &str, effect: Effect, access: Level, callee: Option<&str>) -> Decision {
        grants().decide(&Request {
            principal,
            agent: "a",
            tool: "list",
            source: "mcp://mail",
            callee,
            input: &Json::empty_object(),
            effect,
            risk: Risk::High,
            access,
            approved_by: None,
        })
    }

    #[test]
    fn nobody_gets_more_than_the_entry_offers_not_even_an_admin() {
        let refused = decide("user:ada", Effect::Idempotent, Level::Read, None);
        assert_eq!(refused.verdict, Verdict::Deny);
        assert!(
            refused.because.contains("the agent's entry `mcp://mail` offers `read`"),
            "{}",
            refused.because
        );
        assert_eq!(decide("user:ada", Effect::Read, Level::Read, None).verdict, Verdict::Allow);
    }

    #[test]
    fn an_agent_is_a_matter_of_its_acl_and_of_no_grant() {
        let verdict =
            |principal, callee| decide(principal, Effect::Write, Level::Write, Some(callee)).verdict;
        assert_eq!(verdict("user:grace", "writer"), Verdict::Allow);
        assert_eq!(verdict("serviceaccount:ci", "other"), Verdict::Deny);
    }
}
