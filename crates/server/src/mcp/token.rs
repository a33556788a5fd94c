//! The tokens of the bridge: each names its session, and proves that whoever made it knew the secret.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use weir_engine::Address;
use weir_types::{BranchName, Explain, Fault, Secret, SessionId};

/// The shortest secret. A shorter one can be guessed from a single token.
const SECRET_CHARS_MIN: usize = 32;

/// What a token is good for, so that none made for anything else passes.
const CONTEXT: &[u8] = b"weir bridge token v1\n";

/// The same for a token that names a branch other than `main`.
const BRANCH_CONTEXT: &[u8] = b"weir bridge token of a branch v1\n";

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

/// The token by which a remote runner calls the tools of a session, on one of its branches. It is good until that is closed or halted,
/// or the secret changes.
///
/// # Errors
/// When the secret is too short.
pub fn bridge_token(secret: &Secret, address: &Address) -> Result<Secret, BridgeSecretError> {
    check_bridge_secret(secret)?;
    let proof = BASE64_URL_SAFE_NO_PAD.encode(mac(secret, address).finalize().into_bytes());
    Ok(Secret::new(format!("{address}.{proof}")))
}

/// The session and the branch that a token is for, if it is one.
pub(super) fn address_of(secret: &Secret, token: &str) -> Option<Address> {
    let (name, proof) = token.rsplit_once('.')?;
    let (session, branch) = match name.split_once('@') {
        Some((session, branch)) => (session, branch.parse().ok()?),
        None => (name, BranchName::main()),
    };
    let address = Address { session: session.parse::<SessionId>().ok()?, branch };
    // One session has one token: other spellings of its address are none.
    let proof = BASE64_URL_SAFE_NO_PAD.decode(proof).ok().filter(|_| address.to_string() == name)?;
    // In a time that does not depend on where they differ.
    mac(secret, &address).verify_slice(&proof).is_ok().then_some(address)
}

fn mac(secret: &Secret, address: &Address) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("any key will do");
    // Tokens of `main` are what they were before tokens had branches.
    mac.update(if address.branch == BranchName::main() { CONTEXT } else { BRANCH_CONTEXT });
    mac.update(address.to_string().as_bytes());
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
        let main = Address::main(one);
        let token = bridge_token(&key, &main).unwrap();
        assert_eq!(address_of(&key, token.expose()), Some(main));
        assert_eq!(address_of(&secret(&"l".repeat(32)), token.expose()), None);
        let proof = token.expose().split_once('.').unwrap().1;
        assert_eq!(address_of(&key, &format!("{other}.{proof}")), None);
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
            assert_eq!(address_of(&key, &token), None, "{token}");
        }
    }

    #[test]
    fn a_token_is_good_for_its_branch_alone() {
        let key = secret(&"k".repeat(32));
        let session = SessionId::from_u128(7);
        let on = |branch: &str| Address { session, branch: branch.parse().unwrap() };
        let token = |branch: &str| bridge_token(&key, &on(branch)).unwrap().expose().to_owned();
        let proof = |token: &str| token.rsplit_once('.').unwrap().1.to_owned();
        for branch in ["main", "alt", "v1.2"] {
            assert_eq!(address_of(&key, &token(branch)), Some(on(branch)), "{branch}");
        }
        let (main, alt) = (proof(&token("main")), proof(&token("alt")));
        let forged = [
            format!("{session}.{alt}"),
            format!("{session}@alt.{main}"),
            format!("{session}@other.{alt}"),
            format!("{session}@main.{main}"),
            format!("{session}@.{main}"),
        ];
        for token in forged {
            assert_eq!(address_of(&key, &token), None, "{token}");
        }
    }

    #[test]
    fn the_token_is_what_it_was() {
        // Tokens that were handed out stay good: this one was made elsewhere, by the same rule.
        let token = bridge_token(&secret(&"k".repeat(32)), &Address::main(SessionId::from_u128(1))).unwrap();
        assert_eq!(token.expose(), "00000000000000000000000001.UNsNNKjWc5YOPNfahl8RMsRIT0Coki8E9kiwlO2ZGxM");
    }

    #[test]
    fn a_short_secret_makes_none() {
        for (chars, good) in [(0, false), (31, false), (32, true), (500, true)] {
            let made = bridge_token(&secret(&"é".repeat(chars)), &Address::main(SessionId::from_u128(1)));
            assert_eq!(made.is_ok(), good, "{chars}");
        }
        let error = check_bridge_secret(&secret("hunter2")).unwrap_err();
        assert_eq!(error, BridgeSecretError::Short { chars: 7 });
        assert!(!error.to_string().contains("hunter2"));
    }
}
