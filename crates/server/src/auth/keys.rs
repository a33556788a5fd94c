//! Public keys of whoever signs tokens: a JWKS in a file or behind an address. They are kept, and asked for again when a token
//! names one that is not known, but not often; what cannot be had again stays as it was.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::Url;
use tokio::sync::{Notify, watch};

/// The largest set that is read.
const BYTES_MAX: usize = 256 * 1024;

/// Most keys of a set.
const KEYS_MAX: usize = 64;

/// How long an address has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The shortest modulus that counts: 2,048 bits.
const MODULUS_BYTES_MIN: usize = 256;

/// After so many times the shortest pause, keys are asked for again although none is missing: one may have been withdrawn.
const STALE_AFTER: u32 = 20;

/// A key, and the one algorithm it is for.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) kid: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// Where keys are.
#[derive(Clone)]
pub enum Place {
    /// In a file.
    File(PathBuf),
    /// Behind an address.
    Address(Url),
}

/// Public keys. Clones are the same ones.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    place: Place,
    client: reqwest::Client,
    /// The shortest time between two attempts.
    pause: Duration,
    known: Mutex<Arc<Vec<Key>>>,
    attempts: watch::Sender<Attempts>,
    /// Told whenever a key is missing that could be there by now.
    wanted: Notify,
    /// Told whenever keys that are known are used.
    used: Notify,
}

/// How often the keys were asked for, besides the first time.
#[derive(Clone, Copy)]
struct Attempts {
    /// How many times that has come to its end.
    ended: u64,
    /// When it last did.
    at: Instant,
    is_under_way: bool,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// That cannot be where keys are.
    #[error("keys are behind https addresses, or http ones of this machine, and not behind `{0}`")]
    Address(String),
    /// They cannot be had.
    #[error("the keys cannot be read: {0}")]
    Unreadable(String),
    /// What is there holds none.
    #[error("there are no keys in it that could have signed with RS256 or ES256")]
    None,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keys").field(&self.0.place).finish()
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Address(url) => f.debug_tuple("Address").field(&shown(url)).finish(),
        }
    }
}

/// An address without what may be secret in it.
fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    // What cannot have these has none.
    let _ = (shown.set_username(""), shown.set_password(None));
    shown.set_query(None);
    shown.set_fragment(None);
    shown.into()
}

impl Place {
    /// A file, or an address, as it is written.
    ///
    /// # Errors
    /// When it is an address that cannot be trusted.
    pub fn parse(text: &str) -> Result<Self, KeysError> {
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        let cut = |text: &str| KeysError::Address(text.chars().take(200).collect());
        // What cannot be understood is not shown: nobody knows what of it is secret.
        let url = Url::parse(text).map_err(|_| cut("what is no address"))?;
        let bad = || cut(&shown(&url));
        let is_local = || match url.host_str() {
            Some("localhost") => true,
            Some(host) => {
                let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
                address.is_ok_and(|address| address.is_loopback())
            }
            None => false,
        };
        let has_secret = !url.username().is_empty() || url.password().is_some();
        match url.scheme() {
            _ if has_secret => Err(bad()),
            "https" => Ok(Self::Address(url)),
            "http" if is_local() => Ok(Self::Address(url)),
            _ => Err(bad()),
        }
    }
}

impl Keys {
    /// Keys of a place. Those of a file must be there; an address may not answer yet.
    ///
    /// # Errors
    /// When there is no file with keys.
    pub async fn open(place: Place, pause: Duration) -> Result<Self, KeysError> {
        let client = weir_support::http::client()
            .timeout(PATIENCE)
            .build()
            .map_err(|error| KeysError::Unreadable(error.to_string()))?;
        let keys = Self(Arc::new(Inner {
            place,
            client,
            pause,
            known: Mutex::default(),
            attempts: watch::Sender::new(Attempts { ended: 0, at: Instant::now(), is_under_way: false }),
            wanted: Notify::new(),
            used: Notify::new(),
        }));
        match (&keys.0.place, keys.read().await) {
            (_, Ok(found)) => keys.set(found),
            (Place::File(_), Err(error)) => return Err(error),
            (Place::Address(url), Err(error)) => {
                let help = "tokens are refused until it answers; it is asked again when one comes";
                tracing::warn!(url = shown(url), %error, help, "the keys that tokens are signed with cannot be had yet");
            }
        }
        keys.0.attempts.send_modify(|attempts| attempts.at = Instant::now());
        Ok(keys)
    }

