//! How values look in a terminal. Whatever was stored, nothing shown here can move the cursor, change a colour or
//! reorder a line.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many bytes of a binary payload are shown.
const HEX_MAX: usize = 16;

/// `text` on one line, with everything invisible written out.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hazardous) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hazardous(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// `text` with its line breaks and tabs, and everything else that is invisible written out.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    let hazardous = |c: char| c != '\n' && c != '\t' && is_hazardous(c);
    if !text.chars().any(hazardous) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hazardous(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, and those that reorder or hide what stands beside them.
pub(crate) fn is_hazardous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

/// JSON that says the same and is safe to show. What is hazardous can only stand in strings, where it may be escaped.
pub(crate) fn json_on_a_terminal(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_hazardous) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match u32::from(c) {
            // All of them are in the first plane.
            number if is_hazardous(c) => drop(write!(shown, "\\u{number:04x}")),
            _ => shown.push(c),
        }
    }
    Cow::Owned(shown)
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
