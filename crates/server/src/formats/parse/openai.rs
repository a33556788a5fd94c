//! Chunks of chat completions, as vendors send them: with tool calls in fragments.

use std::collections::BTreeMap;

use serde_json::Value;

use super::left_out::{Counts, Out};
use super::{Heard, OPEN_MAX, arguments, object, text, too_many, words};

/// Fields that every chunk repeats with the same value; one that changes is kept again.
const REPEATED_MAX: usize = 64;

/// What is known of usage; `total_tokens` is the sum, and cached tokens are part of those that were sent.
const USAGE: [&str; 4] = ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"];

#[derive(Debug, Default)]
pub(super) struct Reader {
    begun: bool,
    calls: BTreeMap<u64, Call>,
    repeated: BTreeMap<String, Value>,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    tool: String,
    arguments: String,
    /// The frame it began in.
    frame: usize,
}

impl Reader {
    pub(super) fn read(&mut self, data: &str, heard: &mut Out<'_>) -> Result<(), String> {
        if data.trim() == "[DONE]" {
            self.flush(heard);
            heard.push(Heard::Done);
            return Ok(());
        }
        let chunk = object(data)?;
        // What has a type is an event of another format.
        if let Some(error) =
            chunk.get("error").filter(|error| !error.is_null() && chunk.get("type").is_none())
        {
            if text(&error["message"]).is_some() {
                heard.leave_out_others("error.", error, &["message"]);
            }
            heard.push(Heard::Broken(text(&error["message"]).unwrap_or_else(|| error.to_string())));
            return Ok(());
        }
        let none = Vec::new();
        let choices = match chunk["choices"].as_array() {
            Some(choices) => choices,
            None if chunk["object"] == "chat.completion.chunk" => &none,
            None => return Err("it has no list of `choices`".to_owned()),
        };
        if !std::mem::replace(&mut self.begun, true) {
            heard.push(Heard::Begun { id: words(&chunk["id"]), model: words(&chunk["model"]) });
        }
        // Other choices are other answers.
        let is_first = |choice: &&Value| choice["index"].as_u64().unwrap_or_default() == 0;
        self.around(&chunk, heard);
        for (at, choice) in choices.iter().enumerate() {
            if !is_first(&choice) || choices.iter().position(|choice| is_first(&choice)) != Some(at) {
                heard.leave_out(&format!("choices[{}]", choice["index"].as_u64().unwrap_or(at as u64)));
            }
        }
        let choice = choices.iter().find(is_first).unwrap_or(&Value::Null);
        heard.leave_out_others("choices[0].", choice, &["index", "delta", "finish_reason"]);
        self.delta(&choice["delta"], heard)?;
        if let Some(reason) = words(&choice["finish_reason"]) {
            self.flush(heard);
            heard.push(Heard::Finished { reason: Some(reason) });
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            heard.leave_out_others("usage.", usage, &USAGE);
            heard.push(Heard::Used {
                input_tokens: usage["prompt_tokens"].as_u64().unwrap_or_default(),
                output_tokens: usage["completion_tokens"].as_u64().unwrap_or_default(),
            });
        }
        Ok(())
    }

    /// What a chunk says beside its choices.
    fn around(&mut self, chunk: &Value, heard: &mut Out<'_>) {
        for (name, value) in chunk.as_object().into_iter().flatten() {
            match name.as_str() {
                "id" | "object" | "created" | "model" | "choices" | "usage" | "error" => {}
                // Made to be as long as it is, and to say nothing.
                "obfuscation" => heard.leave_out(name),
                _ if self.repeated.get(name) == Some(value) => {}
                _ if value.is_null() => {}
                _ => {
                    heard.part(name, value);
                    if self.repeated.len() < REPEATED_MAX {
                        self.repeated.insert(name.clone(), value.clone());
                    }
                }
            }
        }
    }

    fn delta(&mut self, delta: &Value, heard: &mut Out<'_>) -> Result<(), String> {
        let reasoning = words(&delta["reasoning_content"]);
        let is_said_twice = reasoning.is_none() || reasoning == words(&delta["reasoning"]);
        let more = if is_said_twice { "reasoning" } else { "" };
        heard.extend(reasoning.or_else(|| words(&delta["reasoning"])).map(Heard::Reasoning));
        heard.extend(words(&delta["content"]).map(Heard::Text));
        heard.extend(words(&delta["refusal"]).map(Heard::Refusal));
        let content = if delta["content"].is_string() { "content" } else { "" };
        heard.other_parts(
            "delta.",
            delta,
            &["role", "reasoning_content", more, content, "refusal", "tool_calls"],
        );
        for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            heard.other_parts("tool_calls.", call, &["index", "id", "type", "function"]);
            heard.other_parts("tool_calls.function.", &call["function"], &["name", "arguments"]);
            self.call(call["index"].as_u64().unwrap_or(at as u64), call, heard.frame)?;
        }
        Ok(())
    }

    /// Calls that nothing ends.
    pub(super) fn finish(&self, left_out: &mut Counts) {
        for call in self.calls.values() {
            left_out.add("tool_calls without their end", call.frame);
        }
    }

    fn call(&mut self, index: u64, fragment: &Value, frame: usize) -> Result<(), String> {
        if self.calls.len() >= OPEN_MAX && !self.calls.contains_key(&index) {
            return Err(too_many());
        }
        let call = self.calls.entry(index).or_insert_with(|| Call { frame, ..Call::default() });
        let function = &fragment["function"];
        if let Some(id) = words(&fragment["id"]) {
            call.id = id;
        }
        if let Some(name) = words(&function["name"]) {
            call.tool = name;
        }
        call.arguments.push_str(function["arguments"].as_str().unwrap_or_default());
        Ok(())
    }

    fn flush(&mut self, heard: &mut Out<'_>) {
        for Call { id, tool, arguments: written, .. } in std::mem::take(&mut self.calls).into_values() {
            heard.push(Heard::Called { id, tool, input: arguments(&written) });
        }
    }
}
