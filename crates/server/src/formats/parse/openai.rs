//! Chunks of chat completions, as vendors send them: with tool calls in fragments.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Heard, OPEN_MAX, arguments, object, text, too_many, words};

#[derive(Debug, Default)]
pub(super) struct Reader {
    begun: bool,
    calls: BTreeMap<u64, Call>,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    tool: String,
    arguments: String,
}

impl Reader {
    pub(super) fn read(&mut self, data: &str, heard: &mut Vec<Heard>) -> Result<(), String> {
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
        let choice = choices.iter().find(is_first).unwrap_or(&Value::Null);
        let delta = &choice["delta"];
        let reasoning = words(&delta["reasoning_content"]).or_else(|| words(&delta["reasoning"]));
        heard.extend(reasoning.map(Heard::Reasoning));
        heard.extend(words(&delta["content"]).or_else(|| words(&delta["refusal"])).map(Heard::Text));
        for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            self.call(call["index"].as_u64().unwrap_or(at as u64), call)?;
        }
        if let Some(reason) = words(&choice["finish_reason"]) {
            self.flush(heard);
            heard.push(Heard::Finished { reason: Some(reason) });
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            heard.push(Heard::Used {
                input_tokens: usage["prompt_tokens"].as_u64().unwrap_or_default(),
                output_tokens: usage["completion_tokens"].as_u64().unwrap_or_default(),
            });
        }
        Ok(())
    }

    fn call(&mut self, index: u64, fragment: &Value) -> Result<(), String> {
        if self.calls.len() >= OPEN_MAX && !self.calls.contains_key(&index) {
            return Err(too_many());
        }
        let call = self.calls.entry(index).or_default();
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

    fn flush(&mut self, heard: &mut Vec<Heard>) {
        for Call { id, tool, arguments: written } in std::mem::take(&mut self.calls).into_values() {
            heard.push(Heard::Called { id, tool, input: arguments(&written) });
        }
    }
}
