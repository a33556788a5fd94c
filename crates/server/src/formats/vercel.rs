//! `vercel`: the UI message stream of the AI SDK, version 1. Tools are shown as what they are: run here, and known by name only.

use serde::Serialize;
use serde_json::{Value, json};
use weir_types::{Block, CallId, Json, Seq, StopReason, View};

use super::{Encoder, Named, Part, Problem, Viewer};
use crate::stream::{Chunk, Item};

/// Makes parts of a UI message.
#[derive(Debug)]
pub(crate) struct Vercel {
    named: Named,
    viewer: Viewer,
    /// The part that is open: the name of its kind, and its id.
    open: Option<(&'static str, String)>,
    in_step: bool,
}

/// A call of a tool, with its arguments in the spelling of the model.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolInput<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "toolCallId")]
    call: CallId,
    #[serde(rename = "toolName")]
    tool: &'a str,
    input: &'a Json,
    provider_executed: bool,
    dynamic: bool,
}

impl Vercel {
    /// Parts that name a run.
    pub(crate) fn new(named: Named) -> Self {
        Self { named, viewer: Viewer::default(), open: None, in_step: false }
    }

    pub(super) fn part(&mut self, part: Part, out: &mut Vec<Chunk>) {
        match part {
            Part::Begin(_) => {
                out.push(chunk(&json!({ "type": "start", "messageId": self.named.run.to_string() })));
            }
            Part::Step => {
                self.end_step(out);
                self.in_step = true;
                out.push(chunk(&json!({ "type": "start-step" })));
            }
            Part::Said { request, block, reasoning, text } => {
                let kind = if reasoning { "reasoning" } else { "text" };
                let id = self.open(kind, request, block, out);
                out.push(chunk(&json!({ "type": format!("{kind}-delta"), "id": id, "delta": text })));
            }
            Part::Answered => self.close(out),
            Part::Call { id, tool, input } => {
                let call = ToolInput {
                    kind: "tool-input-available",
                    call: id,
                    tool: &tool,
                    input: &input.on_one_line(),
                    provider_executed: true,
                    dynamic: true,
                };
                out.push(Chunk::data(super::json(&call)));
            }
            Part::Output { id, content } => out.push(chunk(&json!({
                "type": "tool-output-available",
                "toolCallId": id.to_string(),
                "output": output(&content),
                "providerExecuted": true,
                "dynamic": true,
            }))),
            Part::Failed { id, denied: true, .. } => {
                out.push(chunk(&json!({ "type": "tool-output-denied", "toolCallId": id.to_string() })));
            }
            Part::Failed { id, message, denied: false } => out.push(chunk(&json!({
                "type": "tool-output-error",
                "toolCallId": id.to_string(),
                "errorText": message,
                "providerExecuted": true,
                "dynamic": true,
            }))),
            Part::Ask(asked) => out.push(chunk(&json!({
                "type": "tool-approval-request",
                "approvalId": asked.id.to_string(),
                "toolCallId": asked.call.to_string(),
                "reason": asked.why,
            }))),
            Part::Reset => {
                // What was open in the step is gone with it.
                self.open = None;
                out.push(chunk(&json!({ "type": "reset-step" })));
            }
            Part::Broken(problem) => self.broken(&problem, out),
            Part::Finish { stop, .. } => {
                self.end_step(out);
                out.push(chunk(&json!({ "type": "finish", "finishReason": reason(stop) })));
                out.push(Chunk::data("[DONE]"));
            }
        }
    }

    /// The id of the part for a block of an answer, begun if need be. It names its place, so that it is the same however often
    /// the stream is made.
    fn open(&mut self, kind: &'static str, request: Seq, block: u32, out: &mut Vec<Chunk>) -> String {
        let id = format!("{kind}-{request}-{block}");
        if self.open.as_ref().is_none_or(|(_, open)| *open != id) {
            self.close(out);
            out.push(chunk(&json!({ "type": format!("{kind}-start"), "id": id })));
            self.open = Some((kind, id.clone()));
        }
        id
    }

    fn close(&mut self, out: &mut Vec<Chunk>) {
        if let Some((kind, id)) = self.open.take() {
            out.push(chunk(&json!({ "type": format!("{kind}-end"), "id": id })));
        }
    }

    fn end_step(&mut self, out: &mut Vec<Chunk>) {
        self.close(out);
        if std::mem::take(&mut self.in_step) {
            out.push(chunk(&json!({ "type": "finish-step" })));
        }
    }

    fn broken(&mut self, problem: &Problem, out: &mut Vec<Chunk>) {
        if problem.stop == StopReason::Cancelled {
            self.end_step(out);
            out.push(chunk(&json!({ "type": "abort", "reason": problem.message })));
        } else {
            out.push(chunk(&json!({ "type": "error", "errorText": problem.message })));
            self.end_step(out);
            out.push(chunk(&json!({ "type": "finish", "finishReason": "error" })));
        }
        out.push(Chunk::data("[DONE]"));
    }
}

impl Encoder for Vercel {
    fn encode(&mut self, item: &Item, out: &mut Vec<Chunk>) {
        for part in self.viewer.view(item) {
            self.part(part, out);
        }
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("x-vercel-ai-ui-message-stream", "v1")]
    }
}

fn chunk(part: &Value) -> Chunk {
    Chunk::data(part.to_string())
}

/// What a tool answered: the words of one text, which may be JSON; else a list of blocks.
pub(crate) fn output(content: &[Block]) -> Value {
    let texts: Option<Vec<&str>> = content.iter().map(Block::as_text).collect();
    match texts.as_deref() {
        Some([]) => Value::Null,
        Some([text]) => {
            let is_structure = text.trim_start().starts_with(['{', '[']);
            let parsed = is_structure.then(|| serde_json::from_str(text).ok()).flatten();
            parsed.unwrap_or_else(|| Value::String((*text).to_owned()))
        }
        _ => content.iter().map(block).collect(),
    }
}

fn block(block: &Block) -> Value {
    match &block.view {
        View::Text { text } => json!({ "type": "text", "text": text }),
        View::Image { media_type, .. } => json!({ "type": "image", "mediaType": media_type }),
        View::Document { media_type, title, .. } => {
            json!({ "type": "document", "mediaType": media_type, "title": title })
        }
        View::Thinking { .. } | View::ToolUse { .. } | View::ToolResult { .. } | View::Unknown => {
            json!({ "type": "unknown" })
        }
    }
}

/// Why it stopped, in the words of the AI SDK.
pub(super) fn reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::MaxTokens | StopReason::Iterations => "length",
        StopReason::Refused => "content-filter",
        // Calls are open, as far as the client can tell.
        StopReason::Approval => "tool-calls",
        StopReason::End
        | StopReason::Budget
        | StopReason::Cancelled
        | StopReason::Halted
        | StopReason::Failed => "stop",
    }
}
