//! From the neutral request to a Messages body.

use bytes::Bytes;
use serde::Serialize;
use weir_types::{Block, Json, Message, Request, Role, Source, View};

use super::WIRE;
use crate::ModelError;
use crate::fields::{Fields, to_json};
use crate::wires::neutral::{self, document_text, fitting_id, left_out, results_first};

/// Longest id of a call that is passed on as it is.
const ID_CHARS_MAX: usize = 64;

/// What Anthropic takes as pictures.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    /// Caches the longest prefix, and moves along as the conversation grows.
    cache_control: Kind,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Turn>,
    stream: bool,
}

#[derive(Serialize)]
struct Kind {
    r#type: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: &'a Json,
}

#[derive(Serialize)]
struct Turn {
    role: &'static str,
    content: Vec<Json>,
}

pub(super) fn body(request: &Request) -> Result<Bytes, ModelError> {
    let body = Body {
        model: &request.model,
        max_tokens: request.output_tokens_max,
        cache_control: Kind { r#type: "ephemeral" },
        system: &request.system,
        tools: (request.tools.iter())
            .map(|tool| Tool { name: &tool.name, description: &tool.description, input_schema: &tool.schema })
            .collect(),
        messages: turns(&request.messages),
        stream: true,
    };
    neutral::write(&body, body.messages.is_empty())
}

fn turns(messages: &[Message]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let (results, others) = results_first(&message.content);
        let content: Vec<Json> = results.into_iter().chain(others).filter_map(block).collect();
        match turns.last_mut() {
            _ if content.is_empty() => {}
            // A message that could not be sent leaves two of the same side together.
            Some(last) if last.role == role => last.content.extend(content),
            _ => turns.push(Turn { role, content }),
        }
    }
    turns
}

/// A block for Anthropic, if there is anything to say.
fn block(block: &Block) -> Option<Json> {
    if let View::Text { text } = &block.view
        && text.trim().is_empty()
    {
        return None;
    }
    let Some(sent) = block.sent_as(WIRE.as_str()) else {
        return match (&block.view, &block.sent) {
            // The thoughts of another provider's model, or of one without a proof, are refused.
            (View::Thinking { .. }, Some(_)) | (View::Thinking { signature: None, .. }, None) => None,
            (view, _) => own(view),
        };
    };
    match &block.view {
        View::ToolUse { id, .. } => Some(with_id(sent, "id", &fitting_id(id, ID_CHARS_MAX))),
        View::ToolResult { id, .. } => Some(with_id(sent, "tool_use_id", &fitting_id(id, ID_CHARS_MAX))),
        _ => Some(sent.clone()),
    }
}

/// The block as sent, but with the id the conversation knows.
fn with_id(sent: &Json, key: &str, id: &str) -> Json {
    match Fields::parse(sent.as_str()) {
        Some(mut fields) if fields.text(key).as_deref() != Some(id) => {
            fields.set_text(key, id);
            fields.to_json()
        }
        _ => sent.clone(),
    }
}

/// The view in Anthropic's words.
pub(super) fn own(view: &View) -> Option<Json> {
    let written = match view {
        View::Text { text } => to_json(&Text { r#type: "text", text }),
        View::Thinking { text, signature } => {
            to_json(&Thinking { r#type: "thinking", thinking: text, signature: signature.as_deref()? })
        }
        View::ToolUse { id, name, input } => {
            let (id, input) = (fitting_id(id, ID_CHARS_MAX), neutral::object_arguments(input));
            to_json(&ToolUse { r#type: "tool_use", id, name, input })
        }
        View::ToolResult { id, content, failed, .. } => {
            let mut content: Vec<Json> = content.iter().filter_map(block).collect();
            if content.is_empty() && *failed {
                content.push(to_json(&Text { r#type: "text", text: "failed" }));
            }
            let tool_use_id = fitting_id(id, ID_CHARS_MAX);
            to_json(&ToolResult { r#type: "tool_result", tool_use_id, content, is_error: *failed })
        }
        View::Image { media_type, source } if IMAGES.contains(&media_type.as_str()) => {
            to_json(&Media { r#type: "image", source: place(media_type, source), title: None })
        }
        View::Document { media_type, title, source } => {
            if let Some(text) = document_text(media_type, title.as_deref(), source) {
                return own(&View::Text { text });
            }
            if media_type != "application/pdf" {
                return left_out(view).and_then(|text| own(&View::Text { text }));
            }
            let source = place(media_type, source);
            to_json(&Media { r#type: "document", source, title: title.as_deref() })
        }
        View::Image { .. } => return left_out(view).and_then(|text| own(&View::Text { text })),
        View::Unknown => return None,
    };
    Some(written)
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Thinking<'a> {
    r#type: &'static str,
    thinking: &'a str,
    signature: &'a str,
}

#[derive(Serialize)]
struct ToolUse<'a> {
    r#type: &'static str,
    id: String,
    name: &'a str,
    input: Json,
}

#[derive(Serialize)]
struct ToolResult {
    r#type: &'static str,
    tool_use_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    content: Vec<Json>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

#[derive(Serialize)]
struct Media<'a> {
    r#type: &'static str,
    source: Place<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Place<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

fn place<'a>(media_type: &'a str, source: &'a Source) -> Place<'a> {
    match source {
        Source::Base64(data) => Place::Base64 { media_type, data },
        Source::Url(url) => Place::Url { url },
    }
}
