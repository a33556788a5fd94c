//! What is said: by people, by the world outside and by the model; and what of it is kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{Block, Json, NanoUsd, Role, Seq, Stop, Usage};

/// Someone says something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// What.
    pub content: Vec<Block>,
    /// What the runtime tells the model along with it, such as the time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runtime: BTreeMap<String, String>,
    /// Who is said to have said it, if it is told as what was said before the session began. It is someone's word, whoever
    /// they name: it starts no run, costs nothing, and no call or approval can come of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Role>,
}

/// Something outside happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalSignal {
    /// What.
    pub name: String,
    /// The details.
    pub data: Json,
}

/// A piece of an answer that is being streamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextDelta {
    /// `text`, `thinking` or `tool_input`.
    pub channel: String,
    /// The block it belongs to.
    pub block: u32,
    /// The attempt it belongs to.
    pub attempt: u32,
    /// Where it starts in the attempt's output, in bytes over all blocks.
    pub offset: u64,
    /// The piece.
    pub delta: String,
}

/// The model answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// What.
    pub content: Vec<Block>,
    /// Why it ended.
    pub stop: Stop,
    /// What it used.
    pub usage: Usage,
    /// What that cost.
    pub cost: NanoUsd,
    /// The model, by its full name.
    pub model: String,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// The application's state changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePatched {
    /// A JSON Patch.
    pub patch: Json,
}

/// The oldest part of the conversation is replaced by a summary, in requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextCompacted {
    /// The last entry it covers.
    pub through: Seq,
    /// What was said.
    pub summary: String,
    /// Estimated size of what it replaces.
    pub tokens_before: u64,
    /// Estimated size of the summary.
    pub tokens_after: u64,
    /// Files read and changed until then.
    pub files: Files,
    /// Tool calls that failed until then.
    pub failures: Vec<String>,
    /// Who summarised.
    pub model: String,
    /// What that used.
    #[serde(default)]
    pub usage: Usage,
    /// What that cost.
    #[serde(default)]
    pub cost: NanoUsd,
}

/// Files an agent touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Files {
    /// Read.
    pub read: Vec<String>,
    /// Written or deleted.
    pub changed: Vec<String>,
}
