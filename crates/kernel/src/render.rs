//! From the conversation to messages. Always closes pairs: every call has exactly one result, in order, in the
//! message after it; every result has its call; ids are unique, and nothing is said in a way that a provider refuses.

mod answer;
mod fit;
mod piece;
mod plain;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_types::{Message, Purpose, Request, Role, Seq, ToolDefinition};

use self::answer::{answer, results};
use self::fit::fit;
pub(crate) use self::fit::shorten;
use self::piece::Piece;
pub(crate) use self::plain::plain;
use crate::session::{AssistantEntry, Entry, Session, Transcript, UserEntry};
use crate::tokens::OVERHEAD_TOKENS;

/// How much of one result or message is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Tokens of all results of one answer together. What people write, and the summary, may have three times that.
    pub share_tokens: u64,
}

impl Cut {
    /// Tokens of a message of the user, or of the summary.
    pub const fn message_tokens(self) -> u64 {
        self.share_tokens.saturating_mul(3)
    }
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

/// What is in or out of a request together: a message of the user, or an answer with the results of its calls.
#[derive(Clone, Copy)]
pub(crate) enum Unit<'a> {
    User(&'a UserEntry),
    Assistant(&'a AssistantEntry),
}

/// The whole conversation, what the model has not been told yet included.
pub(crate) fn units(session: &Session) -> Vec<Unit<'_>> {
    let entries = session.transcript.entries.iter().map(Unit::from);
    entries.chain(session.inbox.iter().map(Unit::User)).collect()
}

impl<'a> From<&'a Entry> for Unit<'a> {
    fn from(entry: &'a Entry) -> Self {
        match entry {
            Entry::User(entry) => Self::User(entry),
            Entry::Assistant(entry) => Self::Assistant(entry),
        }
    }
}

impl Unit<'_> {
    pub(crate) const fn seq(self) -> Seq {
        match self {
            Self::User(entry) => entry.seq,
            Self::Assistant(entry) => entry.seq,
        }
    }

    pub(crate) const fn is_user(self) -> bool {
        matches!(self, Self::User(_))
    }

    /// The most it adds to a request.
    pub(crate) fn tokens(self, cut: Cut) -> u64 {
        match self {
            Self::User(entry) => OVERHEAD_TOKENS + piece::tokens_of(&user(entry, cut)),
            Self::Assistant(entry) => {
                let mut reply = results(entry, cut);
                if reply.is_empty() {
                    reply.push(go_on());
                }
                2 * OVERHEAD_TOKENS + piece::tokens_of(&answer(entry)) + piece::tokens_of(&reply)
            }
        }
    }
}

/// The most that what comes before the first unit adds to a request.
pub(crate) fn tokens_before(transcript: &Transcript, cut: Cut) -> u64 {
    match before(transcript, cut).as_slice() {
        [] => 0,
        pieces => OVERHEAD_TOKENS + piece::tokens_of(pieces),
    }
}

/// The messages of these ranges: begin with the user, alternate, end with the user.
fn messages(session: &Session, ranges: &[[Seq; 2]], cut: Cut) -> Vec<Message> {
    let mut messages = Messages(Vec::new());
    messages.say(Role::User, before(&session.transcript, cut));
    let units = units(session);
    for unit in ranges.iter().flat_map(|range| within(&units, *range)) {
        match unit {
            Unit::User(entry) => messages.say(Role::User, user(entry, cut)),
            Unit::Assistant(entry) => {
                messages.reply();
                messages.say(Role::Assistant, answer(entry));
                messages.say(Role::User, results(entry, cut));
                if entry.continued {
                    messages.reply();
                }
            }
        }
    }
    messages.reply();
    messages.0
}

fn within<'a, 'b>(units: &'b [Unit<'a>], [from, to]: [Seq; 2]) -> &'b [Unit<'a>] {
    let first = units.iter().position(|unit| unit.seq() == from);
    let last = units.iter().position(|unit| unit.seq() == to);
    match (first, last) {
        (Some(first), Some(last)) if first <= last => &units[first..=last],
        _ => &[],
    }
}

/// Messages under construction: two in a row of the same role are one.
struct Messages(Vec<Message>);

impl Messages {
    fn say(&mut self, role: Role, pieces: Vec<Piece<'_>>) {
        if pieces.is_empty() {
            return;
        }
        let content = pieces.into_iter().map(Piece::into_block);
        match self.0.last_mut() {
            Some(message) if message.role == role => message.content.extend(content),
            _ => self.0.push(Message { role, content: content.collect() }),
        }
    }

    /// An answer that nobody replied to gets a reply, before the model speaks again.
    fn reply(&mut self) {
        if self.0.last().is_some_and(|message| message.role == Role::Assistant) {
            self.say(Role::User, vec![go_on()]);
        }
    }
}

fn go_on() -> Piece<'static> {
    Piece::Words(Cow::Borrowed("Continue."))
}

/// What comes before the first unit: the summary, and the user's latest message if the summary covers it.
fn before(transcript: &Transcript, cut: Cut) -> Vec<Piece<'_>> {
    let summary = transcript.summary.as_ref().map(|summary| {
        let text = shorten(&summary.text, cut.message_tokens());
        Piece::Words(format!("<summary of the conversation so far>\n{text}\n</summary>").into())
    });
    let pinned = transcript.pinned.as_ref().map(|entry| user(entry, cut)).unwrap_or_default();
    summary.into_iter().chain(pinned).collect()
}

/// What the user said, after what the runtime adds.
fn user(entry: &UserEntry, cut: Cut) -> Vec<Piece<'_>> {
    let runtime = (!entry.runtime.is_empty()).then(|| {
        let lines: String = entry.runtime.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        Piece::Words(format!("<runtime>\n{lines}</runtime>").into())
    });
    let said = or_else(fit(&entry.content, cut.message_tokens()), "(empty message)");
    runtime.into_iter().chain(said).collect()
}

/// Content that says nothing is not valid anywhere.
fn or_else<'a>(mut pieces: Vec<Piece<'a>>, words: &'static str) -> Vec<Piece<'a>> {
    if pieces.is_empty() {
        pieces.push(Piece::Words(Cow::Borrowed(words)));
    }
    pieces
}
