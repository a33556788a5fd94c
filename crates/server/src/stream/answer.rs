//! An answer while it is being given: what has been said of it, and how much of that was told.
//!
//! Pieces come from the session's task while it speaks, from the journal, where it runs elsewhere, and in the end from the message
//! that holds all of it. Whatever comes from wherever is taken once, by its place.

use weir_models::Channel;
use weir_types::{Block, Seq, View};

use super::item::Piece;

/// An answer that is being given.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) request: Seq,
    pub(super) attempt: u32,
    /// Bytes of output taken, what is not shown included.
    taken: u64,
    /// What is shown, a block at a time.
    shown: Vec<Shown>,
    /// Bytes of that which were told.
    pub(super) told: u64,
    /// A piece came for a block before the newest: the rest is told in order once it is all there.
    muddled: bool,
}

/// What is shown of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    block: u32,
    channel: Channel,
    text: String,
}

/// What was told is not how the answer begins.
#[derive(Debug)]
pub(super) struct Unlike;

impl Answer {
    pub(super) fn new(request: Seq, attempt: u32) -> Self {
        Self { request, attempt, taken: 0, shown: Vec::new(), told: 0, muddled: false }
    }

    /// Takes a piece, unless it has it, or lacks one before it.
    pub(super) fn hear(&mut self, offset: u64, block: u32, channel: Channel, text: &str) {
        let Some(known) = self.taken.checked_sub(offset) else { return };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let Some(news) = text.get(known..).filter(|news| !news.is_empty()) else { return };
        self.taken += news.len() as u64;
        if channel == Channel::ToolInput || self.muddled {
            return;
        }
        match self.shown.last_mut() {
            Some(last) if last.block > block => self.muddled = true,
            Some(last) if (last.block, last.channel) == (block, channel) => last.text.push_str(news),
            _ => self.shown.push(Shown { block, channel, text: news.to_owned() }),
        }
    }

    /// What has been said and was not told yet.
    pub(super) fn untold(&mut self) -> Vec<Piece> {
        let mut start = 0;
        let mut pieces = Vec::new();
        for Shown { block, channel, text } in &self.shown {
            let known = usize::try_from(self.told.saturating_sub(start)).unwrap_or(usize::MAX);
            if let Some(news) = text.get(known..).filter(|news| !news.is_empty()) {
                pieces.push(Piece {
                    request: self.request,
                    attempt: self.attempt,
                    offset: start + known as u64,
                    block: *block,
                    channel: *channel,
                    text: news.to_owned(),
                });
            }
            start += text.len() as u64;
        }
        self.told = self.told.max(start);
        pieces
    }

    /// The answer is all there.
    pub(super) fn complete(&mut self, content: &[Block]) -> Result<(), Unlike> {
        let whole = shown(content);
        let is_beginning = self.told == 0 || begins_with(&whole, &self.shown);
        self.shown = whole;
        if is_beginning {
            return Ok(());
        }
        self.told = 0;
        Err(Unlike)
    }
}

/// What is shown of an answer: its text and its reasoning.
fn shown(content: &[Block]) -> Vec<Shown> {
    let of = |(at, block): (usize, &Block)| {
        let (channel, text) = match &block.view {
            View::Text { text } => (Channel::Text, text),
            View::Thinking { text, .. } => (Channel::Thinking, text),
            View::ToolUse { .. }
            | View::ToolResult { .. }
            | View::Image { .. }
            | View::Document { .. }
            | View::Unknown => return None,
        };
        let block = u32::try_from(at).unwrap_or(u32::MAX);
        (!text.is_empty()).then(|| Shown { block, channel, text: text.clone() })
    };
    content.iter().enumerate().filter_map(of).collect()
}

/// Whether the last of what was said may go on, and everything before it is complete.
fn begins_with(whole: &[Shown], said: &[Shown]) -> bool {
    let Some((last, before)) = said.split_last() else { return true };
    let Some((next, same)) = whole.get(..said.len()).and_then(<[Shown]>::split_last) else { return false };
    same == before
        && (next.block, next.channel) == (last.block, last.channel)
        && next.text.starts_with(&last.text)
}
