//! What is typed while nobody asks for it: while an answer streams, keys are kept by the terminal without being shown, so
//! that they do not land in the middle of the answer. They are taken in before the next prompt, as lines in their order.

use std::collections::VecDeque;
use std::io::{IsTerminal, stdin};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// More is not kept for later.
const LINES_MAX: usize = 100;
const BYTES_MAX: usize = 1024 * 1024;

/// What a terminal sends around a paste, once it was asked to.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Lines that were typed ahead.
pub(super) struct TypeAhead {
    terminal: Option<Terminal>,
    lines: Lines,
}

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// A line, or a paste of several, that was ended with Enter.
    Line(String),
    /// Ctrl-D on an empty line.
    End,
}

impl TypeAhead {
    /// Keeps what is typed from now on, until it is dropped.
    pub(super) fn new() -> Self {
        Self { terminal: Terminal::hush(), lines: Lines::default() }
    }

    /// The next line that was typed ahead.
    pub(super) fn next(&mut self) -> Option<Ahead> {
        self.take_in();
        self.lines.done.pop_front()
    }

    /// What was begun and not ended.
    pub(super) fn begun(&mut self) -> String {
        let begun = std::mem::take(&mut self.lines.begun);
        String::from_utf8_lossy(&begun).into_owned()
    }

    /// Takes in what was typed so far.
    pub(super) fn take_in(&mut self) {
        if self.terminal.is_none() {
            return;
        }
        let mut piece = [0; 4096];
        let mut taken = 0;
        // The terminal hands out what it has and never waits.
        while let Ok(length @ 1..) = rustix::io::read(stdin(), &mut piece) {
            self.lines.typed(&piece[..length]);
            taken += length;
            if taken > BYTES_MAX {
                break;
            }
        }
    }
}

/// A terminal that shows no keys and hands them out without waiting for Enter.
struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Nothing, if standard input is no terminal, or another job's.
    fn hush() -> Option<Self> {
        let input = stdin();
        // A terminal that controls nobody has no jobs.
        let is_of_another_job = tcgetpgrp(&input).is_ok_and(|group| group != rustix::process::getpgrp());
        if !input.is_terminal() || is_of_another_job {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut hushed = before.clone();
        hushed.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        // Ctrl-C is still a signal, and does not lose what was typed before it.
        hushed.local_modes.insert(LocalModes::ISIG | LocalModes::NOFLSH);
        hushed.special_codes[SpecialCodeIndex::VMIN] = 0;
        hushed.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Now, &hushed).ok()?;
        Some(Self { before })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// Lines, made of keys.
#[derive(Debug, Default)]
struct Lines {
    done: VecDeque<Ahead>,
    begun: Vec<u8>,
    /// The beginning of what a special key sends.
    escape: Vec<u8>,
    /// A line break in a paste is one of its text.
    in_paste: bool,
}

impl Lines {
    fn typed(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.key(*byte));
    }

    fn key(&mut self, byte: u8) {
        if !self.escape.is_empty() || byte == 0x1b {
            return self.special(byte);
        }
        match byte {
            b'\r' | b'\n' if self.in_paste => self.begun.push(b'\n'),
            b'\r' | b'\n' => self.end_line(),
            // Ctrl-D
            0x04 if self.begun.is_empty() => self.keep(Ahead::End),
            // Backspace, Ctrl-W and Ctrl-U
            0x7f | 0x08 => self.without(1, |_| true),
            0x17 => {
                let words = self.text().trim_end().len();
                self.begun.truncate(words);
                self.without(usize::MAX, |c| !c.is_whitespace());
            }
            0x15 => self.begun.clear(),
            b'\t' | 0x20.. if self.begun.len() < BYTES_MAX => self.begun.push(byte),
            _ => {}
        }
    }

    /// Removes so many characters from the end, as long as they are of that kind.
    fn without(&mut self, most: usize, is_of: fn(char) -> bool) {
        let text = self.text();
        let bytes: usize = text.chars().rev().take(most).take_while(|c| is_of(*c)).map(char::len_utf8).sum();
        let left = text.len() - bytes;
        self.begun = text.into_bytes();
        self.begun.truncate(left);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.begun).into_owned()
    }

    fn end_line(&mut self) {
        let line = self.text();
        self.begun.clear();
        if !line.trim().is_empty() {
            self.keep(Ahead::Line(line));
        }
    }

    fn keep(&mut self, ahead: Ahead) {
        if self.done.len() < LINES_MAX {
            self.done.push_back(ahead);
        }
    }

    /// Keys that move a cursor have nothing to move; Alt-Enter begins a line, and pastes have an end.
    fn special(&mut self, byte: u8) {
        self.escape.push(byte);
        let is_over = match self.escape.as_slice() {
            [_] | [_, b'[' | b'O'] => false,
            [_, b'[', .., last] => (0x40..=0x7e).contains(last) || self.escape.len() > 32,
            _ => true,
        };
        if !is_over {
            return;
        }
        let escape = std::mem::take(&mut self.escape);
        match escape.as_slice() {
            PASTE_BEGINS => self.in_paste = true,
            PASTE_ENDS => self.in_paste = false,
            [_, b'\r' | b'\n'] => self.begun.push(b'\n'),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(typed: &str, expected: &[&str], begun: &str) {
        let mut lines = Lines::default();
        // However it arrives.
        typed.bytes().for_each(|byte| lines.typed(&[byte]));
        let said: Vec<String> = lines
            .done
            .iter()
            .map(|ahead| match ahead {
                Ahead::Line(line) => line.clone(),
                Ahead::End => "<end>".to_owned(),
            })
            .collect();
        assert_eq!(
            (&said[..], &*lines.text()),
            (&expected.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()[..], begun),
            "{typed:?}"
        );
    }

    #[test]
    fn keys_make_lines() {
        check("two\rthree\nfo", &["two", "three"], "fo");
        check("\r\n \r", &[], "");
        check("grüße 👩\u{200d}👧\r", &["grüße 👩\u{200d}👧"], "");
        check("abü\x7f\x7fc\r", &["ac"], "");
        check("one two  \x17x\r", &["one x"], "");
        check("wrong\x15right\r", &["right"], "");
        check("a\x1b[A\x1b[1;5Cb\x1bOP\r", &["ab"], "");
        check("a\x1b\rb\r", &["a\nb"], "");
        check("\x1b[200~x\ny\x1b[201~\r", &["x\ny"], "");
        check("\x04", &["<end>"], "");
        check("a\x04b", &[], "ab");
        check("\x01\x02a\r", &["a"], "");
    }
}
