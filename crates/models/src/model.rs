//! The one trait, and what a model's stream is made of.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use weir_types::{Answer, Request, Wire};

use crate::ModelError;

/// A language model.
pub trait Model: Send + Sync + 'static {
    /// The language it speaks, which decides whether verbatim blocks can be sent back.
    fn wire(&self) -> Wire;

    /// The exact bytes of the request body. The same request always gives the same bytes.
    ///
    /// # Errors
    /// When the request cannot be said in this model's language.
    fn encode(&self, request: &Request) -> Result<Bytes, ModelError>;

    /// One attempt, never a retry. Ends with exactly one [`Piece::Done`] or one error.
    ///
    /// # Cancel safety
    /// Dropping the stream cancels the request.
    fn stream(&self, body: Bytes, attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>>;
}

/// What a stream yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A little more of the answer.
    Delta(Delta),
    /// The whole answer; the last piece. A server that reports no usage gets an estimate, never zero.
    Done(Box<Answer>),
}

/// A little more of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// What it is part of.
    pub channel: Channel,
    /// The block: its index in the answer's content, unless the answer was cut in a call that then is left out.
    pub block: u32,
    /// What to append.
    pub text: String,
}

/// What a delta is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Words.
    Text,
    /// Reasoning.
    Thinking,
    /// The arguments of a tool call, as JSON text.
    ToolInput,
}

impl Channel {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Thinking => "thinking",
            Self::ToolInput => "tool_input",
        }
    }
}
