//! Secrets in use, taken out of whatever comes back.

mod blocks;
mod forms;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};

use self::forms::forms;
use weir_types::Secret;

/// What stands where a secret was.
pub const REDACTED: &str = "[secret]";

/// Secrets of fewer bytes than this are not looked for: they guard nothing, and they are in every other word.
pub const SHORT_BYTES: usize = 6;

/// Most forms that are looked for: far above what a project has. Beyond it the secrets learned first are still looked for,
/// and [`Redactor::learn`] says so.
const FORMS_MAX: usize = 20_000;

/// Knows the secrets that are in use and takes them out of texts, in every form in which they usually come back: as they are,
/// in base64, percent-encoded, and escaped for JSON. Cheap to clone; all clones know the same.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    forms: BTreeSet<String>,
    finder: Option<Arc<AhoCorasick>>,
}

impl Redactor {
    /// Looks for this secret from now on. Says whether it does: one that is too short is not looked for.
    pub fn learn(&self, secret: &Secret) -> bool {
        if secret.expose().len() < SHORT_BYTES {
            return false;
        }
        // Most calls tell nothing new: a server's secret is looked up for each of them.
        if self.0.read().unwrap_or_else(PoisonError::into_inner).forms.contains(secret.expose()) {
            return true;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let new = forms(secret.expose());
        if known.forms.len() + new.len() > FORMS_MAX {
            return false;
        }
        known.forms.extend(new);
        // Of forms that begin alike, the longest is taken out: no rest of a secret stays behind.
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&known.forms);
        match finder {
            Ok(finder) => known.finder = Some(Arc::new(finder)),
            Err(_) => return false,
        }
        true
    }

    /// A text without the secrets.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(finder) = self.finder() else { return Cow::Borrowed(text) };
        let mut places = finder.find_iter(text).peekable();
        if places.peek().is_none() {
            return Cow::Borrowed(text);
        }
        let (mut clean, mut end) = (String::with_capacity(text.len()), 0);
        for place in places {
            clean.push_str(&text[end..place.start()]);
            clean.push_str(REDACTED);
            end = place.end();
        }
        clean.push_str(&text[end..]);
        Cow::Owned(clean)
    }

    /// Whether a text has a secret in it.
    pub fn finds(&self, text: &str) -> bool {
        self.finder().is_some_and(|finder| finder.is_match(text))
    }

    fn finder(&self) -> Option<Arc<AhoCorasick>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).finder.clone()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    const SECRET: &str = "k3y/+\"ü?&=\\ x>~";

    fn knowing(secrets: &[&str]) -> Redactor {
        let redactor = Redactor::default();
        for secret in secrets {
            assert!(redactor.learn(&Secret::new(*secret)));
        }
        redactor
    }

    #[test]
    fn a_secret_is_found_in_every_usual_form() {
        let redactor = knowing(&[SECRET]);
        let json = serde_json::to_string(SECRET).unwrap();
        for (form, expected) in [
            (SECRET.to_owned(), "[secret]"),
            (format!("Bearer {SECRET}!"), "Bearer [secret]!"),
            (format!("{SECRET}{SECRET}"), "[secret][secret]"),
            (json.clone(), "\"[secret]\""),
            (json.replace('ü', "\\u00fc"), "\"[secret]\""),
            (json.replace('/', "\\/"), "\"[secret]\""),
            ("a=k3y%2F%2B%22%C3%BC%3F%26%3D%5C%20x%3E~;".to_owned(), "a=[secret];"),
            ("a=k3y%2f%2b%22%c3%bc%3f%26%3d%5c%20x%3e~;".to_owned(), "a=[secret];"),
            ("a=k3y%2F%2B%22%C3%BC%3F%26%3D%5C+x%3E%7E;".to_owned(), "a=[secret];"),
        ] {
            assert_eq!(redactor.redact(&form), expected, "{form}");
        }
        for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
            assert_eq!(redactor.redact(&engine.encode(SECRET)), REDACTED);
            // Within something longer, at any place, nothing of it that could be decoded stays.
            for before in ["", "u", "us", "use", "user:"] {
                let whole = engine.encode(format!("{before}{SECRET} and more"));
                let clean = redactor.redact(&whole).into_owned();
                assert!(clean.contains(REDACTED) && clean.len() < whole.len(), "{before}: {whole} {clean}");
            }
        }
        let twice = serde_json::to_string(&json).unwrap();
        assert!(!redactor.redact(&twice).contains("k3y"), "{twice}");
    }

    #[test]
    fn the_longest_secret_goes_and_short_ones_stay() {
        let redactor = knowing(&["secret-1", "secret-12345"]);
        assert_eq!(redactor.redact("secret-12345 secret-1 secret-"), "[secret] [secret] secret-");
        assert!(!redactor.learn(&Secret::new("abcde")));
        assert!(matches!(redactor.redact("abcde"), Cow::Borrowed("abcde")));
        assert!(matches!(Redactor::default().redact("anything"), Cow::Borrowed("anything")));
        assert_eq!(format!("{redactor:?}"), "Redactor");
        assert!(redactor.finds("a secret-1") && !redactor.finds("a secret"));
    }

    proptest! {
        #[test]
        fn no_secret_is_left(secret in "\\PC{6,40}", before in "\\PC{0,20}", after in "\\PC{0,20}") {
            prop_assume!(!REDACTED.contains(&secret));
            let redactor = knowing(&[&secret]);
            let clean = redactor.redact(&format!("{before}{secret}{after}")).into_owned();
            // Only what is around the place could make it anew.
            let around = format!("{before}{REDACTED}{after}");
            prop_assert!(!clean.contains(&secret) || around.contains(&secret));
            let json = serde_json::to_string(&format!("{before}{secret}{after}")).unwrap();
            prop_assert!(redactor.finds(&json));
        }
    }
}
