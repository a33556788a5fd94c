//! What conditions mean, said again without Cedar.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;
use weir_policy::{Condition, Test};

use crate::support::Owned;

type Groups = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn holds(when: &Condition, call: &Owned, groups: &Groups) -> bool {
    let is_in = |group: &str| {
        call.principal == format!("group:{group}")
            || groups.get(group).is_some_and(|members| members.contains(&call.principal))
    };
    let is = |principal: &str| match principal.strip_prefix("group:") {
        Some(group) => is_in(group),
        None => principal == call.principal,
    };
    let tool = |tool: &String| match tool.contains('*') {
        true => glob(&call.tool, tool),
        false => *tool == call.tool || *tool == call.source,
    };
    let source = |source: &String| match source.contains('*') {
        true => glob(&call.source, source),
        false => *source == call.source,
    };
    when.tool.as_ref().is_none_or(tool)
        && when.source.as_ref().is_none_or(source)
        && when.effect.is_none_or(|effect| effect == call.effect)
        && when.risk_at_least.is_none_or(|risk| call.risk >= risk)
        && when.principal.as_ref().is_none_or(|principal| is(principal))
        && when.group.as_ref().is_none_or(|group| is_in(group))
        && when.agent.as_ref().is_none_or(|agent| *agent == call.agent)
        && when.input.iter().all(|(path, test)| passes(&call.input, path, test))
        && when.all.iter().all(|inner| holds(inner, call, groups))
        && (when.any.is_empty() || when.any.iter().any(|inner| holds(inner, call, groups)))
        && when.not.as_ref().is_none_or(|inner| !holds(inner, call, groups))
}

/// `*` stands for anything.
fn glob(text: &str, pattern: &str) -> bool {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Regex::new(&format!("(?s)^{}$", parts.join(".*"))).unwrap().is_match(text)
}

fn passes(input: &Value, path: &str, test: &Test) -> bool {
    let mut value = input;
    for part in path.split('.') {
        let next = match value {
            Value::Object(fields) => fields.get(part),
            Value::Array(items) => part.parse().ok().and_then(|at: usize| items.get(at)),
            _ => None,
        };
        let Some(next) = next else { return false };
        value = next;
    }
    let order = |bound: &Value| value.as_f64().and_then(|value| value.partial_cmp(&bound.as_f64()?));
    let is = |other: &Value| match (value.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => value == other,
    };
    match test {
        Test::Equals(other) => is(&other.to_value()),
        Test::Matches(pattern) => {
            value.as_str().is_some_and(|text| Regex::new(pattern).unwrap().is_match(text))
        }
        Test::OneOf(others) => others.iter().any(|other| is(&other.to_value())),
        Test::Above(bound) => order(&bound.to_value()) == Some(Ordering::Greater),
        Test::Below(bound) => order(&bound.to_value()) == Some(Ordering::Less),
    }
}
