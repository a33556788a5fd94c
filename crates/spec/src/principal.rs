//! Who may do something: `user:ada`, `group:engineering`, `serviceaccount:digest-bot`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Groups that always exist.
pub const BUILTIN_GROUPS: &[&str] = &["admin", "user", "reader"];

/// A person, a group of them, or an identity that is nobody's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Principal {
    /// `user:…`.
    User(String),
    /// `group:…`.
    Group(String),
    /// `serviceaccount:…`.
    ServiceAccount(String),
}

/// Text that names nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a principal")]
pub struct PrincipalError(String);

/// Longest name of a principal, in bytes.
const NAME_BYTES_MAX: usize = 256;

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::ServiceAccount(name) => write!(f, "serviceaccount:{name}"),
        }
    }
}

impl FromStr for Principal {
    type Err = PrincipalError;

    fn from_str(text: &str) -> Result<Self, PrincipalError> {
        let refuse = || PrincipalError(crate::node::excerpt(text));
        let (kind, name) = text.split_once(':').ok_or_else(refuse)?;
        // Users come from identity providers, which use addresses, URLs and what not; only white space is in no name.
        let odd = |character: char| character.is_whitespace() || character.is_control();
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(odd) {
            return Err(refuse());
        }
        match kind {
            "user" => Ok(Self::User(name.to_owned())),
            "group" => Ok(Self::Group(name.to_owned())),
            "serviceaccount" => Ok(Self::ServiceAccount(name.to_owned())),
            _ => Err(refuse()),
        }
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.to_string()
    }
}

impl TryFrom<String> for Principal {
    type Error = PrincipalError;

    fn try_from(text: String) -> Result<Self, PrincipalError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_read_and_print() {
        for good in
            ["user:ada@example.com", "group:engineering", "serviceaccount:digest-bot", "user:https://id/é:1"]
        {
            assert_eq!(good.parse::<Principal>().unwrap().to_string(), good);
        }
        let long = format!("user:{}", "a".repeat(257));
        for bad in ["", "ada", "user:", "users:ada", "user: ada", "User:ada", "group:a b", &long] {
            assert!(bad.parse::<Principal>().is_err(), "{bad}");
        }
    }
}
