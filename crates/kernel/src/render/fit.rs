//! Content that is larger than its share is cut, with a note that names the whole.

use weir_types::{Block, Hash, View};

use super::piece::{self, Piece};
use crate::tokens::{self, CHARACTERS_PER_TOKEN, OVERHEAD_TOKENS};

/// What is shown of content within that many tokens: words, pictures and documents. Anything else has no place in a
/// message of the user or in a result, whoever put it there; and providers refuse texts that say nothing.
pub(super) fn fit(content: &[Block], share_tokens: u64) -> Vec<Piece<'_>> {
    let whole: Vec<Piece<'_>> =
        content.iter().filter(|block| is_shown(block)).map(|block| Piece::Shown(&block.view)).collect();
    if piece::tokens_of(&whole) <= share_tokens {
        return whole;
    }
    let (words, attachments): (Vec<_>, Vec<_>) =
        whole.into_iter().partition(|piece| matches!(piece, Piece::Shown(View::Text { .. })));
    // Words come first, up to half of the share; then as many of the attachments as there is room for.
    let reserved = piece::tokens_of(&words).min(share_tokens / 2);
    let mut room = if attachments.is_empty() {
        share_tokens
    } else {
        share_tokens.saturating_sub(left_out(attachments.len()).tokens())
    };
    let (mut kept, mut left) = (Vec::new(), 0);
    for attachment in attachments {
        let tokens = attachment.tokens();
        if tokens + reserved <= room {
            room -= tokens;
            kept.push(attachment);
        } else {
            left += 1;
        }
    }
    if !words.is_empty() {
        let texts = content.iter().filter(|block| is_shown(block)).filter_map(Block::as_text).collect();
        kept.push(Piece::Cut(CutText::new(texts, room)));
    }
    if left > 0 {
        kept.push(left_out(left));
    }
    kept
}

fn is_shown(block: &Block) -> bool {
    match &block.view {
        View::Text { text } => !text.trim().is_empty(),
        View::Image { .. } | View::Document { .. } => true,
        View::Thinking { .. } | View::ToolUse { .. } | View::ToolResult { .. } | View::Unknown => false,
    }
}

fn left_out(count: usize) -> Piece<'static> {
    Piece::Words(format!("[… attachments left out for want of room: {count} …]").into())
}

/// What is shown of a text within that many tokens.
pub(crate) fn shorten(text: &str, share_tokens: u64) -> String {
    CutText::new(vec![text], share_tokens).into_text()
}

/// The beginning and the end of a text. How long it will be is known before it is made.
pub(super) struct CutText<'a> {
    texts: Vec<&'a str>,
    /// How many characters the whole has.
    characters: usize,
    head: usize,
    tail: usize,
    note: Note,
}

enum Note {
    /// The whole is shown.
    None,
    /// There is no room for more than a hint.
    Short,
    Long,
}

const SHORT_NOTE: &str = "[… cut …]";

fn long_note(characters: usize, whole: Hash) -> String {
    format!(
        "\n[… cut: this is the beginning and the end of {characters} characters; the whole has SHA-256 {whole} …]\n"
    )
}

impl<'a> CutText<'a> {
    fn new(texts: Vec<&'a str>, share_tokens: u64) -> Self {
        let characters = texts.iter().map(|text| text.chars().count()).sum();
        let room = share_tokens.saturating_sub(OVERHEAD_TOKENS).saturating_mul(CHARACTERS_PER_TOKEN);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if characters <= room {
            return Self { texts, characters, head: characters, tail: 0, note: Note::None };
        }
        match room.checked_sub(long_note(characters, Hash::ZERO).chars().count()) {
            Some(room) => {
                let tail = room / 4;
                Self { texts, characters, head: room - tail, tail, note: Note::Long }
            }
            None => {
                let head = room.saturating_sub(SHORT_NOTE.chars().count());
                Self { texts, characters, head, tail: 0, note: Note::Short }
            }
        }
    }

    /// Tokens of the text, without what every block costs.
    pub(super) fn tokens(&self) -> u64 {
        let note = match self.note {
            Note::None => 0,
            Note::Short => SHORT_NOTE.chars().count(),
            Note::Long => long_note(self.characters, Hash::ZERO).chars().count(),
        };
        tokens::of_characters(self.head + note + self.tail)
    }

    pub(super) fn into_text(self) -> String {
        let whole = self.texts.concat();
        let note = match self.note {
            Note::None => return whole,
            Note::Short => SHORT_NOTE.to_owned(),
            Note::Long => long_note(self.characters, Hash::of(whole.as_bytes())),
        };
        let beginning = whole.chars().take(self.head);
        let end = whole.chars().skip(self.characters - self.tail);
        beginning.chain(note.chars()).chain(end).collect()
    }
}
