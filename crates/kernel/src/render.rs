//! From the conversation to messages. Always closes pairs: every call has exactly one result, in order, in the
//! message after it; every result has its call.

use serde::{Deserialize, Serialize};
use weir_types::{Block, Hash, Message, Purpose, Request, Role, Seq, Stop, ToolDefinition, View, text_of};

use crate::fold::INTERRUPTED;
use crate::session::{AssistantEntry, CallState, Entry, Session, Transcript, UserEntry};
use crate::tokens;

/// How much of one result or message is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Tokens of a message of the user, or of all results of one answer together.
    pub share_tokens: u64,
}

/// What a request is made of beside the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The provider's name of the model.
    pub api_name: String,
    /// The system prompt.
    pub system: String,
    /// The tools on offer.
    pub tools: Vec<ToolDefinition>,
    /// Most tokens of the answer.
    pub output_tokens_max: u64,
}

/// The request that shows these ranges of the conversation.
pub fn request(session: &Session, frame: Frame, ranges: &[[Seq; 2]], cut: Cut) -> Request {
    Request {
        model: frame.api_name,
        system: frame.system,
        tools: frame.tools,
        messages: messages(session, ranges, cut),
        output_tokens_max: frame.output_tokens_max,
        purpose: Purpose::Turn,
    }
}

/// The messages of these ranges: begin with the user, alternate, end with the user.
fn messages(session: &Session, ranges: &[[Seq; 2]], cut: Cut) -> Vec<Message> {
    let mut messages = Messages(Vec::new());
    for block in before(&session.transcript, cut) {
        messages.say(Role::User, vec![block]);
    }
    let told: Vec<Entry> = session.inbox.iter().map(|entry| Entry::User(entry.clone())).collect();
    let entries: Vec<&Entry> = session.transcript.entries.iter().chain(&told).collect();
    for entry in ranges.iter().flat_map(|range| within(&entries, *range)) {
        match entry {
            Entry::User(entry) => messages.say(Role::User, user_blocks(entry, cut)),
            Entry::Assistant(entry) => {
                messages.say(Role::Assistant, assistant_blocks(entry));
                messages.say(Role::User, results(entry, cut));
            }
        }
    }
    if messages.0.last().is_some_and(|message| message.role == Role::Assistant) {
        messages.say(Role::User, vec![Block::text("Continue.")]);
    }
    messages.0
}

/// Messages under construction: two in a row of the same role are one.
struct Messages(Vec<Message>);

impl Messages {
    fn say(&mut self, role: Role, content: Vec<Block>) {
        if content.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(message) if message.role == role => message.content.extend(content),
            _ => self.0.push(Message { role, content }),
        }
    }
}

