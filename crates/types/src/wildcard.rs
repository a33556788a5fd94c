//! Patterns in which `*` stands for any text, the empty one included. Rules, `--live-writes` and the build share this matcher.

/// Whether a text is one that a pattern stands for.
///
/// Takes time in proportion to both texts: every `*` takes as little as it can, which is enough, and no part of the text is
/// looked at twice.
pub fn matches(pattern: &str, text: &str) -> bool {
    walk(pattern, text, |_| {})
}

/// `passed` is told how many bytes of the text each piece of the pattern moved past.
fn walk(pattern: &str, text: &str, mut passed: impl FnMut(usize)) -> bool {
    let Some((first, pieces)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    passed(first.len());
    let (middle, last) = pieces.rsplit_once('*').unwrap_or(("", pieces));
    for piece in middle.split('*').filter(|piece| !piece.is_empty()) {
        // `find` is linear, also for repetitive texts.
        let Some(at) = rest.find(piece) else { return false };
        let end = at + piece.len();
        passed(end);
        rest = rest.get(end..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_whole_names() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        };
        check("send", "send", true);
        check("send", "send_mail", false);
        check("send", "resend", false);
        check("*", "", true);
        check("**", "", true);
        check("send*", "send_mail", true);
        check("*mail", "send_mail", true);
        check("mcp://*/slack", "mcp://integrations.example.com/slack", true);
        check("mcp://*/slack", "mcp://integrations.example.com/jira", false);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c", false);
        check("a*a", "a", false);
        check("*é*", "caféteria", true);
        check("", "a", false);
        check("", "", true);
    }

    /// The definition, tried every way.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some((b'*', after)), None) => naive(after, text),
            (Some((b'*', after)), Some((_, rest))) => naive(after, text) || naive(pattern, rest),
            (Some((_, _)), None) => false,
            (Some((wanted, after)), Some((found, rest))) => wanted == found && naive(after, rest),
        }
    }

    fn words(letters: &[char], length_max: usize) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut from = 0;
        for _ in 0..length_max {
            let to = words.len();
            for at in from..to {
                for letter in letters {
                    let longer = format!("{}{letter}", words[at]);
                    words.push(longer);
                }
            }
            from = to;
        }
        words
    }

    #[test]
    fn every_short_pattern_means_what_the_definition_says() {
        let texts = words(&['a', 'b'], 5);
        for pattern in words(&['a', 'b', '*'], 5) {
            for text in &texts {
                let expected = naive(pattern.as_bytes(), text.as_bytes());
                assert_eq!(matches(&pattern, text), expected, "{pattern} {text}");
            }
        }
    }

    #[test]
    fn no_pattern_looks_at_a_text_twice() {
        let text = "a".repeat(10_000);
        for pattern in [
            format!("{}b", "*a".repeat(1_000)),
            format!("{}b*", "*a".repeat(1_000)),
            format!("{}b", "a*".repeat(9_999)),
            "*".repeat(10_000) + "b",
            format!("*{}*b", "aab*".repeat(100)),
        ] {
            let mut bytes = 0;
            let mut steps = 0;
            let found = walk(&pattern, &text, |passed| {
                bytes += passed;
                steps += 1;
            });
            assert!(!found, "{pattern:.20}");
            assert!(bytes <= text.len() && steps <= pattern.len() + 1, "{pattern:.20}: {bytes} {steps}");
        }
    }
}
