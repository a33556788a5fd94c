//! The gate of a build: what its policy says, in the words that tools and people know.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use quick_cache::sync::Cache;
use weir_policy::{Call, Outcome, Parts, Permission, Policies};
use weir_spec::{Manifest, Principal};
use weir_tools::{Decision, Gate, Request, Stored, StoredKind};
use weir_types::{Explain as _, GateStep, Level, Observed, Saw, Verdict, Who};

/// The group that holds every role and grant.
const ADMIN: &str = "group:admin";

/// The group of those about whom nothing else is known.
const USER: &str = "group:user";

/// The groups that the default rules are about.
const BUILTIN: [&str; 3] = [ADMIN, USER, "group:reader"];

/// The policy of a build. One that cannot be read says no to everything.
pub(crate) struct PolicyGate {
    /// The policies, or why there are none and what to do about it.
    policies: Result<Policies, [String; 2]>,
    /// Who may talk to whom.
    admitted: Answers<Decision>,
    /// Who may decide about what an agent does for whom.
    approves: Answers<Decision>,
    /// Who is in which groups.
    groups: Answers<Vec<String>>,
}

/// How many answers are kept; the ones used least make room.
const ANSWERS_MAX: usize = 1_024;

/// Answers that were found before, by the principal, its groups and the subject. A build does not change, so they stay true; every
/// request needs them.
struct Answers<T>(Cache<Vec<String>, T>);

impl<T: Clone> Default for Answers<T> {
    fn default() -> Self {
        Self(Cache::new(ANSWERS_MAX))
    }
}

impl<T: Clone> Answers<T> {
    /// INVARIANT: one kind of answer always names as many others as the last time, so that none of them is taken for a group.
    fn about(&self, who: Who<'_>, others: &[&str], find: impl FnOnce() -> T) -> T {
        let named = [who.principal].into_iter().chain(others.iter().copied()).map(str::to_owned);
        let key: Vec<String> = named.chain(who.groups.iter().cloned()).collect();
        let found: Result<T, Infallible> = self.0.get_or_insert_with(&key, || Ok(find()));
        match found {
            Ok(found) => found,
            Err(never) => match never {},
        }
    }
}

impl PolicyGate {
    /// What a manifest says; these hold every role and grant besides.
    pub(crate) fn new(manifest: &Manifest, admins: &[String]) -> Self {
        let members = |members: &BTreeSet<Principal>| members.iter().map(ToString::to_string).collect();
        let groups: BTreeMap<String, BTreeSet<String>> =
            manifest.groups.iter().flatten().map(|(name, group)| (name.clone(), members(group))).collect();
        let parts = Parts { text: &manifest.policy, written: &manifest.policies, groups: &groups, admins };
        let policies = Policies::new(&parts);
        let policies = policies.map_err(|error| [error.to_string(), error.help().into_owned()]);
        Self {
            policies,
            admitted: Answers::default(),
            approves: Answers::default(),
            groups: Answers::default(),
        }
    }

    /// Why the policies cannot be read, and what to do about it.
    pub(crate) fn problem(&self) -> Option<&[String; 2]> {
        self.policies.as_ref().err()
    }

    /// A question to the policies; without any, the answer is no.
    fn ask(&self, question: impl FnOnce(&Policies) -> Decision) -> Decision {
        match &self.policies {
            Ok(policies) => question(policies),
            Err([why, help]) => Decision::refuse(GateStep::Rules, why, help),
        }
    }
}

impl Gate for PolicyGate {
    fn admit(&self, who: Who<'_>, agent: &str) -> Decision {
        self.admitted.about(who, &[agent], || {
            self.ask(|policies| {
                let (permission, principal) = (policies.admit(who, agent), who.principal);
                let what = format_args!("`{principal}` may not talk to agent `{agent}`");
                let lacks = format_args!(
                    "an `acl` entry with role `execute` in agents/{agent}/spec.yaml would allow it"
                );
                let refusal = permission.refusal(what, lacks);
                decided(permission, format!("`{principal}` may talk to agent `{agent}`"), refusal)
            })
        })
    }

    fn may_approve(&self, by: Who<'_>, asker: &str, agent: &str) -> Decision {
        self.approves.about(by, &[asker, agent], || {
            self.ask(|policies| {
                let (permission, by) = (policies.may_approve(by, asker, agent), by.principal);
                let what = format_args!("`{by}` may not approve what agent `{agent}` does for `{asker}`");
                // Nobody is sent to a person whom four eyes, or another policy, would refuse.
                let asks_for_itself = policies.may_approve(asker, asker, agent).allowed && asker != by;
                let asker = if asks_for_itself { format!(", and so may `{asker}`") } else { String::new() };
                let lacks = format_args!(
                    "an `acl` entry with role `approve` in agents/{agent}/spec.yaml would allow it; an admin may{asker}"
                );
                let refusal = permission.refusal(what, lacks);
                decided(permission, format!("`{by}` may approve what agent `{agent}` does"), refusal)
            })
        })
    }

