//! One stored credential, and its form in the file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_spec::{CredentialKind, Principal, SecretRef};
use weir_types::Secret;

/// A credential that was stored on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The server, as specs name it.
    pub server: String,
    /// Whose it is.
    pub holder: Holder,
    /// What is sent.
    pub kind: CredentialKind,
    /// The header that carries it, if it is not the usual one.
    pub header: Option<String>,
    /// The secret, or where it is.
    pub given: Given,
}

/// A secret, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// The secret itself.
    Secret(Secret),
    /// Where it is.
    From(SecretRef),
}

/// Whose credential it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// `*`: whoever asks.
    Anyone,
    /// Someone, or a group.
    Principal(Principal),
}

/// Text that names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is nobody")]
pub struct HolderError(String);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.pad("*"),
            Self::Principal(principal) => f.pad(&principal.to_string()),
        }
    }
}

impl FromStr for Holder {
    type Err = HolderError;

    fn from_str(text: &str) -> Result<Self, HolderError> {
        if text == "*" {
            return Ok(Self::Anyone);
        }
        let refuse = |_| HolderError(text.chars().take(80).collect());
        text.parse().map(Self::Principal).map_err(refuse)
    }
}

/// Whether this can be the name of a header.
pub fn is_header_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=100).contains(&name.len()) && name.bytes().all(fits)
}

/// An entry as it is in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    server: String,
    principal: String,
    #[serde(rename = "type")]
    kind: CredentialKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<SecretRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl From<&Entry> for Record {
    fn from(entry: &Entry) -> Self {
        let (from, secret) = match &entry.given {
            Given::Secret(secret) => (None, Some(secret.expose().to_owned())),
            Given::From(from) => (Some(from.clone()), None),
        };
        Self {
            server: entry.server.clone(),
            principal: entry.holder.to_string(),
            kind: entry.kind,
            header: entry.header.clone(),
            from,
            secret,
        }
    }
}

impl Record {
    /// The entry, if the record is one.
    pub(super) fn entry(self) -> Option<Entry> {
        let given = match (self.secret, self.from) {
            (Some(secret), None) => Given::Secret(Secret::new(secret)),
            (None, Some(from)) => Given::From(from),
            _ => return None,
        };
        let holder = self.principal.parse().ok()?;
        Some(Entry { server: self.server, holder, kind: self.kind, header: self.header, given })
    }
}
