//! The stream of a response: `response.created` … `response.completed`, every event with its `sequence_number`.
//!
//! Each block that the model says is an item of its own: a message, or reasoning. What has been said of an attempt that is gone cannot be
//! taken back in this format, so that the response fails there.

use axum::http::StatusCode;
use serde_json::{Value, json};
use weir_types::{RunId, Seq, StopReason, Usage};

use super::super::turn::response_id;
use super::usage_of;
use crate::formats::{Encoder, Joiner, Part, Problem, Viewer};
use crate::stream::{Begun, Chunk, Item};

/// A response as far as it has come.
#[derive(Debug)]
pub(super) struct Snapshot {
    id: String,
    run: RunId,
    model: String,
    previous: Option<String>,
    pub(super) created_at: i64,
    /// Reasoning or not, and the text.
    items: Vec<(bool, String)>,
    status: &'static str,
    /// Why it is not complete.
    incomplete: Option<&'static str>,
    error: Option<Value>,
    usage: Option<Usage>,
    /// Whether the newest item was broken off.
    is_cut: bool,
}

impl Snapshot {
    pub(super) fn new(begun: &Begun, model: String, previous: Option<String>) -> Self {
        Self {
            id: response_id(&begun.address, begun.run),
            run: begun.run,
            model,
            previous,
            created_at: 0,
            items: Vec::new(),
            status: "in_progress",
            incomplete: None,
            error: None,
            usage: None,
            is_cut: false,
        }
    }

    /// A further item.
    pub(super) fn say(&mut self, reasoning: bool, text: &str) {
        self.items.push((reasoning, text.to_owned()));
    }

    pub(super) fn finish(&mut self, stop: StopReason, usage: Usage) {
        self.usage = Some(usage);
        (self.status, self.incomplete) = match stop {
            StopReason::MaxTokens | StopReason::Iterations => ("incomplete", Some("max_output_tokens")),
            StopReason::Refused => ("incomplete", Some("content_filter")),
            StopReason::End
            | StopReason::Approval
            | StopReason::Budget
            | StopReason::Cancelled
            | StopReason::Halted
            | StopReason::Failed => ("completed", None),
        };
    }

    fn fail(&mut self, problem: &Problem, is_cut: bool) {
        self.is_cut = is_cut;
        let code = match problem.status_and_code() {
            // A response has few words for what is not its client's doing.
            (StatusCode::CONFLICT | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE, _) => {
                "server_error"
            }
            (_, code) => code,
        };
        self.status = "failed";
        self.error = Some(json!({"code": code, "message": problem.message}));
    }

    /// The id of an item.
    fn item_id(&self, at: usize) -> String {
        let run = self.run;
        match self.items.get(at) {
            Some((true, _)) => format!("rs_{run}_{at}"),
            _ => format!("msg_{run}_{at}"),
        }
    }

    /// An item; one that is not done has nothing in it yet.
    fn item(&self, at: usize, done: bool) -> Value {
        let Some((reasoning, text)) = self.items.get(at) else { return Value::Null };
        let status = match done {
            true if self.is_cut && at + 1 == self.items.len() => "incomplete",
            true => "completed",
            false => "in_progress",
        };
        let id = self.item_id(at);
        match (reasoning, done) {
            (true, true) => {
                json!({"id": id, "type": "reasoning", "summary": [summary(text)], "status": status})
            }
            (true, false) => json!({"id": id, "type": "reasoning", "summary": [], "status": status}),
            (false, _) => {
                let content = if done { json!([output_text(text)]) } else { json!([]) };
                json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        let output: Vec<Value> = (0..self.items.len()).map(|at| self.item(at, true)).collect();
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": self.status,
            "error": self.error,
            "incomplete_details": self.incomplete.map(|reason| json!({"reason": reason})),
            "instructions": null,
            "max_output_tokens": null,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": false,
            "previous_response_id": self.previous,
            "store": true,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": self.usage.map(usage_of),
        })
    }
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn summary(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

/// Makes events of a response.
#[derive(Debug)]
pub(super) struct Responses {
    snapshot: Snapshot,
    viewer: Viewer,
    sequence: u64,
    /// The block that is being said.
    open: Option<(Seq, u32)>,
    text: Joiner,
    thought: Joiner,
    over: bool,
}

impl Responses {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            viewer: Viewer::default(),
            sequence: 0,
            open: None,
            text: Joiner::default(),
            thought: Joiner::default(),
            over: false,
        }
    }

    fn event(&mut self, kind: &'static str, mut data: Value, out: &mut Vec<Chunk>) {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.push(Chunk::named(kind, data.to_string()));
    }

