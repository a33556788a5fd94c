//! From the neutral request to a `generateContent` body. The model is in the URL.

use std::collections::HashSet;

use bytes::Bytes;
use serde::Serialize;
use weir_types::{Block, Json, Message, Request, Role, Source, ToolDefinition, View};

use super::WIRE;
use crate::ModelError;
use crate::fields::{Fields, json_text, object, to_json};
use crate::wires::neutral::{self, document_text, left_out, result_text, results_first};

/// What Google documents as the signature of a call that another provider's model made; without any, newer models
/// refuse the conversation.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content>,
    contents: Vec<Content>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Json>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallPart<'a> {
    function_call: Call<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    name: &'a str,
    args: Json,
}

pub(super) fn body(request: &Request) -> Result<Bytes, ModelError> {
    let system =
        (!request.system.is_empty()).then(|| Content { role: None, parts: vec![text_part(&request.system)] });
    let functions: Vec<Function<'_>> = request.tools.iter().map(Function::of).collect();
    let body = Body {
        system_instruction: system,
        contents: Contents::new(&request.model).all(&request.messages),
        tools: if functions.is_empty() { vec![] } else { vec![Tools { function_declarations: functions }] },
        generation_config: GenerationConfig { max_output_tokens: request.output_tokens_max },
    };
    neutral::write(&body, body.contents.is_empty())
}

impl<'a> Function<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        Self { name: &tool.name, description: &tool.description, parameters_json_schema: &tool.schema }
    }
}

/// Writes the conversation, and remembers which calls went out with an id: only their results have one.
struct Contents {
    signs_foreign: bool,
    with_id: HashSet<String>,
}

impl Contents {
    fn new(model: &str) -> Self {
        let older = ["gemini-1", "gemini-2"].iter().any(|family| model.starts_with(family));
        Self { signs_foreign: !older, with_id: HashSet::new() }
    }

    fn all(mut self, messages: &[Message]) -> Vec<Content> {
        let mut contents: Vec<Content> = Vec::new();
        for message in messages {
            let (role, parts) = match message.role {
                Role::User => ("user", self.user(message)),
                Role::Assistant => ("model", self.model(message)),
            };
            match contents.last_mut() {
                _ if parts.is_empty() => {}
                // A message that could not be sent leaves two of the same side together.
                Some(last) if last.role == Some(role) => last.parts.extend(parts),
                _ => contents.push(Content { role: Some(role), parts }),
            }
        }
        contents
    }

    fn user(&self, message: &Message) -> Vec<Json> {
        let (results, others) = results_first(&message.content);
        // Pictures that tools returned stand after all results.
        let pictures = results.iter().flat_map(|block| match &block.view {
            View::ToolResult { content, .. } => content.iter().filter(|block| is_media(block)).collect(),
            _ => vec![],
        });
        let pictures: Vec<Json> = pictures.filter_map(said).collect();
        let results = results.iter().filter_map(|block| self.result(block));
        results.chain(pictures).chain(others.into_iter().filter_map(said)).collect()
    }

    fn result(&self, block: &Block) -> Option<Json> {
        let View::ToolResult { id, name, content, failed } = &block.view else { return None };
        let words: Vec<Block> = content.iter().filter(|block| !is_media(block)).cloned().collect();
        let key = if *failed { "error" } else { "output" };
        let response = object([(key, json_text(&result_text(&words, false)))]);
        let mut result = Fields::default();
        if self.with_id.contains(id) {
            result.set_text("id", id);
        }
        result.set_text("name", name);
        result.set("response", response);
        Some(object([("functionResponse", result.to_json())]))
    }

    fn model(&mut self, message: &Message) -> Vec<Json> {
        let mut parts = Vec::new();
        let mut called = false;
        for block in &message.content {
            let is_call = matches!(block.view, View::ToolUse { .. });
            parts.extend(match block.sent_as(WIRE.as_str()) {
                Some(sent) => Some(self.verbatim(block, sent)),
                // Only the first of parallel calls carries a signature.
                None if is_call && self.signs_foreign && !called => own(&block.view, Some(FOREIGN_SIGNATURE)),
                None if block.as_text().is_some_and(str::is_empty) => None,
                None => own(&block.view, None),
            });
            called |= is_call;
        }
        parts
    }

    /// The part as sent, but with the id the conversation knows, if it had one.
    fn verbatim(&mut self, block: &Block, sent: &Json) -> Json {
        let View::ToolUse { id, .. } = &block.view else { return sent.clone() };
        let part = Fields::parse(sent.as_str());
        let call = part.as_ref().and_then(|part| Fields::parse(part.get("functionCall")?.as_str()));
        let (Some(mut part), Some(mut call)) = (part, call) else { return sent.clone() };
        let Some(sent_id) = call.text("id") else { return sent.clone() };
        self.with_id.insert(id.clone());
        if sent_id == *id {
            return sent.clone();
        }
        call.set_text("id", id);
        part.set("functionCall", call.to_json());
        part.to_json()
    }
}

fn is_media(block: &Block) -> bool {
    match &block.view {
        View::Image { .. } => true,
        View::Document { media_type, .. } => media_type == "application/pdf",
        _ => false,
    }
}

/// A part of what the user said, or of what a tool answered.
fn said(block: &Block) -> Option<Json> {
    match &block.view {
        View::Text { text } if text.is_empty() => None,
        View::Text { text } => Some(text_part(text)),
        View::Image { media_type, source } => Some(media(media_type, source)),
        View::Document { media_type, title, source } => {
            if let Some(text) = document_text(media_type, title.as_deref(), source) {
                return Some(text_part(&text));
            }
            match media_type.as_str() {
                "application/pdf" => Some(media(media_type, source)),
                _ => left_out(&block.view).map(|text| text_part(&text)),
            }
        }
        View::Thinking { .. } | View::ToolUse { .. } | View::ToolResult { .. } | View::Unknown => None,
    }
}

fn media(media_type: &str, source: &Source) -> Json {
    let (place, key, value) = match source {
        Source::Base64(data) => ("inlineData", "data", data),
        Source::Url(url) => ("fileData", "fileUri", url),
    };
    object([(place, object([("mimeType", json_text(media_type)), (key, json_text(value))]))])
}

fn text_part(text: &str) -> Json {
    object([("text", json_text(text))])
}

/// The view as a part.
pub(super) fn own(view: &View, thought_signature: Option<&str>) -> Option<Json> {
    match view {
        View::Text { text } => Some(text_part(text)),
        View::ToolUse { name, input, .. } => {
            let function_call = Call { name, args: neutral::object_arguments(input) };
            Some(to_json(&CallPart { function_call, thought_signature }))
        }
        View::Thinking { .. }
        | View::ToolResult { .. }
        | View::Image { .. }
        | View::Document { .. }
        | View::Unknown => None,
    }
}
