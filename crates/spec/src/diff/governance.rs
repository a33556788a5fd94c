//! Everything that is about all agents: grants, groups, rules, budgets, and where tools and models come from.

use std::collections::BTreeMap;

use weir_types::ApprovalTerms;
use weir_types::NanoUsd;

use super::{Changes, both, time, word};
use crate::manifest::{McpSource, Source};
use crate::rules::{Budget, Hook, Lane, Mode, Rule, Scope, Verdict};
use crate::{Credential, Manifest, Principal};

pub(super) fn compare(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    models(before, after, changes);
    sources(before, after, changes);
    skills(before, after, changes);
    grants(before, after, changes);
    groups(before, after, changes);
    credentials(before, after, changes);
    rules(&before.rules, &after.rules, changes);
    budgets(before, after, changes);
    settings(before, after, changes);
    for (path, [before, after]) in both(&before.policies, &after.policies) {
        changes.about(format!("policy {path}"));
        changes.text("text", before == after, true);
    }
}

/// Where a model is, and so who sees what it is told. What it costs widens nothing.
fn models(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    for (name, found) in both(&before.models, &after.models) {
        let [Some(before), Some(after)] = found else { continue };
        changes.about(format!("model {name}"));
        let place = |card: &weir_types::ModelCard| {
            (
                card.wire,
                card.api_name.clone(),
                card.base_url.clone(),
                card.key_env.clone(),
                card.regions.clone(),
            )
        };
        changes.text("where it is", place(before) == place(after), true);
        changes.text("price", before.price == after.price, false);
        let sizes = [(before.context_window, before.output_max), (after.context_window, after.output_max)];
        changes.text("size", sizes[0] == sizes[1], false);
    }
}

/// Tools that are still there and have changed. Which agent has which tool is told with the agent.
fn sources(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    for (name, found) in both(&before.sources, &after.sources) {
        let [Some(before), Some(after)] = found else { continue };
        changes.about(format!("source {name}"));
        match (before, after) {
            (Source::Mcp(before), Source::Mcp(after)) => server(before, after, changes),
            (Source::Script(before), Source::Script(after)) => {
                changes.text("code", before.modules == after.modules && before.entry == after.entry, true);
            }
            (Source::Mcp(_), Source::Script(_)) | (Source::Script(_), Source::Mcp(_)) => {
                changes.text("kind", false, true);
            }
        }
    }
}

fn server(before: &McpSource, after: &McpSource, changes: &mut Changes) {
    changes.text("transport", before.transport == after.transport, true);
    for (tool, found) in both(&before.tools, &after.tools) {
        if let [Some(before), Some(after)] = found {
            changes.text(&format!("definition of {tool}"), before.hash == after.hash, true);
        }
    }
}

fn skills(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    for (name, found) in both(&before.skills, &after.skills) {
        if let [Some(before), Some(after)] = found {
            changes.about(format!("skill {name}"));
            changes.text("content", before.digest == after.digest, true);
        }
    }
}

fn grants(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    let none = BTreeMap::new();
    for (tool, [before, after]) in both(&before.grants, &after.grants) {
        changes.about(format!("grant {tool}"));
        changes.levels("", [before.unwrap_or(&none), after.unwrap_or(&none)], word);
    }
}

fn groups(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    changes.about("groups");
    let (Some(before), Some(after)) = (&before.groups, &after.groups) else {
        // Without a list of groups, tokens say who is in which.
        return changes.text("who says who is in which", before.groups == after.groups, true);
    };
    let none = std::collections::BTreeSet::new();
    for (group, [before, after]) in both(before, after) {
        changes.about(format!("group {group}"));
        changes.set("member", before.unwrap_or(&none), after.unwrap_or(&none));
    }
}

fn credentials(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    let none: BTreeMap<Principal, Credential> = BTreeMap::new();
    let shown = |credential: &Credential| {
        let from = credential.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
        let header = credential.header.as_ref().map(|header| format!(" in {header}")).unwrap_or_default();
        format!("{}{from}{header}", word(&credential.kind))
    };
    for (server, [before, after]) in both(&before.credentials, &after.credentials) {
        changes.about(format!("credential {server}"));
        for (principal, [before, after]) in both(before.unwrap_or(&none), after.unwrap_or(&none)) {
            if before != after {
                changes.add(principal.to_string(), before.map(shown), after.map(shown), after.is_some());
            }
        }
    }
}

/// How much a rule holds back; one that is only observed holds nothing back.
fn strictness(rule: &Rule) -> u8 {
    match (rule.mode, rule.then) {
        (Mode::Observe, _) | (Mode::Enforce, Verdict::Allow) => 0,
        (Mode::Enforce, Verdict::RequireApproval) => 1,
        (Mode::Enforce, Verdict::Deny) => 2,
    }
}

