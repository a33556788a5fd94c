//! The tokens of the bridge: each names its session, and proves that whoever made it knew the secret.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use weir_types::{Explain, Fault, Secret, SessionId};

/// The shortest secret. A shorter one can be guessed from a single token.
const SECRET_CHARS_MIN: usize = 32;

/// What a token is good for, so that none made for anything else passes.
const CONTEXT: &[u8] = b"weir bridge token v1\n";

/// Why the bridge does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeSecretError {
    /// The secret is too short.
    #[error("the secret of the bridge has {chars} characters, and needs at least {SECRET_CHARS_MIN}")]
    Short {
        /// How many it has.
        chars: usize,
    },
}

impl Explain for BridgeSecretError {
    fn code(&self) -> &'static str {
        "server::bridge-secret"
    }

    fn help(&self) -> Cow<'static, str> {
        "set WEIR_BRIDGE_SECRET to a longer one, such as `openssl rand -hex 32` prints, or unset it".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Whether tokens can be derived from a secret.
///
/// # Errors
/// When it is too short.
pub fn check_bridge_secret(secret: &Secret) -> Result<(), BridgeSecretError> {
    let chars = secret.expose().chars().count();
    if chars < SECRET_CHARS_MIN { Err(BridgeSecretError::Short { chars }) } else { Ok(()) }
}

/// The token by which a remote runner calls the tools of a session. It is good until the session is closed or halted, or the
/// secret changes.
///
/// # Errors
/// When the secret is too short.
pub fn bridge_token(secret: &Secret, session: SessionId) -> Result<Secret, BridgeSecretError> {
    check_bridge_secret(secret)?;
    let proof = BASE64_URL_SAFE_NO_PAD.encode(mac(secret, session).finalize().into_bytes());
    Ok(Secret::new(format!("{session}.{proof}")))
}

/// The session that a token is for, if it is one.
pub(super) fn session_of(secret: &Secret, token: &str) -> Option<SessionId> {
    let (session, proof) = token.split_once('.')?;
    let id: SessionId = session.parse().ok()?;
    // One session has one token: other spellings of its id are none.
    let proof = BASE64_URL_SAFE_NO_PAD.decode(proof).ok().filter(|_| id.to_string() == session)?;
    // In a time that does not depend on where they differ.
    mac(secret, id).verify_slice(&proof).is_ok().then_some(id)
}

fn mac(secret: &Secret, session: SessionId) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("any key will do");
    mac.update(CONTEXT);
    mac.update(session.to_string().as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text)
    }

    #[test]
    fn a_token_is_good_for_its_session_and_its_secret_alone() {
        let key = secret(&"k".repeat(32));
        let (one, other) = (SessionId::from_u128(u128::MAX / 3), SessionId::from_u128(2));
        let token = bridge_token(&key, one).unwrap();
        assert_eq!(session_of(&key, token.expose()), Some(one));
        assert_eq!(session_of(&secret(&"l".repeat(32)), token.expose()), None);
        let proof = token.expose().split_once('.').unwrap().1;
        assert_eq!(session_of(&key, &format!("{other}.{proof}")), None);
        let lower = one.to_string().to_lowercase();
        let bad = [
            String::new(),
            ".".to_owned(),
            one.to_string(),
            format!("{one}."),
            format!("{one}.{}", &proof[..proof.len() - 1]),
            format!("{one}.{proof}A"),
            format!("{one}.{proof}="),
            format!("{one}.{proof}.{proof}"),
            format!("{lower}.{proof}"),
            format!(" {one}.{proof}"),
            format!("{one}.é{proof}"),
        ];
        for token in bad {
            assert_eq!(session_of(&key, &token), None, "{token}");
        }
    }

    #[test]
    fn the_token_is_what_it_was() {
        // Tokens that were handed out stay good: this one was made elsewhere, by the same rule.
        let token = bridge_token(&secret(&"k".repeat(32)), SessionId::from_u128(1)).unwrap();
        assert_eq!(token.expose(), "00000000000000000000000001.UNsNNKjWc5YOPNfahl8RMsRIT0Coki8E9kiwlO2ZGxM");
    }

    #[test]
    fn a_short_secret_makes_none() {
        for (chars, good) in [(0, false), (31, false), (32, true), (500, true)] {
            let made = bridge_token(&secret(&"é".repeat(chars)), SessionId::from_u128(1));
            assert_eq!(made.is_ok(), good, "{chars}");
        }
        let error = check_bridge_secret(&secret("hunter2")).unwrap_err();
        assert_eq!(error, BridgeSecretError::Short { chars: 7 });
        assert!(!error.to_string().contains("hunter2"));
    }
}
