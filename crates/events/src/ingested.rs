//! Recorded streams of vendors. Values are kept as they were sent; what a recording does not say is `null`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_types::Json;

/// A recorded message begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedBegun {
    /// The format of the recording.
    pub format: String,
    /// What the message calls itself.
    pub id: Option<String>,
    /// The model that speaks.
    pub model: Option<String>,
}

/// A further step of a recorded message begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedStep {}

/// Recorded text; adjacent pieces are joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedText {
    /// `text`, `reasoning` or `refusal`.
    pub channel: String,
    /// The text.
    pub text: String,
}

/// A recorded part without a kind of its own: an image, a source, a signature, data of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedPart {
    /// The format's own name for it.
    pub part: String,
    /// What it says.
    pub data: Vec<Value>,
}

/// A recorded call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedCalled {
    /// The call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub input: Value,
}

/// A recorded call answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedAnswered {
    /// The call.
    pub id: String,
    /// The answer.
    pub output: Value,
}

/// A recorded call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedFailed {
    /// The call.
    pub id: String,
    /// Why.
    pub message: Option<String>,
    /// Whether it was denied.
    pub denied: bool,
}

/// A recorded call waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedAsked {
    /// What a decision names.
    pub id: String,
    /// The call.
    pub call: String,
    /// Why.
    pub why: Option<String>,
}

/// What was said in this step, or of this answer, was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedReset {}

/// A recorded message ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedFinished {
    /// Why, in the format's own word.
    pub reason: Option<String>,
    /// What it used.
    pub usage: Option<IngestedUsage>,
}

/// What a recorded message used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedUsage {
    /// Tokens sent, cached ones included.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
}

/// A recorded message ends with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedBroken {
    /// In words.
    pub message: String,
}

/// A recorded event of a reserved kind: the whole line, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IngestedEvent(pub Json);
