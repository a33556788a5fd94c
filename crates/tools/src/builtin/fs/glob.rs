//! Patterns for paths: `*`, `**`, `?`, `[a-z]`, `{a,b}`.
//!
//! A pattern becomes a regular expression, whose engine takes linear time whatever the pattern is; so no pattern of a model
//! can keep a core busy.

use regex::{Regex, RegexBuilder};

use crate::call::Failed;

/// The longest pattern.
const PATTERN_BYTES_MAX: usize = 1_000;

/// What a pattern may need once it is compiled.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// A pattern, ready to be asked.
#[derive(Debug)]
pub(in crate::builtin) struct Glob(Regex);

impl Glob {
    /// Reads a pattern. One without `/` stands for a name in any directory.
    pub(in crate::builtin) fn new(pattern: &str) -> Result<Self, Failed> {
        let refuse = |why: &str| {
            let shown: String = pattern.chars().take(100).collect();
            Failed::new("invalid", format!("`{}` is no pattern for paths: {why}", shown.escape_debug()))
        };
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(refuse("it is too long"));
        }
        if pattern.starts_with('/') {
            return Err(refuse("paths begin at the top of the workspace, without `/`"));
        }
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let anywhere = if pattern.contains('/') { "" } else { "(?:[^/]+/)*" };
        let expression = format!(r"\A{anywhere}{}\z", translated(pattern).map_err(refuse)?);
        let regex = RegexBuilder::new(&expression)
            .size_limit(COMPILED_BYTES_MAX)
            .dot_matches_new_line(true)
            .build()
            .map_err(|_| refuse("a range in `[…]` runs backwards, or it stands for too much"))?;
        Ok(Self(regex))
    }

    /// Whether it stands for this path.
    pub(in crate::builtin) fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

/// The regular expression of a pattern.
fn translated(pattern: &str) -> Result<String, &'static str> {
    let (mut expression, mut depth, mut at_start) = (String::new(), 0_usize, true);
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let starts_part = std::mem::replace(&mut at_start, matches!(next, '/' | '{' | ','));
        if starts_part && let Some(after) = rest.strip_prefix("**/") {
            expression.push_str("(?:[^/]+/)*");
            (rest, at_start) = (after, true);
            continue;
        }
        if starts_part
            && let Some(after) = rest.strip_prefix("**")
            && (after.is_empty() || after.starts_with([',', '}']))
        {
            expression.push_str(".+");
            rest = after;
            continue;
        }
        rest = &rest[next.len_utf8()..];
        match next {
            '*' => {
                rest = rest.trim_start_matches('*');
                expression.push_str("[^/]*");
            }
            '?' => expression.push_str("[^/]"),
            '[' => rest = class(rest, &mut expression)?,
            '{' => {
                depth += 1;
                expression.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                expression.push(')');
            }
            ',' if depth > 0 => expression.push('|'),
            '\\' => {
                let escaped = rest.chars().next().ok_or("nothing follows the last `\\`")?;
                rest = &rest[escaped.len_utf8()..];
                literal(escaped, &mut expression);
            }
            other => {
                at_start = other == '/';
                literal(other, &mut expression);
            }
        }
    }
    if depth > 0 { Err("a `{` has no `}`") } else { Ok(expression) }
}

/// A set of characters; what follows it.
fn class<'p>(rest: &'p str, expression: &mut String) -> Result<&'p str, &'static str> {
    const UNCLOSED: &str = "a `[` has no `]`; to stand for itself it is written `[[]`";
    let (negated, rest) = match rest.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // Right after the bracket, `]` is a member like any other.
    let first = rest.chars().next().ok_or(UNCLOSED)?.len_utf8();
    let end = first + rest[first..].find(']').ok_or(UNCLOSED)?;
    // Whatever a set holds, it does not reach across directories.
    expression.push_str(if negated { "[^/" } else { "[" });
    let members = &rest[..end];
    for (at, member) in members.char_indices() {
        let is_range = member == '-' && at > 0 && at + 1 < members.len();
        if is_range { expression.push('-') } else { literal(member, expression) }
    }
    expression.push_str(if negated { "]" } else { "&&[^/]]" });
    Ok(&rest[end + 1..])
}

