//! Estimates of tokens: four characters each to begin with, corrected by what the provider reports.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use weir_types::{Block, Json, Message, Request, Sent, Source, ToolDefinition, View};

/// What a picture or a document counts, whatever its size: providers scale them down.
const MEDIA_TOKENS: u64 = 1_600;

/// What a block or message costs beside its text.
pub(crate) const OVERHEAD_TOKENS: u64 = 4;

/// How our estimates compare with the provider's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauge {
    /// Reported tokens per thousand estimated ones.
    permille: u64,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { permille: 1_000 }
    }
}

impl Gauge {
    /// Learns from one request. A provider that reports nothing, or nonsense, teaches little.
    pub(crate) fn learn(&mut self, estimated: u64, reported: u64) {
        if estimated == 0 || reported == 0 {
            return;
        }
        let permille = u128::from(reported) * 1_000 / u128::from(estimated);
        self.permille = u64::try_from(permille).unwrap_or(u64::MAX).clamp(500, 4_000);
    }

    /// An estimate in the provider's tokens.
    pub fn corrected(self, estimated: u64) -> u64 {
        u64::try_from(u128::from(estimated) * u128::from(self.permille) / 1_000).unwrap_or(u64::MAX)
    }

    /// A number of the provider's tokens, as we would have estimated it.
    pub fn estimated(self, corrected: u64) -> u64 {
        u64::try_from(u128::from(corrected) * 1_000 / u128::from(self.permille)).unwrap_or(u64::MAX)
    }
}

/// How many characters we take for a token.
pub(crate) const CHARACTERS_PER_TOKEN: u64 = 4;

/// Tokens of a text.
pub fn of_text(text: &str) -> u64 {
    of_characters(text.chars().count())
}

/// Tokens of a text of that many characters.
pub(crate) const fn of_characters(count: usize) -> u64 {
    (count as u64).div_ceil(CHARACTERS_PER_TOKEN)
}

/// Tokens of blocks.
pub fn of_blocks(blocks: &[Block]) -> u64 {
    blocks.iter().map(of_block).sum()
}

pub(crate) fn of_block(block: &Block) -> u64 {
    OVERHEAD_TOKENS + of_view(&block.view).max(of_sent(block.sent.as_ref()))
}

/// Tokens of a view, without what every block costs.
pub(crate) fn of_view(view: &View) -> u64 {
    match view {
        View::Text { text } => of_text(text),
        View::Thinking { text, signature } => of_text(text) + signature.as_deref().map_or(0, of_text),
        View::ToolUse { id, name, input } => of_use(id, name, input),
        View::ToolResult { id, name, content, .. } => of_text(id) + of_text(name) + of_blocks(content),
        View::Image { source, .. } => media(source),
        View::Document { title, source, .. } => media(source) + title.as_deref().map_or(0, of_text),
        View::Unknown => 0,
    }
}

pub(crate) fn of_use(id: &str, name: &str, input: &Json) -> u64 {
    of_text(id) + of_text(name) + of_text(input.as_str())
}

pub(crate) fn of_sent(sent: Option<&Sent>) -> u64 {
    sent.map_or(0, |sent| of_text(sent.json.as_str()))
}

fn media(source: &Source) -> u64 {
    match source {
        Source::Base64(_) => MEDIA_TOKENS,
        Source::Url(url) => MEDIA_TOKENS + of_text(url),
    }
}

/// Tokens of messages.
pub fn of_messages(messages: &[Message]) -> u64 {
    messages.iter().map(|message| OVERHEAD_TOKENS + of_blocks(&message.content)).sum()
}

/// Tokens of tool definitions.
pub fn of_tools(tools: &[ToolDefinition]) -> u64 {
    tools.iter().map(of_tool).sum()
}

pub(crate) fn of_tool(tool: &ToolDefinition) -> u64 {
    OVERHEAD_TOKENS + of_text(&tool.name) + of_text(&tool.description) + of_text(tool.schema.as_str())
}

/// Tokens of a whole request.
pub fn of_request(request: &Request) -> u64 {
    of_text(&request.system) + of_tools(&request.tools) + of_messages(&request.messages)
}
