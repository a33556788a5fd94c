//! `openai`: chunks of a chat completion. Text and reasoning only: the agent's tools are not the client's to run.

use serde_json::{Value, json};
use weir_types::{StopReason, Usage};

use super::join::Joiner;
use super::{Encoder, Named, Part, Problem, Viewer, openai_type};
use crate::stream::{Chunk, Item};

/// Makes chunks of a chat completion.
#[derive(Debug)]
pub(crate) struct OpenAi {
    named: Named,
    viewer: Viewer,
    created: i64,
    /// Whether the client wants to know what was used.
    include_usage: bool,
    text: Joiner,
    reasoning: Joiner,
    over: bool,
}

impl OpenAi {
    /// Chunks that name an agent and a run.
    pub(crate) fn new(named: Named) -> Self {
        Self {
            named,
            viewer: Viewer::default(),
            created: 0,
            include_usage: false,
            text: Joiner::default(),
            reasoning: Joiner::default(),
            over: false,
        }
    }

    /// The same, with what was used in the last chunk, or without.
    pub(crate) fn with_usage(self, include_usage: bool) -> Self {
        Self { include_usage, ..self }
    }

    pub(super) fn part(&mut self, part: Part, out: &mut Vec<Chunk>) {
        match part {
            Part::Begin(at) => {
                self.created = at.as_micros().div_euclid(1_000_000);
                out.push(self.delta(&json!({ "role": "assistant", "content": "" })));
            }
            Part::Said { request, reasoning: true, text, .. } => {
                let gap = self.reasoning.gap(request.0, &text);
                out.extend(gap.map(|gap| self.delta(&json!({ "reasoning_content": gap }))));
                out.push(self.delta(&json!({ "reasoning_content": text })));
            }
            Part::Said { request, reasoning: false, text, .. } => {
                let gap = self.text.gap(request.0, &text);
                out.extend(gap.map(|gap| self.delta(&json!({ "content": gap }))));
                out.push(self.delta(&json!({ "content": text })));
            }
            Part::Ask(asked) => {
                let words = asked.in_words();
                let gap = self.text.gap_before_remark(&words).unwrap_or_default();
                out.push(self.delta(&json!({ "content": format!("{gap}{words}") })));
            }
            Part::Reset => self.error(&Problem::gone(), out),
            Part::Broken(problem) => self.error(&problem, out),
            Part::Finish { stop, usage } => {
                let last = json!({ "index": 0, "delta": {}, "finish_reason": reason(stop) });
                out.push(self.chunk(&[last], None));
                out.push(self.chunk(&[], Some(usage)).if_wanted(self.include_usage));
                out.push(Chunk::data("[DONE]"));
            }
            Part::Step | Part::Answered | Part::Call { .. } | Part::Output { .. } | Part::Failed { .. } => {}
        }
    }

    fn delta(&self, delta: &Value) -> Chunk {
        self.chunk(&[json!({ "index": 0, "delta": delta, "finish_reason": null })], None)
    }

    fn chunk(&self, choices: &[Value], usage: Option<Usage>) -> Chunk {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", self.named.run),
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.named.agent,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage_of(usage);
        }
        Chunk::data(chunk.to_string())
    }

    fn error(&mut self, problem: &Problem, out: &mut Vec<Chunk>) {
        self.over = true;
        let (status, code) = problem.status_and_code();
        let kind = openai_type(status, code);
        let error = json!({ "message": problem.message, "type": kind, "param": null, "code": code });
        out.push(Chunk::data(json!({ "error": error }).to_string()));
    }
}

impl Encoder for OpenAi {
    fn encode(&mut self, item: &Item, out: &mut Vec<Chunk>) {
        for part in self.viewer.view(item) {
            self.part(part, out);
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

/// Usage in the words of chat completions.
pub(crate) fn usage_of(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read_tokens },
    })
}

/// Why it stopped, in the words of chat completions.
pub(crate) fn reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::MaxTokens | StopReason::Iterations => "length",
        StopReason::Refused => "content_filter",
        StopReason::End
        | StopReason::Approval
        | StopReason::Budget
        | StopReason::Cancelled
        | StopReason::Halted
        | StopReason::Failed => "stop",
    }
}