fn literal(character: char, expression: &mut String) {
    expression.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_stand_for_paths() {
        let check = |pattern: &str, fits: &[&str], misses: &[&str]| {
            let glob = Glob::new(pattern).unwrap();
            fits.iter().for_each(|path| assert!(glob.matches(path), "{pattern} {path}"));
            misses.iter().for_each(|path| assert!(!glob.matches(path), "{pattern} {path}"));
        };
        check("*.rs", &["a.rs", "src/a.rs", "x/y/.rs"], &["a.rss", "a.rs/b", "ars"]);
        check("src/*.rs", &["src/a.rs"], &["src/x/a.rs", "a.rs", "x/src/a.rs"]);
        check("./src/*", &["src/a"], &["src/a/b"]);
        check("src/**/*.rs", &["src/a.rs", "src/x/y/a.rs"], &["a.rs", "src.rs", "src/a.rsx"]);
        check("**/a", &["a", "x/a", "x/y/a"], &["xa", "a/b"]);
        check("**", &["a", "a/b"], &[""]);
        check("src/**", &["src/a", "src/a/b"], &["src", "srcs/a"]);
        check("a**b", &["ab", "axxb"], &["a/b"]);
        check("a?c", &["abc", "aéc"], &["ac", "a/c", "abbc"]);
        check("[a-c]x", &["ax", "cx"], &["dx", "-x"]);
        check("[!a-c]x", &["dx"], &["ax", "/x"]);
        check("[^a]x", &["bx"], &["ax"]);
        check("[]a]x", &["]x", "ax"], &["bx"]);
        check("[a-]x", &["-x", "ax"], &["bx"]);
        check("[.^\\&]x", &[".x", "^x", "&x", "\\x"], &["ax"]);
        check("*.{ts,tsx}", &["a.ts", "b/a.tsx"], &["a.t", "a.ts,tsx"]);
        check("{src,tests/**}/*.rs", &["src/a.rs", "tests/x/a.rs"], &["a.rs", "tests/a.r"]);
        check("{a,{b,c}d}", &["a", "bd", "cd"], &["b", "ad"]);
        check("a,b}", &["a,b}"], &["a"]);
        check("a.b+c(d)|e$^", &["a.b+c(d)|e$^"], &["axb+c(d)|e$^"]);
        check("\\*", &["*"], &["a"]);
        check("", &[], &["a"]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (pattern, why) in [
            ("{a", "a `{` has no `}`"),
            ("[a", "a `[` has no `]`"),
            ("[", "a `[` has no `]`"),
            ("a\\", "nothing follows the last"),
            ("[z-a]", "runs backwards"),
            ("/etc/*", "without `/`"),
            (&"a".repeat(1_001), "too long"),
        ] {
            let failed = Glob::new(pattern).unwrap_err();
            assert!(failed.message.contains(why), "{pattern}: {}", failed.message);
        }
    }

    /// What takes a matcher that tries one way after another longer than the age of the universe.
    #[test]
    fn hostile_patterns_take_linear_time() {
        let glob = Glob::new(&format!("{}b", "*a".repeat(400))).unwrap();
        assert!(!glob.matches(&"a".repeat(1_000)));
        let glob = Glob::new(&format!("{}z", "**/".repeat(300))).unwrap();
        assert!(!glob.matches(&"a/".repeat(500)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_refused(pattern in "\\PC{0,40}", path in "\\PC{0,40}") {
            if let Ok(glob) = Glob::new(&pattern) {
                glob.matches(&path);
            }
        }

        #[test]
        fn a_plain_name_stands_for_itself(name in "[a-zA-Z0-9 ._+()|$^-]{1,20}") {
            prop_assert!(Glob::new(&name).unwrap().matches(&name));
            let inside = format!("x/{}", name);
            prop_assert!(Glob::new(&name).unwrap().matches(&inside));
            let longer = format!("{}x", name);
            prop_assert!(!Glob::new(&name).unwrap().matches(&longer));
        }
    }
}
