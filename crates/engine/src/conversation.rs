//! What was said in a session, line by line, as its events tell it. What a summary replaced for the model is still here.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_events::{About, Body};
use weir_kernel::Call;
use weir_types::{Block, CallId, Event, Json, Outcome as CallOutcome, Role, Seq, Timestamp, View, text_of};

/// Something that was said or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The event that says so.
    pub seq: Seq,
    /// When.
    pub ts: Timestamp,
    /// What it is.
    #[serde(rename = "type")]
    pub what: What,
    /// Who said it, if that was a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The tool, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The call, if it is about one.
    #[serde(skip)]
    pub call: Option<CallId>,
    /// The arguments of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// In words.
    pub text: String,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Someone said something.
    User,
    /// Something outside happened.
    Signal,
    /// The model said something.
    Assistant,
    /// The model thought something.
    Thinking,
    /// The model called a tool.
    Call,
    /// The tool answered.
    Result,
    /// It did not.
    Failure,
    /// The model was given a summary of what came before.
    Summary,
    /// The run or the session took a turn.
    Note,
}

impl What {
    /// Whether it belongs to the conversation itself.
    pub fn is_said(self) -> bool {
        match self {
            Self::User | Self::Signal | Self::Assistant | Self::Call | Self::Result | Self::Failure => true,
            Self::Thinking | Self::Summary | Self::Note => false,
        }
    }
}

/// Reads lines from events that come in order.
#[derive(Debug, Default)]
pub struct Reader {
    /// The tools of calls: only their first event names them.
    tools: BTreeMap<CallId, String>,
}

impl Reader {
    /// A reader of what follows: these calls have begun before.
    pub fn after(calls: &[Call]) -> Self {
        Self { tools: calls.iter().map(|call| (call.id, call.tool.clone())).collect() }
    }

    /// What an event says; nothing, if that is of no interest to a reader of the conversation.
    pub fn read(&mut self, event: &Event) -> Vec<Line> {
        let Ok(Some(body)) = Body::decode(&event.kind, &event.payload) else { return Vec::new() };
        let line = |what, text: String| Line {
            seq: event.seq,
            ts: event.ts,
            what,
            actor: None,
            tool: None,
            call: None,
            input: None,
            text,
        };
        let note = |text: String| vec![line(What::Note, text)];
        match body {
            Body::UserMessage(said) => {
                let actor = About::decode(&event.meta).actor;
                // What the model is said to have said before the session began is still the word of whoever began it.
                let what = match said.history {
                    None | Some(Role::User) => What::User,
                    Some(Role::Assistant) => What::Assistant,
                };
                vec![Line { actor, ..line(what, words(&said.content)) }]
            }
            Body::ExternalSignal(signal) => {
                vec![line(What::Signal, format!("{} {}", signal.name, signal.data.as_str()))]
            }
            Body::AssistantMessage(said) => said_by_model(&said.content, &line),
            Body::ToolRequested(call) => {
                self.tools.insert(call.call, call.tool.clone());
                vec![Line {
                    tool: Some(call.tool),
                    call: Some(call.call),
                    input: Some(call.input),
                    ..line(What::Call, String::new())
                }]
            }
            Body::ToolCompleted(done) => {
                let text = words(&done.content);
                let tool = self.tools.remove(&done.call);
                vec![Line { tool, call: Some(done.call), ..line(What::Result, text) }]
            }
            Body::ToolFailed(failed) => {
                let how = match failed.outcome {
                    CallOutcome::Unknown => " (outcome unknown)",
                    CallOutcome::Failed | CallOutcome::Interrupted | CallOutcome::Denied => "",
                };
                let text = format!("{}{how}", failed.message);
                let tool = self.tools.remove(&failed.call);
                vec![Line { tool, call: Some(failed.call), ..line(What::Failure, text) }]
            }
            Body::ContextCompacted(compacted) => vec![line(What::Summary, compacted.summary)],
            Body::ModelFailed(failed) => {
                note(format!("attempt {} failed: {} ({})", failed.attempt, failed.message, failed.class))
            }
            Body::RunErrored(errored) => {
                note(format!("the run failed: {} ({})", errored.message, errored.class))
            }
            Body::RunCancelled(cancelled) => {
                let said = cancelled.said.filter(|said| !said.trim_end().is_empty());
                let said = said.map(|said| {
                    line(What::Assistant, format!("{}\n\n{}", said.trim_end(), weir_kernel::CUT_OFF))
                });
                said.into_iter().chain(note("the run was cancelled".to_owned())).collect()
            }
            Body::RunParked(parked) => {
                let why = serde_json::to_string(&parked.why).unwrap_or_default();
                note(format!("the run was parked: {why}"))
            }
            Body::SessionHalted(halted) => note(format!("halted: {}", halted.reason)),
            Body::SessionClosed(closed) => note(format!("closed: {}", closed.reason)),
            Body::BranchForked(forked) => note(format!("forked from `{}` at {}", forked.from, forked.at.0)),
            _ => Vec::new(),
        }
    }
}

fn said_by_model(content: &[Block], line: &impl Fn(What, String) -> Line) -> Vec<Line> {
    let thoughts = content.iter().filter_map(|block| match &block.view {
        View::Thinking { text, .. } if !text.is_empty() => Some(line(What::Thinking, text.clone())),
        _ => None,
    });
    let text = text_of(content);
    let said = (!text.is_empty()).then(|| line(What::Assistant, text));
    thoughts.chain(said).collect()
}

/// The text of blocks, with a word for those that have none.
pub fn words(content: &[Block]) -> String {
    let parts: Vec<String> = content.iter().map(word).collect();
    parts.join("\n")
}

fn word(block: &Block) -> String {
    match &block.view {
        View::Text { text } | View::Thinking { text, .. } => text.clone(),
        View::ToolUse { name, input, .. } => format!("[calls {name} {}]", input.as_str()),
        View::ToolResult { content, .. } => words(content),
        View::Image { media_type, .. } => format!("[image: {media_type}]"),
        View::Document { media_type, title, .. } => {
            format!("[document: {}]", title.as_deref().unwrap_or(media_type))
        }
        View::Unknown => "[a block that only its provider understands]".to_owned(),
    }
}
