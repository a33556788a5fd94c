//! From the neutral request to a Chat Completions body.

use bytes::Bytes;
use serde::Serialize;
use weir_types::{Block, Hash, Json, Message, Request, Role, Source, ToolDefinition, View};

use super::fragment::{Assembly, fragment, own, text_part};
use super::{Server, WIRE};
use crate::ModelError;
use crate::fields::{Fields, json_text, object, to_json};
use crate::wires::neutral::{
    self, data_url, document_text, fitting_id, left_out, result_text, results_first,
};

/// Longest id that OpenAI takes.
const ID_CHARS_MAX: usize = 40;

/// The only length that Mistral takes.
const MISTRAL_ID_CHARS: usize = 9;

/// Between the texts of one message, for servers that take a single one.
const BETWEEN: &str = "\n\n";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    stream: bool,
    /// Mistral reports usage without being asked, and refuses to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Json,
}

pub(super) fn body(request: &Request, server: Server) -> Result<Bytes, ModelError> {
    let mut messages = Vec::new();
    for message in &request.messages {
        match message.role {
            Role::User => messages.extend(user(message, server)),
            Role::Assistant => messages.extend(assistant(message, server)),
        }
    }
    let empty = messages.is_empty();
    if !request.system.is_empty() {
        messages.insert(0, said("system", json_text(&request.system)));
    }
    let limit = Some(request.output_tokens_max);
    let body = Body {
        model: &request.model,
        messages,
        tools: request.tools.iter().map(Tool::of).collect(),
        max_tokens: limit.filter(|_| server != Server::Openai),
        max_completion_tokens: limit.filter(|_| server == Server::Openai),
        stream: true,
        stream_options: (server != Server::Mistral).then_some(StreamOptions { include_usage: true }),
    };
    neutral::write(&body, empty)
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let function =
            Function { name: &tool.name, description: &tool.description, parameters: &tool.schema };
        Self { r#type: "function", function }
    }
}

fn said(role: &str, content: Json) -> Json {
    object([("role", json_text(role)), ("content", content)])
}

/// The results as messages of their own, then what the user said.
fn user(message: &Message, server: Server) -> Vec<Json> {
    let (results, others) = results_first(&message.content);
    let mut messages: Vec<Json> = results.into_iter().filter_map(|block| result(block, server)).collect();
    let parts: Vec<Part> = others.into_iter().filter_map(|block| Part::of(block, server)).collect();
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::Other(_) => None,
    };
    match parts.iter().map(text).collect::<Option<Vec<String>>>() {
        Some(texts) if texts.is_empty() => {}
        Some(texts) => messages.push(said("user", json_text(&texts.join(BETWEEN)))),
        None => {
            let parts: Vec<Json> = parts.into_iter().map(Part::written).collect();
            messages.push(said("user", to_json(&parts)));
        }
    }
    messages
}

fn result(block: &Block, server: Server) -> Option<Json> {
    let View::ToolResult { id, content, failed, .. } = &block.view else { return None };
    Some(object([
        ("role", json_text("tool")),
        ("tool_call_id", json_text(&call_id(id, server))),
        ("content", json_text(&result_text(content, *failed))),
    ]))
}

/// A part of what the user said.
enum Part {
    Text(String),
    Other(Json),
}

impl Part {
    fn of(block: &Block, server: Server) -> Option<Self> {
        if let Some(sent) = block.sent_as(WIRE.as_str()) {
            return Some(Self::Other(sent.clone()));
        }
        match &block.view {
            View::Text { text } if text.is_empty() => None,
            View::Text { text } => Some(Self::Text(text.clone())),
            View::Image { media_type, source } => Some(Self::Other(image(media_type, source))),
            View::Document { media_type, title, source } => {
                let title = title.as_deref();
                let text = document_text(media_type, title, source).map(Self::Text);
                text.or_else(|| file(media_type, title, source, server).map(Self::Other))
                    .or_else(|| left_out(&block.view).map(Self::Text))
            }
            View::Thinking { .. } | View::ToolUse { .. } | View::ToolResult { .. } | View::Unknown => None,
        }
    }

    fn written(self) -> Json {
        match self {
            Self::Text(text) => text_part(&text),
            Self::Other(json) => json,
        }
    }
}

fn image(media_type: &str, source: &Source) -> Json {
    let url = object([("url", json_text(&data_url(media_type, source)))]);
    object([("type", json_text("image_url")), ("image_url", url)])
}

/// A document as only OpenAI takes it.
fn file(media_type: &str, title: Option<&str>, source: &Source, server: Server) -> Option<Json> {
    let inline = matches!(source, Source::Base64(_)) && media_type == "application/pdf";
    (inline && server == Server::Openai).then(|| {
        let filename = json_text(title.unwrap_or("document.pdf"));
        let file_data = json_text(&data_url(media_type, source));
        let file = object([("filename", filename), ("file_data", file_data)]);
        object([("type", json_text("file")), ("file", file)])
    })
}

fn assistant(message: &Message, server: Server) -> Option<Json> {
    let mut assembly = Assembly::default();
    for block in &message.content {
        if let Some(fragment) = spoken(block, server) {
            assembly.add(&fragment);
        }
    }
    (!assembly.is_empty()).then(|| assembly.message())
}

/// What an assistant said, as a fragment.
fn spoken(block: &Block, server: Server) -> Option<Json> {
    if let View::ToolUse { id, name, input } = &block.view {
        let id = call_id(id, server);
        return match block.sent_as(WIRE.as_str()) {
            Some(sent) => Some(with_id(sent, &id)),
            None => own(&View::ToolUse { id, name: name.clone(), input: input.clone() }),
        };
    }
    match block.sent_as(WIRE.as_str()) {
        Some(sent) if server == Server::Mistral => known_to_mistral(sent),
        Some(sent) => Some(sent.clone()),
        None if block.as_text().is_some_and(str::is_empty) => None,
        None => own(&block.view),
    }
}

/// A field that another server of this wire made up is refused by Mistral.
fn known_to_mistral(sent: &Json) -> Option<Json> {
    let fields = Fields::parse(sent.as_str())?;
    let known = fields.iter().all(|(key, _)| matches!(key, "content" | "tool_calls"));
    known.then(|| sent.clone())
}

/// The call as sent, but with the id the conversation knows.
fn with_id(sent: &Json, id: &str) -> Json {
    let calls = Fields::parse(sent.as_str())
        .and_then(|fields| serde_json::from_str::<Vec<Fields>>(fields.get("tool_calls")?.as_str()).ok());
    match calls {
        Some(mut calls) if calls.len() == 1 && calls[0].text("id").as_deref() != Some(id) => {
            calls[0].set_text("id", id);
            fragment("tool_calls", to_json(&calls))
        }
        _ => sent.clone(),
    }
}

fn call_id(id: &str, server: Server) -> String {
    match server {
        Server::Openai | Server::Compatible => fitting_id(id, ID_CHARS_MAX),
        Server::Mistral if id.len() == MISTRAL_ID_CHARS && id.bytes().all(|c| c.is_ascii_alphanumeric()) => {
            id.to_owned()
        }
        Server::Mistral => Hash::of(id.as_bytes()).to_string()[..MISTRAL_ID_CHARS].to_owned(),
    }
}
