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
}
