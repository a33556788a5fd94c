//! What a model is asked and what it answers, in no provider's language.

use serde::{Deserialize, Serialize};

use crate::{Block, Json, Usage};

/// One request. The same state always makes the same one, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The provider's name of the model.
    pub model: String,
    /// The system prompt; may be empty.
    pub system: String,
    /// The tools on offer, in order.
    pub tools: Vec<ToolDefinition>,
    /// The conversation: begins with the user, alternates, ends with the user.
    pub messages: Vec<Message>,
    /// The most tokens the answer may have.
    pub output_tokens_max: u64,
    /// What the answer is for.
    pub purpose: Purpose,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The next step of a run.
    Turn,
    /// A summary of what no longer fits.
    Summary,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or the results of tools.
    User,
    /// The model.
    Assistant,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Json,
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The blocks, in order.
    pub content: Vec<Block>,
    /// Why it ended.
    pub stop: Stop,
    /// What it used.
    pub usage: Usage,
    /// The provider's id of the answer.
    pub provider_id: Option<String>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model was done.
    End,
    /// The model wants tools to be called.
    ToolUse,
    /// The answer reached its limit.
    MaxTokens,
    /// The model declined.
    Refused,
    /// The provider paused a long turn; ask again to go on.
    Paused,
}
