//! Text on a narrow terminal: lines break between words. A terminal by itself would break them inside words.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A word that begins so close to the margin is held back until its end is known.
const REACH: usize = 20;

/// Breaks lines that are wider than `columns` between words. Line breaks and the indentation of `text` stay; what follows a
/// break is indented by `indent` more. A command is never broken, so that it can be copied: words in backticks, and
/// lines that begin with `weir`. A word that is wider than the terminal is left to the terminal.
pub(crate) fn wrap(text: &str, columns: Option<usize>, indent: usize) -> Cow<'_, str> {
    let Some(columns) = columns else { return Cow::Borrowed(text) };
    if text.split('\n').all(|line| width(line) <= columns) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| wrap_line(line, columns, indent));
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

fn wrap_line(line: &str, columns: usize, indent: usize) -> String {
    if width(line) <= columns || line.trim_start().starts_with("weir ") {
        return line.to_owned();
    }
    let own = line.len() - line.trim_start_matches(' ').len();
    let indent = (own + indent).min(columns / 2);
    let mut wrapped = " ".repeat(own);
    let mut used = own;
    let mut is_first = true;
    for word in words(&line[own..]) {
        let wide = width(word.trim_end());
        if !is_first && used + wide > columns {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            used = indent;
        }
        wrapped.push_str(word);
        used += width(word);
        is_first = false;
    }
    wrapped
}

/// The words of a line, each with the spaces after it. Backticks make one word of several, if each has its partner.
fn words(line: &str) -> Vec<&str> {
    let is_quoting = line.matches('`').count().is_multiple_of(2);
    let (mut words, mut from, mut in_quotes, mut after_space) = (Vec::new(), 0, false, false);
    for (at, c) in line.char_indices() {
        if after_space && c != ' ' && !in_quotes {
            words.push(&line[from..at]);
            from = at;
        }
        in_quotes ^= is_quoting && c == '`';
        after_space = c == ' ';
    }
    words.push(&line[from..]);
    words
}

/// Columns of a text. What only sets a colour has none.
pub(crate) fn width(text: &str) -> usize {
    let mut total = 0;
    for (n, part) in text.split("\x1b[").enumerate() {
        let shown = if n == 0 { part } else { part.split_once('m').map_or(part, |(_, shown)| shown) };
        total += shown.width();
    }
    total
}

/// An answer as it grows on a terminal. Everything is shown at once but for a word that may not fit on its line. Code is
/// left to the terminal: lines that begin with a space or `|`, and what is fenced.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    columns: Option<usize>,
    /// Columns of the line that are taken.
    used: usize,
    /// A word near the margin, until its end is known.
    held: String,
    /// Spaces before it: at the end of a line they would begin the next one.
    gap: usize,
    /// The current word has begun on the screen.
    in_word: bool,
    /// The beginning of the line, as far as it says what the line is.
    start: String,
    in_fence: bool,
}

impl Flow {
    pub(crate) fn new(columns: Option<usize>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// All of a text.
    pub(crate) fn whole(text: &str, columns: Option<usize>) -> String {
        let mut flow = Self::new(columns);
        let mut shown = flow.feed(text);
        shown.push_str(&flow.rest());
        shown
    }

    /// The line has something on it already.
    pub(crate) fn after(&mut self, used: usize) {
        self.used = used;
    }

    /// What is shown of the next piece.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        let Some(columns) = self.columns else { return text.to_owned() };
        let mut shown = String::with_capacity(text.len() + 8);
        text.chars().for_each(|c| self.next(c, columns, &mut shown));
        shown
    }

    /// What was held back; the next piece begins a new line.
    pub(crate) fn rest(&mut self) -> String {
        let mut shown = String::new();
        if let Some(columns) = self.columns {
            self.place(columns, &mut shown);
        }
        *self = Self::new(self.columns);
        shown
    }

