//! One file, searched line by line.

use std::collections::VecDeque;
use std::fmt::Write as _;

use regex::bytes::Regex;

use crate::builtin::fs::content::{Content, content};

/// Most bytes of a line that are shown, around what was found.
const LINE_BYTES_MAX: usize = 300;

/// How much of them comes before it.
const BEFORE_BYTES: usize = 100;

/// What is looked for, and how much of it is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) regex: Regex,
    pub(super) context: usize,
    pub(super) limit: usize,
    pub(super) bytes_max: usize,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) matches: usize,
    /// Files that were looked into.
    pub(super) searched: usize,
    /// Files with a match.
    pub(super) files: usize,
    /// Files that are no text.
    pub(super) binary: usize,
    full: Option<String>,
}

impl Found {
    /// Why there is no room for more, if there is none.
    pub(super) fn is_full(&self) -> Option<String> {
        self.full.clone()
    }

    /// Adds what is in a file.
    pub(super) fn search(&mut self, path: &str, bytes: &[u8], wanted: &Wanted) {
        self.searched += 1;
        if matches!(content(bytes), Content::Binary(_)) {
            self.binary += 1;
            return;
        }
        let before = self.matches;
        let mut shown =
            Shown { path, last: None, waiting: VecDeque::new(), after: 0, context: wanted.context };
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let number = index + 1;
            match wanted.regex.find(line) {
                Some(_) if self.full.is_some() => break,
                Some(found) => {
                    shown.matching(&mut self.text, number, line, found.start());
                    shown.after = wanted.context;
                    self.matches += 1;
                    self.full = self.fullness(wanted);
                }
                None => shown.between(&mut self.text, number, line),
            }
            // What follows the last match is still shown; nothing else is.
            if self.full.is_some() && shown.after == 0 {
                break;
            }
        }
        self.files += usize::from(self.matches > before);
    }

    fn fullness(&self, wanted: &Wanted) -> Option<String> {
        if self.matches >= wanted.limit {
            return Some(format!("stopped at `limit`: {}", wanted.limit));
        }
        (self.text.len() >= wanted.bytes_max).then(|| "stopped because the answer is long".to_owned())
    }
}

/// The lines of one file on their way into the answer.
struct Shown<'a> {
    path: &'a str,
    /// The number of the last line that was shown.
    last: Option<usize>,
    /// Lines that are shown if a match follows soon.
    waiting: VecDeque<(usize, &'a [u8])>,
    /// How many lines are still to be shown after a match.
    after: usize,
    context: usize,
}

impl<'a> Shown<'a> {
    fn matching(&mut self, text: &mut String, number: usize, line: &[u8], at: usize) {
        let first = self.waiting.front().map_or(number, |(number, _)| *number);
        // With context, what belongs together is told from what does not.
        if self.context > 0 && !text.is_empty() && self.last.is_none_or(|last| first > last + 1) {
            text.push_str("--\n");
        }
        for (number, line) in std::mem::take(&mut self.waiting) {
            let _ = writeln!(text, "{}-{number}- {}", self.path, part(line, 0));
        }
        let _ = writeln!(text, "{}:{number}: {}", self.path, part(line, at));
        self.last = Some(number);
    }

    fn between(&mut self, text: &mut String, number: usize, line: &'a [u8]) {
        if self.after > 0 {
            self.after -= 1;
            let _ = writeln!(text, "{}-{number}- {}", self.path, part(line, 0));
            self.last = Some(number);
        } else if self.context > 0 {
            if self.waiting.len() == self.context {
                self.waiting.pop_front();
            }
            self.waiting.push_back((number, line));
        }
    }
}

/// The part of a line that is shown: what was found, with a little of what comes before it.
fn part(line: &[u8], at: usize) -> String {
    if line.len() <= LINE_BYTES_MAX {
        return String::from_utf8_lossy(line).into_owned();
    }
    let is_boundary = |at: usize| line.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let back = |mut at: usize| {
        while !is_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = back(at.saturating_sub(BEFORE_BYTES));
    let end = back((start + LINE_BYTES_MAX).min(line.len()));
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{after}", String::from_utf8_lossy(&line[start..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8], pattern: &str, context: usize, limit: usize) -> Found {
        let wanted = Wanted { regex: Regex::new(pattern).unwrap(), context, limit, bytes_max: 10_000 };
        let mut found = Found::default();
        found.search("f", text, &wanted);
        found
    }

    #[test]
    fn matches_come_with_their_place() {
        let check = |text: &str, pattern: &str, context: usize, expected: &str| {
            assert_eq!(
                found(text.as_bytes(), pattern, context, 10).text,
                expected,
                "{text:?} {pattern} {context}"
            );
        };
        check("a\nb\na\n", "a", 0, "f:1: a\nf:3: a\n");
        check("a\r\nb", "a$|^b$", 0, "f:1: a\nf:2: b\n");
        check("1\n2\n3\n4\n5\n", "3", 1, "f-2- 2\nf:3: 3\nf-4- 4\n");
        check("1\n2\n3\n4\n5\n", "[24]", 1, "f-1- 1\nf:2: 2\nf-3- 3\nf:4: 4\nf-5- 5\n");
        check("x\n1\n2\n3\n4\nx\n", "x", 1, "f:1: x\nf-2- 1\n--\nf-5- 4\nf:6: x\n");
        check("x\n1\n2\nx\n", "x", 1, "f:1: x\nf-2- 1\nf-3- 2\nf:4: x\n");
        check("a", "z", 3, "");
    }

    #[test]
    fn it_stops_when_it_is_full_and_shows_what_follows_the_last_match() {
        let full = found(b"x\n1\nx\n2\nx\n", "x", 1, 2);
        assert_eq!((full.text.as_str(), full.matches), ("f:1: x\nf-2- 1\nf:3: x\nf-4- 2\n", 2));
        assert_eq!(full.is_full().unwrap(), "stopped at `limit`: 2");
        assert_eq!(found(b"x\nx\nx\nx\n", "x", 1, 2).matches, 2);
        assert!(found(b"x\n", "x", 0, 2).is_full().is_none());
    }

    #[test]
    fn long_lines_are_shown_around_the_match() {
        let line = format!("{}needle{}", "é".repeat(5_000), "ü".repeat(5_000));
        let shown = found(line.as_bytes(), "needle", 0, 1).text;
        assert!(
            shown.starts_with("f:1: …é") && shown.ends_with("ü…\n") && shown.contains("needle"),
            "{shown}"
        );
        assert!(shown.len() < LINE_BYTES_MAX + 20 && !shown.contains('\u{fffd}'));
        assert_eq!(found(b"a\0needle", "needle", 0, 1).binary, 1);
        assert_eq!(found(b"caf\xe9 needle", "needle", 0, 1).text, "f:1: caf\u{fffd} needle\n");
    }
}