    fn part(&mut self, part: Part, out: &mut Vec<Chunk>) {
        match part {
            Part::Begin(at) => {
                self.snapshot.created_at = at.as_micros().div_euclid(1_000_000);
                for kind in ["response.created", "response.in_progress"] {
                    self.event(kind, json!({"response": self.snapshot.json()}), out);
                }
            }
            Part::Said { request, block, reasoning, text } => {
                if self.open != Some((request, block)) {
                    self.close(out);
                    self.open(reasoning, out);
                    self.open = Some((request, block));
                }
                let joiner = if reasoning { &mut self.thought } else { &mut self.text };
                if let Some(gap) = joiner.gap(request.0, &text) {
                    self.delta(gap, out);
                }
                self.delta(&text, out);
            }
            Part::Ask(asked) => {
                self.close(out);
                self.open(false, out);
                self.open = Some((Seq(0), 0));
                let words = asked.in_words();
                let gap = self.text.gap_before_remark(&words).unwrap_or_default();
                self.delta(&format!("{gap}{words}"), out);
                self.close(out);
            }
            Part::Answered => self.close(out),
            Part::Reset => self.fail(&Problem::gone(), out),
            Part::Broken(problem) => self.fail(&problem, out),
            Part::Finish { stop, usage } => {
                self.close(out);
                self.snapshot.finish(stop, usage);
                let kind = match self.snapshot.status {
                    "incomplete" => "response.incomplete",
                    _ => "response.completed",
                };
                self.event(kind, json!({"response": self.snapshot.json()}), out);
            }
            Part::Step | Part::Call { .. } | Part::Output { .. } | Part::Failed { .. } => {}
        }
    }

    /// A new item begins.
    fn open(&mut self, reasoning: bool, out: &mut Vec<Chunk>) {
        self.snapshot.say(reasoning, "");
        let (at, id) = self.current();
        let item = self.snapshot.item(at, false);
        self.event("response.output_item.added", json!({"output_index": at, "item": item}), out);
        let part = if reasoning {
            json!({"item_id": id, "output_index": at, "summary_index": 0, "part": summary("")})
        } else {
            json!({"item_id": id, "output_index": at, "content_index": 0, "part": output_text("")})
        };
        let kind =
            if reasoning { "response.reasoning_summary_part.added" } else { "response.content_part.added" };
        self.event(kind, part, out);
    }

    fn delta(&mut self, text: &str, out: &mut Vec<Chunk>) {
        let (at, id) = self.current();
        let Some((reasoning, whole)) = self.snapshot.items.last_mut() else { return };
        whole.push_str(text);
        if *reasoning {
            let delta = json!({"item_id": id, "output_index": at, "summary_index": 0, "delta": text});
            self.event("response.reasoning_summary_text.delta", delta, out);
        } else {
            let delta = json!({
                "item_id": id, "output_index": at, "content_index": 0, "delta": text, "logprobs": [],
            });
            self.event("response.output_text.delta", delta, out);
        }
    }

    /// The newest item is complete.
    fn close(&mut self, out: &mut Vec<Chunk>) {
        if self.open.take().is_none() {
            return;
        }
        let (at, id) = self.current();
        let Some((reasoning, text)) = self.snapshot.items.last().cloned() else { return };
        if reasoning {
            let place = json!({"item_id": id, "output_index": at, "summary_index": 0});
            let with = |key: &str, value: Value| with(&place, key, value);
            self.event("response.reasoning_summary_text.done", with("text", text.clone().into()), out);
            self.event("response.reasoning_summary_part.done", with("part", summary(&text)), out);
        } else {
            let place = json!({"item_id": id, "output_index": at, "content_index": 0});
            let mut done = with(&place, "text", text.clone().into());
            done["logprobs"] = json!([]);
            self.event("response.output_text.done", done, out);
            self.event("response.content_part.done", with(&place, "part", output_text(&text)), out);
        }
        let item = self.snapshot.item(at, true);
        self.event("response.output_item.done", json!({"output_index": at, "item": item}), out);
    }

    fn fail(&mut self, problem: &Problem, out: &mut Vec<Chunk>) {
        self.over = true;
        self.snapshot.fail(problem, self.open.is_some());
        self.event("response.failed", json!({"response": self.snapshot.json()}), out);
    }

    /// Where the newest item is, and its id.
    fn current(&self) -> (usize, String) {
        let at = self.snapshot.items.len().saturating_sub(1);
        (at, self.snapshot.item_id(at))
    }
}

fn with(place: &Value, key: &str, value: Value) -> Value {
    let mut place = place.clone();
    place[key] = value;
    place
}

impl Encoder for Responses {
    fn encode(&mut self, item: &Item, out: &mut Vec<Chunk>) {
        for part in self.viewer.view(item) {
            self.part(part, out);
        }
    }

    /// A run is taken up in another format, from its start.
    fn is_resumable(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