fn within<'a>(entries: &'a [&'a Entry], [from, to]: [Seq; 2]) -> &'a [&'a Entry] {
    let first = entries.iter().position(|entry| entry.seq() == from);
    let last = entries.iter().position(|entry| entry.seq() == to);
    match (first, last) {
        (Some(first), Some(last)) if first <= last => &entries[first..=last],
        _ => &[],
    }
}

/// What comes before the first entry: the summary, and the user's latest message if the summary covers it.
fn before(transcript: &Transcript, cut: Cut) -> Vec<Block> {
    let summary = transcript.summary.as_ref().map(|summary| {
        Block::text(format!("<summary of the conversation so far>\n{}\n</summary>", summary.text))
    });
    let pinned = transcript.pinned.as_ref().map(|entry| user_blocks(entry, cut)).unwrap_or_default();
    summary.into_iter().chain(pinned).collect()
}

/// Tokens of what comes before the first entry.
pub(crate) fn tokens_before(transcript: &Transcript, cut: Cut) -> u64 {
    tokens::of_blocks(&before(transcript, cut))
}

/// Tokens of a unit, as it is shown.
pub(crate) fn tokens_of(entry: &Entry, cut: Cut) -> u64 {
    /// Two messages' worth of overhead.
    const OVERHEAD: u64 = 8;
    OVERHEAD
        + match entry {
            Entry::User(entry) => tokens::of_blocks(&user_blocks(entry, cut)),
            Entry::Assistant(entry) => {
                tokens::of_blocks(&assistant_blocks(entry)) + tokens::of_blocks(&results(entry, cut))
            }
        }
}

/// What the user said, after what the runtime adds.
fn user_blocks(entry: &UserEntry, cut: Cut) -> Vec<Block> {
    let runtime = (!entry.runtime.is_empty()).then(|| {
        let lines: String = entry.runtime.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        Block::text(format!("<runtime>\n{lines}</runtime>"))
    });
    let mut blocks: Vec<Block> = runtime.into_iter().collect();
    blocks.extend(fit(&entry.content, cut.share_tokens));
    // A message without content is not valid anywhere.
    if blocks.is_empty() {
        blocks.push(Block::text("(empty message)"));
    }
    blocks
}

/// What the model said. Empty texts are left out, which providers reject; ids are the ones that are unique.
fn assistant_blocks(entry: &AssistantEntry) -> Vec<Block> {
    let mut calls = entry.calls.iter();
    let mut blocks: Vec<Block> = Vec::new();
    for block in &entry.content {
        match &block.view {
            View::Text { text } if text.trim().is_empty() => {}
            View::ToolUse { id, name, input } => {
                let wire_id = calls.next().map_or(id, |call| &call.wire_id);
                let view = View::ToolUse { id: wire_id.clone(), name: name.clone(), input: input.clone() };
                blocks.push(Block { view, sent: block.sent.clone() });
            }
            _ => blocks.push(block.clone()),
        }
    }
    let speaks = |block: &Block| !matches!(block.view, View::Thinking { .. } | View::Unknown);
    if !blocks.iter().any(speaks) {
        blocks.push(Block::text(if entry.stop == Stop::Refused { "(refused)" } else { "(no answer)" }));
    }
    blocks
}

/// The results of all calls of an answer, in call order.
fn results(entry: &AssistantEntry, cut: Cut) -> Vec<Block> {
    let count = entry.uses().count() as u64;
    let uses = entry.uses().enumerate();
    let result = |(index, (id, name, _)): (usize, (&str, &str, _))| {
        let call = entry.calls.get(index);
        let done = call.and_then(|call| match &call.state {
            CallState::Done(result) => Some((fit(&result.content, cut.share_tokens / count), result.failed)),
            _ => None,
        });
        let (content, failed) = match done {
            Some((content, failed)) => (content, failed.is_some()),
            None => (vec![Block::text(INTERRUPTED)], true),
        };
        let id = call.map_or(id, |call| &call.wire_id).to_owned();
        Block::from(View::ToolResult { id, name: name.to_owned(), content, failed })
    };
    uses.map(result).collect()
}

/// Cuts content that is larger than its share, with a note that names the whole.
fn fit(content: &[Block], share_tokens: u64) -> Vec<Block> {
    if tokens::of_blocks(content) <= share_tokens {
        return content.to_vec();
    }
    let text = text_of(content);
    let whole = Hash::of(text.as_bytes());
    let note = format!(
        "\n[… cut: this is the beginning and the end of {} characters; the whole has SHA-256 {whole} …]\n",
        text.chars().count()
    );
    let room = share_tokens.saturating_sub(tokens::of_text(&note) + 4).saturating_mul(4);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let (head, tail) = (room * 3 / 4, room / 4);
    let beginning: String = text.chars().take(head).collect();
    let skipped = text.chars().count().saturating_sub(tail).max(beginning.chars().count());
    let end: String = text.chars().skip(skipped).collect();
    vec![Block::text(format!("{beginning}{note}{end}"))]
}

/// The conversation in plain words, for a summariser.
pub(crate) fn plain(entry: &Entry, cut: Cut) -> String {
    match entry {
        Entry::User(entry) => format!("USER: {}\n", text_of(&fit(&entry.content, cut.share_tokens))),
        Entry::Assistant(entry) => {
            let mut text = format!("ASSISTANT: {}\n", text_of(&entry.content));
            for ((_, name, input), result) in entry.uses().zip(results(entry, cut)) {
                text.push_str(&format!("CALL {name}: {}\n", shorten(input.as_str())));
                if let View::ToolResult { content, failed, .. } = &result.view {
                    let word = if *failed { "FAILED" } else { "RESULT" };
                    text.push_str(&format!("{word} {name}: {}\n", text_of(content)));
                }
            }
            text
        }
    }
}

fn shorten(text: &str) -> String {
    const CHARACTERS_MAX: usize = 2_000;
    let mut shortened: String = text.chars().take(CHARACTERS_MAX).collect();
    if shortened.len() < text.len() {
        shortened.push('…');
    }
    shortened
}
