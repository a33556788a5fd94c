//! An answer of the model, and the results of the calls it asked for.

use std::borrow::Cow;

use weir_types::{Block, Json, Sent, Stop, View};

use super::fit::{fit, shorten};
use super::piece::{self, Piece};
use super::{Cut, or_else};
use crate::fold::INTERRUPTED;
use crate::session::{AssistantEntry, Call, CallState};

/// What the model said. Texts that say nothing are left out, and reasoning that leads to nothing: providers reject
/// both. So are results, which are not the model's to give.
pub(super) fn answer(entry: &AssistantEntry) -> Vec<Piece<'_>> {
    let mut uses = uses(entry);
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for block in &entry.content {
        match &block.view {
            View::Text { text } if text.trim().is_empty() => {}
            View::ToolResult { .. } => {}
            View::ToolUse { .. } => pieces.extend(uses.next().map(Use::into_piece)),
            View::Text { .. }
            | View::Thinking { .. }
            | View::Image { .. }
            | View::Document { .. }
            | View::Unknown => pieces.push(Piece::Said(block)),
        }
    }
    while pieces.last().is_some_and(is_thinking) {
        pieces.pop();
    }
    if !pieces.iter().any(speaks) {
        let words = if entry.stop == Stop::Refused { "(refused)" } else { "(no answer)" };
        pieces.push(Piece::Words(Cow::Borrowed(words)));
    }
    pieces
}

fn is_thinking(piece: &Piece<'_>) -> bool {
    matches!(piece, Piece::Said(Block { view: View::Thinking { .. }, .. }))
}

/// Whether every provider can be given it.
fn speaks(piece: &Piece<'_>) -> bool {
    !matches!(piece, Piece::Said(Block { view: View::Thinking { .. } | View::Unknown, .. }))
}

/// The results of all calls of an answer, in call order.
pub(super) fn results(entry: &AssistantEntry, cut: Cut) -> Vec<Piece<'_>> {
    let share_tokens = cut.share_tokens / entry.uses().count().max(1) as u64;
    let calls = entry.calls.iter().map(Some).chain(std::iter::repeat(None));
    uses(entry).zip(calls).map(|(used, call)| result(used, call, share_tokens)).collect()
}

fn result<'a>(used: Use<'a>, call: Option<&'a Call>, share_tokens: u64) -> Piece<'a> {
    let (content, failed) = match call {
        Some(Call { state: CallState::Done(result), edited, .. }) => {
            let mut content =
                edited.as_ref().map_or(Vec::new(), |input| vec![changed(input, share_tokens / 2)]);
            let rest = share_tokens.saturating_sub(piece::tokens_of(&content));
            content.extend(or_else(fit(&result.content, rest), "(no output)"));
            (content, result.failed.is_some())
        }
        Some(_) | None => (vec![Piece::Words(Cow::Borrowed(INTERRUPTED))], true),
    };
    Piece::ToolResult { id: used.id, name: used.name, content, failed }
}

/// The model's own words stay as they were; what it asked for and what was done are told apart here.
fn changed(input: &Json, share_tokens: u64) -> Piece<'static> {
    let input = shorten(input.as_str(), share_tokens);
    Piece::Words(format!("(an approver changed the arguments to: {input})").into())
}

/// A call as it goes to a provider.
struct Use<'a> {
    id: &'a str,
    name: Cow<'a, str>,
    input: Cow<'a, Json>,
    sent: Option<&'a Sent>,
}

impl<'a> Use<'a> {
    fn into_piece(self) -> Piece<'a> {
        Piece::ToolUse { id: self.id, name: self.name, input: self.input, sent: self.sent }
    }
}

fn uses(entry: &AssistantEntry) -> impl Iterator<Item = Use<'_>> {
    let uses = entry.content.iter().filter_map(|block| match &block.view {
        View::ToolUse { id, name, input } => Some((id, name, input, block.sent.as_ref())),
        _ => None,
    });
    uses.enumerate().map(|(index, (id, name, input, sent))| {
        let (id, name) = (entry.wire_ids.get(index).unwrap_or(id), wire_name(name));
        // What was sent goes back verbatim, except for the id, which every wire takes from here. A name cannot be
        // mended there.
        let sent = sent.filter(|_| matches!(name, Cow::Borrowed(_)));
        Use { id, name, input: wire_input(input), sent }
    })
}

/// Longest name of a tool that providers take.
const NAME_MAX: usize = 64;

/// Models make names up, and a provider may refuse to hear again what its own model said.
fn wire_name(name: &str) -> Cow<'_, str> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        return Cow::Owned("unnamed".to_owned());
    }
    if name.len() <= NAME_MAX && name.chars().all(valid) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().take(NAME_MAX).map(|c| if valid(c) { c } else { '_' }).collect())
}

/// Arguments are an object, whatever the model made of them.
fn wire_input(input: &Json) -> Cow<'_, Json> {
    if input.as_str().trim_start().starts_with('{') {
        return Cow::Borrowed(input);
    }
    Cow::Owned(
        Json::parse(&format!(r#"{{"input":{}}}"#, input.as_str())).unwrap_or_else(|_| Json::empty_object()),
    )
}