    fn next(&mut self, c: char, columns: usize, shown: &mut String) {
        match c {
            '\n' => {
                self.place(columns, shown);
                shown.push(c);
                self.gap = 0;
                self.in_fence ^= self.start == "```";
                (self.used, self.in_word) = (0, false);
                self.start.clear();
            }
            ' ' | '\t' => {
                self.place(columns, shown);
                self.begin_line(c);
                self.in_word = false;
                if self.is_code() || self.used + REACH <= columns {
                    shown.push(c);
                    self.used += 1;
                } else {
                    self.gap += 1;
                }
            }
            _ => {
                self.begin_line(c);
                let wide = c.width().unwrap_or(0);
                let is_far = self.used + REACH <= columns;
                if self.held.is_empty() && (self.in_word || is_far || self.used == 0 || self.is_code()) {
                    shown.push(c);
                    self.used = (self.used + wide) % columns.max(1);
                    self.in_word = true;
                    return;
                }
                self.held.push(c);
                // Scripts without spaces break anywhere.
                if wide == 2 || self.held.width() > REACH {
                    self.place(columns, shown);
                    self.in_word = wide != 2;
                }
            }
        }
    }

    /// Shows what was held, on a line where it fits.
    fn place(&mut self, columns: usize, shown: &mut String) {
        let wide = self.held.width();
        if self.held.is_empty() {
            return;
        }
        if self.used + self.gap + wide > columns {
            shown.push('\n');
            self.used = 0;
        } else {
            shown.push_str(&" ".repeat(self.gap));
            self.used += self.gap;
        }
        self.gap = 0;
        shown.push_str(&self.held);
        self.used += wide;
        self.held.clear();
    }

    fn begin_line(&mut self, c: char) {
        if self.start.len() < 3 {
            self.start.push(c);
        }
    }

    fn is_code(&self) -> bool {
        self.in_fence || self.start.starts_with([' ', '\t', '|'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let check = |text: &str, columns: usize, indent: usize, expected: &str| {
            assert_eq!(wrap(text, Some(columns), indent), expected, "{text:?} on {columns}");
        };
        check("short", 10, 2, "short");
        check("one two three four", 9, 0, "one two\nthree\nfour");
        check("error: one two three", 12, 2, "error: one\n  two three");
        check("  - one two three", 11, 2, "  - one two\n    three");
        check("run `weir chat a -m b` now", 12, 0, "run\n`weir chat a -m b`\nnow");
        check("a ` b c d e", 6, 0, "a ` b\nc d e");
        check("    weir approve 01ARZ --live", 10, 2, "    weir approve 01ARZ --live");
        check("01ARZ3NDEKTSV4RRFFQ69G5FAV is it", 10, 0, "01ARZ3NDEKTSV4RRFFQ69G5FAV\nis it");
        check("\x1b[1mbold\x1b[0m word here", 9, 0, "\x1b[1mbold\x1b[0m word\nhere");
        check("one two\nthree four", 8, 0, "one two\nthree\nfour");
        assert_eq!(wrap("one two three", None, 0), "one two three");
    }

    /// However an answer is cut into pieces, the same lines are seen.
    #[test]
    fn an_answer_breaks_between_words_however_it_arrives() {
        let check = |text: &str, columns: usize, expected: &str| {
            assert_eq!(Flow::whole(text, Some(columns)), expected, "{text:?} on {columns}");
            let mut flow = Flow::new(Some(columns));
            let pieces: String = text.chars().map(|c| flow.feed(&c.to_string())).collect();
            assert_eq!(pieces + &flow.rest(), expected, "{text:?} on {columns}, piece by piece");
        };
        check("a low dam at the outlet of a lake", 20, "a low dam at the\noutlet of a lake");
        check("a low dam\nat the outlet of a lake", 20, "a low dam\nat the outlet of a\nlake");
        // Longer than a line: the terminal breaks it.
        let long = "x".repeat(50);
        check(&format!("see {long} there"), 28, &format!("see {long}\nthere"));
        check(
            "```\nlet a = some(code, that, is, long);\n```\n",
            20,
            "```\nlet a = some(code, that, is, long);\n```\n",
        );
        check("    indented code is left as it is", 20, "    indented code is left as it is");
        check("日本語日本語日本語日本語", 21, "日本語日本語日本語日本語");
        assert_eq!(Flow::whole("a low dam at the outlet", None), "a low dam at the outlet");
    }

    /// What is far from the margin is seen at once.
    #[test]
    fn nothing_is_held_back_that_fits() {
        let mut flow = Flow::new(Some(100));
        flow.after(8);
        assert_eq!(flow.feed("This is a slow answer th"), "This is a slow answer th");
        assert_eq!(flow.feed("at goes on"), "at goes on");
        assert_eq!(flow.rest(), "");
    }
}
