//! `models/<name>.yaml`: a model that answers from a script, for demos and tests.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_types::{FailureClass, Json, Stop, Usage};

use crate::diagnostic::Findings;
use crate::document;
use crate::fields::Fields;
use crate::format;
use crate::shape::{Choice, Kind, Shape, optional, required, words};

/// `models/<name>.yaml`.
pub(crate) static SCRIPT: Shape = Shape {
    what: "a script",
    doc: "A model that answers from a script, for demos and tests.",
    fields: &[required(
        "replies",
        "replies: [{ say: \"Hello.\" }]",
        Kind::Some(&Kind::Shape(&REPLY)),
        "Tried from the top; the first that matches answers.",
    )],
    choice: Choice::Free,
    instead: &[("rules", "write `replies`"), ("responses", "write `replies`")],
};

static REPLY: Shape = Shape {
    what: "a reply",
    doc: "One rule of a script. Texts may hold templates: `{{1}}` is the first group of the `user` pattern that matched, `{{result}}` the text of the newest tool result, `{{result.temp}}` a field of it if it is JSON, `{{attempt}}` the number of the attempt.",
    fields: &[
        optional("when", Kind::Shape(&WHEN), "What it answers to; everything, if absent."),
        optional("think", Kind::Words, "What the model thinks."),
        optional("say", Kind::Words, "What it says."),
        optional("call", Kind::List(&Kind::Shape(&CALL)), "The tools it calls, all at once."),
        optional(
            "error",
            Kind::Word(|| words(CLASSES)),
            "The failure it ends with, after whatever it thinks and says.",
        ),
        optional(
            "times",
            Kind::Small,
            "How many attempts fail before it falls through; all of them, if absent.",
        ),
        optional("usage", Kind::Shape(&USAGE), "The tokens it reports."),
        optional("delay", Kind::Pause, "The pause before each delta."),
        optional("chunk", Kind::Small, "Characters of one delta."),
        optional("stop", Kind::Word(|| words(STOPS)), "Why the answer ends."),
    ],
    choice: Choice::Some(&["say", "call", "think", "error"]),
    instead: &[("text", "write `say`"), ("answer", "write `say`"), ("calls", "write `call`")],
};

static WHEN: Shape = Shape {
    what: "`when` of a reply",
    doc: "When a reply matches. Every condition that is there has to hold.",
    fields: &[
        optional(
            "user",
            Kind::Format(&format::PATTERN),
            "A regular expression that the latest user message matches, when no tool result is newer.",
        ),
        optional("tool", Kind::Text, "The tool whose result is the newest message."),
        optional(
            "failed",
            Kind::Truth,
            "Whether the newest message is a result that failed, or one that did not.",
        ),
        optional("summarize", Kind::Truth, "Whether the request asks for a summary."),
    ],
    choice: Choice::Free,
    instead: &[("summarise", "write `summarize`")],
};

static CALL: Shape = Shape {
    what: "a call",
    doc: "One tool call of a reply.",
    fields: &[
        required(
            "tool",
            "tool: get_time",
            Kind::Format(&format::NAME),
            "The tool, by the name the model sees.",
        ),
        optional("input", Kind::Object, "Its arguments."),
    ],
    choice: Choice::Free,
    instead: &[("name", "write `tool`"), ("arguments", "write `input`"), ("args", "write `input`")],
};

static USAGE: Shape = Shape {
    what: "`usage`",
    doc: "The tokens that an answer reports.",
    fields: &[
        optional("input", Kind::Whole(u64::MAX), "Tokens sent."),
        optional("output", Kind::Whole(u64::MAX), "Tokens received."),
    ],
    choice: Choice::Free,
    instead: &[],
};

const CLASSES: &[(&str, FailureClass)] = &{
    let mut table = [("", FailureClass::Invalid); FailureClass::ALL.len()];
    let mut n = 0;
    while n < table.len() {
        table[n] = (FailureClass::ALL[n].as_str(), FailureClass::ALL[n]);
        n += 1;
    }
    table
};

const STOPS: &[(&str, Stop)] = &[
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

/// What a script says, as far as it can be read.
pub(crate) fn read(bytes: &[u8], findings: &mut Findings) -> Option<Script> {
    let root = document::read(bytes, &SCRIPT, findings)?;
    let fields = Fields::of(&root, &SCRIPT)?;
    Some(Script { replies: fields.each("replies").map(|reply| read_reply(&reply, findings)).collect() })
}

fn read_reply(fields: &Fields<'_>, findings: &mut Findings) -> Reply {
    check_sense(fields, findings);
    Reply {
        when: fields.fields("when").map(|fields| read_when(&fields)),
        think: fields.words("think"),
        say: fields.words("say"),
        call: fields.each("call").filter_map(|fields| read_call(&fields)).collect(),
        error: fields.word("error", CLASSES),
        times: fields.small("times"),
        usage: fields.fields("usage").map(|fields| Usage {
            input_tokens: fields.count("input").unwrap_or(0),
            output_tokens: fields.count("output").unwrap_or(0),
            ..Usage::default()
        }),
        delay: fields.duration("delay"),
        chunk: fields.small("chunk"),
        stop: fields.word("stop", STOPS),
    }
}

/// No field of a reply is without effect.
fn check_sense(fields: &Fields<'_>, findings: &mut Findings) {
    if fields.has("error") && fields.has("stop") {
        let help = "keep one of them: `stop` is why an answer ends";
        let message = "a reply with `error` has no answer, and so no `stop`";
        findings.add("spec::contradiction", fields.place_of("stop"), message, help);
    }
    if fields.has("times") && !fields.has("error") {
        let help = "remove it, or add `error`: it counts the attempts that fail";
        findings.add("spec::missing", fields.place_of("times"), "`times` needs `error`", help);
    }
}

fn read_when(fields: &Fields<'_>) -> When {
    When {
        user: fields.words("user"),
        tool: fields.words("tool"),
        failed: fields.truth("failed"),
        summarize: fields.truth("summarize").unwrap_or(false),
    }
}

fn read_call(fields: &Fields<'_>) -> Option<Call> {
    let input = fields.json("input").unwrap_or_else(Json::empty_object);
    Some(Call { tool: fields.words("tool")?, input })
}
