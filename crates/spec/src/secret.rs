//! Texts that look like keys. What looks like one is refused wherever it would enter a manifest, and is never shown.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Match, Regex};

use crate::diagnostic::{Diagnostic, Span};
use crate::source::Source;

/// What keys of well-known services look like. Boundaries are those of ASCII, which keeps the search fast.
const PATTERNS: &[&str] = &[
    r"(?-u:\b)sk-ant-[A-Za-z0-9_-]{16,}",
    r"(?-u:\b)sk-[A-Za-z0-9_-]{32,}",
    r"(?-u:\b)[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{30,}",
    r"(?-u:\b)github_pat_[A-Za-z0-9_]{30,}",
    r"(?-u:\b)glpat-[A-Za-z0-9_-]{20,}",
    r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"(?-u:\b)xapp-[0-9]-[A-Za-z0-9-]{20,}",
    r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)",
    r"(?-u:\b)AIza[A-Za-z0-9_-]{35}",
    r"(?-u:\b)npm_[A-Za-z0-9]{36}",
    r"(?-u:\b)pypi-[A-Za-z0-9_-]{50,}",
    r"(?-u:\b)hf_[A-Za-z0-9]{30,}",
    r"(?-u:\b)SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"(?-u:\b)dop_v1_[a-f0-9]{64}",
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}",
    r"https://discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{20,}",
];

/// Words that stand for a password in an example.
const PLACEHOLDERS: &[&str] =
    &["password", "pass", "passwd", "pw", "pwd", "secret", "token", "xxx", "***", "..."];

static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let all: Vec<String> = PATTERNS.iter().map(|pattern| format!("(?:{pattern})")).collect();
    // INVARIANT: the pattern is constant, and tests compile it.
    Regex::new(&all.join("|")).ok()
});

/// The shortest text that any of the patterns matches.
const BYTES_MIN: usize = 7;

/// The parts of a text that look like keys, in order.
pub fn find_secrets(text: &str) -> Vec<Range<usize>> {
    let Some(keys) = KEYS.as_ref() else { return Vec::new() };
    if text.len() < BYTES_MIN {
        return Vec::new();
    }
    let is_key = |found: &Match<'_>| {
        let generic = found.as_str().starts_with("sk-") && !found.as_str().starts_with("sk-ant-");
        !generic || is_random(found.as_str())
    };
    let mut found: Vec<Range<usize>> = keys.find_iter(text).filter(is_key).map(|key| key.range()).collect();
    found.extend(passwords(text));
    found.sort_by_key(|range| range.start);
    found
}

/// `user:password@` in addresses, with the slashes before it.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(start, slashes)| {
        let rest = &text[start + slashes.len()..];
        let authority = &rest[..rest.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(rest.len())];
        let (user, _) = authority.rsplit_once('@')?;
        let (name, password) = user.split_once(':')?;
        let is_one = !name.is_empty() && !password.is_empty() && !is_placeholder(password);
        is_one.then(|| start..start + slashes.len() + user.len() + 1)
    })
}

