//! A block that is about to be said, still borrowed from the conversation: it can be counted without being copied.

use std::borrow::Cow;

use weir_types::{Block, Json, Sent, View};

use super::fit::CutText;
use crate::tokens::{self, OVERHEAD_TOKENS};

/// A block that is about to be said.
pub(super) enum Piece<'a> {
    /// Our own words.
    Words(Cow<'a, str>),
    /// The model's, verbatim.
    Said(&'a Block),
    /// Someone else's. Only a provider's own blocks may go back in its own words, so these never do.
    Shown(&'a View),
    /// Text that is too long to be shown whole.
    Cut(CutText<'a>),
    /// The model's call of a tool. Id and name are the ones that every provider takes; they count, not the ones in
    /// what was sent.
    ToolUse { id: &'a str, name: Cow<'a, str>, input: Cow<'a, Json>, sent: Option<&'a Sent> },
    /// What came of it.
    ToolResult { id: &'a str, name: Cow<'a, str>, content: Vec<Piece<'a>>, failed: bool },
}

impl Piece<'_> {
    /// Exactly what [`tokens::of_blocks`] counts for the block.
    pub(super) fn tokens(&self) -> u64 {
        let inner = match self {
            Self::Words(text) => tokens::of_text(text),
            Self::Said(block) => return tokens::of_block(block),
            Self::Shown(view) => tokens::of_view(view),
            Self::Cut(text) => text.tokens(),
            Self::ToolUse { id, name, input, sent } => {
                tokens::of_use(id, name, input).max(tokens::of_sent(*sent))
            }
            Self::ToolResult { id, name, content, .. } => {
                tokens::of_text(id) + tokens::of_text(name) + tokens_of(content)
            }
        };
        OVERHEAD_TOKENS + inner
    }

    pub(super) fn into_block(self) -> Block {
        match self {
            Self::Words(text) => Block::text(text),
            Self::Said(block) => block.clone(),
            Self::Shown(view) => Block::from(view.clone()),
            Self::Cut(text) => Block::text(text.into_text()),
            Self::ToolUse { id, name, input, sent } => {
                let (name, input) = (name.into_owned(), input.into_owned());
                Block { view: View::ToolUse { id: id.to_owned(), name, input }, sent: sent.cloned() }
            }
            Self::ToolResult { id, name, content, failed } => {
                let content = content.into_iter().map(Piece::into_block).collect();
                let (id, name) = (id.to_owned(), name.into_owned());
                View::ToolResult { id, name, content, failed }.into()
            }
        }
    }
}

/// Tokens of all of them.
pub(super) fn tokens_of(pieces: &[Piece<'_>]) -> u64 {
    pieces.iter().map(Piece::tokens).sum()
}
