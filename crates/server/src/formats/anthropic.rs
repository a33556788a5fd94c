//! `anthropic`: events of a message and its content blocks. Text and thinking only: the agent's tools are not the client's to run.
//!
//! Thinking has no signature here: that proves a provider's own words to itself, and a client of an agent never talks to it.

use serde_json::{Value, json};
use weir_types::{Seq, StopReason, Usage};

use super::join::Joiner;
use super::{Encoder, Named, Part, Problem, Viewer, anthropic_type};
use crate::stream::{Chunk, Item};

/// Makes events of a message.
#[derive(Debug)]
pub(crate) struct Anthropic {
    named: Named,
    viewer: Viewer,
    /// The content block that is open.
    open: Option<Open>,
    /// Blocks so far.
    blocks: u32,
    text: Joiner,
    thinking: Joiner,
    over: bool,
}

/// What an open content block holds: a block of an answer, or a remark of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Answer { request: Seq, block: u32, reasoning: bool },
    Remark,
}

impl Anthropic {
    /// Events that name an agent and a run.
    pub(crate) fn new(named: Named) -> Self {
        Self {
            named,
            viewer: Viewer::default(),
            open: None,
            blocks: 0,
            text: Joiner::default(),
            thinking: Joiner::default(),
            over: false,
        }
    }

    pub(super) fn part(&mut self, part: Part, out: &mut Vec<Chunk>) {
        match part {
            Part::Begin(_) => out.push(event(&json!({
                "type": "message_start",
                "message": {
                    "id": format!("msg_{}", self.named.run),
                    "type": "message",
                    "role": "assistant",
                    "model": self.named.agent,
                    "content": [],
                    "stop_reason": null,
                    "stop_sequence": null,
                    "usage": { "input_tokens": 0, "output_tokens": 0 },
                },
            }))),
            Part::Said { request, block, reasoning, text } => {
                self.open(Open::Answer { request, block, reasoning }, out);
                let joiner = if reasoning { &mut self.thinking } else { &mut self.text };
                let gap = joiner.gap(request.0, &text);
                out.extend(gap.map(|gap| self.delta(reasoning, gap)));
                out.push(self.delta(reasoning, &text));
            }
            Part::Ask(asked) => {
                self.close(out);
                self.open(Open::Remark, out);
                let words = asked.in_words();
                let gap = self.text.gap_before_remark(&words).unwrap_or_default();
                out.push(self.delta(false, &format!("{gap}{words}")));
            }
            Part::Answered => self.close(out),
            Part::Reset => self.error(&Problem::gone(), out),
            Part::Broken(problem) => self.error(&problem, out),
            Part::Finish { stop, usage } => {
                self.close(out);
                out.push(event(&json!({
                    "type": "message_delta",
                    "delta": { "stop_reason": reason(stop), "stop_sequence": null },
                    "usage": usage_of(usage),
                })));
                out.push(event(&json!({ "type": "message_stop" })));
            }
            Part::Step | Part::Call { .. } | Part::Output { .. } | Part::Failed { .. } => {}
        }
    }

    fn open(&mut self, block: Open, out: &mut Vec<Chunk>) {
        if self.open == Some(block) {
            return;
        }
        self.close(out);
        self.open = Some(block);
        let empty = match block {
            Open::Answer { reasoning: true, .. } => {
                json!({ "type": "thinking", "thinking": "", "signature": "" })
            }
            Open::Answer { reasoning: false, .. } | Open::Remark => json!({ "type": "text", "text": "" }),
        };
        out.push(event(
            &json!({ "type": "content_block_start", "index": self.blocks, "content_block": empty }),
        ));
    }

    fn close(&mut self, out: &mut Vec<Chunk>) {
        if self.open.take().is_some() {
            out.push(event(&json!({ "type": "content_block_stop", "index": self.blocks })));
            self.blocks += 1;
        }
    }

    fn delta(&self, reasoning: bool, text: &str) -> Chunk {
        let delta = if reasoning {
            json!({ "type": "thinking_delta", "thinking": text })
        } else {
            json!({ "type": "text_delta", "text": text })
        };
        event(&json!({ "type": "content_block_delta", "index": self.blocks, "delta": delta }))
    }

    fn error(&mut self, problem: &Problem, out: &mut Vec<Chunk>) {
        self.over = true;
        let (status, code) = problem.status_and_code();
        let (_, kind) = anthropic_type(status, code);
        let error = json!({ "type": kind, "message": problem.message });
        out.push(event(&json!({ "type": "error", "error": error })));
    }
}

impl Encoder for Anthropic {
    fn encode(&mut self, item: &Item, out: &mut Vec<Chunk>) {
        for part in self.viewer.view(item) {
            self.part(part, out);
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

/// An event whose name is its type.
fn event(value: &Value) -> Chunk {
    let name = value["type"].as_str().unwrap_or_default().to_owned();
    Chunk::named(name, value.to_string())
}

/// Usage in the words of messages: there, input does not include what is cached.
pub(crate) fn usage_of(usage: Usage) -> Value {
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(cached),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    })
}

/// Why it stopped, in the words of messages.
pub(crate) fn reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::MaxTokens | StopReason::Iterations => "max_tokens",
        StopReason::Refused => "refusal",
        StopReason::End
        | StopReason::Approval
        | StopReason::Budget
        | StopReason::Cancelled
        | StopReason::Halted
        | StopReason::Failed => "end_turn",
    }
}