/// Words with dashes between them are no key; a key has digits among its letters.
fn is_random(key: &str) -> bool {
    key.bytes().any(|byte| byte.is_ascii_digit()) && key.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn is_placeholder(password: &str) -> bool {
    let is_template = password.starts_with(['$', '<', '{', '%', '[']);
    is_template || PLACEHOLDERS.contains(&password.to_ascii_lowercase().as_str())
}

/// Everything in a text of a file that looks like a key, as problems. They do not repeat it.
pub fn check_secrets(file: &str, text: &str) -> Vec<Diagnostic> {
    let found = find_secrets(text);
    if found.is_empty() {
        return Vec::new();
    }
    let source = Source::new(text);
    let bom = text.len() - source.text.len();
    let place =
        |range: Range<usize>| source.span(range.start.saturating_sub(bom), range.end.saturating_sub(bom));
    found.into_iter().map(|range| problem(file, place(range))).collect()
}

/// A text that looks like a key.
pub(crate) fn problem(file: &str, span: Span) -> Diagnostic {
    let message = "this looks like a secret, and would end up in the manifest";
    let help = "revoke it, and name where the new one is: `env:NAME`, `file:PATH` or `exec:PROGRAM ARG…`";
    Diagnostic::error("spec::secret", file, span, message, help).hidden()
}

/// The content of a file without its secrets: what looks like a key, and what the hidden problems point at. Every place
/// stays where it is, byte for byte.
pub fn mask(content: &[u8], hidden: impl IntoIterator<Item = Range<usize>>) -> Vec<u8> {
    let mut masked = content.to_vec();
    let found = std::str::from_utf8(content).map(find_secrets).unwrap_or_default();
    for range in hidden.into_iter().chain(found) {
        let end = range.end.min(masked.len());
        for byte in masked.get_mut(range.start..end).unwrap_or_default() {
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made up here, so that no file of the repository looks as if it held a key.
    fn made(prefix: &str, length: usize) -> String {
        let body: String = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8".chars().cycle().take(length).collect();
        format!("{prefix}{body}")
    }

    #[test]
    fn keys_are_found() {
        let upper = made("AKIA", 16).to_uppercase();
        let pem = format!("-----BEGIN {} KEY-----\nabc\n-----END RSA {} KEY-----", "RSA PRIVATE", "PRIVATE");
        let cut = format!("-----BEGIN {} KEY-----\nabc\n", "PRIVATE");
        let jwt = format!("{}.{}.{}", made("eyJ", 20), made("eyJ", 20), made("", 20));
        let slack = format!("https://hooks.slack.com/{}", made("services/T0/B0/", 24));
        let keys = [
            made("sk-ant-api03-", 40),
            made("sk-", 48),
            made("sk-proj-", 48),
            made("ghp_", 36),
            made("gho_", 36),
            made("github_pat_", 60),
            made("glpat-", 20),
            made("xoxb-", 24),
            upper,
            made("AIza", 35),
            made("npm_", 36),
            made("hf_", 34),
            pem,
            cut,
            jwt,
            slack,
        ];
        for key in &keys {
            let text = format!("é before {key}");
            let found: Vec<&str> = find_secrets(&text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, [key.as_str()], "{key}");
        }
        let url = "postgres://ada:hunter2@db/app";
        assert_eq!(
            find_secrets(url).into_iter().map(|range| &url[range]).collect::<String>(),
            "://ada:hunter2@"
        );
    }

    #[test]
    fn words_are_no_keys() {
        for text in [
            "sk-",
            "sk-ant-",
            "ask-anthropic-whether-this-is-a-key-or-only-a-name",
            "sk-some-words-with-dashes-between-them-and-no-digit",
            "task-1234567890123456789012345678901234567890",
            "https://example.com:8080/path@x",
            "mailto:ada@example.com",
            "postgres://user:password@host/db",
            "postgres://user:${PASSWORD}@host/db",
            "postgres://user:<password>@host/db",
            "AKIA",
            "eyJhbGciOiJIUzI1NiJ9",
            "env:SLACK_TOKEN",
        ] {
            assert_eq!(find_secrets(text), Vec::<Range<usize>>::new(), "{text}");
        }
    }

    #[test]
    fn masks_keep_every_place() {
        let key = made("ghp_", 36);
        let text = format!("a: {key}\nfrom: hunter2\r\nb: é\n");
        let at = text.find("hunter2").unwrap();
        let masked = String::from_utf8(mask(text.as_bytes(), Some(at..at + 7))).unwrap();
        assert_eq!(masked, format!("a: {}\nfrom: *******\r\nb: é\n", "*".repeat(40)));
        assert_eq!(mask(b"\xff ab", Some(3..99)), b"\xff a*");
        assert_eq!(mask(b"ab", Some(5..9)), b"ab");
    }
}
