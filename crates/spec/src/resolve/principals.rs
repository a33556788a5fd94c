//! Service accounts and groups that are named, and whether they exist.

use std::collections::BTreeSet;

use super::{Check, PROJECT_FILE};
use crate::Role;
use crate::agent::AclEntry;
use crate::diagnostic::{Diagnostic, Spanned};
use crate::principal::{BUILTIN_GROUPS, Principal};
use crate::sources::Sources;

pub(super) fn check(check: &mut Check<'_>) {
    let project = &check.sources.project;
    let accounts: BTreeSet<&str> =
        project.service_accounts.iter().map(|account| account.value.as_str()).collect();
    let groups = project.groups.as_ref().map(|groups| {
        let declared = groups.iter().map(|group| group.name.value.as_str());
        declared.chain(BUILTIN_GROUPS.iter().copied()).collect::<BTreeSet<&str>>()
    });
    each(check.sources, |file, principal| match (&principal.value, &groups) {
        (Principal::ServiceAccount(name), _) if !name.is_empty() && !accounts.contains(name.as_str()) => {
            account(check, file, name, principal, &accounts);
        }
        // Groups also come from tokens: without a list of them, any may be right.
        (Principal::Group(name), Some(groups)) if !groups.contains(name.as_str()) => {
            group(check, file, name, principal, groups);
        }
        _ => {}
    });
    loops(check, &accounts);
}

/// Loops whose account their agent lets nobody be. Policies of their own may say otherwise, and only they.
fn loops(check: &mut Check<'_>, declared: &BTreeSet<&str>) {
    let sources = check.sources;
    if !sources.policies.is_empty() || !check.is_whole {
        return;
    }
    for spec in sources.loops.values() {
        let Some(agent) = sources.agents.get(&spec.agent.value) else { continue };
        let account = &spec.run_as;
        let is_declared =
            matches!(&account.value, Principal::ServiceAccount(name) if declared.contains(name.as_str()));
        let lets_in =
            |entry: &AclEntry<Role>| entry.principal.value == account.value && entry.role == Role::Execute;
        // One that does not exist was told about.
        if !is_declared || agent.spec.acl.iter().any(lets_in) {
            continue;
        }
        let (account, span, name) = (&account.value, account.span, &spec.agent.value);
        let message = format!("`{account}` may not talk to agent `{name}`, so the loop could not run");
        let help = format!(
            "add it to `acl` in {}: `{{ principal: \"{account}\", role: execute }}`",
            agent.spec.file
        );
        check.problems.push(Diagnostic::error("spec::run-as", &spec.file, span, message, help).warning());
    }
}

/// Every principal that any file names.
pub(super) fn each(sources: &Sources, mut visit: impl FnMut(&str, &Spanned<Principal>)) {
    for agent in sources.agents.values() {
        agent.spec.acl.iter().for_each(|entry| visit(&agent.spec.file, &entry.principal));
    }
    for spec in sources.loops.values() {
        visit(&spec.file, &spec.run_as);
        spec.acl.iter().for_each(|entry| visit(&spec.file, &entry.principal));
    }
    let project = &sources.project;
    let granted = project.tool_grants.iter().flat_map(|grant| &grant.grants).map(|grant| &grant.principal);
    let holders =
        project.mcp_credentials.iter().flat_map(|server| &server.credentials).map(|(holder, _)| holder);
    for principal in granted.chain(holders).chain(&project.mentions.principals) {
        visit(PROJECT_FILE, principal);
    }
}

fn account(
    check: &mut Check<'_>,
    file: &str,
    name: &str,
    at: &Spanned<Principal>,
    declared: &BTreeSet<&str>,
) {
    let otherwise = format!("declare it in weir.yaml: `service_accounts: [{{ name: {name} }}]`");
    let help = check.suggest(name, "", declared.iter().copied(), otherwise);
    let message = format!("the service account `{name}` is not declared");
    check.add("spec::undeclared-account", file, at, message, help);
}

fn group(check: &mut Check<'_>, file: &str, name: &str, at: &Spanned<Principal>, known: &BTreeSet<&str>) {
    let otherwise = format!("add it to `groups` in weir.yaml, unless tokens bring it: `{name}: [user:…]`");
    let help = check.suggest(name, "", known.iter().copied(), otherwise);
    let message = format!("the group `{name}` is not among `groups`");
    check.problems.push(Diagnostic::error("spec::undeclared-group", file, at.span, message, help).warning());
}
