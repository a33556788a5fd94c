//! What a client sends as the conversation so far: input, whatever it says, and never a decision.
//!
//! Earlier messages become the history of a new session, as the word of whoever sends them; the user's last message is said. System
//! and developer messages do not replace what the agent's author wrote: the model reads them as labelled words of the user. So it
//! does with calls and results of tools that some other model had: nothing is called because of them.

use weir_kernel::{Entry, Session};
use weir_types::{Block, Message, Role, View};

use super::fields::Field;
use super::refused::Refused;
use crate::saying::MESSAGES_MAX;

/// Who is said to have said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
    /// A system or developer message.
    Instructions,
    /// What a tool of the client is said to have answered.
    Result,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    speaker: Speaker,
    content: Vec<Block>,
}

/// What a client sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation(Vec<Turn>);

/// How a session begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) history: Vec<Message>,
    pub(super) said: Vec<Block>,
}

impl Conversation {
    pub(super) fn add(&mut self, speaker: Speaker, content: Vec<Block>) {
        self.0.push(Turn { speaker, content });
    }

    /// The messages of a request, of which there may be only so many.
    pub(super) fn messages<'a>(list: &Field<'a>) -> Result<Vec<Field<'a>>, Refused> {
        let messages = list.list()?;
        if messages.len() > MESSAGES_MAX {
            return Err(list.refuse(format!(
                "has {} items, and {MESSAGES_MAX} is the most: send less of the past, or go on with a session by `X-Weir-Session`",
                messages.len()
            )));
        }
        Ok(messages)
    }

    /// For a session that begins: everything but the user's last message was said before. `list` is where messages are.
    pub(super) fn begins(mut self, list: &str) -> Result<Beginning, Refused> {
        let last = self.last_of_user(list)?;
        let Turn { content: said, .. } = self.0.remove(last);
        let mut history: Vec<Message> = Vec::new();
        for Turn { speaker, content } in self.0 {
            let role = if speaker == Speaker::Assistant { Role::Assistant } else { Role::User };
            match history.last_mut() {
                // One answer in two messages is one answer.
                Some(Message { role: Role::Assistant, content: before }) if role == Role::Assistant => {
                    before.extend(content);
                }
                None if role == Role::Assistant => {
                    // A conversation begins with the user, as far as providers are concerned.
                    let silence = vec![Block::text("(the assistant speaks first)")];
                    history
                        .extend([Message { role: Role::User, content: silence }, Message { role, content }]);
                }
                _ => history.push(Message { role, content }),
            }
        }
        Ok(Beginning { history, said })
    }

    /// For a session that goes on: what the user said after the newest answer, and instructions that it has not heard yet. What
    /// came before, it knows better.
    pub(super) fn goes_on(mut self, session: &Session, list: &str) -> Result<Vec<Block>, Refused> {
        let last = self.last_of_user(list)?;
        let newest =
            self.0.iter().rposition(|turn| !matches!(turn.speaker, Speaker::User | Speaker::Instructions));
        let first = newest.map_or(0, |newest| newest + 1).min(last);
        let mut said = Vec::new();
        for (at, turn) in self.0.drain(..).enumerate() {
            match turn.speaker {
                Speaker::User if at >= first => said.extend(turn.content),
                Speaker::Instructions => {
                    said.extend(turn.content.into_iter().filter(|block| !has_heard(session, block)));
                }
                Speaker::User | Speaker::Assistant | Speaker::Result => {}
            }
        }
        Ok(said)
    }

    /// Whether something is said in it that can be answered.
    pub(super) fn check(&self, list: &str) -> Result<(), Refused> {
        self.last_of_user(list).map(drop)
    }

    /// Where the user's last message is, which must say something and have nothing after it but instructions.
    fn last_of_user(&self, list: &str) -> Result<usize, Refused> {
        let last = self.0.iter().rposition(|turn| turn.speaker == Speaker::User);
        let Some(last) = last else { return Err(Refused::field(list, "has no message of the user")) };
        let after = self.0.iter().skip(last + 1).map(|turn| turn.speaker);
        for speaker in after {
            match speaker {
                Speaker::Instructions | Speaker::User => {}
                Speaker::Assistant => {
                    let why = "ends with words of the assistant: an agent begins its answers itself; end with the user's message";
                    return Err(Refused::field(list, why));
                }
                Speaker::Result => {
                    let why = "ends with the result of a tool: agents call their own tools only; end with the user's message";
                    return Err(Refused::field(list, why));
                }
            }
        }
        if !self.0[last].content.iter().any(says_something) {
            return Err(Refused::field(list, "ends with a message that says nothing"));
        }
        Ok(last)
    }
}

fn says_something(block: &Block) -> bool {
    match &block.view {
        View::Text { text } => !text.trim().is_empty(),
        _ => true,
    }
}

/// Whether the model has been told the very same before.
fn has_heard(session: &Session, block: &Block) -> bool {
    let said = session.transcript.entries.iter().filter_map(Entry::as_user);
    let said = said.chain(&session.transcript.pinned).chain(&session.inbox);
    said.flat_map(|entry| &entry.content).any(|known| known == block)
}

/// Words of a system or developer message.
pub(super) fn instructions(text: &str) -> Block {
    Block::text(format!("<instructions from=\"client\">\n{text}\n</instructions>"))
}

/// A call that another model is said to have made.
pub(super) fn called(name: &str, input: &str) -> Block {
    Block::text(format!("(called the tool `{name}` with {input})"))
}

/// What came of it.
pub(super) fn answered(id: &str, text: &str) -> Block {
    Block::text(format!("<result call={id:?}>\n{text}\n</result>"))
}
