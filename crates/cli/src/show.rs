//! How values look in a terminal. Whatever was stored, nothing shown here can move the cursor, change a colour or
//! reorder a line.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many bytes of a binary payload are shown.
const HEX_MAX: usize = 16;

/// `text` on one line, with everything invisible written out.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(None, text, |_| false, |c, shown| shown.extend(c.escape_default()))
}

/// `text` with its line breaks and tabs, and everything else that is invisible written out.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    printable_lines_after(None, text)
}

/// The same for a text that goes on after a character that was shown before.
pub(crate) fn printable_lines_after(before: Option<char>, text: &str) -> Cow<'_, str> {
    escaped(before, text, |c| matches!(c, '\n' | '\t'), |c, shown| shown.extend(c.escape_default()))
}

fn escaped(
    before: Option<char>,
    text: &str,
    is_fine: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hazardous(c) && !is_fine(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = before;
    for c in text.chars() {
        if is_hazardous(c) && !is_fine(c) && !joins(before, c) {
            escape(c, &mut shown);
        } else {
            shown.push(c);
        }
        before = Some(c);
    }
    Cow::Owned(shown)
}

/// Control characters, and those that reorder or hide what stands beside them, or that are not seen at all.
pub(crate) fn is_hazardous(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{AD}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E0FFF}'
        )
}

/// Whether a joiner (U+200D) or a non-joiner (U+200C) does what it is for: a joiner makes one picture of two or shapes a
/// letter, a non-joiner keeps letters apart in scripts that join them. Between letters of other scripts, like Latin, it would
/// only make two names look the same.
fn joins(before: Option<char>, c: char) -> bool {
    let Some(before) = before else { return false };
    // Arabic, Syriac, N'Ko, the scripts of India and its neighbours, Mongolian, and their presentation forms.
    let is_joined = matches!(
        before,
        '\u{600}'..='\u{8FF}' | '\u{900}'..='\u{DFF}' | '\u{F00}'..='\u{109F}' | '\u{1780}'..='\u{18AF}'
            | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}'
    ) && !is_hazardous(before);
    let is_picture = matches!(before, '\u{2190}'..='\u{2BFF}' | '\u{FE0F}' | '\u{1F000}'..='\u{1FAFF}');
    match c {
        '\u{200C}' => is_joined,
        '\u{200D}' => is_joined || is_picture,
        _ => false,
    }
}

/// JSON that says the same and is safe to show. What is hazardous can only stand in strings, where it may be escaped.
pub(crate) fn json_on_a_terminal(json: &str) -> Cow<'_, str> {
    escaped(
        None,
        json,
        |_| false,
        |c, shown| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        },
    )
}

/// A payload on one line: JSON as it is (its line breaks can only be layout), other text quoted, the rest as bytes.
pub(crate) fn payload(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return binary(bytes);
    };
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        let flat = text.trim().replace(['\n', '\r', '\t'], " ");
        return printable(&flat).into_owned();
    }
    format!("<{}> \"{}\"", count(bytes.len() as u64, "byte"), printable(text))
}

fn binary(bytes: &[u8]) -> String {
    let mut shown = format!("<{}>", count(bytes.len() as u64, "byte"));
    for byte in bytes.iter().take(HEX_MAX) {
        let _ = write!(shown, " {byte:02x}");
    }
    if bytes.len() > HEX_MAX {
        shown.push_str(" …");
    }
    shown
}

/// `text` cut to `columns`, with an ellipsis where something is missing.
pub(crate) fn shorten(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 1;
    let mut kept = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    Cow::Owned(kept)
}

/// `text` followed by the spaces that make it `columns` wide. (`{:<n}` counts characters, not columns.)
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(text.width());
    format!("{text}{:missing$}", "")
}

/// `1 event`, `2 events`, `1,234,567 events`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let ending = match noun {
        _ if number == 1 => "",
        "branch" | "process" => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", thousands(number))
}

