//! From a stream of Responses events to an answer.

use serde::Deserialize;
use serde_json::Value;
use weir_types::{Answer, Block, FailureClass, Json, Stop, Usage, View};

use super::{WIRE, encode};
use crate::fields::Fields;
use crate::remote::{BodyEnd, Decoder, Step};
use crate::wires::neutral::{self, InOrder, agreeing, arguments, without_cut_call};
use crate::{Channel, Delta, ModelError, failure};

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Response {
    id: Option<String>,
    usage: Option<Counts>,
    /// The items by their index, in order of appearance; whole ones as they were sent.
    items: Vec<(u64, Option<Json>)>,
    words: InOrder,
    /// Why the answer is incomplete.
    incomplete: Option<String>,
    refused: bool,
}

#[derive(Deserialize)]
struct Event {
    r#type: Option<String>,
    #[serde(default)]
    output_index: u64,
    item: Option<Json>,
    delta: Option<Value>,
    response: Option<Whole>,
}

#[derive(Deserialize)]
struct Whole {
    id: Option<String>,
    usage: Option<Counts>,
    output: Option<Vec<Json>>,
    error: Option<Value>,
    incomplete_details: Option<Incomplete>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Counts {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    input_tokens_details: Option<Cached>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Cached {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Decoder for Response {
    fn event(&mut self, name: Option<&str>, data: &str, deltas: &mut Vec<Delta>) -> Result<Step, ModelError> {
        if data.trim() == "[DONE]" {
            return Ok(Step::More);
        }
        let event: Event = serde_json::from_str(data).map_err(|_| neutral::unreadable(data))?;
        let kind = event.r#type.as_deref().or(name).unwrap_or_default();
        let channel = match kind {
            "response.output_text.delta" => Some(Channel::Text),
            "response.refusal.delta" => {
                self.refused = true;
                Some(Channel::Text)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Some(Channel::Thinking)
            }
            "response.function_call_arguments.delta" => Some(Channel::ToolInput),
            _ => None,
        };
        if let Some(channel) = channel {
            let block = neutral::index(self.place(event.output_index));
            let text = event.delta.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
            self.words.say(Delta { channel, block, text }, deltas);
            return Ok(Step::More);
        }
        match kind {
            "response.output_item.added" => {
                let place = self.place(event.output_index);
                let fields = event.item.and_then(|item| Fields::parse(item.as_str())).unwrap_or_default();
                if matches!(fields.text("type").as_deref(), Some("message" | "reasoning")) {
                    self.words.begin(place);
                }
            }
            "response.output_item.done" => {
                let place = self.place(event.output_index);
                self.items[place].1 = event.item;
                self.words.end(place, deltas);
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                self.note(event.response);
            }
            "response.completed" | "response.incomplete" => {
                self.note(event.response);
                return Ok(Step::End);
            }
            "response.failed" => {
                let error = event.response.as_ref().and_then(|whole| whole.error.clone());
                self.note(event.response);
                let error = serde_json::json!({ "error": error.unwrap_or_else(|| "failed".into()) });
                return Err(failure::of_event(&error).unwrap_or_else(|| neutral::unreadable(data)));
            }
            // The ends of parts, which items repeat; an error; or an event of a later version.
            _ => {
                let event: Value = serde_json::from_str(data).unwrap_or_default();
                return failure::of_event(&event).map_or(Ok(Step::More), Err);
            }
        }
        Ok(Step::More)
    }

    fn is_whole(&self, _end: BodyEnd) -> bool {
        false
    }

    fn usage(&self) -> Option<Usage> {
        let counts = self.usage?;
        let cached = counts.input_tokens_details;
        Some(Usage {
            input_tokens: counts.input_tokens,
            output_tokens: counts.output_tokens,
            cache_read_tokens: cached.and_then(|cached| cached.cached_tokens).unwrap_or_default(),
            cache_write_tokens: cached.and_then(|cached| cached.cache_write_tokens).unwrap_or_default(),
        })
    }

    fn answer(&mut self) -> Result<Answer, ModelError> {
        let items = std::mem::take(&mut self.items);
        let content: Vec<Block> = items.into_iter().map(|(_, item)| block(item)).collect();
        let stop = match self.incomplete.as_deref() {
            Some("content_filter") => Stop::Refused,
            Some("max_output_tokens") => Stop::MaxTokens,
            Some(other) => {
                let message = format!("the server breaks off its answer: {other}");
                return Err(ModelError::said(FailureClass::Truncated, message));
            }
            None if self.refused => Stop::Refused,
            None => agreeing(Stop::End, &content),
        };
        let answer = Answer { content, stop, usage: Usage::default(), provider_id: self.id.take() };
        Ok(without_cut_call(answer))
    }
}

impl Response {
    /// The block of an item.
    fn place(&mut self, output_index: u64) -> usize {
        let found = self.items.iter().position(|(index, _)| *index == output_index);
        found.unwrap_or_else(|| {
            self.items.push((output_index, None));
            self.items.len() - 1
        })
    }

    fn note(&mut self, whole: Option<Whole>) {
        let Some(whole) = whole else { return };
        self.id = whole.id.or(self.id.take());
        self.usage = whole.usage.or(self.usage);
        self.incomplete = whole.incomplete_details.and_then(|details| details.reason);
        // An item that never ended by itself is in the whole response.
        for (index, item) in (0_u64..).zip(whole.output.unwrap_or_default()) {
            let place = self.place(index);
            self.items[place].1.get_or_insert(item);
        }
    }
}

fn block(item: Option<Json>) -> Block {
    let item = item.unwrap_or_else(Json::empty_object);
    let fields = Fields::parse(item.as_str()).unwrap_or_default();
    let text = |key: &str| fields.text(key).unwrap_or_default();
    let view = match text("type").as_str() {
        "message" => View::Text { text: words(&fields, "content") },
        "reasoning" => {
            let summary = words(&fields, "summary");
            let thought = if summary.is_empty() { words(&fields, "content") } else { summary };
            View::Thinking { text: thought, signature: None }
        }
        "function_call" => View::ToolUse {
            id: text("call_id"),
            name: text("name"),
            input: arguments(&text("arguments")).on_one_line(),
        },
        _ => View::Unknown,
    };
    neutral::block(WIRE, view.clone(), item, encode::own(&view).as_ref())
}

/// The words of an item's parts: what is said, refused or thought.
fn words(fields: &Fields, key: &str) -> String {
    let parts: Vec<Fields> =
        fields.get(key).and_then(|parts| serde_json::from_str(parts.as_str()).ok()).unwrap_or_default();
    parts.iter().filter_map(|part| part.text("text").or_else(|| part.text("refusal"))).collect()
}
