//! `tests/<name>.yaml`: what an agent is told, and what is expected of it.

use std::collections::BTreeMap;

use weir_types::{Json, NanoUsd, StopReason};

use crate::diagnostic::{Findings, Span, Spanned};
use crate::document;
use crate::fields::{Fields, as_json};
use crate::format;
use crate::node::Node;
use crate::shape::{Choice, Kind, Shape, optional, required, words};

/// `tests/<name>.yaml`.
pub(crate) static TESTS: Shape = Shape {
    what: "a test",
    doc: "What an agent is told, and what is expected of it.",
    fields: &[
        required("agent", "agent: helper", Kind::Format(&format::NAME), "The agent that is tested."),
        optional(
            "model",
            Kind::Format(&format::TEST_MODEL),
            "Who answers instead of the agent's model: `scripted/NAME`, or `recorded/NAME` for tests/recordings/NAME.jsonl.",
        ),
        required(
            "scenarios",
            "scenarios: [{ name: greets, steps: [{ say: hello }] }]",
            Kind::Some(&Kind::Shape(&SCENARIO)),
            "Each a session of its own.",
        ),
    ],
    choice: Choice::Free,
    instead: &[("tests", "write `scenarios`"), ("cases", "write `scenarios`")],
};

static SCENARIO: Shape = Shape {
    what: "a scenario",
    doc: "One session.",
    fields: &[
        required("name", "name: greets", Kind::Text, "What it shows."),
        required(
            "steps",
            "steps: [{ say: hello }]",
            Kind::Some(&Kind::Shape(&STEP)),
            "What is said, in order.",
        ),
    ],
    choice: Choice::Free,
    instead: &[],
};

static STEP: Shape = Shape {
    what: "a step",
    doc: "One turn.",
    fields: &[
        required("say", "say: hello", Kind::Text, "What the user says."),
        optional("expect", Kind::Shape(&EXPECT), "What has to happen."),
    ],
    choice: Choice::Free,
    instead: &[("user", "write `say`"), ("message", "write `say`")],
};

static EXPECT: Shape = Shape {
    what: "`expect`",
    doc: "What has to happen in a turn. What is absent is not looked at.",
    fields: &[
        optional(
            "answer",
            Kind::Format(&format::PATTERN),
            "A regular expression that is found in the answer.",
        ),
        optional(
            "calls",
            Kind::List(&Kind::Either(&Kind::Format(&format::NAME), &EXPECTED_CALL)),
            "The tools that are called: exactly these, in this order.",
        ),
        optional("denied", Kind::Some(&Kind::Format(&format::NAME)), "Tools whose calls are refused."),
        optional("cost_below", Kind::Usd, "It costs less than this, in dollars."),
        optional("stop", Kind::Word(|| words(STOPS)), "Why the turn ends."),
    ],
    choice: Choice::Free,
    instead: &[("contains", "write `answer`"), ("tools", "write `calls`")],
};

static EXPECTED_CALL: Shape = Shape {
    what: "an expected call",
    doc: "A call that has to be made.",
    fields: &[
        required(
            "tool",
            "tool: get_time",
            Kind::Format(&format::NAME),
            "The tool, by the name the model sees.",
        ),
        optional("input", Kind::Object, "Arguments that are among those of the call."),
    ],
    choice: Choice::Free,
    instead: &[],
};

const STOPS: &[(&str, StopReason)] = &{
    let mut table = [("", StopReason::End); StopReason::ALL.len()];
    let mut n = 0;
    while n < table.len() {
        table[n] = (StopReason::ALL[n].as_str(), StopReason::ALL[n]);
        n += 1;
    }
    table
};

/// The tests of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSpec {
    /// The agent.
    pub agent: Spanned<String>,
    /// The model that answers instead of the agent's own: `scripted/NAME`, or `recorded/NAME`, which plays the export at
    /// `tests/recordings/NAME.jsonl`.
    pub model: Option<Spanned<TestModel>>,
    /// Each a session of its own.
    pub scenarios: Vec<Scenario>,
    /// Where its file is.
    pub file: String,
}

/// A model that answers the same each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestModel {
    /// `scripted/NAME`.
    Scripted(String),
    /// `recorded/NAME`.
    Recorded(String),
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What it shows.
    pub name: Spanned<String>,
    /// What is said, in order.
    pub steps: Vec<Step>,
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the user says.
    pub say: Spanned<String>,
    /// What has to happen.
    pub expect: Expect,
}

/// What has to happen in a turn. What is absent is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// A regular expression that is found in the answer.
    pub answer: Option<Spanned<String>>,
    /// The tools that are called: exactly these, in this order.
    pub calls: Option<Spanned<Vec<ExpectedCall>>>,
    /// Tools whose calls are refused.
    pub denied: Option<Spanned<Vec<String>>>,
    /// It costs less than this.
    pub cost_below: Option<Spanned<NanoUsd>>,
    /// Why the turn ends.
    pub stop: Option<Spanned<StopReason>>,
}

/// A call that has to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedCall {
    /// The tool, by the name the model sees.
    pub tool: String,
    /// Arguments that are among those of the call.
    pub input: Option<Json>,
}

/// What a file of tests says, as far as it can be read.
pub(crate) fn read(bytes: &[u8], findings: &mut Findings) -> Option<TestSpec> {
    let root = document::read(bytes, &TESTS, findings)?;
    let fields = Fields::of(&root, &TESTS)?;
    let mut scenarios = Vec::new();
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    for inner in fields.each("scenarios") {
        let Some(name) = inner.text("name") else { continue };
        if let Some(first) = seen.insert(name.value.clone(), name.span) {
            let message = format!("the scenario `{}` is here twice", name.value);
            findings.twice("spec::duplicate", [first, name.span], message, "give one another name");
        }
        let steps = inner.each("steps").filter_map(|step| {
            let expect = step.fields("expect").map(|expect| expected(&expect)).unwrap_or_default();
            Some(Step { say: step.text("say")?, expect })
        });
        scenarios.push(Scenario { name, steps: steps.collect() });
    }
    let model = fields.text("model").and_then(|text| {
        let (kind, name) = text.value.split_once('/')?;
        let name = name.to_owned();
        let value = if kind == "scripted" { TestModel::Scripted(name) } else { TestModel::Recorded(name) };
        Some(Spanned { value, span: text.span })
    });
    Some(TestSpec { agent: fields.must("agent"), model, scenarios, file: findings.file().to_owned() })
}

fn expected(fields: &Fields<'_>) -> Expect {
    let spanned = |name: &str| fields.get(name).map(|node| node.span);
    let call = |node: &Node| match Fields::of(node, &EXPECTED_CALL) {
        Some(call) => {
            Some(ExpectedCall { tool: call.words("tool")?, input: call.get("input").and_then(as_json) })
        }
        None => Some(ExpectedCall { tool: node.as_text()?.to_owned(), input: None }),
    };
    let calls = fields.list("calls").iter().filter_map(call).collect();
    let denied = fields.texts("denied").into_iter().map(|tool| tool.value).collect();
    let stop = fields.word("stop", STOPS);
    Expect {
        answer: fields.text("answer"),
        calls: spanned("calls").map(|span| Spanned { value: calls, span }),
        denied: spanned("denied").map(|span| Spanned { value: denied, span }),
        cost_below: fields.usd("cost_below"),
        stop: spanned("stop").and_then(|span| Some(Spanned { value: stop?, span })),
    }
}
