//! What all wires do with the neutral view.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use weir_types::{Answer, Block, FailureClass, Hash, Json, Sent, Source, Stop, View, Wire};

use crate::fields::{json_text, object};
use crate::{Channel, Delta, ModelError};

/// The key under which arguments go to a provider that takes objects only, when they are none.
const MALFORMED: &str = "INVALID_JSON";

/// Hex digits of a call's id that stand for one which does not fit.
const ID_DIGITS: usize = 24;

/// The bytes of a body. One without messages is refused before a provider does.
pub(super) fn write<T: Serialize>(body: &T, empty: bool) -> Result<Bytes, ModelError> {
    if empty {
        return Err(ModelError::invalid("the conversation has nothing that can be sent to this model"));
    }
    let bytes = serde_json::to_vec(body);
    bytes.map(Bytes::from).map_err(|error| ModelError::invalid(format!("cannot write the request: {error}")))
}

/// Arguments as a model wrote them: an object, or, if they are none, their text. A check of the arguments will refuse
/// that, and the model can see what it wrote. Verbatim: the view of it is [`Json::on_one_line`].
pub(super) fn arguments(written: &str) -> Json {
    if written.trim().is_empty() {
        return Json::empty_object();
    }
    match Json::parse(written) {
        Ok(json) if json.as_str().starts_with('{') => json,
        _ => json_text(written),
    }
}

/// Arguments for a provider that takes objects only.
pub(super) fn object_arguments(input: &Json) -> Json {
    if input.as_str().starts_with('{') {
        return input.clone();
    }
    object([(MALFORMED, input.clone())])
}

/// Arguments for a provider that takes text, which is what it sent.
pub(super) fn argument_text(input: &Json) -> String {
    serde_json::from_str(input.as_str()).unwrap_or_else(|_| input.as_str().to_owned())
}

/// The id of a call, or one of the same length every time in its place if the provider would refuse it.
pub(super) fn fitting_id(id: &str, chars_max: usize) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !id.is_empty() && id.len() <= chars_max && id.chars().all(fits) {
        return id.to_owned();
    }
    let digits = Hash::of(id.as_bytes()).to_string();
    format!("call_{}", &digits[..ID_DIGITS])
}

/// The results of tools, then the rest, each in order.
pub(super) fn results_first(content: &[Block]) -> (Vec<&Block>, Vec<&Block>) {
    content.iter().partition(|block| matches!(block.view, View::ToolResult { .. }))
}

/// The text in a document that is text, under its title.
pub(super) fn document_text(media_type: &str, title: Option<&str>, source: &Source) -> Option<String> {
    let is_text = media_type.starts_with("text/") || media_type == "application/json";
    let Source::Base64(data) = source else { return None };
    let text = is_text
        .then(|| STANDARD.decode(data).ok())
        .flatten()
        .and_then(|bytes| String::from_utf8(bytes).ok())?;
    Some(title.map_or_else(|| text.clone(), |title| format!("{title}\n\n{text}")))
}

/// What a model is told in place of something its wire cannot carry.
pub(super) fn left_out(view: &View) -> Option<String> {
    match view {
        View::Image { media_type, .. } => {
            Some(format!("[an image ({media_type}) is left out: it cannot be sent here]"))
        }
        View::Document { media_type, title, .. } => {
            let title = title.as_deref().unwrap_or("a document");
            Some(format!("[{title} ({media_type}) is left out: it cannot be sent here]"))
        }
        View::Text { .. }
        | View::Thinking { .. }
        | View::ToolUse { .. }
        | View::ToolResult { .. }
        | View::Unknown => None,
    }
}

/// The words of a tool's result, for a wire that carries nothing else and has no mark for failure.
pub(super) fn result_text(content: &[Block], failed: bool) -> String {
    let words = |block: &Block| match &block.view {
        View::Document { media_type, title, source } => {
            document_text(media_type, title.as_deref(), source).or_else(|| left_out(&block.view))
        }
        view => block.as_text().map(str::to_owned).or_else(|| left_out(view)),
    };
    let words: Vec<String> = content.iter().filter_map(words).collect();
    marked(words.join("\n"), failed)
}

