//! From a stream of Messages events to an answer.

use serde::Deserialize;
use serde_json::Value;
use weir_types::{Answer, Block, FailureClass, Json, Stop, Usage, View};

use super::{WIRE, encode};
use crate::fields::{Fields, to_json};
use crate::remote::{BodyEnd, Decoder, Step};
use crate::wires::neutral::{self, InOrder, agreeing, arguments, said_nothing, without_cut_call};
use crate::{Channel, Delta, ModelError, failure};

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Messages {
    id: Option<String>,
    usage: Option<Counts>,
    blocks: Vec<Open>,
    words: InOrder,
    stop: Option<String>,
}

/// A block so far: as its start event had it, and what deltas added.
#[derive(Debug)]
struct Open {
    index: u64,
    fields: Fields,
    /// What deltas appended, by field. Arguments are text until the block is whole.
    added: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Event {
    r#type: Option<String>,
    #[serde(default)]
    index: u64,
    message: Option<Start>,
    content_block: Option<Fields>,
    delta: Option<Fields>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Start {
    id: Option<String>,
    usage: Option<Counts>,
}

/// Running totals: a later event has the fields that changed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl Decoder for Messages {
    fn event(&mut self, name: Option<&str>, data: &str, deltas: &mut Vec<Delta>) -> Result<Step, ModelError> {
        let event: Event = serde_json::from_str(data).map_err(|_| neutral::unreadable(data))?;
        match event.r#type.as_deref().or(name).unwrap_or_default() {
            "message_start" => {
                let start = event.message;
                self.id = start.as_ref().and_then(|start| start.id.clone());
                self.count(start.and_then(|start| start.usage));
            }
            "content_block_start" => {
                let fields = event.content_block.unwrap_or_default();
                self.blocks.push(Open { index: event.index, fields, added: vec![] });
                let block = self.blocks.len() - 1;
                if ["text", "thinking"].iter().any(|kind| self.blocks[block].is(kind)) {
                    self.words.begin(block);
                }
                if let Some(opening) = self.opening() {
                    self.words.say(opening, deltas);
                }
            }
            "content_block_delta" => {
                let delta = event.delta.unwrap_or_default();
                if let Some(more) = self.add(event.index, &delta) {
                    self.words.say(more, deltas);
                }
            }
            "message_delta" => {
                self.stop = event.delta.and_then(|delta| delta.text("stop_reason"));
                self.count(event.usage);
            }
            "message_stop" => return Ok(Step::End),
            "content_block_stop" => {
                if let Some(block) = self.blocks.iter().rposition(|open| open.index == event.index) {
                    self.words.end(block, deltas);
                }
            }
            "ping" => {}
            // An error, or an event of a later version, which adds nothing.
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
        let cache_read_tokens = counts.cache_read_input_tokens.unwrap_or_default();
        let cache_write_tokens = counts.cache_creation_input_tokens.unwrap_or_default();
        let fresh = counts.input_tokens.unwrap_or_default();
        Some(Usage {
            input_tokens: fresh.saturating_add(cache_read_tokens).saturating_add(cache_write_tokens),
            output_tokens: counts.output_tokens.unwrap_or_default(),
            cache_read_tokens,
            cache_write_tokens,
        })
    }

    fn answer(&mut self) -> Result<Answer, ModelError> {
        let content: Vec<Block> = std::mem::take(&mut self.blocks).into_iter().map(Open::close).collect();
        let stop = match self.stop.as_deref() {
            Some("max_tokens") => Stop::MaxTokens,
            Some("refusal") => Stop::Refused,
            Some("pause_turn") => Stop::Paused,
            Some("model_context_window_exceeded") if said_nothing(&content) => {
                let message = "the conversation fills the model's context window".to_owned();
                return Err(ModelError::said(FailureClass::ContextOverflow, message));
            }
            Some("model_context_window_exceeded") => Stop::MaxTokens,
            _ => agreeing(Stop::End, &content),
        };
        let answer = Answer { content, stop, usage: Usage::default(), provider_id: self.id.take() };
        Ok(without_cut_call(answer))
    }
}

impl Messages {
    fn count(&mut self, new: Option<Counts>) {
        let Some(new) = new else { return };
        let old = self.usage.unwrap_or_default();
        self.usage = Some(Counts {
            input_tokens: new.input_tokens.or(old.input_tokens),
            output_tokens: new.output_tokens.or(old.output_tokens),
            cache_creation_input_tokens: new.cache_creation_input_tokens.or(old.cache_creation_input_tokens),
            cache_read_input_tokens: new.cache_read_input_tokens.or(old.cache_read_input_tokens),
        });
    }

