//! What the document says about requests and answers of vendors' clients. Loose where the vendors are: their own documents say the
//! rest, and their own SDKs are the tests.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Chat completions, as OpenAI's clients ask for them.
///
/// Obeyed: `model` (the agent), `messages`, `stream`, `stream_options.include_usage`. Heard and not obeyed, because the agent's author has decided:
/// `temperature`, `top_p`, `frequency_penalty`, `presence_penalty`, `seed`, `max_tokens`, `max_completion_tokens`, `reasoning_effort` and whatever is not named here.
/// Refused with 400: `tools` and `functions`, `n` other than 1, `logprobs`, `top_logprobs`, `logit_bias`, `stop`, `audio`, `response_format` and `modalities` other than text.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct ChatRequest {
    /// The agent.
    model: String,
    /// The conversation. Its last message is the user's; `system` and `developer` messages are read as words of the user.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// Server-sent events instead of JSON.
    stream: Option<bool>,
}

/// A response, as OpenAI's clients ask for it.
///
/// Obeyed: `model` (the agent), `input`, `instructions` (read as words of the user), `previous_response_id`, `stream`. Heard and not obeyed: `temperature`, `top_p`,
/// `max_output_tokens`, `reasoning`, `store` and whatever is not named here. Refused with 400: `tools`, `background`, `conversation`, `prompt`,
/// `top_logprobs`, `text.format` other than text.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct ResponseRequest {
    /// The agent.
    model: String,
    /// Text, or a list of items of which the last is the user's message.
    #[schema(value_type = Value)]
    input: Value,
    /// The response that this one follows: its session goes on, on a new branch if something has followed it already.
    previous_response_id: Option<String>,
    /// Server-sent events instead of JSON.
    stream: Option<bool>,
}

/// A message, as Anthropic's clients ask for it.
///
/// Obeyed: `model` (the agent), `messages`, `system` (read as words of the user), `stream`. Heard and not obeyed: `max_tokens`, `temperature`, `top_p`, `top_k`,
/// `thinking`, `metadata` and whatever is not named here. Refused with 400: `tools`, `mcp_servers`, `stop_sequences`, `container`, `output_format`.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct MessageRequest {
    /// The agent.
    model: String,
    /// The conversation. Its last message is the user's.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// Server-sent events instead of JSON.
    stream: Option<bool>,
}

/// A chat completion.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct ChatAnswer {
    id: String,
    /// `chat.completion`.
    object: String,
    created: i64,
    model: String,
    #[schema(value_type = Vec<Object>)]
    choices: Vec<Value>,
    #[schema(value_type = Object)]
    usage: Value,
}

/// A response.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct ResponseAnswer {
    id: String,
    /// `response`.
    object: String,
    created_at: i64,
    status: String,
    model: String,
    #[schema(value_type = Vec<Object>)]
    output: Vec<Value>,
    #[schema(value_type = Object)]
    usage: Value,
}

/// A message.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct MessageAnswer {
    id: String,
    /// `message`.
    r#type: String,
    /// `assistant`.
    role: String,
    model: String,
    #[schema(value_type = Vec<Object>)]
    content: Vec<Value>,
    stop_reason: String,
    #[schema(value_type = Object)]
    usage: Value,
}

/// Models, as OpenAI lists them, or as Anthropic does.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct ModelList {
    /// `list`, of OpenAI.
    object: Option<String>,
    data: Vec<ModelShown>,
    /// Of Anthropic.
    has_more: Option<bool>,
    /// Of Anthropic.
    first_id: Option<String>,
    /// Of Anthropic.
    last_id: Option<String>,
}

/// A model, as OpenAI shows it, or as Anthropic does.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct ModelShown {
    /// The agent.
    id: String,
    /// `model`, of OpenAI.
    object: Option<String>,
    /// Of OpenAI.
    created: Option<i64>,
    /// Of OpenAI.
    owned_by: Option<String>,
    /// `model`, of Anthropic.
    r#type: Option<String>,
    /// Of Anthropic.
    display_name: Option<String>,
    /// Of Anthropic.
    created_at: Option<String>,
}

/// What went wrong, in the shape of OpenAI, or in that of Anthropic.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is a description")]
pub(super) struct VendorError {
    /// `error`, of Anthropic.
    r#type: Option<String>,
    /// `message` and `type`; of OpenAI also `param` and `code`.
    #[schema(value_type = Object)]
    error: BTreeMap<String, Value>,
    /// Of Anthropic.
    request_id: Option<String>,
}
