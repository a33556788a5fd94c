//! Agents and loops: their tools, limits and who may use them.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{NanoUsd, OnInterrupt};

use super::{Changes, both, time, word};
use crate::Manifest;
use crate::agent::{SCRIPT_CPU, TOOL_TIMEOUT};
use crate::manifest::millis;
use crate::manifest::{Agent, Limits, Loop, Tool};

pub(super) fn agents(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    for (name, found) in both(&before.agents, &after.agents) {
        changes.about(format!("agent {name}"));
        match found {
            [Some(before), Some(after)] => agent(before, after, changes),
            [Some(before), None] => changes.add("", Some(summary(before)), None, false),
            [None, Some(after)] => changes.add("", None, Some(summary(after)), true),
            [None, None] => {}
        }
    }
}

/// An agent that came or went, in a few words.
fn summary(agent: &Agent) -> String {
    let tools: Vec<&str> = agent.tools.iter().map(|tool| tool.name.as_str()).collect();
    match tools.as_slice() {
        [] => format!("{}, no tools", agent.model),
        tools => format!("{}, tools: {}", agent.model, tools.join(", ")),
    }
}

fn agent(before: &Agent, after: &Agent, changes: &mut Changes) {
    changes.value("model", [&before.model, &after.model], Clone::clone, true);
    let same = before.description == after.description && before.identity == after.identity;
    changes.text("instructions", same, false);
    let of_names = |skills: &[String]| skills.iter().cloned().collect::<BTreeSet<String>>();
    changes.set("skill", &of_names(&before.skills), &of_names(&after.skills));
    tools(&before.tools, &after.tools, changes);
    limits(&before.limits, &after.limits, changes);
    changes.levels("access of ", [&before.acl, &after.acl], word);
    changes.set("approver", &before.approvers, &after.approvers);
    region([&before.region, &after.region], changes);
}

/// A region holds a model back; another one holds it back differently.
fn region([before, after]: [&Option<String>; 2], changes: &mut Changes) {
    if before != after {
        let anywhere =
            |region: &Option<String>| Some(region.clone().unwrap_or_else(|| "anywhere".to_owned()));
        changes.add("region", anywhere(before), anywhere(after), before.is_some());
    }
}

fn tools(before: &[Tool], after: &[Tool], changes: &mut Changes) {
    let by_name = |tools: &'_ [Tool]| -> BTreeMap<String, Tool> {
        tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect()
    };
    for (name, found) in both(&by_name(before), &by_name(after)) {
        let offered = |tool: &Tool| format!("{} from {}", word(&tool.access), tool.source);
        match found {
            [Some(before), Some(after)] => tool(&format!("tool {name}"), before, after, changes),
            [before, after] => {
                changes.add(format!("tool {name}"), before.map(offered), after.map(offered), after.is_some());
            }
        }
    }
}

fn tool(name: &str, before: &Tool, after: &Tool, changes: &mut Changes) {
    let what = |part: &str| format!("{name}: {part}");
    changes.value(&what("source"), [&before.source, &after.source], Clone::clone, true);
    let same = before.remote_name == after.remote_name;
    changes.text(&what("name at its server"), same, true);
    changes.value(&what("access"), [&before.access, &after.access], word, after.access > before.access);
    // What counts as a smaller effect or risk is held back by fewer rules, stubs and approvals.
    changes.value(&what("effect"), [&before.effect, &after.effect], word, after.effect < before.effect);
    changes.value(&what("risk"), [&before.risk, &after.risk], word, after.risk < before.risk);
    let repeats = after.on_interrupt == OnInterrupt::Retry;
    changes.value(&what("on_interrupt"), [&before.on_interrupt, &after.on_interrupt], word, repeats);
    if before.approval != after.approval {
        let widens = after.approval.is_none();
        changes.add(
            what("approval"),
            before.approval.as_ref().map(word),
            after.approval.as_ref().map(word),
            widens,
        );
    }
    super::governance::terms(&what(""), &before.approval_terms, &after.approval_terms, changes);
    changes.text(&what("parameters"), before.parameters == after.parameters, true);
    changes.text(&what("description"), before.description == after.description, false);
    let hosts = |tool: &Tool| tool.hosts.iter().cloned().collect::<BTreeSet<String>>();
    changes.set(&what("host"), &hosts(before), &hosts(after));
    let widens = !after.sandbox.covers(before.sandbox);
    changes.value(&what("sandbox"), [&before.sandbox, &after.sandbox], word, widens);
    let timeout = |tool: &Tool| Some(tool.timeout_ms.unwrap_or(millis(TOOL_TIMEOUT)));
    changes.limit(&what("timeout"), [timeout(before), timeout(after)], time);
    let cpu = |tool: &Tool| Some(tool.cpu_ms.unwrap_or(millis(SCRIPT_CPU)));
    changes.limit(&what("cpu"), [cpu(before), cpu(after)], time);
    for (variable, [before, after]) in both(&before.env, &after.env) {
        if before != after {
            let shown = |value: Option<&crate::SecretRef>| value.map(ToString::to_string);
            changes.add(what(&format!("env {variable}")), shown(before), shown(after), after.is_some());
        }
    }
}

fn limits(before: &Limits, after: &Limits, changes: &mut Changes) {
    let count = |number: u64| number.to_string();
    let dollars = |amount: NanoUsd| amount.to_string();
    changes.limit("limit iterations", [Some(before.iterations), Some(after.iterations)], count);
    changes.limit("limit usd", [before.usd, after.usd], dollars);
    changes.limit("limit wall_clock", [before.wall_clock_ms, after.wall_clock_ms], time);
    changes.limit("limit output_tokens", [before.output_tokens, after.output_tokens], count);
    changes.limit("limit context_tokens", [before.context_tokens, after.context_tokens], count);
    changes.limit("limit tokens", [before.tokens, after.tokens], count);
    changes.limit("limit model_calls", [before.model_calls, after.model_calls], count);
}

pub(super) fn loops(before: &Manifest, after: &Manifest, changes: &mut Changes) {
    let shown = |spec: &Loop| format!("{} as {} at `{}`", spec.agent, spec.run_as, spec.schedule);
    for (name, found) in both(&before.loops, &after.loops) {
        changes.about(format!("loop {name}"));
        match found {
            [Some(before), Some(after)] => one_loop(before, after, changes),
            [before, after] => changes.add("", before.map(shown), after.map(shown), after.is_some()),
        }
    }
}

fn one_loop(before: &Loop, after: &Loop, changes: &mut Changes) {
    changes.value("agent", [&before.agent, &after.agent], Clone::clone, true);
    changes.value("run_as", [&before.run_as, &after.run_as], ToString::to_string, true);
    changes.value("schedule", [&before.schedule, &after.schedule], Clone::clone, true);
    changes.value("timezone", [&before.timezone, &after.timezone], Clone::clone, true);
    changes.text("instruction", before.instruction == after.instruction, true);
    changes.value("missed", [&before.missed, &after.missed], word, true);
    let [b, a] = [before.concurrency, after.concurrency];
    changes.value("concurrency", [&b.max, &a.max], ToString::to_string, a.max > b.max);
    changes.value("when full", [&b.when_full, &a.when_full], word, a.when_full == crate::WhenFull::Queue);
    changes.limit("timeout", [before.timeout_ms, after.timeout_ms], time);
    changes.value(
        "retries",
        [&before.retries, &after.retries],
        ToString::to_string,
        after.retries > before.retries,
    );
    changes.levels("access of ", [&before.acl, &after.acl], word);
}
