//! The gate of a build: what its policy says, in the words that tools and people know.

use std::collections::{BTreeMap, BTreeSet};

use weir_policy::{Call, Outcome, Parts, Permission, Policies};
use weir_spec::{Manifest, Principal};
use weir_tools::{Decision, Gate, Request, Step};
use weir_types::{Explain as _, Observed, Saw, Verdict};

/// The group that holds every role and grant.
const ADMIN: &str = "group:admin";

/// The policy of a build. One that cannot be read says no to everything.
pub(crate) struct PolicyGate {
    /// The policies, or why there are none and what to do about it.
    policies: Result<Policies, [String; 2]>,
}

impl PolicyGate {
    /// What a manifest says; these hold every role and grant besides.
    pub(crate) fn new(manifest: &Manifest, admins: &[String]) -> Self {
        let members = |members: &BTreeSet<Principal>| members.iter().map(ToString::to_string).collect();
        let groups: BTreeMap<String, BTreeSet<String>> =
            manifest.groups.iter().flatten().map(|(name, group)| (name.clone(), members(group))).collect();
        let parts = Parts { text: &manifest.policy, written: &manifest.policies, groups: &groups, admins };
        let policies = Policies::new(&parts);
        Self { policies: policies.map_err(|error| [error.to_string(), error.help().into_owned()]) }
    }

    /// A question to the policies; without any, the answer is no.
    fn ask(&self, question: impl FnOnce(&Policies) -> Decision) -> Decision {
        match &self.policies {
            Ok(policies) => question(policies),
            Err([why, help]) => Decision::refuse(Step::Rules, why, help),
        }
    }
}

impl Gate for PolicyGate {
    fn admit(&self, principal: &str, agent: &str) -> Decision {
        self.ask(|policies| {
            let permission = policies.admit(principal, agent);
            let what = format_args!("`{principal}` may not talk to agent `{agent}`");
            let lacks =
                format_args!("an `acl` entry with role `execute` in agents/{agent}/spec.yaml would allow it");
            let refusal = permission.refusal(what, lacks);
            decided(permission, format!("`{principal}` may talk to agent `{agent}`"), refusal)
        })
    }

    fn may_approve(&self, by: &str, asker: &str, agent: &str) -> Decision {
        self.ask(|policies| {
            let permission = policies.may_approve(by, asker, agent);
            let what = format_args!("`{by}` may not approve what agent `{agent}` does for `{asker}`");
            let lacks = format_args!(
                "an `acl` entry with role `approve` in agents/{agent}/spec.yaml would allow it; an admin may, and so may \
                 `{asker}` if that is a person"
            );
            let refusal = permission.refusal(what, lacks);
            decided(permission, format!("`{by}` may approve what agent `{agent}` does"), refusal)
        })
    }

    fn groups_of(&self, principal: &str) -> Vec<String> {
        self.policies.as_ref().map(|policies| policies.groups_of(principal)).unwrap_or_default()
    }

    fn is_admin(&self, principal: &str) -> bool {
        self.groups_of(principal).iter().any(|group| group == ADMIN)
    }

    fn decide(&self, request: &Request<'_>) -> Decision {
        self.ask(|policies| {
            let answer = policies.decide(&call(request));
            let observed = answer
                .observed
                .into_iter()
                .map(|observed| Observed { rule: observed.rule, outcome: verdict(observed.outcome) });
            let saw = Saw {
                groups: policies.groups_of(request.principal),
                observed: observed.collect(),
                ..Saw::default()
            };
            Decision { verdict: answer.verdict, rule: answer.rule, saw, ..Decision::allow(answer.because) }
        })
    }
}

fn decided(permission: Permission, because: String, [reason, remedy]: [String; 2]) -> Decision {
    if permission.allowed {
        return Decision::allow(because);
    }
    let refused = Decision::refuse(Step::Grant, reason, remedy);
    Decision { rule: permission.by.or(refused.rule), ..refused }
}

fn call<'a>(request: &Request<'a>) -> Call<'a> {
    let Request { principal, agent, tool, source, callee, input, effect, risk, access, approved_by } =
        *request;
    Call { principal, agent, tool, source, callee, input, effect, risk, access, approved_by }
}

fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Allow => Verdict::Allow,
        Outcome::RequireApproval => Verdict::Ask,
        Outcome::Deny => Verdict::Deny,
    }
}
