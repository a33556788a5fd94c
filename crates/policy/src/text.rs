//! Pieces of Cedar text. Every name goes through [`literal`] or [`pattern`], so that none of them can end the text it is in.

use std::fmt::Write as _;

/// A text as a literal.
pub(crate) fn literal(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    text.chars().for_each(|character| escape(character, &mut written));
    written.push('"');
    written
}

/// A pattern for `like`: `*` stands for anything, everything else for itself.
pub(crate) fn pattern(text: &str) -> String {
    // Cedar's `*` is ours, and no other character of ours is special to it.
    literal(text)
}

/// An entity.
pub(crate) fn entity(kind: &str, name: &str) -> String {
    format!("{kind}::{}", literal(name))
}

/// An annotation, in a line of its own.
pub(crate) fn annotation(key: &str, value: &str) -> String {
    format!("@{key}({})\n", literal(value))
}

/// Several conditions as one. They are paired, so that many of them are not nested deep.
pub(crate) fn joined(mut parts: Vec<String>, operator: &str) -> Option<String> {
    while parts.len() > 1 {
        let pairs = parts.chunks(2).map(|pair| match pair {
            [first, second] => format!("({first} {operator} {second})"),
            alone => alone.concat(),
        });
        parts = pairs.collect();
    }
    parts.pop()
}

/// Characters that show are kept; whatever else, and what is special in a literal, is written as its number.
fn escape(character: char, written: &mut String) {
    match character {
        '"' => written.push_str("\\\""),
        '\\' => written.push_str("\\\\"),
        ' ' => written.push(' '),
        plain if plain.is_ascii_graphic() || plain.is_alphanumeric() => written.push(plain),
        // INVARIANT: writing to a `String` cannot fail.
        odd => {
            let _ = write!(written, "\\u{{{:x}}}", u32::from(odd));
        }
    }
}

/// A length of time: `90s`, `1h30m`, `250ms`.
pub(crate) fn duration_ms(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 5] =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == &rest[..letters])?;
        rest = &rest[letters..];
        total = total.checked_add(number.checked_mul(*millis)?)?;
    }
    (total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_show_what_shows() {
        assert_eq!(literal("a \"b\" \\ é\n\u{202e}*"), r#""a \"b\" \\ é\u{a}\u{202e}*""#);
        assert_eq!(entity("User", "x\");"), r#"User::"x\");""#);
    }

    #[test]
    fn many_conditions_are_not_nested_deep() {
        let parts: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let text = joined(parts, "&&").unwrap();
        let depth = text.chars().scan(0_i32, |open, character| {
            *open += match character {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            Some(*open)
        });
        assert_eq!(depth.max(), Some(10));
    }

    #[test]
    fn lengths_of_time_are_read() {
        let read = ["1h", "1h30m", "250ms", "2d"].map(duration_ms);
        assert_eq!(read, [Some(3_600_000), Some(5_400_000), Some(250), Some(172_800_000)]);
        for wrong in ["", "1", "h", "0s", "1 h", "1w", "-1h", "99999999999999999999s", "1h\u{e9}"] {
            assert_eq!(duration_ms(wrong), None, "{wrong}");
        }
    }
}
