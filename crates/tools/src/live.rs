//! Which writes really happen.

/// Which calls that change something outside of their session really run; the others only pretend, and say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Live {
    /// None.
    #[default]
    Nothing,
    /// All.
    Everything,
    /// Those whose name or source matches one of these patterns, in which `*` stands for anything.
    Matching(Vec<String>),
}

impl Live {
    /// Whether calls of a tool really run.
    pub fn covers(&self, tool: &str, source: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Matching(patterns) => {
                patterns.iter().any(|pattern| matches(pattern, tool) || matches(pattern, source))
            }
        }
    }
}

/// Whether a text is one that a pattern stands for. Every `*` takes as little as it can, which is enough: what follows it
/// is looked for from left to right.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
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
        check("send*", "send_mail", true);
        check("*mail", "send_mail", true);
        check("mcp://*/slack", "mcp://integrations.example.com/slack", true);
        check("mcp://*/slack", "mcp://integrations.example.com/jira", false);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c", false);
        check("a*a", "a", false);
        check("", "a", false);
    }

    #[test]
    fn a_tool_is_live_by_its_name_or_its_source() {
        let live = Live::Matching(vec!["tools/*".to_owned(), "post".to_owned()]);
        assert!(live.covers("lookup", "tools/lookup") && live.covers("post", "mcp://x"));
        assert!(!live.covers("get", "mcp://x"));
        assert!(!Live::Nothing.covers("get", "x") && Live::Everything.covers("get", "x"));
    }
}
