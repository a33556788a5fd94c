//! Whether a turn was what a test expects of it.

use regex::Regex;
use weir_engine::{Outcome, StopReason};
use weir_events::Body;
use weir_spec::{Diagnostic, Expect, ExpectedCall, Span, Step};
use weir_types::{CallId, Json, NanoUsd, Verdict};

use crate::show::shorten;

/// Longest piece of an answer in a message.
const EXCERPT_COLUMNS: usize = 200;

/// What happened in a turn.
#[derive(Debug)]
pub(super) struct Happened {
    pub(super) outcome: Outcome,
    pub(super) calls: Vec<Called>,
    /// What the turn cost.
    pub(super) cost: NanoUsd,
}

/// A call that the model made.
#[derive(Debug)]
pub(super) struct Called {
    id: CallId,
    tool: String,
    input: Json,
    denied: bool,
}

impl Happened {
    /// From what the turn has left in the journal.
    pub(super) fn new(outcome: Outcome, events: impl Iterator<Item = Body>) -> Self {
        let (mut calls, cost): (Vec<Called>, _) = (Vec::new(), outcome.cost);
        for body in events {
            match body {
                Body::ToolRequested(asked) => {
                    calls.push(Called {
                        id: asked.call,
                        tool: asked.tool,
                        input: asked.input,
                        denied: false,
                    });
                }
                Body::ToolDecided(decided) if decided.outcome == Verdict::Deny => {
                    calls
                        .iter_mut()
                        .filter(|call| call.id == decided.call)
                        .for_each(|call| call.denied = true);
                }
                _ => {}
            }
        }
        Self { outcome, calls, cost }
    }

    fn tools(&self) -> String {
        let names: Vec<&str> = self.calls.iter().map(|call| call.tool.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

/// Every expectation that was not met.
pub(super) fn judge(step: &Step, happened: &Happened, file: &str) -> Vec<Diagnostic> {
    let Expect { answer, calls, denied, cost_below, stop } = &step.expect;
    let problem =
        |code, span: Span, message: String, help: String| Diagnostic::error(code, file, span, message, help);
    let mut problems = Vec::new();
    if happened.outcome.stop == StopReason::Failed && stop.is_none() {
        let message = happened.outcome.message.clone().unwrap_or_default();
        let help = "a turn that is to fail expects `stop: failed`".to_owned();
        problems.push(problem("test::failed", step.say.span, format!("the run failed: {message}"), help));
    }
    if let Some(pattern) = answer {
        let said = happened.outcome.answer.as_deref().unwrap_or_default();
        // The pattern was checked when the file was read.
        if !Regex::new(&pattern.value).is_ok_and(|regex| regex.is_match(said)) {
            let help = format!("the answer was: {}", excerpt(said));
            problems.push(problem(
                "test::answer",
                pattern.span,
                "the answer is another one".to_owned(),
                help,
            ));
        }
    }
    if let Some(expected) = calls
        && !same_calls(&expected.value, &happened.calls)
    {
        let message = format!("the calls were others: {}", happened.tools());
        problems.push(problem("test::calls", expected.span, message, made(&happened.calls)));
    }
    if let Some(expected) = denied {
        let refused = |tool: &String| happened.calls.iter().any(|call| call.denied && call.tool == *tool);
        for tool in expected.value.iter().filter(|tool| !refused(tool)) {
            let message = format!("no call of `{tool}` was refused");
            problems.push(problem("test::denied", expected.span, message, made(&happened.calls)));
        }
    }
    if let Some(limit) = cost_below
        && happened.cost >= limit.value
    {
        let message =
            format!("it cost ${:.6}, not less than ${:.6}", happened.cost.as_usd(), limit.value.as_usd());
        let help = "expect less of it, or let it cost more".to_owned();
        problems.push(problem("test::cost", limit.span, message, help));
    }
    if let Some(expected) = stop
        && expected.value != happened.outcome.stop
    {
        let message = format!("the turn ended with `{}`", happened.outcome.stop.as_str());
        let why = happened
            .outcome
            .message
            .clone()
            .unwrap_or_else(|| "see `stop` in `weir schema tests`".to_owned());
        problems.push(problem("test::stop", expected.span, message, why));
    }
    problems
}

fn same_calls(expected: &[ExpectedCall], made: &[Called]) -> bool {
    let fits = |(expected, call): (&ExpectedCall, &Called)| {
        expected.tool == call.tool && expected.input.as_ref().is_none_or(|input| contains(input, &call.input))
    };
    expected.len() == made.len() && expected.iter().zip(made).all(fits)
}

/// Whether the arguments have everything that is expected of them; more is fine.
fn contains(expected: &Json, input: &Json) -> bool {
    let value = |json: &Json| serde_json::from_str::<serde_json::Value>(json.as_str()).ok();
    match (value(expected), value(input)) {
        (Some(expected), Some(input)) => is_part(&expected, &input),
        _ => false,
    }
}

fn is_part(part: &serde_json::Value, whole: &serde_json::Value) -> bool {
    match (part, whole) {
        (serde_json::Value::Object(part), serde_json::Value::Object(whole)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|other| is_part(value, other)))
        }
        (part, whole) => part == whole,
    }
}

fn made(calls: &[Called]) -> String {
    if calls.is_empty() {
        return "it called no tool".to_owned();
    }
    let words = calls.iter().map(|call| {
        let refused = if call.denied { " (refused)" } else { "" };
        format!("{} {}{refused}", call.tool, call.input.as_str())
    });
    excerpt(&format!("it called: {}", words.collect::<Vec<_>>().join("; ")))
}

fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "(nothing)".to_owned() } else { shorten(&line, EXCERPT_COLUMNS).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_may_have_more_than_is_expected() {
        let check = |expected: &str, input: &str| {
            contains(&Json::parse(expected).unwrap(), &Json::parse(input).unwrap())
        };
        assert!(check(r#"{"a":{"b":1}}"#, r#"{"x":2,"a":{"b":1,"c":[3]}}"#));
        assert!(check("{}", "{}"));
        assert!(!check(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!check(r#"{"a":[1]}"#, r#"{"a":[1,2]}"#));
        assert!(!check(r#"{"a":null}"#, "{}"));
    }
}
