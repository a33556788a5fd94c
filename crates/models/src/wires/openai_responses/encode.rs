//! From the neutral request to a Responses body.

use bytes::Bytes;
use serde::Serialize;
use weir_types::{Block, Json, Message, Request, Role, Source, ToolDefinition, View};

use super::WIRE;
use crate::ModelError;
use crate::fields::{Fields, json_text, object, to_json};
use crate::wires::neutral::{
    self, argument_text, data_url, document_text, fitting_id, left_out, marked, result_text, results_first,
};

/// Longest id of a call that OpenAI takes.
const ID_CHARS_MAX: usize = 64;

/// OpenAI takes no smaller limit.
const OUTPUT_TOKENS_MIN: u64 = 16;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    max_output_tokens: u64,
    store: bool,
    /// What makes reasoning go on in the next request, although nothing is stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    stream: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Json,
    strict: bool,
}

#[derive(Serialize)]
struct Call<'a> {
    r#type: &'static str,
    call_id: String,
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
struct Output {
    r#type: &'static str,
    call_id: String,
    output: Json,
}

#[derive(Serialize)]
struct Said {
    r#type: &'static str,
    role: &'static str,
    content: Vec<Json>,
}

pub(super) fn body(request: &Request) -> Result<Bytes, ModelError> {
    let mut input = Vec::new();
    for message in &request.messages {
        match message.role {
            Role::User => input.extend(user(message)),
            Role::Assistant => input.extend(message.content.iter().filter_map(item)),
        }
    }
    let reasons = !is_plain(&request.model);
    let body = Body {
        model: &request.model,
        instructions: &request.system,
        input,
        tools: request.tools.iter().map(Tool::of).collect(),
        max_output_tokens: request.output_tokens_max.max(OUTPUT_TOKENS_MIN),
        store: false,
        include: if reasons { vec!["reasoning.encrypted_content"] } else { vec![] },
        stream: true,
    };
    neutral::write(&body, body.input.is_empty())
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        Self {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.schema,
            strict: false,
        }
    }
}

/// Models that do not reason refuse to be asked for it.
fn is_plain(model: &str) -> bool {
    ["gpt-3", "gpt-4", "chatgpt-4", "gpt-5-chat"].iter().any(|family| model.starts_with(family))
}

/// The results as items of their own, then what the user said.
fn user(message: &Message) -> Vec<Json> {
    let (results, others) = results_first(&message.content);
    let mut items: Vec<Json> = results.into_iter().filter_map(item).collect();
    let content: Vec<Json> = others.into_iter().filter_map(part).collect();
    if !content.is_empty() {
        items.push(to_json(&Said { r#type: "message", role: "user", content }));
    }
    items
}

/// A part of what the user said, or of what a tool answered.
fn part(block: &Block) -> Option<Json> {
    match &block.view {
        View::Text { text } if text.is_empty() => None,
        View::Text { text } => Some(words("input_text", text)),
        View::Image { media_type, source } => {
            let url = json_text(&data_url(media_type, source));
            Some(object([("type", json_text("input_image")), ("image_url", url)]))
        }
        View::Document { media_type, title, source } => {
            let title = title.as_deref();
            document_text(media_type, title, source)
                .map(|text| words("input_text", &text))
                .or_else(|| file(media_type, title, source))
                .or_else(|| left_out(&block.view).map(|text| words("input_text", &text)))
        }
        View::Thinking { .. } | View::ToolUse { .. } | View::ToolResult { .. } | View::Unknown => None,
    }
}

fn words(kind: &str, text: &str) -> Json {
    object([("type", json_text(kind)), ("text", json_text(text))])
}

fn file(media_type: &str, title: Option<&str>, source: &Source) -> Option<Json> {
    let kind = ("type", json_text("input_file"));
    match source {
        Source::Url(url) => Some(object([kind, ("file_url", json_text(url))])),
        Source::Base64(_) if media_type == "application/pdf" => {
            let filename = ("filename", json_text(title.unwrap_or("document.pdf")));
            Some(object([kind, filename, ("file_data", json_text(&data_url(media_type, source)))]))
        }
        Source::Base64(_) => None,
    }
}

/// An item of the conversation: what the model said, or what a tool answered.
fn item(block: &Block) -> Option<Json> {
    let Some(sent) = block.sent_as(WIRE.as_str()) else {
        let silent = block.as_text().is_some_and(str::is_empty);
        return if silent { None } else { own(&block.view) };
    };
    let View::ToolUse { id, .. } = &block.view else { return Some(sent.clone()) };
    let id = fitting_id(id, ID_CHARS_MAX);
    match Fields::parse(sent.as_str()) {
        Some(mut fields) if fields.text("call_id").as_deref() != Some(&id) => {
            fields.set_text("call_id", &id);
            Some(fields.to_json())
        }
        _ => Some(sent.clone()),
    }
}

/// The view as an item.
pub(super) fn own(view: &View) -> Option<Json> {
    match view {
        View::Text { text } => {
            let content = vec![words("output_text", text)];
            Some(to_json(&Said { r#type: "message", role: "assistant", content }))
        }
        View::ToolUse { id, name, input } => {
            let call_id = fitting_id(id, ID_CHARS_MAX);
            Some(to_json(&Call { r#type: "function_call", call_id, name, arguments: argument_text(input) }))
        }
        View::ToolResult { id, content, failed, .. } => {
            let call_id = fitting_id(id, ID_CHARS_MAX);
            let output = output(content, *failed);
            Some(to_json(&Output { r#type: "function_call_output", call_id, output }))
        }
        View::Thinking { .. } | View::Image { .. } | View::Document { .. } | View::Unknown => None,
    }
}

/// What a tool answered: words, or a list if there is more than words.
fn output(content: &[Block], failed: bool) -> Json {
    if content.iter().all(|block| block.as_text().is_some()) {
        return to_json(&result_text(content, failed));
    }
    let mark = failed.then(|| Block::text(marked(String::new(), failed)));
    let parts: Vec<Json> = mark.iter().chain(content).filter_map(part).collect();
    to_json(&parts)
}
