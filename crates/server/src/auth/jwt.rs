//! Tokens that somebody else signs. The key says which algorithm is meant, never the token.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use weir_types::{Json, Secret};

use super::keys::{Key, Keys};
use super::{Caller, caller};

/// The shortest secret that signs. HS256 is as strong as what is hardest to guess of its secret.
pub const SECRET_BYTES_MIN: usize = 32;

/// Recognises whom a signed token names.
#[derive(Clone, Debug)]
pub struct Jwt(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    keys: Source,
    settings: Settings,
}

enum Source {
    Shared(Key),
    Public(Keys),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "Shared",
            Self::Public(_) => "Public",
        })
    }
}

/// What a token has to say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who must have issued it.
    pub issuer: Option<String>,
    /// Whom it must be meant for, one of these.
    pub audiences: Vec<String>,
    /// How far clocks may be apart.
    pub skew: Duration,
    /// The claim that names whoever asks.
    pub principal_claim: String,
    /// The claim that has their groups. Without it a token says nothing about groups.
    pub groups_claim: Option<String>,
    /// What the names of service accounts begin with.
    pub account_prefix: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            issuer: None,
            audiences: Vec::new(),
            skew: Duration::from_secs(60),
            principal_claim: "sub".to_owned(),
            groups_claim: None,
            account_prefix: None,
        }
    }
}

/// Why tokens cannot be recognised like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// Somebody could guess it.
    #[error("the secret that signs tokens has {0} bytes; at least {SECRET_BYTES_MIN} are needed")]
    ShortSecret(usize),
    /// Whoever holds the keys signs for others, too.
    #[error("keys of a JWKS sign tokens for many, and nothing says which are meant for this server")]
    NoAudience,
}

impl Jwt {
    /// By a secret that is shared with whoever signs.
    ///
    /// # Errors
    /// When the secret is too short.
    pub fn shared(secret: &Secret, settings: Settings) -> Result<Self, JwtError> {
        let secret = secret.expose().as_bytes();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(JwtError::ShortSecret(secret.len()));
        }
        let key = Key { kid: None, algorithm: Algorithm::HS256, key: DecodingKey::from_secret(secret) };
        Ok(Self(Arc::new(Inner { keys: Source::Shared(key), settings })))
    }

    /// By the public keys of whoever signs.
    ///
    /// # Errors
    /// When nothing says whom the tokens must be meant for.
    pub fn public(keys: Keys, settings: Settings) -> Result<Self, JwtError> {
        if settings.audiences.is_empty() {
            return Err(JwtError::NoAudience);
        }
        Ok(Self(Arc::new(Inner { keys: Source::Public(keys), settings })))
    }

    /// Keeps keys fresh that may be withdrawn. Goes on for ever.
    pub(super) async fn keep_fresh(&self) {
        match &self.0.keys {
            Source::Shared(_) => std::future::pending().await,
            Source::Public(keys) => keys.keep_fresh().await,
        }
    }

    /// Whom a token names, and for how long yet.
    pub(super) async fn caller(&self, token: &str) -> Result<(Caller, Duration), &'static str> {
        let header = header(token)?;
        let candidates = match &self.0.keys {
            Source::Shared(key) => vec![key.clone()],
            Source::Public(keys) => keys.candidates(header.kid.as_deref(), header.algorithm).await,
        };
        let claims = candidates.iter().find_map(|key| verified(token, key, header.algorithm));
        let claims = claims.ok_or("a signature of nobody who is known")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| "the time")?;
        self.0.settings.caller(&claims, now.as_secs_f64())
    }
}

struct Header {
    kid: Option<String>,
    algorithm: Algorithm,
}

