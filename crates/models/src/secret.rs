//! Keys that never print.

use std::fmt;

/// What stands where a key was.
const MASK: &str = "***";

/// A shorter key guards nothing, and masking it would garble every message.
const MASKED_BYTES_MIN: usize = 4;

/// A key. It prints as `***`, cannot be serialized, and is taken out of whatever a server echoes back.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a key. White space around it, as files and variables tend to have, is not part of it.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// The key itself, for the one header it belongs in.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the key.
    pub(crate) fn masked_in(&self, text: String) -> String {
        if self.0.len() < MASKED_BYTES_MIN || !text.contains(&self.0) {
            return text;
        }
        text.replace(&self.0, MASK)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let secret = Secret::new(" planted-key \n");
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)), "*** *** Some(\n    ***,\n)");
        assert_eq!(secret.expose(), "planted-key");
    }

    #[test]
    fn an_echoed_key_is_masked() {
        let masked = |key: &str| Secret::new(key).masked_in("a planted-key, twice: planted-key".into());
        assert_eq!(masked("planted-key"), "a ***, twice: ***");
        assert_eq!(masked("a"), "a planted-key, twice: planted-key");
        assert_eq!(masked(""), "a planted-key, twice: planted-key");
    }
}
