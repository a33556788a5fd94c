//! Foreign text, fit for a message.

/// Most characters of a server's words in a message.
const WORDS_MAX: usize = 300;

/// A server's words, on one line and not too many of them.
pub(crate) fn plain(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect()
}

/// Foreign text on one line, with nothing in it that moves a cursor.
pub(crate) fn visible(text: impl Iterator<Item = char>) -> String {
    let shown = text.map(|character| match character {
        '\n' | '\t' => ' ',
        other => other,
    });
    shown.filter(|character| !character.is_control()).collect()
}