/// `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `17 bytes`, `1.2 KB`, `3.4 GB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1_000 {
        return count(bytes, "byte");
    }
    let (mut scaled, mut unit) = (bytes as f64 / 1_000.0, 0);
    while scaled >= 999.95 && unit + 1 < UNITS.len() {
        scaled /= 1_000.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// `text` as one word of a POSIX shell, quoted only when it must be.
pub(crate) fn shell(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stored_reaches_a_terminal_raw() {
        assert_eq!(printable("plain — ü"), "plain — ü");
        assert_eq!(printable("\u{1b}[31mred\r\u{202E}"), r"\u{1b}[31mred\r\u{202e}");
        assert_eq!(printable_lines("a\n\tb\r\u{1b}"), "a\n\tb\\r\\u{1b}");
        assert_eq!(payload(b"{\n  \"a\": 1\n}"), r#"{   "a": 1 }"#);
        assert_eq!(payload("\"\u{9b}2J\"".as_bytes()), r#""\u{9b}2J""#);
        assert_eq!(payload(b"not json\x07"), r#"<9 bytes> "not json\u{7}""#);
        assert_eq!(payload(&[0xff, 0x00]), "<2 bytes> ff 00");
        assert_eq!(payload(&[0xff; 17]), format!("<17 bytes>{} …", " ff".repeat(16)));
    }

    #[test]
    fn what_joins_is_shown_and_what_deceives_is_not() {
        let same = [
            "👩\u{200D}👩\u{200D}👧\u{200D}👦",
            "👩🏽\u{200D}🔬",
            "🏳\u{FE0F}\u{200D}🌈",
            "❤\u{FE0F}\u{200D}🔥",
            "🧑\u{200D}⚕\u{FE0F}",
            "می\u{200C}شود",
            "نمی\u{200C}دانم",
            "ක්\u{200D}ෂ",
            "क्\u{200D}ष",
            "شلاق",
            "שלום",
            "日本語 ü é",
        ];
        for text in same {
            assert_eq!(printable(text), text);
            assert_eq!(printable_lines(text), text);
            assert_eq!(json_on_a_terminal(text), text);
            // As it streams: the joiner may come alone.
            let mut shown = String::new();
            let mut before = None;
            for c in text.chars() {
                shown.push_str(&printable_lines_after(before, &c.to_string()));
                before = Some(c);
            }
            assert_eq!(shown, text);
        }
        for (text, expected) in [
            ("pay\u{200D}pal", r"pay\u{200d}pal"),
            ("pay\u{200C}pal", r"pay\u{200c}pal"),
            ("\u{200D}a", r"\u{200d}a"),
            ("👩\u{200C}a", r"👩\u{200c}a"),
            ("👩\u{200D}\u{200D}👩", "👩\u{200D}\\u{200d}👩"),
            ("ا\u{61C}1", r"ا\u{61c}1"),
            ("a\u{202E}b\u{2066}c\u{200F}", r"a\u{202e}b\u{2066}c\u{200f}"),
            ("a\u{200B}\u{2060}\u{FEFF}", r"a\u{200b}\u{2060}\u{feff}"),
            ("a\u{E0041}\u{E0100}", r"a\u{e0041}\u{e0100}"),
            ("a\u{AD}b\u{3164}", r"a\u{ad}b\u{3164}"),
        ] {
            assert_eq!(printable(text), expected);
        }
        assert_eq!(json_on_a_terminal("\"a\u{E0041}\""), r#""a\udb40\udc41""#);
    }

    #[test]
    fn json_stays_the_same_value() {
        let json = "{\"a\":\"\u{9b}2J\u{202e}\u{7f}ü\"}";
        let shown = json_on_a_terminal(json);
        assert_eq!(shown, r#"{"a":"\u009b2J\u202e\u007fü"}"#);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(json));
    }

    #[test]
    fn widths_are_counted_in_columns() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
        assert_eq!(shorten("日本語", 5), "日本…");
        assert_eq!(pad("日本", 6), "日本  ");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        let sizes = [0, 1, 999, 1_000, 999_949, 999_950, 5_000_000_000].map(size);
        assert_eq!(sizes, ["0 bytes", "1 byte", "999 bytes", "1.0 KB", "999.9 KB", "1.0 MB", "5.0 GB"]);
        assert_eq!([1, 2].map(|n| count(n, "branch")), ["1 branch", "2 branches"]);
        assert_eq!([1, 2].map(|n| count(n, "event")), ["1 event", "2 events"]);
    }

    #[test]
    fn shell_words_survive_a_shell() {
        assert_eq!(shell("./a-b.c"), "./a-b.c");
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("it's"), r"'it'\''s'");
        assert_eq!(shell(""), "''");
    }
}
