//! A secret that never prints.

use std::fmt;

/// What stands where a secret was.
const MASK: &str = "***";

/// A shorter one guards nothing, and masking it would garble every message.
const MASKED_BYTES_MIN: usize = 4;

/// A secret. It prints as `***` and cannot be serialized.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a secret, exactly as it is.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for the one place it belongs in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without it, for what a server may echo.
    pub fn masked_in(&self, text: String) -> String {
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
        let secret = Secret::new(" planted-key\n");
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)), "*** *** Some(\n    ***,\n)");
        assert_eq!(secret.expose(), " planted-key\n");
    }

    #[test]
    fn an_echoed_key_is_masked() {
        let masked = |key: &str| Secret::new(key).masked_in("a planted-key, twice: planted-key".into());
        assert_eq!(masked("planted-key"), "a ***, twice: ***");
        assert_eq!(masked("a"), "a planted-key, twice: planted-key");
        assert_eq!(masked(""), "a planted-key, twice: planted-key");
    }
}