    fn groups_of(&self, who: Who<'_>) -> Vec<String> {
        let find = || self.policies.as_ref().map(|policies| policies.groups_of(who)).unwrap_or_default();
        self.groups.about(who, &[], find)
    }

    fn is_admin(&self, who: Who<'_>) -> bool {
        self.groups_of(who).iter().any(|group| group == ADMIN)
    }

    fn may(&self, who: Who<'_>, level: Level, stored: Stored<'_>) -> bool {
        let Ok(policies) = &self.policies else { return false };
        let Stored { kind, name, owner } = stored;
        let kind = match kind {
            StoredKind::Stream => weir_policy::StoredKind::Stream,
            StoredKind::Blob => weir_policy::StoredKind::Blob,
        };
        // Whoever is known to be somebody has what every user has, unless the project or the token says what they are.
        let mut groups = who.groups.to_vec();
        if !self.groups_of(who).iter().any(|group| BUILTIN.contains(&group.as_str())) {
            groups.push(USER.to_owned());
        }
        let who = Who::new(who.principal, &groups);
        policies.may(who, level, &weir_policy::Stored { kind, name, owner }).allowed
    }

    fn decide(&self, request: &Request<'_>) -> Decision {
        self.ask(|policies| {
            let answer = policies.decide(&call(request));
            let because = answer.because();
            let observed = answer
                .observed
                .into_iter()
                .map(|observed| Observed { rule: observed.rule, outcome: verdict(observed.outcome) });
            let saw = Saw {
                groups: self.groups_of(Who::new(request.principal, request.groups)),
                observed: observed.collect(),
                ..Saw::default()
            };
            Decision {
                verdict: answer.verdict,
                step: answer.step,
                rule: answer.rule,
                reason: answer.reason,
                remedy: answer.remedy,
                terms: answer.terms,
                saw,
                ..Decision::allow(because)
            }
        })
    }
}

fn decided(permission: Permission, because: String, [reason, remedy]: [String; 2]) -> Decision {
    if permission.allowed {
        return Decision::allow(because);
    }
    match permission.by {
        Some(forbid) => Decision { rule: Some(forbid), ..Decision::refuse(GateStep::Rules, reason, remedy) },
        None => Decision::refuse(GateStep::Grant, reason, remedy),
    }
}

fn call<'a>(request: &Request<'a>) -> Call<'a> {
    let Request { principal, groups, agent, tool, source, callee, input, effect, risk, access, approved_by } =
        *request;
    Call { principal, groups, agent, tool, source, callee, input, effect, risk, access, approved_by }
}

fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Allow => Verdict::Allow,
        Outcome::RequireApproval => Verdict::Ask,
        Outcome::Deny => Verdict::Deny,
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::{Agent, AgentRole, Source, compile};
    use weir_types::{Effect, Json, Level, Risk};

    use super::*;

    fn gate(policy: &str) -> PolicyGate {
        let manifest = Manifest { policy: policy.to_owned(), ..Manifest::default() };
        PolicyGate::new(&manifest, &["user:ada".to_owned(), ADMIN.to_owned()])
    }

    fn request<'a>(principal: &'a str, input: &'a Json) -> Request<'a> {
        Request {
            principal,
            groups: &[],
            agent: "helper",
            tool: "get_time",
            source: "get_time",
            callee: None,
            input,
            effect: Effect::Read,
            risk: Risk::Low,
            access: Level::Read,
            approved_by: Some("user:ada"),
        }
    }

    #[test]
    fn a_policy_that_cannot_be_read_says_no_to_everything() {
        for text in ["", "permit (", "@outcome(\"perhaps\") permit (principal, action, resource);"] {
            let (gate, input) = (gate(text), Json::empty_object());
            let decisions = [
                gate.admit("user:ada".into(), "helper"),
                gate.may_approve("user:ada".into(), "user:eve", "helper"),
                gate.decide(&request("user:ada", &input)),
            ];
            for decision in decisions {
                assert_eq!(decision.verdict, Verdict::Deny, "{text}");
                assert!(decision.because.contains("build the project again"), "{}", decision.because);
            }
            assert!(!gate.is_admin("user:ada".into()), "{text}");
        }
    }

    #[test]
    fn whoever_is_named_and_whoever_is_admin() {
        let acl = vec![("user:boss".to_owned(), AgentRole::Approve)];
        let agents = [("helper".to_owned(), Agent { acl, ..Agent::default() })].into();
        let text = compile(&Source { agents, four_eyes: true, ..Source::default() }).unwrap().text;
        let (gate, input) = (gate(&text), Json::empty_object());
        assert!(gate.is_admin("user:ada".into()) && !gate.is_admin("user:boss".into()));
        assert_eq!(gate.decide(&request("user:ada", &input)).saw.groups, [ADMIN]);
        let may = |by: &str, asker| gate.may_approve(by.into(), asker, "helper");
        assert_eq!(may("user:boss", "user:ada").verdict, Verdict::Allow);
        assert_eq!(may("user:ada", "user:boss").verdict, Verdict::Allow);
        let own = may("user:ada", "user:ada");
        assert_eq!((own.verdict, own.rule.as_deref()), (Verdict::Deny, Some("builtin:four-eyes")));
        assert!(own.because.contains("nobody approves what they asked for themselves"), "{}", own.because);
        let stranger = may("user:eve", "user:ada");
        assert_eq!((stranger.verdict, stranger.rule.as_deref()), (Verdict::Deny, Some("grant")));
        assert!(!stranger.because.contains("so may"), "four eyes forbid the asker: {}", stranger.because);
    }

    #[test]
    fn whoever_may_not_approve_is_told_of_people_who_may() {
        let advice = |four_eyes, asker: &str| {
            let agents = [("helper".to_owned(), Agent::default())].into();
            let text = compile(&Source { agents, four_eyes, ..Source::default() }).unwrap().text;
            gate(&text).may_approve("user:bob".into(), asker, "helper").because
        };
        assert!(advice(false, "user:cyd").ends_with("an admin may, and so may `user:cyd`"));
        assert!(advice(true, "user:cyd").ends_with("an admin may"));
        assert!(advice(false, "serviceaccount:ci").ends_with("an admin may"), "it is no person");
    }

    #[test]
    fn answers_that_are_kept_are_about_nobody_else() {
        let acl = |entries: &[(&str, AgentRole)]| {
            let acl = entries.iter().map(|(who, role)| ((*who).to_owned(), *role)).collect();
            Agent { acl, ..Agent::default() }
        };
        let helper = acl(&[
            ("user:eve", AgentRole::Execute),
            ("group:staff", AgentRole::Execute),
            ("user:boss", AgentRole::Approve),
        ]);
        let other = acl(&[("group:staff", AgentRole::Approve)]);
        let agents = [("helper".to_owned(), helper), ("other".to_owned(), other)].into();
        let gate = gate(&compile(&Source { agents, ..Source::default() }).unwrap().text);
        let staff = ["group:staff".to_owned()];
        for _ in 0..2 {
            let admits = |who: Who<'_>, agent| gate.admit(who, agent).verdict == Verdict::Allow;
            assert!(admits("user:eve".into(), "helper") && !admits("user:eve".into(), "other"));
            assert!(!admits("user:bob".into(), "helper"));
            assert!(admits(Who::new("user:bob", &staff), "helper"));
            assert!(gate.is_admin("user:ada".into()) && !gate.is_admin("user:eve".into()));
            let decides =
                |by: Who<'_>, asker, agent| gate.may_approve(by, asker, agent).verdict == Verdict::Allow;
            assert!(decides("user:boss".into(), "user:eve", "helper"));
            assert!(!decides("user:boss".into(), "user:eve", "other"));
            assert!(decides("user:eve".into(), "user:eve", "helper"));
            assert!(!decides("user:eve".into(), "user:bob", "helper"));
            assert!(!decides("user:bob".into(), "user:eve", "helper"));
            assert!(decides(Who::new("user:bob", &staff), "user:eve", "other"));
        }
        for n in 0..3 * ANSWERS_MAX {
            let name = format!("user:{n}");
            assert_eq!(gate.admit(name.as_str().into(), "helper").verdict, Verdict::Deny);
            assert!(!gate.is_admin(name.as_str().into()));
            assert_eq!(gate.may_approve("user:bob".into(), &name, "helper").verdict, Verdict::Deny);
        }
        let kept = [gate.admitted.0.len(), gate.approves.0.len(), gate.groups.0.len()];
        assert!(kept.iter().all(|kept| *kept <= ANSWERS_MAX), "{kept:?}");
        assert_eq!(gate.admit("user:eve".into(), "helper").verdict, Verdict::Allow);
    }
}
