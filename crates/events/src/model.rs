//! Requests to models.

use serde::{Deserialize, Serialize};
use weir_types::{FailureClass, Hash, NanoUsd, Purpose, Seq, Usage};

use crate::budget::Draw;
use crate::skip::is_zero;

/// A request is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRequested {
    /// The model, by its full name.
    pub model: String,
    /// From 1, within the iteration and purpose.
    pub attempt: u32,
    /// The blob with the system prompt.
    pub prompt: Hash,
    /// The blob with the tool definitions.
    pub tools: Hash,
    /// The entries it shows, as ranges of their seqs.
    pub window: Vec<[Seq; 2]>,
    /// What else it was made of.
    pub params: Params,
    /// SHA-256 of its bytes.
    pub request_hash: Hash,
    /// The most it may use and cost.
    pub reserve: Reserve,
    /// The purses in which that is set aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purses: Vec<Draw>,
    /// What of the conversation it leaves out, because not all of it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<LeftOut>,
}

/// An attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// How.
    pub class: FailureClass,
    /// Which.
    pub attempt: u32,
    /// How long until the next one; absent if it is repeated at once, or not at all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// In the provider's words.
    pub message: String,
    /// What it used nevertheless.
    #[serde(default)]
    pub usage: Usage,
    /// What that cost.
    #[serde(default)]
    pub cost: NanoUsd,
}

/// What a request was made of, beside prompt, tools and window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params {
    /// What the answer is for.
    pub purpose: Purpose,
    /// The provider's name of the model.
    pub api_name: String,
    /// The language of the request.
    pub wire: String,
    /// Most tokens of the answer.
    pub output_tokens_max: u64,
    /// Most tokens of one result, or of one message of the user, before it is cut.
    pub share_tokens: u64,
    /// Its size at four characters a token, to compare with what the provider counts.
    pub estimated_tokens: u64,
}

/// What of a conversation a request leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Messages and answers; an answer counts once, with the results of its calls.
    pub messages: u64,
    /// What they would have taken, as estimated.
    pub tokens: u64,
}

/// The most a call may use and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Tokens in and out.
    pub tokens: u64,
    /// Money, where the price is known.
    pub nano: NanoUsd,
}
