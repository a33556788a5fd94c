//! `models/<name>.yaml`: a model that answers from a script, for demos and tests.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_types::{FailureClass, Json, Stop, Usage};

use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::fields::{Fields, Shape};
use crate::json::json;
use crate::node::Node;
use crate::{values, yaml};

const SCRIPT: Shape = Shape { what: "a script", known: &["replies"], later: &[] };

const REPLY: Shape = Shape {
    what: "a reply",
    known: &["when", "think", "say", "call", "error", "times", "usage", "delay", "chunk", "stop"],
    later: &[],
};

const WHEN: Shape = Shape { what: "`when`", known: &["user", "tool", "failed", "summarize"], later: &[] };

const CALL: Shape = Shape { what: "a call", known: &["tool", "input"], later: &[] };

const USAGE: Shape = Shape { what: "`usage`", known: &["input", "output"], later: &[] };

const STOPS: [(&str, Stop); 5] = [
    ("end", Stop::End),
    ("tool_use", Stop::ToolUse),
    ("max_tokens", Stop::MaxTokens),
    ("refused", Stop::Refused),
    ("paused", Stop::Paused),
];

/// A scripted model. The first reply that matches a request answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Tried from the top; never empty.
    pub replies: Vec<Reply>,
}

/// One rule of a script. Texts may hold templates such as `{{1}}` and `{{result.temp}}`; they are kept as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// What it answers to; everything, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// What the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// What it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub say: Option<String>,
    /// The tools it calls, all at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub call: Vec<Call>,
    /// The failure it ends with, after whatever it thinks and says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureClass>,
    /// How many attempts fail before it falls through; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The tokens it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The pause before each delta.
    #[serde(rename = "delay_ms", with = "millis", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Characters of one delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u32>,
    /// Why the answer ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
}

/// When a reply matches. Every condition that is there has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// A regular expression that the latest user message matches; on its own, only when no tool result is newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tool whose result is the newest message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Whether the newest message is a result that failed, or one that did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// Whether the request asks for a summary.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub summarize: bool,
}

/// One tool call of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool, by the name the model sees.
    pub tool: String,
    /// Its arguments: an object.
    pub input: Json,
}

/// Spans of time as milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

impl Script {
    /// Reads a script. `file` is its path within the project; problems name it.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, Vec<Diagnostic>> {
        let mut findings = Findings::new(file);
        let script = yaml::document(bytes, &mut findings).and_then(|root| script(&root, &mut findings));
        findings.conclude(script)
    }
}

fn script(root: &Node, findings: &mut Findings) -> Option<Script> {
    let fields = Fields::of(root, &SCRIPT, findings)?;
    let node = fields.require("replies", "replies: [{ say: \"Hello.\" }]", findings)?;
    let items = values::list(node, "replies", findings)?;
    if items.is_empty() {
        let help = "add one, for example `- say: \"Hello.\"`";
        findings.add("spec::wrong-value", node.span, "a script without replies cannot answer", help);
    }
    Some(Script { replies: items.iter().filter_map(|item| reply(item, findings)).collect() })
}

fn reply(node: &Node, findings: &mut Findings) -> Option<Reply> {
    let fields = Fields::of(node, &REPLY, findings)?;
    let text =
        |name, findings: &mut Findings| fields.get(name).and_then(|node| values::words(node, name, findings));
    let reply = Reply {
        when: fields.get("when").and_then(|node| when(node, findings)),
        think: text("think", findings),
        say: text("say", findings),
        call: fields.get("call").and_then(|node| calls(node, findings)).unwrap_or_default(),
        error: fields.get("error").and_then(|node| values::word(node, "error", &classes(), findings)),
        times: fields.get("times").and_then(|node| values::small_count(node, "times", findings)),
        usage: fields.get("usage").and_then(|node| usage(node, findings)),
        delay: fields.get("delay").and_then(|node| values::duration(node, "delay", findings)),
        chunk: fields.get("chunk").and_then(|node| values::small_count(node, "chunk", findings)),
        stop: fields.get("stop").and_then(|node| values::word(node, "stop", &STOPS, findings)),
    };
    check_sense(&fields, findings);
    Some(reply)
}

/// A reply does something, and none of its fields is without effect.
fn check_sense(fields: &Fields<'_>, findings: &mut Findings) {
    let has = |name| fields.get(name).is_some();
    if !["think", "say", "call", "error"].into_iter().any(has) {
        let help = "add `say`, `call` or `error`";
        findings.add("spec::missing", fields.place(), "a reply has to say, call or fail", help);
    }
    if has("error") && has("stop") {
        let help = "keep one of them: `stop` is why an answer ends";
        let message = "a reply with `error` has no answer, and so no `stop`";
        findings.add("spec::contradiction", fields.place_of("stop"), message, help);
    }
    if has("times") && !has("error") {
        let help = "remove it, or add `error`: it counts the attempts that fail";
        findings.add("spec::missing", fields.place_of("times"), "`times` needs `error`", help);
    }
}

fn when(node: &Node, findings: &mut Findings) -> Option<When> {
    let fields = Fields::of(node, &WHEN, findings)?;
    let text =
        |name, findings: &mut Findings| fields.get(name).and_then(|node| values::text(node, name, findings));
    let user = text("user", findings);
    if let Some(pattern) = &user {
        check_pattern(&pattern.value, pattern.span, findings);
    }
    let tool = text("tool", findings);
    let failed = fields.get("failed").and_then(|node| values::truth(node, "failed", findings));
    let summarize = fields.get("summarize").and_then(|node| values::truth(node, "summarize", findings));
    Some(When {
        user: user.map(|text| text.value),
        tool: tool.map(|text| text.value),
        failed,
        summarize: summarize.unwrap_or(false),
    })
}

fn check_pattern(pattern: &str, span: Span, findings: &mut Findings) {
    let Err(error) = regex::Regex::new(pattern) else { return };
    // The library draws its own picture of the pattern; the last line of it says what is wrong.
    let drawn = error.to_string();
    let why = drawn.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let message = format!("`user` is not a regular expression: {why}");
    let help = "put a `\\` before a character that means itself; single quotes keep backslashes";
    findings.add("spec::bad-pattern", span, message, help);
}

fn calls(node: &Node, findings: &mut Findings) -> Option<Vec<Call>> {
    let items = values::list(node, "call", findings)?;
    Some(items.iter().filter_map(|item| call(item, findings)).collect())
}

fn call(node: &Node, findings: &mut Findings) -> Option<Call> {
    let fields = Fields::of(node, &CALL, findings)?;
    let tool = fields.require("tool", "tool: get_time", findings);
    let tool = tool.and_then(|node| values::name(node, "tool", findings));
    let input = match fields.get("input") {
        None => Json::empty_object(),
        Some(node) => {
            let input = json(node, findings)?;
            if !input.as_str().starts_with('{') {
                let message = format!("`input` is a mapping of arguments, not {}", node.kind());
                findings.add("spec::wrong-value", node.span, message, "write `input: { name: value }`");
            }
            input
        }
    };
    Some(Call { tool: tool?.value, input })
}

fn usage(node: &Node, findings: &mut Findings) -> Option<Usage> {
    let fields = Fields::of(node, &USAGE, findings)?;
    let mut tokens =
        |name| fields.get(name).and_then(|node| values::whole(node, name, findings)).unwrap_or(0);
    Some(Usage { input_tokens: tokens("input"), output_tokens: tokens("output"), ..Usage::default() })
}

fn classes() -> [(&'static str, FailureClass); FailureClass::ALL.len()] {
    FailureClass::ALL.map(|class| (class.as_str(), class))
}