    /// The keys that may have signed a token which says this about itself.
    pub(super) async fn candidates(&self, kid: Option<&str>, algorithm: Algorithm) -> Vec<Key> {
        let found = self.known(kid, algorithm);
        if !found.is_empty() {
            self.0.used.notify_one();
            return found;
        }
        self.missed().await;
        self.known(kid, algorithm)
    }

    fn known(&self, kid: Option<&str>, algorithm: Algorithm) -> Vec<Key> {
        let known = Arc::clone(&self.0.known.lock().unwrap_or_else(PoisonError::into_inner));
        let is_meant = |key: &&Key| {
            key.algorithm == algorithm && (kid.is_none() || key.kid.is_none() || key.kid.as_deref() == kid)
        };
        known.iter().filter(is_meant).cloned().collect()
    }

    fn set(&self, keys: Vec<Key>) {
        *self.0.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Asks again when keys are used that were had long ago, and when one is missing. Goes on for ever; nobody else asks, so that nobody
    /// who leaves can make it happen more often, or have it given up.
    pub(super) async fn keep_fresh(&self) {
        loop {
            tokio::select! {
                () = self.0.wanted.notified() => self.refresh(self.0.pause).await,
                () = self.0.used.notified() => self.refresh(self.0.pause * STALE_AFTER).await,
            }
        }
    }

    /// Waits until the keys were asked for again, unless they were not long ago. Whoever comes meanwhile waits for the same answer.
    async fn missed(&self) {
        let mut attempts = self.0.attempts.subscribe();
        let now = *attempts.borrow_and_update();
        if !now.is_under_way {
            if now.at.elapsed() < self.0.pause {
                return;
            }
            self.0.wanted.notify_one();
        }
        let ended = attempts.wait_for(|attempts| attempts.ended > now.ended);
        // Nobody waits for long, whatever becomes of it.
        let _ = tokio::time::timeout(PATIENCE * 2, ended).await;
    }

    /// Asks again, unless that was done not long ago.
    async fn refresh(&self, pause: Duration) {
        if self.0.attempts.borrow().at.elapsed() < pause {
            return;
        }
        self.0.attempts.send_modify(|attempts| attempts.is_under_way = true);
        match self.read().await {
            Ok(found) => self.set(found),
            Err(error) => tracing::warn!(%error, "the keys that tokens are signed with stay as they were"),
        }
        self.0.attempts.send_modify(|attempts| {
            *attempts = Attempts { ended: attempts.ended + 1, at: Instant::now(), is_under_way: false };
        });
    }

    async fn read(&self) -> Result<Vec<Key>, KeysError> {
        let bytes = match &self.0.place {
            Place::File(path) => file(path.clone()).await?,
            Place::Address(url) => fetched(&self.0.client, url).await?,
        };
        parsed(&bytes)
    }
}

async fn file(path: PathBuf) -> Result<Vec<u8>, KeysError> {
    use tokio::io::AsyncReadExt;
    let wrong = |error: std::io::Error| KeysError::Unreadable(format!("`{}`: {error}", path.display()));
    let file = tokio::fs::File::open(&path).await.map_err(wrong)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await.map_err(wrong)?;
    bounded(bytes)
}

async fn fetched(client: &reqwest::Client, url: &Url) -> Result<Vec<u8>, KeysError> {
    // The address may hold what is nobody's business.
    let wrong = |error: reqwest::Error| KeysError::Unreadable(weir_support::innermost(&error.without_url()));
    let response = client.get(url.clone()).send().await.map_err(wrong)?;
    if !response.status().is_success() {
        return Err(KeysError::Unreadable(format!("the answer is {}", response.status())));
    }
    let (mut bytes, mut pieces) = (Vec::new(), response.bytes_stream());
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(wrong)?);
        bytes = bounded(bytes)?;
    }
    Ok(bytes)
}

fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, KeysError> {
    match bytes.len() > BYTES_MAX {
        true => Err(KeysError::Unreadable(format!("there are more than {BYTES_MAX} bytes"))),
        false => Ok(bytes),
    }
}

/// The keys of a set that can be used. Others in it are somebody else's business.
fn parsed(bytes: &[u8]) -> Result<Vec<Key>, KeysError> {
    let set: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| KeysError::Unreadable(error.to_string()))?;
    let listed = set.get("keys").and_then(serde_json::Value::as_array).ok_or(KeysError::None)?;
    // A kind of key that is not known does not spoil the others.
    let keys = listed.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
    let set = JwkSet { keys: keys.take(KEYS_MAX).collect() };
    let keys: Vec<Key> = set.keys.iter().filter_map(usable).collect();
    if keys.is_empty() { Err(KeysError::None) } else { Ok(keys) }
}

fn usable(jwk: &Jwk) -> Option<Key> {
    if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
        return None;
    }
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(key) if is_long(&key.n) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
        _ => return None,
    };
    let said = jwk.common.key_algorithm.map(|said| said.to_string());
    if said.is_some_and(|said| said != format!("{algorithm:?}")) {
        return None;
    }
    Some(Key { kid: jwk.common.key_id.clone(), algorithm, key: DecodingKey::from_jwk(jwk).ok()? })
}

fn is_long(modulus: &str) -> bool {
    use base64::Engine as _;
    let bytes = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(modulus).unwrap_or_default();
    bytes.iter().skip_while(|byte| **byte == 0).count() >= MODULUS_BYTES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_keys_may_be() {
        for good in [
            "keys.json",
            "https://id.example/jwks",
            "http://127.0.0.1:9/jwks",
            "http://[::1]/j",
            "http://localhost/j",
        ] {
            assert!(Place::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "http://id.example/jwks",
            "http://127.0.0.1.evil.example/",
            "ftp://localhost/",
            "https://ada:word@id.example/",
            "file:///etc/passwd",
            "https://",
        ] {
            assert!(matches!(Place::parse(bad), Err(KeysError::Address(_))), "{bad}");
        }
    }

    #[test]
    fn only_keys_that_sign_with_what_they_are_for_count() {
        let n = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, [0x81; 256]);
        let short = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, [0x81; 128]);
        let set = serde_json::json!({"keys": [
            {"kty": "RSA", "kid": "a", "n": n, "e": "AQAB"},
            {"kty": "RSA", "kid": "enc", "use": "enc", "n": n, "e": "AQAB"},
            {"kty": "RSA", "kid": "ps", "alg": "PS256", "n": n, "e": "AQAB"},
            {"kty": "RSA", "kid": "short", "n": short, "e": "AQAB"},
            {"kty": "oct", "kid": "shared", "k": n},
            {"kty": "unheard-of"},
            7,
        ]});
        let keys = parsed(set.to_string().as_bytes()).unwrap();
        let kids: Vec<_> = keys.iter().map(|key| (key.kid.as_deref(), key.algorithm)).collect();
        assert_eq!(kids, [(Some("a"), Algorithm::RS256)]);
        for none in ["{}", r#"{"keys":[]}"#, r#"{"keys":{}}"#, "[]"] {
            assert!(matches!(parsed(none.as_bytes()), Err(KeysError::None)), "{none}");
        }
        assert!(matches!(parsed(b"<html>"), Err(KeysError::Unreadable(_))));
    }
}
