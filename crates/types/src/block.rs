//! Messages are blocks: a neutral view that every provider can be given, and beside it the block as it was sent.

mod record;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::Json;

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "record::BlockRecord", try_from = "record::BlockRecord")]
pub struct Block {
    /// What every provider understands.
    pub view: View,
    /// The block as the provider sent it. Absent when the provider's wire makes the very same bytes from the view.
    pub sent: Option<Sent>,
}

/// A block as a provider sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Whose language it is in, such as `anthropic`; see [`crate::Wire`].
    pub wire: String,
    /// The block, verbatim.
    pub json: Json,
}

/// The neutral view of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// The model's reasoning.
    Thinking {
        /// The reasoning, or a summary of it; may be empty when it is encrypted.
        text: String,
        /// The provider's proof that it is its own.
        signature: Option<String>,
    },
    /// The model asks for a tool.
    ToolUse {
        /// The provider's id of the call, which may repeat within a session.
        id: String,
        /// The tool, by the name the model was given.
        name: String,
        /// The arguments.
        input: Json,
    },
    /// What a tool answered.
    ToolResult {
        /// The id under which the call went to the provider.
        id: String,
        /// The tool that was called.
        name: String,
        /// The answer: text and images.
        content: Vec<Block>,
        /// Whether it failed.
        failed: bool,
    },
    /// A picture.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// Where it is.
        source: Source,
    },
    /// A document.
    Document {
        /// For example `application/pdf`.
        media_type: String,
        /// What it is called.
        title: Option<String>,
        /// Where it is.
        source: Source,
    },
    /// Something only its provider understands; see [`Block::sent`].
    Unknown,
}

/// Where the bytes of an image or document are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Here, in base64.
    Base64(String),
    /// There, for the provider to fetch.
    Url(String),
}

impl Block {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        View::Text { text: text.into() }.into()
    }

    /// The words, if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match &self.view {
            View::Text { text } => Some(text),
            _ => None,
        }
    }

    /// The block in the words of `wire`, if that is how it came.
    pub fn sent_as(&self, wire: &str) -> Option<&Json> {
        self.sent.as_ref().filter(|sent| sent.wire == wire).map(|sent| &sent.json)
    }
}

impl From<View> for Block {
    fn from(view: View) -> Self {
        Self { view, sent: None }
    }
}

/// The words of all text blocks, joined.
pub fn text_of(blocks: &[Block]) -> String {
    blocks.iter().filter_map(Block::as_text).collect()
}