fn rules(before: &[Rule], after: &[Rule], changes: &mut Changes) {
    let by_id = |rules: &'_ [Rule]| -> BTreeMap<String, Rule> {
        rules.iter().map(|rule| (rule.id.clone(), rule.clone())).collect()
    };
    let shown = |rule: &Rule| format!("{} ({})", word(&rule.then), word(&rule.mode));
    for (id, found) in both(&by_id(before), &by_id(after)) {
        changes.about(format!("rule {id}"));
        match found {
            [Some(before), Some(after)] => {
                changes.text("when", before.when == after.when, true);
                let looser = strictness(after) < strictness(before);
                let verdicts = [&(before.then, before.mode), &(after.then, after.mode)];
                changes.value(
                    "then",
                    verdicts,
                    |(then, mode)| format!("{} ({})", word(then), word(mode)),
                    looser,
                );
                terms("", &before.approval_terms, &after.approval_terms, changes);
            }
            [Some(before), None] => changes.add("", Some(shown(before)), None, strictness(before) > 0),
            [None, Some(new)] => {
                // It takes calls away from every rule below it, which may hold back more.
                let below = after.iter().skip_while(|rule| rule.id != new.id).skip(1);
                let shadows =
                    new.mode == Mode::Enforce && below.map(strictness).any(|rule| rule > strictness(new));
                changes.add("", None, Some(shown(new)), shadows || new.then == Verdict::Allow);
            }
            [None, None] => {}
        }
    }
    let common = |rules: &[Rule], others: &[Rule]| -> Vec<String> {
        let ids: std::collections::BTreeSet<&str> = others.iter().map(|rule| rule.id.as_str()).collect();
        rules.iter().map(|rule| rule.id.clone()).filter(|id| ids.contains(id.as_str())).collect()
    };
    changes.about("rules");
    let orders = [common(before, after), common(after, before)];
    changes.value("order", [&orders[0], &orders[1]], |order| order.join(", "), true);
}

/// How long approvals are waited for: longer, or by more people, lets more happen.
pub(super) fn terms(what: &str, before: &ApprovalTerms, after: &ApprovalTerms, changes: &mut Changes) {
    let within = |terms: &ApprovalTerms| terms.within_ms.unwrap_or(u64::MAX);
    let millis = |terms: &ApprovalTerms| terms.within_ms.map(|millis| format!("{millis} ms"));
    if before.within_ms != after.within_ms {
        let widens = within(after) > within(before);
        changes.add(format!("{what}within"), millis(before), millis(after), widens);
    }
    let words = |terms: &ApprovalTerms| {
        terms.escalate.as_ref().map(|escalate| format!("{} after {} ms", escalate.to, escalate.after_ms))
    };
    if before.escalate != after.escalate {
        let widens = after.escalate.is_some();
        changes.add(format!("{what}escalate"), words(before), words(after), widens);
    }
}

fn budgets(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    let none = Budget::default();
    for (_, scope) in Scope::WORDS {
        let [before, after] = [before, after].map(|manifest| manifest.budgets.get(scope).unwrap_or(&none));
        changes.about(format!("budget {}", scope.as_str()));
        let count = |number: u64| number.to_string();
        changes.limit("usd", [before.usd, after.usd], |amount: NanoUsd| amount.to_string());
        changes.limit("tokens", [before.tokens, after.tokens], count);
        changes.limit("model_calls", [before.model_calls, after.model_calls], count);
        changes.limit("wall_clock", [before.wall_clock_ms, after.wall_clock_ms], time);
    }
}

fn settings(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    changes.about("project");
    changes.value("four_eyes", [&before.four_eyes, &after.four_eyes], ToString::to_string, before.four_eyes);
    changes.set("knowledge", &before.knowledge, &after.knowledge);
    // An identity may do nothing until something names it.
    for gone in before.service_accounts.difference(&after.service_accounts) {
        changes.add(format!("service account {gone}"), Some("yes".to_owned()), None, false);
    }
    for new in after.service_accounts.difference(&before.service_accounts) {
        changes.add(format!("service account {new}"), None, Some("yes".to_owned()), false);
    }
    hooks("pre_append", [&before.hooks.pre_append, &after.hooks.pre_append], changes);
    hooks("post_append", [&before.hooks.post_append, &after.hooks.post_append], changes);
    routing(before, after, changes);
}

/// A hook that goes may have held something back; one that comes runs a program.
fn hooks(name: &str, [before, after]: [&Vec<Hook>; 2], changes: &mut Changes) {
    let shown = |hooks: &Vec<Hook>| match hooks.as_slice() {
        [] => "none".to_owned(),
        hooks => hooks.iter().map(|hook| word(&hook.action)).collect::<Vec<_>>().join(", "),
    };
    changes.value(&format!("hooks {name}"), [before, after], shown, true);
}

fn routing(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    changes.about("routing");
    let [before, after] = [&before.routing, &after.routing];
    changes.value("default", [&before.default, &after.default], word, after.default == Lane::Managed);
    let [was, is] = [before.canary_pct.unwrap_or(0), after.canary_pct.unwrap_or(0)];
    changes.value("canary_pct", [&was, &is], ToString::to_string, is > was);
    let of = |principals: &[Principal]| principals.iter().cloned().collect::<std::collections::BTreeSet<_>>();
    changes.set("allow", &of(&before.allow), &of(&after.allow));
    // Whoever is no longer kept away may go there.
    let [was, is] = [of(&before.deny), of(&after.deny)];
    for gone in was.difference(&is) {
        changes.add(format!("deny {gone}"), Some("yes".to_owned()), None, true);
    }
    for new in is.difference(&was) {
        changes.add(format!("deny {new}"), None, Some("yes".to_owned()), false);
    }
    changes.text("hold", before.hold == after.hold, true);
    changes.text("rollback", before.rollback == after.rollback, true);
}
