//! Events of messages, as vendors send them: with calls of the client's tools, pings and signatures.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_types::Json;

use super::left_out::{Counts, Out};
use super::{Heard, OPEN_MAX, arguments, object, text, too_many, words};

#[derive(Debug, Default)]
pub(super) struct Reader {
    calls: BTreeMap<u64, Call>,
    usage: Usage,
    /// Whether there was an event that could be of no other format.
    is_known: bool,
}

/// Running totals: a later event has the fields that changed.
#[derive(Debug, Default)]
struct Usage {
    input: u64,
    cache_creation: u64,
    cache_read: u64,
    output: u64,
}

#[derive(Debug)]
struct Call {
    id: String,
    tool: String,
    input: Value,
    written: String,
    /// The frame it began in.
    frame: usize,
}

/// What is known of usage.
const USAGE: [&str; 4] =
    ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];

impl Reader {
    pub(super) fn read(&mut self, data: &str, heard: &mut Out<'_>) -> Result<(), String> {
        let event = object(data)?;
        let index = event["index"].as_u64().unwrap_or_default();
        let kind = event["type"].as_str().ok_or("it has no type")?;
        match kind {
            "message_start" => {
                let message = &event["message"];
                self.usage = Usage::default();
                self.usage.add(&message["usage"]);
                heard.push(Heard::Begun { id: words(&message["id"]), model: words(&message["model"]) });
                heard.other_parts("message.", message, &["id", "type", "role", "model", "usage"]);
                heard.leave_out_others("usage.", &message["usage"], &USAGE);
            }
            "content_block_start" => self.start(index, &event["content_block"], heard)?,
            "content_block_delta" => self.delta(index, &event["delta"], heard),
            "content_block_stop" => {
                if let Some(Call { id, tool, input, written, .. }) = self.calls.remove(&index) {
                    let input = if written.is_empty() { Json::of(&input) } else { arguments(&written) };
                    heard.push(Heard::Called { id, tool, input });
                }
            }
            "message_delta" => {
                let usage = &event["usage"];
                heard.other_parts("message_delta.", &event["delta"], &["stop_reason"]);
                heard.other_parts("message_delta.", &event, &["type", "delta", "usage"]);
                heard.push(Heard::Finished { reason: words(&event["delta"]["stop_reason"]) });
                if usage.is_object() {
                    self.usage.add(usage);
                    heard.leave_out_others("usage.", usage, &USAGE);
                    heard.push(Heard::Used {
                        input_tokens: self.usage.sent(),
                        output_tokens: self.usage.output,
                    });
                }
            }
            "message_stop" => heard.push(Heard::Done),
            "error" => {
                let error = &event["error"];
                if !error.is_object() {
                    return Err("an error that does not say which".to_owned());
                }
                if text(&error["message"]).is_some() {
                    heard.leave_out_others("error.", error, &["message"]);
                }
                heard.push(Heard::Broken(text(&error["message"]).unwrap_or_else(|| error.to_string())));
            }
            "ping" => {}
            // Of a later version: whoever speaks so has said something that is known before.
            _ if self.is_known => heard.part(kind, &event),
            _ => return Err(format!("there is no event `{}`", kind.chars().take(40).collect::<String>())),
        }
        self.is_known = true;
        Ok(())
    }

    /// Calls that nothing ends.
    pub(super) fn finish(&self, left_out: &mut Counts) {
        for call in self.calls.values() {
            left_out.add("tool_use without its end", call.frame);
        }
    }

    fn start(&mut self, index: u64, block: &Value, heard: &mut Out<'_>) -> Result<(), String> {
        match block["type"].as_str() {
            Some("text") => {
                heard.extend(words(&block["text"]).map(Heard::Text));
                heard.other_parts("text.", block, &["type", "text"]);
            }
            Some("thinking") => {
                heard.extend(words(&block["thinking"]).map(Heard::Reasoning));
                heard.other_parts("thinking.", block, &["type", "thinking"]);
            }
            Some(kind @ ("tool_use" | "server_tool_use" | "mcp_tool_use")) => {
                heard.other_parts(&format!("{kind}."), block, &["type", "id", "name", "input"]);
                if self.calls.len() >= OPEN_MAX {
                    return Err(too_many());
                }
                let (id, tool) = (text(&block["id"]), text(&block["name"]));
                let call = Call {
                    id: id.unwrap_or_default(),
                    tool: tool.unwrap_or_default(),
                    input: block["input"].clone(),
                    written: String::new(),
                    frame: heard.frame,
                };
                self.calls.insert(index, call);
            }
            // An image, reasoning that is not shown, what a tool of theirs found: whatever it is.
            kind => heard.part(kind.unwrap_or("content_block"), block),
        }
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &Value, heard: &mut Out<'_>) {
        match delta["type"].as_str() {
            Some("text_delta") => heard.extend(words(&delta["text"]).map(Heard::Text)),
            Some("thinking_delta") => heard.extend(words(&delta["thinking"]).map(Heard::Reasoning)),
            Some("input_json_delta") => match self.calls.get_mut(&index) {
                Some(call) => call.written.push_str(delta["partial_json"].as_str().unwrap_or_default()),
                None => heard.part("input_json_delta", &delta["partial_json"]),
            },
            // A signature, a citation.
            kind => heard.part(kind.unwrap_or("content_block_delta"), delta),
        }
    }
}

impl Usage {
    fn add(&mut self, usage: &Value) {
        for (field, count) in [
            ("input_tokens", &mut self.input),
            ("cache_creation_input_tokens", &mut self.cache_creation),
            ("cache_read_input_tokens", &mut self.cache_read),
            ("output_tokens", &mut self.output),
        ] {
            *count = usage[field].as_u64().unwrap_or(*count);
        }
    }

    /// Everything that was sent, cached or not.
    fn sent(&self) -> u64 {
        self.input.saturating_add(self.cache_creation).saturating_add(self.cache_read)
    }
}