    /// What the newest block begins with; usually nothing.
    fn opening(&self) -> Option<Delta> {
        let block = self.blocks.len().checked_sub(1)?;
        let fields = &self.blocks[block].fields;
        let (channel, key) = match fields.text("type")?.as_str() {
            "text" => (Channel::Text, "text"),
            "thinking" => (Channel::Thinking, "thinking"),
            _ => return None,
        };
        Some(Delta { channel, block: neutral::index(block), text: fields.text(key)? })
    }

    fn add(&mut self, index: u64, delta: &Fields) -> Option<Delta> {
        let block = self.blocks.iter().rposition(|open| open.index == index)?;
        let open = &mut self.blocks[block];
        let kind = delta.text("type").unwrap_or_default();
        if kind == "citations_delta" {
            open.cite(delta.get("citation")?);
            return None;
        }
        let mut shown = None;
        for (key, value) in delta.iter().filter(|(key, _)| *key != "type") {
            let Ok(text) = serde_json::from_str::<String>(value.as_str()) else {
                open.fields.set(key, value.clone());
                continue;
            };
            let key = if key == "partial_json" { "input" } else { key };
            let channel = match kind.as_str() {
                "text_delta" => Some(Channel::Text),
                "thinking_delta" => Some(Channel::Thinking),
                "input_json_delta" if open.is("tool_use") => Some(Channel::ToolInput),
                _ => None,
            };
            open.append(key, &text);
            shown = channel.map(|channel| Delta { channel, block: neutral::index(block), text });
        }
        shown
    }
}

impl Open {
    fn is(&self, kind: &str) -> bool {
        self.fields.text("type").as_deref() == Some(kind)
    }

    fn append(&mut self, key: &str, text: &str) {
        match self.added.iter_mut().find(|(name, _)| name == key) {
            Some((_, added)) => added.push_str(text),
            None => self.added.push((key.to_owned(), text.to_owned())),
        }
    }

    fn cite(&mut self, citation: &Json) {
        let held = self.fields.get("citations").map(|list| serde_json::from_str(list.as_str()));
        let mut citations: Vec<Json> = held.and_then(Result::ok).unwrap_or_default();
        citations.push(citation.clone());
        self.fields.set("citations", to_json(&citations));
    }

    fn close(mut self) -> Block {
        for (key, added) in std::mem::take(&mut self.added) {
            if key == "input" {
                self.fields.set(&key, arguments(&added));
                continue;
            }
            let begun = self.fields.text(&key).unwrap_or_default();
            self.fields.set_text(&key, &(begun + &added));
        }
        let view = self.view();
        // Arguments that are no object cannot go back as they came.
        if matches!(&view, View::ToolUse { input, .. } if !input.as_str().starts_with('{')) {
            return view.into();
        }
        neutral::block(WIRE, view.clone(), self.fields.to_json(), encode::own(&view).as_ref())
    }

    fn view(&self) -> View {
        let text = |key: &str| self.fields.text(key).unwrap_or_default();
        match text("type").as_str() {
            "text" => View::Text { text: text("text") },
            "thinking" => View::Thinking { text: text("thinking"), signature: self.fields.text("signature") },
            "tool_use" => View::ToolUse {
                id: text("id"),
                name: text("name"),
                input: self.fields.get("input").map_or_else(Json::empty_object, Json::on_one_line),
            },
            _ => View::Unknown,
        }
    }
}
