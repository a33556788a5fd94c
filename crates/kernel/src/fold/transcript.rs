//! What happens to the conversation: answers join it, and a summary replaces its oldest part.

use weir_events::AssistantMessage;
use weir_types::{Block, Seq, Stop, View};

use crate::session::{AssistantEntry, Entry, Session, Summary, Transcript};

impl Session {
    /// The entry of an answer. Each of its calls gets an id that is unique in the conversation.
    pub(super) fn answer(&self, seq: Seq, body: &AssistantMessage) -> AssistantEntry {
        let ids = body.content.iter().filter_map(|block| match &block.view {
            View::ToolUse { id, .. } => Some(id),
            _ => None,
        });
        let mut wire_ids: Vec<String> = Vec::new();
        for (index, id) in ids.enumerate() {
            // Compatible servers repeat their ids, and some send none.
            let mut wire_id = if id.is_empty() { fresh(seq, index) } else { id.clone() };
            if self.transcript.has_id(&wire_id) || wire_ids.contains(&wire_id) {
                wire_id = fresh(seq, index);
            }
            // Nobody but someone who has seen this line repeats an id of ours.
            while self.transcript.has_id(&wire_id) || wire_ids.contains(&wire_id) {
                wire_id.push('_');
            }
            wire_ids.push(wire_id);
        }
        AssistantEntry {
            seq,
            content: body.content.clone(),
            stop: body.stop,
            wire_ids,
            calls: Vec::new(),
            continued: false,
            claimed: false,
        }
    }
}

impl AssistantEntry {
    /// What someone says the model said before the session began. Only words: calls and reasoning are the model's own to make.
    pub(super) fn claimed(seq: Seq, content: &[Block]) -> Self {
        let words = content.iter().filter_map(Block::as_text).map(Block::text);
        Self {
            seq,
            content: words.collect(),
            stop: Stop::End,
            wire_ids: Vec::new(),
            calls: Vec::new(),
            continued: false,
            claimed: true,
        }
    }
}

/// What stands in the conversation where an answer was cut off.
pub const CUT_OFF: &str = "[interrupted by the user]";

impl AssistantEntry {
    /// The beginning of an answer that somebody did not want to hear to its end, marked as such.
    pub(super) fn cut_off(seq: Seq, said: &str) -> Self {
        let said = said.trim_end();
        let text = if said.is_empty() { CUT_OFF.to_owned() } else { format!("{said}\n\n{CUT_OFF}") };
        Self {
            seq,
            content: vec![Block::text(text)],
            stop: Stop::End,
            wire_ids: Vec::new(),
            calls: Vec::new(),
            continued: false,
            claimed: false,
        }
    }
}

fn fresh(seq: Seq, index: usize) -> String {
    format!("call_{seq}_{index}")
}

impl Transcript {
    fn has_id(&self, wire_id: &str) -> bool {
        let answers = self.entries.iter().filter_map(Entry::as_assistant);
        answers.flat_map(|entry| &entry.wire_ids).any(|id| id == wire_id)
    }

    /// A summary takes the place of everything through that entry. The user's latest message stays word for word.
    pub(super) fn cover(&mut self, through: Seq, summary: Summary) {
        let Some(last) = self.entries.iter().position(|entry| entry.seq() == through) else { return };
        let covered = self.entries.drain(..=last);
        let latest = covered.rev().find_map(|entry| match entry {
            Entry::User(entry) => Some(entry),
            Entry::Assistant(_) => None,
        });
        if self.entries.iter().any(|entry| entry.as_user().is_some()) {
            self.pinned = None;
        } else if latest.is_some() {
            self.pinned = latest;
        }
        self.summary = Some(summary);
    }
}