/// A result's words, with a mark if it failed and does not say so itself.
pub(super) fn marked(text: String, failed: bool) -> String {
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match failed && !says_so {
        true => format!("Error: {text}"),
        false => text,
    }
}

/// A data URL.
pub(super) fn data_url(media_type: &str, source: &Source) -> String {
    match source {
        Source::Base64(data) => format!("data:{media_type};base64,{data}"),
        Source::Url(url) => url.clone(),
    }
}

/// A block with what was sent kept beside it, unless the wire would write the very same.
pub(super) fn block(wire: Wire, view: View, sent: Json, own: Option<&Json>) -> Block {
    if own == Some(&sent) {
        return view.into();
    }
    Block { view, sent: Some(Sent { wire: wire.as_str().to_owned(), json: sent }) }
}

/// A provider's reason to stop, made to agree with what it said: compatible servers mix up the end and a call.
pub(super) fn agreeing(stop: Stop, content: &[Block]) -> Stop {
    let calls = content.iter().any(|block| matches!(block.view, View::ToolUse { .. }));
    match stop {
        Stop::End | Stop::ToolUse if calls => Stop::ToolUse,
        Stop::End | Stop::ToolUse => Stop::End,
        Stop::MaxTokens | Stop::Refused | Stop::Paused => stop,
    }
}

/// Takes away a call that the limit on output cut: nobody knows what it would have been.
pub(super) fn without_cut_call(mut answer: Answer) -> Answer {
    let cut = |block: &Block| match &block.view {
        View::ToolUse { input, .. } => {
            !matches!(input.to_value(), Value::Object(fields) if !fields.is_empty())
        }
        _ => false,
    };
    if answer.stop == Stop::MaxTokens && answer.content.last().is_some_and(cut) {
        answer.content.pop();
    }
    answer
}

/// An event that is not what the wire promises.
pub(super) fn unreadable(data: &str) -> ModelError {
    ModelError::said(FailureClass::Invalid, format!("the server sends an event that makes no sense: {data}"))
}

/// Words as they come, block by block: those of a block wait until the blocks before it are over. So what is told is how the message
/// begins, even if a server goes back and forth between blocks.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    /// Blocks that may get more words.
    open: BTreeSet<u32>,
    waiting: Vec<Delta>,
}

impl InOrder {
    /// A block of words begins.
    pub(super) fn begin(&mut self, block: usize) {
        self.open.insert(index(block));
    }

    pub(super) fn say(&mut self, delta: Delta, deltas: &mut Vec<Delta>) {
        // Arguments are not told as words are.
        if delta.channel == Channel::ToolInput || self.is_next(&delta) {
            deltas.push(delta);
        } else {
            self.waiting.push(delta);
        }
    }

    /// A block is over.
    pub(super) fn end(&mut self, block: usize, deltas: &mut Vec<Delta>) {
        self.open.remove(&index(block));
        let (mut next, waiting): (Vec<Delta>, Vec<Delta>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|delta| self.is_next(delta));
        self.waiting = waiting;
        next.sort_by_key(|delta| delta.block);
        deltas.extend(next);
    }

    fn is_next(&self, delta: &Delta) -> bool {
        self.open.first().is_none_or(|open| *open >= delta.block)
    }
}

/// The place of a block in the answer.
pub(super) fn index(block: usize) -> u32 {
    u32::try_from(block).unwrap_or(u32::MAX)
}

/// Whether a model said nothing, whatever it thought.
pub(super) fn said_nothing(content: &[Block]) -> bool {
    content.iter().all(|block| match &block.view {
        View::Text { text } => text.is_empty(),
        View::Thinking { .. } => true,
        _ => false,
    })
}
