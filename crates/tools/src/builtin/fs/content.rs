//! What bytes are: text, with its line ends, or something else, by its first bytes.

use std::borrow::Cow;

/// How much of a file is looked at to tell what it is.
const SNIFFED_BYTES: usize = 8 * 1024;

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::builtin) enum Content<'b> {
    /// Text in UTF-8.
    Text(&'b str),
    /// Text in some other encoding, with what cannot be read replaced.
    Garbled(Cow<'b, str>),
    /// No text; what it seems to be.
    Binary(&'static str),
}

/// How the lines of a text end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builtin) enum LineEnds {
    /// All with `\n`, or there is none.
    Lf,
    /// All with `\r\n`.
    Crlf,
    /// Some so, some so.
    Mixed,
}

impl LineEnds {
    /// The word for it.
    pub(in crate::builtin) const fn word(self) -> &'static str {
        match self {
            Self::Lf => "LF",
            Self::Crlf => "CRLF",
            Self::Mixed => "mixed",
        }
    }
}

/// What the first bytes of common formats are.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"RIFF", "RIFF file (such as WebP or WAV)"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive (or an office document)"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"\xfd7zXZ\0", "xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"\x7fELF", "ELF program"),
    (b"\0asm", "WebAssembly module"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// What a file holds.
pub(in crate::builtin) fn content(bytes: &[u8]) -> Content<'_> {
    let sniffed = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let known = MAGIC.iter().find(|(magic, _)| sniffed.starts_with(magic)).map(|(_, name)| *name);
    if sniffed.contains(&0) {
        return Content::Binary(known.unwrap_or("binary data"));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Content::Text(text);
    }
    let is_odd = |byte: &&u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    match known {
        Some(name) => Content::Binary(name),
        None if sniffed.iter().any(|byte| is_odd(&byte)) => Content::Binary("binary data"),
        None => Content::Garbled(String::from_utf8_lossy(bytes)),
    }
}

/// How the lines of a text end.
pub(in crate::builtin) fn line_ends(text: &str) -> LineEnds {
    let (all, crlf) = (text.matches('\n').count(), text.matches("\r\n").count());
    match crlf {
        0 => LineEnds::Lf,
        crlf if crlf == all => LineEnds::Crlf,
        _ => LineEnds::Mixed,
    }
}

/// How many lines a text has. What follows the last line break is a line if it is not empty.
pub(in crate::builtin) fn lines_in(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
        + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Counts things: `1 line`, `2 lines`.
pub(in crate::builtin) fn counted(count: usize, what: &str) -> String {
    match (count, what) {
        (1, what) => format!("1 {what}"),
        (count, "match") => format!("{count} matches"),
        (count, what) => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_by_what_they_are() {
        for (bytes, expected) in [
            (&b""[..], Content::Text("")),
            ("grün\n".as_bytes(), Content::Text("grün\n")),
            (b"caf\xe9", Content::Garbled("caf\u{fffd}".into())),
            (b"\x89PNG\r\n\x1a\n\0\0", Content::Binary("PNG image")),
            (b"a\0b", Content::Binary("binary data")),
            (b"\x01\x02\xff\x03", Content::Binary("binary data")),
            (b"\xff\xfea\0b\0", Content::Binary("UTF-16 text")),
            (b"GIF8 is text unless proven otherwise", Content::Text("GIF8 is text unless proven otherwise")),
        ] {
            assert_eq!(content(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn lines_and_their_ends_are_counted() {
        for (text, ends, lines) in [
            ("", LineEnds::Lf, 0),
            ("a", LineEnds::Lf, 1),
            ("a\n", LineEnds::Lf, 1),
            ("a\r\nb", LineEnds::Crlf, 2),
            ("a\r\nb\r\n", LineEnds::Crlf, 2),
            ("a\nb\r\n", LineEnds::Mixed, 2),
            ("\n\n", LineEnds::Lf, 2),
        ] {
            assert_eq!((line_ends(text), lines_in(text)), (ends, lines), "{text:?}");
        }
    }
}
