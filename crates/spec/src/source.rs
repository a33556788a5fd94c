//! From bytes to text that a parser can be trusted with, and from places in it to lines and columns.

use saphyr_parser::Marker;

use crate::diagnostic::{Findings, Span};

/// The largest file that is read. Specs are written by people.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

const BOM: &str = "\u{feff}";

/// The text of a file, and where its lines and characters begin.
pub(crate) struct Source<'a> {
    /// Without a byte order mark.
    pub(crate) text: &'a str,
    /// Bytes before `text`.
    offset: usize,
    /// Byte of `text` at which each line begins.
    lines: Vec<usize>,
    /// Byte of `text` at which each character begins; empty for ASCII, where that is its number.
    characters: Vec<u32>,
}

impl<'a> Source<'a> {
    /// The text, unless the bytes are too many or no text.
    pub(crate) fn of(bytes: &'a [u8], bytes_max: usize, findings: &mut Findings) -> Option<Self> {
        let source = Self::prose(bytes, bytes_max, findings)?;
        if let Some((at, odd)) = source.text.char_indices().find(|(_, character)| is_unprintable(*character))
        {
            let message = format!("control character U+{:04X} in a text file", u32::from(odd));
            let help =
                "remove it; inside double quotes, `\\uXXXX` stands for a character that cannot be written";
            findings.add("spec::not-text", source.span(at, at + odd.len_utf8()), message, help);
            return None;
        }
        Some(source)
    }

    /// The text of a file that no parser is given: any character will do.
    pub(crate) fn prose(bytes: &'a [u8], bytes_max: usize, findings: &mut Findings) -> Option<Self> {
        if bytes.len() > bytes_max {
            let message = format!("the file has {} bytes; {bytes_max} are the most", bytes.len());
            let help = "is it the right file? long texts belong into files of their own, beside the spec";
            findings.add("spec::too-large", Span::START, message, help);
            return None;
        }
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            findings.add("spec::not-text", Span::START, "the file is UTF-16 text", "save the file as UTF-8");
            return None;
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(Self::new(text)),
            Err(error) => {
                let at = error.valid_up_to();
                let valid = std::str::from_utf8(&bytes[..at]).unwrap_or_default();
                let message = format!("byte {:#04x} is not UTF-8 text", bytes.get(at).copied().unwrap_or(0));
                let before = Self::new(valid);
                let span = before.span(before.text.len(), before.text.len() + 1);
                findings.add("spec::not-text", span, message, "save the file as UTF-8");
                None
            }
        }
    }

    pub(crate) fn new(text: &'a str) -> Self {
        let bare = text.strip_prefix(BOM).unwrap_or(text);
        let after_breaks = bare.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(after_breaks).collect();
        let characters = if bare.is_ascii() {
            Vec::new()
        } else {
            // INVARIANT: files are far smaller than 4 GiB; see `FILE_BYTES_MAX`.
            bare.char_indices().map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX)).collect()
        };
        Self { text: bare, offset: text.len() - bare.len(), lines, characters }
    }

    /// The byte of `text` at which the character with this number begins.
    fn byte_of(&self, character: usize) -> usize {
        if self.characters.is_empty() {
            return character.min(self.text.len());
        }
        self.characters.get(character).map_or(self.text.len(), |at| *at as usize)
    }

    /// The part of the file between two places of the parser, which counts characters.
    pub(crate) fn between(&self, start: Marker, end: Marker) -> Span {
        let (first, after) = (self.byte_of(start.index()), self.byte_of(end.index()));
        // The parser takes some of the white space that follows for a part of what it follows.
        let written = self.text.get(first..after).unwrap_or_default().trim_end();
        Span {
            start: first + self.offset,
            end: first + written.len() + self.offset,
            line: start.line(),
            column: start.col() + 1,
        }
    }

    /// The character at which the parser gave up; at the end of the file, the last one that shows.
    pub(crate) fn character_at(&self, place: Marker) -> Span {
        let at = self.byte_of(place.index());
        match self.text[at..].chars().next() {
            Some(character) if !character.is_whitespace() => self.span(at, at + character.len_utf8()),
            _ => self.character_before(place),
        }
    }

    /// The last character that shows before a place.
    pub(crate) fn character_before(&self, place: Marker) -> Span {
        let before = self.text[..self.byte_of(place.index())].trim_end();
        let start = before.char_indices().next_back().map_or(0, |(at, _)| at);
        self.span(start, before.len())
    }

    /// The tab that indents the line of a place, or else the first one after it.
    pub(crate) fn tab_near(&self, place: Marker) -> Option<Span> {
        let at = self.byte_of(place.index());
        let line = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let indent = self.text[line..].find(|character: char| !character.is_whitespace()).unwrap_or(0);
        let indenting = self.text[line..line + indent].find('\t').map(|tab| line + tab);
        let tab = indenting.or_else(|| self.text[at..].find('\t').map(|tab| at + tab))?;
        Some(self.span(tab, tab + 1))
    }

    /// Where a text is written within a part of the file, if it is written there as it is.
    pub(crate) fn place_within(&self, span: Span, text: &str) -> Option<Span> {
        let start = span.start.checked_sub(self.offset)?;
        let written = self.text.get(start..span.end.checked_sub(self.offset)?)?;
        let at = start + written.find(text)?;
        Some(self.span(at, at + text.len()))
    }

    /// The part of the file between two bytes of `text`. Looks at the whole line before it.
    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        let line = self.lines.partition_point(|begin| *begin <= start);
        let begin = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(begin..start.min(self.text.len())).unwrap_or_default();
        Span {
            start: start + self.offset,
            end: end.max(start) + self.offset,
            line,
            column: before.chars().count() + 1,
        }
    }
}

/// What YAML forbids in a file. Refusing it here keeps the parser on well-trodden ground.
fn is_unprintable(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(bytes: &[u8]) -> Option<String> {
        let mut findings = Findings::new("f");
        let _ = Source::of(bytes, FILE_BYTES_MAX, &mut findings);
        let found = findings.conclude(Some(())).err()?;
        Some(found.iter().map(|each| format!("{}..{} {each}", each.span.start, each.span.end)).collect())
    }

    #[test]
    fn bytes_that_are_no_text_are_named_with_their_place() {
        assert_eq!(problem("a: é\r\n".as_bytes()), None);
        assert_eq!(problem(b"a: 1\nb: \xff").as_deref(), Some("8..9 f:2:4: byte 0xff is not UTF-8 text"));
        assert_eq!(
            problem("\u{feff}é\n\0".as_bytes()).as_deref(),
            Some("6..7 f:2:1: control character U+0000 in a text file")
        );
        assert_eq!(problem(b"\xef\xbb\xbfa\xff").as_deref(), Some("4..5 f:1:2: byte 0xff is not UTF-8 text"));
        assert_eq!(problem(&[b'a'; FILE_BYTES_MAX]), None);
        assert_eq!(
            problem(&[b'a'; FILE_BYTES_MAX + 1]).as_deref(),
            Some("0..0 f:1:1: the file has 1048577 bytes; 1048576 are the most")
        );
    }
}
