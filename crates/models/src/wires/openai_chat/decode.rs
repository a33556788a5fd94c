//! From a stream of Chat Completions chunks to an answer.

use serde::Deserialize;
use weir_types::{Answer, Block, FailureClass, Json, Stop, Usage, View};

use super::WIRE;
use super::fragment::{fragment, joined, own, text_part};
use crate::fields::{Fields, json_text, to_json};
use crate::remote::{BodyEnd, Decoder, Step};
use crate::wires::neutral::{self, agreeing, argument_text, arguments, without_cut_call};
use crate::{Channel, Delta, ModelError, failure};

/// The fields in which servers send a model's reasoning.
const THINKING: &[&str] = &["reasoning_content", "reasoning"];

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    id: Option<String>,
    usage: Option<Counts>,
    slots: Vec<Slot>,
    finish: Option<String>,
    refused: bool,
}

/// A block so far, in the order of first appearance.
#[derive(Debug)]
enum Slot {
    /// A text field of the message: its words, a refusal, its reasoning.
    Words { field: String, text: String },
    /// A part of `content` that holds reasoning, as Mistral sends it.
    ThinkingPart { part: Fields, text: String },
    /// A part of `content` of any other type.
    Part(Json),
    /// A call.
    Call(Call),
    /// Any other field of the message.
    Field { field: String, value: Json },
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    fields: Fields,
    function: Fields,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Fields>,
    finish_reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Counts {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<Cached>,
    /// DeepSeek's name for it.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Cached {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Decoder for Chunks {
    fn event(
        &mut self,
        _name: Option<&str>,
        data: &str,
        deltas: &mut Vec<Delta>,
    ) -> Result<Step, ModelError> {
        if data.trim() == "[DONE]" {
            return Ok(Step::End);
        }
        let unreadable = |_| neutral::unreadable(data);
        if data.contains("\"error\"")
            && let Some(error) = failure::of_event(&serde_json::from_str(data).map_err(unreadable)?)
        {
            return Err(error);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(unreadable)?;
        self.id = self.id.take().or(chunk.id).filter(|id| !id.is_empty());
        self.usage = chunk.usage.or(self.usage);
        for choice in chunk.choices.unwrap_or_default().into_iter().take(1) {
            let delta = choice.delta.unwrap_or_default();
            let thinks = |key: &&str| delta.text(key).is_some_and(|text| !text.is_empty());
            let thought = THINKING.iter().copied().find(thinks);
            for (key, value) in delta.iter() {
                // Some servers send the same thought under both names: it is kept, and said once.
                match THINKING.contains(&key) && thought.is_some_and(|thought| thought != key) {
                    true if !matches!(value.as_str(), "null" | "\"\"") => self.field(key, value),
                    true => {}
                    false => self.add(key, value, deltas),
                }
            }
            self.finish = choice.finish_reason.or(self.finish.take());
        }
        Ok(Step::More)
    }

    fn is_whole(&self, end: BodyEnd) -> bool {
        // Some servers leave out `[DONE]`; a connection that breaks may still owe us the usage.
        end == BodyEnd::Proper && self.finish.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        let counts = self.usage?;
        let details = counts.prompt_tokens_details;
        let cached = details.and_then(|details| details.cached_tokens).or(counts.prompt_cache_hit_tokens);
        Some(Usage {
            input_tokens: counts.prompt_tokens,
            output_tokens: counts.completion_tokens,
            cache_read_tokens: cached.unwrap_or_default(),
            cache_write_tokens: details.and_then(|details| details.cache_write_tokens).unwrap_or_default(),
        })
    }

    fn answer(&mut self) -> Result<Answer, ModelError> {
        let slots = std::mem::take(&mut self.slots);
        let content: Vec<Block> = slots.into_iter().enumerate().map(|(at, slot)| slot.close(at)).collect();
        let stop = match self.finish.as_deref() {
            Some("length" | "model_length") => Stop::MaxTokens,
            Some("content_filter") => Stop::Refused,
            Some("error") => {
                let message = "the server breaks off its answer: error".to_owned();
                return Err(ModelError::said(FailureClass::Truncated, message));
            }
            _ if self.refused => Stop::Refused,
            _ => agreeing(Stop::End, &content),
        };
        let answer = Answer { content, stop, usage: Usage::default(), provider_id: self.id.take() };
        Ok(without_cut_call(answer))
    }
}

impl Chunks {
    /// Takes one field of a delta.
    fn add(&mut self, key: &str, value: &Json, deltas: &mut Vec<Delta>) {
        let value_text = serde_json::from_str::<String>(value.as_str()).ok();
        match (key, value_text) {
            ("role", _) => {}
            _ if value.as_str() == "null" => {}
            ("tool_calls", _) => {
                let calls: Vec<Fields> = serde_json::from_str(value.as_str()).unwrap_or_default();
                deltas.extend(calls.iter().filter_map(|call| self.call(call)));
            }
            ("content", None) => {
                let parts: Vec<Json> = serde_json::from_str(value.as_str()).unwrap_or_default();
                deltas.extend(parts.iter().filter_map(|part| self.part(part)));
            }
            (_, Some(text)) if text.is_empty() => {}
            ("content", Some(text)) => deltas.push(self.words(key, text, Channel::Text)),
            ("refusal", Some(text)) => {
                self.refused = true;
                deltas.push(self.words(key, text, Channel::Text));
            }
            (key, Some(text)) if THINKING.contains(&key) => {
                deltas.push(self.words(key, text, Channel::Thinking));
            }
            (key, _) => self.field(key, value),
        }
    }

    /// Takes words of a field. They go on with the newest words if those are of the same field, and begin a block otherwise: what is
    /// said as it comes is how the message begins.
    fn words(&mut self, key: &str, more: String, channel: Channel) -> Delta {
        let newest = self.slots.iter().rposition(Slot::is_said).unwrap_or(self.slots.len());
        let block = match self.slots.get_mut(newest) {
            Some(Slot::Words { field, text }) if field == key => {
                text.push_str(&more);
                newest
            }
            _ => {
                self.slots.push(Slot::Words { field: key.to_owned(), text: more.clone() });
                self.slots.len() - 1
            }
        };
        Delta { channel, block: neutral::index(block), text: more }
    }

    fn part(&mut self, part: &Json) -> Option<Delta> {
        let fields = Fields::parse(part.as_str()).unwrap_or_default();
        match fields.text("type").as_deref() {
            Some("text") => Some(self.words("content", fields.text("text")?, Channel::Text)),
            Some("thinking") => Some(self.thinking_part(fields)),
            _ => {
                self.slots.push(Slot::Part(part.clone()));
                None
            }
        }
    }

    fn thinking_part(&mut self, part: Fields) -> Delta {
        let words: Vec<Fields> = part
            .get("thinking")
            .and_then(|list| serde_json::from_str(list.as_str()).ok())
            .unwrap_or_default();
        let more: String = words.iter().filter_map(|word| word.text("text")).collect();
        if let Some(Slot::ThinkingPart { part: held, text }) = self.slots.last_mut() {
            text.push_str(&more);
            // A signature, for one, comes with the last of them.
            for (key, value) in part.iter().filter(|(key, _)| *key != "thinking") {
                held.set(key, value.clone());
            }
        } else {
            self.slots.push(Slot::ThinkingPart { part, text: more.clone() });
        }
        let block = neutral::index(self.slots.len() - 1);
        Delta { channel: Channel::Thinking, block, text: more }
    }

    /// Takes a piece of a call. Servers number them, but some give every one the same number, and some none.
    fn call(&mut self, piece: &Fields) -> Option<Delta> {
        let index = piece.get("index").and_then(|index| index.as_str().parse().ok());
        let id = piece.text("id").filter(|id| !id.is_empty());
        let continues = |call: &Call| {
            let same_place = index.is_none() || call.index == index;
            let known = call.fields.text("id").filter(|id| !id.is_empty());
            same_place && (id.is_none() || known.is_none() || known == id)
        };
        let found = self.slots.iter().rposition(|slot| matches!(slot, Slot::Call(call) if continues(call)));
        let at = found.unwrap_or(self.slots.len());
        if found.is_none() {
            let empty = Call {
                index,
                fields: Fields::default(),
                function: Fields::default(),
                arguments: String::new(),
            };
            self.slots.push(Slot::Call(empty));
        }
        let Some(Slot::Call(call)) = self.slots.get_mut(at) else { return None };
        let text = call.grow(piece);
        Some(Delta { channel: Channel::ToolInput, block: neutral::index(at), text })
    }

    fn field(&mut self, key: &str, more: &Json) {
        let found = self.slots.iter_mut().find_map(|slot| match slot {
            Slot::Field { field, value } if field == key => Some(value),
            _ => None,
        });
        match found {
            Some(held) => *held = joined(held, more),
            None => self.slots.push(Slot::Field { field: key.to_owned(), value: more.clone() }),
        }
    }
}

impl Call {
    /// Adds a piece and returns what it adds to the arguments.
    fn grow(&mut self, piece: &Fields) -> String {
        let mut added = String::new();
        for (key, value) in piece.iter().filter(|(key, _)| *key != "index") {
            if key != "function" {
                let empty = matches!(value.as_str(), "null" | "\"\"");
                if !empty || self.fields.get(key).is_none() {
                    self.fields.set(key, value.clone());
                }
                continue;
            }
            // Keeps the place of `function` among the others.
            self.fields.set(key, Json::null());
            for (key, value) in Fields::parse(value.as_str()).unwrap_or_default().iter() {
                if key == "arguments" && value.as_str() != "null" {
                    added = argument_text(value);
                    self.arguments.push_str(&added);
                }
                if self.function.text(key).is_none_or(|held| held.is_empty()) {
                    self.function.set(key, value.clone());
                }
            }
        }
        added
    }
}

impl Slot {
    /// Whether it has a place among the words. Calls and other fields stand beside them.
    fn is_said(&self) -> bool {
        match self {
            Self::Words { .. } | Self::ThinkingPart { .. } | Self::Part(_) => true,
            Self::Call(_) | Self::Field { .. } => false,
        }
    }

    fn close(self, at: usize) -> Block {
        match self {
            Self::Words { field, text } => {
                let sent = fragment(&field, json_text(&text));
                let view = match THINKING.contains(&field.as_str()) {
                    true => View::Thinking { text, signature: None },
                    false => View::Text { text },
                };
                neutral::block(WIRE, view.clone(), sent, own(&view).as_ref())
            }
            Self::ThinkingPart { mut part, text } => {
                part.set("thinking", to_json(&[text_part(&text)]));
                let sent = fragment("content", to_json(&[part]));
                neutral::block(WIRE, View::Thinking { text, signature: None }, sent, None)
            }
            Self::Part(part) => {
                neutral::block(WIRE, View::Unknown, fragment("content", to_json(&[part])), None)
            }
            Self::Field { field, value } => {
                neutral::block(WIRE, View::Unknown, fragment(&field, value), None)
            }
            Self::Call(call) => call.close(at),
        }
    }
}

impl Call {
    fn close(mut self, at: usize) -> Block {
        let kind = self.fields.text("type").filter(|kind| !kind.is_empty());
        if kind.is_some_and(|kind| kind != "function") {
            let sent = fragment("tool_calls", to_json(&[self.fields]));
            return neutral::block(WIRE, View::Unknown, sent, None);
        }
        self.function.set_text("arguments", &self.arguments);
        self.fields.set("function", self.function.to_json());
        let view = View::ToolUse {
            // The id is ours to make up where a server has none.
            id: self.fields.text("id").filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{at}")),
            name: self.function.text("name").unwrap_or_default(),
            input: arguments(&self.arguments).on_one_line(),
        };
        let sent = fragment("tool_calls", to_json(&[self.fields]));
        neutral::block(WIRE, view.clone(), sent, own(&view).as_ref())
    }
}