/// What the token says about itself, which is only good for choosing among keys.
fn header(token: &str) -> Result<Header, &'static str> {
    let mut parts = token.split('.');
    let (Some(header), Some(_), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("no token of three parts");
    };
    let header = object(header).ok_or("a header that cannot be read")?;
    // What must be understood and is not makes a token worthless.
    if header.get("crit").is_some() {
        return Err("a header that demands something");
    }
    let algorithm = match header.get("alg").and_then(Value::as_str) {
        Some("HS256") => Algorithm::HS256,
        Some("RS256") => Algorithm::RS256,
        Some("ES256") => Algorithm::ES256,
        _ => return Err("an algorithm that is not accepted"),
    };
    let kid = header.get("kid").map(|kid| kid.as_str().map(str::to_owned).ok_or("a `kid` that is no text"));
    Ok(Header { kid: kid.transpose()?, algorithm })
}

/// The claims of a token that this key has signed, with the one algorithm that the key is for.
fn verified(token: &str, key: &Key, algorithm: Algorithm) -> Option<Value> {
    if key.algorithm != algorithm {
        return None;
    }
    let mut validation = Validation::new(key.algorithm);
    // The claims are read below, where each can be there once only.
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    jsonwebtoken::decode::<serde::de::IgnoredAny>(token, &key.key, &validation).ok()?;
    object(token.split('.').nth(1)?)
}

/// A part of a token, if it is a JSON object in which no key is there twice.
fn object(part: &str) -> Option<Value> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    let json = Json::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
    json.repeated_key().is_none().then(|| json.to_value()).filter(Value::is_object)
}

impl Settings {
    /// Whom claims name, if they hold now.
    fn caller(&self, claims: &Value, now: f64) -> Result<(Caller, Duration), &'static str> {
        let skew = self.skew.as_secs_f64();
        let time = |name: &str| match claims.get(name) {
            None => Ok(None),
            Some(time) => {
                time.as_f64().filter(|time| time.is_finite()).map(Some).ok_or("a time that is none")
            }
        };
        let left = time("exp")?.ok_or("no `exp`")? + skew - now;
        if left <= 0.0 {
            return Err("it has expired");
        }
        if time("nbf")?.is_some_and(|time| time > now + skew)
            || time("iat")?.is_some_and(|time| time > now + skew)
        {
            return Err("it is from the future");
        }
        let issuer = claims.get("iss");
        if self.issuer.is_some() && issuer.and_then(Value::as_str) != self.issuer.as_deref() {
            return Err("another issuer");
        }
        self.is_meant(claims.get("aud"))?;
        let name = claims.get(&self.principal_claim).and_then(Value::as_str).ok_or("no name")?;
        let account = self.account_prefix.as_deref().and_then(|prefix| name.strip_prefix(prefix));
        let principal = match account {
            Some(account) => format!("serviceaccount:{account}"),
            None => format!("user:{name}"),
        };
        let caller = caller(principal, self.groups(claims)?.into_iter())?;
        Ok((caller, Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)))
    }

    /// A token for somebody else is not for us, also where it does not matter whom it is for.
    fn is_meant(&self, audience: Option<&Value>) -> Result<(), &'static str> {
        let named: BTreeSet<&str> = match audience {
            None if self.audiences.is_empty() => return Ok(()),
            None => return Err("no audience"),
            Some(Value::String(one)) => [one.as_str()].into(),
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err("an audience that is none"),
        };
        let is_ours = self.audiences.iter().any(|audience| named.contains(audience.as_str()));
        if is_ours { Ok(()) } else { Err("another audience") }
    }

    fn groups<'a>(&self, claims: &'a Value) -> Result<Vec<&'a str>, &'static str> {
        let Some(claim) = &self.groups_claim else { return Ok(Vec::new()) };
        // Some put them deeper: `realm_access.roles`.
        let deeper = || claim.split('.').try_fold(claims, |value, part| value.get(part));
        match claims.get(claim).or_else(deeper) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(one)) => Ok(vec![one]),
            Some(Value::Array(several)) => {
                several.iter().map(|group| group.as_str().ok_or("a group that is no text")).collect()
            }
            Some(_) => Err("groups that are none"),
        }
    }
}
