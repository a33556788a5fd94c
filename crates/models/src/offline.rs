//! Models that need no network. Their request body is the neutral [`Request`] as JSON, so that a stream works from the
//! body alone.

mod echo;
mod replay;
pub mod scripted;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use weir_types::{Block, Message, Request, Role, Usage, View};

pub use self::echo::Echo;
pub use self::replay::{Recorded, Replay};
pub use self::scripted::Scripted;

use crate::{Channel, Delta, ModelError, Piece};

/// What a text block of the runtime begins with; such a block is not the user's.
const RUNTIME_MARK: &str = "<runtime>";

/// Characters per token, until somebody knows better.
const CHARS_PER_TOKEN: usize = 4;

fn encode(request: &Request) -> Result<Bytes, ModelError> {
    let body = serde_json::to_vec(request);
    body.map(Bytes::from).map_err(|error| ModelError::invalid(format!("cannot write the request: {error}")))
}

fn decode(body: &[u8]) -> Result<Request, ModelError> {
    serde_json::from_slice(body)
        .map_err(|error| ModelError::invalid(format!("cannot read the request: {error}")))
}

/// A stream that is known from the start.
fn ready(pieces: Result<Vec<Piece>, ModelError>) -> BoxStream<'static, Result<Piece, ModelError>> {
    match pieces {
        Ok(pieces) => stream::iter(pieces.into_iter().map(Ok)).boxed(),
        Err(error) => stream::iter([Err(error)]).boxed(),
    }
}

/// What the user wrote last, without what the runtime added, and the index of that message.
fn latest_user_text(messages: &[Message]) -> Option<(usize, String)> {
    let own =
        |block: &Block| block.as_text().filter(|text| !text.starts_with(RUNTIME_MARK)).map(str::to_owned);
    messages.iter().enumerate().rev().filter(|(_, message)| message.role == Role::User).find_map(
        |(at, message)| {
            let texts: Vec<String> = message.content.iter().filter_map(own).collect();
            (!texts.is_empty()).then(|| (at, texts.join("\n")))
        },
    )
}

/// `text` in deltas of `chars` characters.
fn deltas(channel: Channel, block: usize, text: &str, chars: usize) -> Vec<Delta> {
    let block = u32::try_from(block).unwrap_or(u32::MAX);
    let mut rest = text;
    let mut deltas = Vec::new();
    while !rest.is_empty() {
        let cut = rest.char_indices().nth(chars.max(1)).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(cut);
        deltas.push(Delta { channel, block, text: piece.to_owned() });
        rest = after;
    }
    deltas
}

/// The deltas of finished blocks, `chars` characters each.
fn deltas_of(content: &[Block], chars: usize) -> Vec<Delta> {
    let of = |(at, block): (usize, &Block)| match &block.view {
        View::Text { text } => deltas(Channel::Text, at, text, chars),
        View::Thinking { text, .. } => deltas(Channel::Thinking, at, text, chars),
        View::ToolUse { input, .. } => deltas(Channel::ToolInput, at, input.as_str(), chars),
        View::ToolResult { .. } | View::Image { .. } | View::Document { .. } | View::Unknown => vec![],
    };
    content.iter().enumerate().flat_map(of).collect()
}

/// What the exchange would have cost, at four characters a token.
fn estimate(body: &[u8], content: &[Block]) -> Usage {
    let tokens = |chars: usize| u64::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u64::MAX);
    let sent = String::from_utf8_lossy(body).chars().count();
    let received: usize = deltas_of(content, usize::MAX).iter().map(|delta| delta.text.chars().count()).sum();
    Usage { input_tokens: tokens(sent), output_tokens: tokens(received), ..Usage::default() }
}
