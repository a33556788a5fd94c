//! Where a secret is, as specs and people say it. What is there is looked up by others, at the last moment.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a secret is. Never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum SecretRef {
    /// `env:NAME`: in an environment variable.
    Env(String),
    /// `file:PATH`: in a file.
    File(String),
    /// `exec:PROGRAM ARG…`: what a program prints; started without a shell.
    Exec(Vec<String>),
}

/// Text that says of no secret where it is. It may be the secret itself, so it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret is named by where it is, never written down")]
pub struct SecretRefError;

impl SecretRef {
    /// How to write one.
    pub const HELP: &str = "write `env:NAME`, `file:PATH` or `exec:PROGRAM ARG…`";

    /// Whether this can be the name of an environment variable.
    pub fn is_variable(name: &str) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.bytes().all(fits) && !name.starts_with(|first: char| first.is_ascii_digit())
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
            Self::Exec(argv) => write!(f, "exec:{}", argv.join(" ")),
        }
    }
}

impl FromStr for SecretRef {
    type Err = SecretRefError;

    fn from_str(text: &str) -> Result<Self, SecretRefError> {
        let (place, rest) = text.split_once(':').ok_or(SecretRefError)?;
        match place {
            "env" if Self::is_variable(rest) => Ok(Self::Env(rest.to_owned())),
            "file" if !rest.trim().is_empty() && !rest.contains(char::is_control) => {
                Ok(Self::File(rest.to_owned()))
            }
            "exec" if !rest.trim().is_empty() && !rest.contains(char::is_control) => {
                Ok(Self::Exec(rest.split_whitespace().map(str::to_owned).collect()))
            }
            _ => Err(SecretRefError),
        }
    }
}

impl From<SecretRef> for String {
    fn from(reference: SecretRef) -> Self {
        reference.to_string()
    }
}

impl TryFrom<String> for SecretRef {
    type Error = SecretRefError;

    fn try_from(text: String) -> Result<Self, SecretRefError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_read_and_print() {
        for good in ["env:SLACK_TOKEN", "env:_a1", "file:/run/secrets/x y", "exec:pass show slack"] {
            assert_eq!(good.parse::<SecretRef>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "SLACK",
            "env:",
            "env:1A",
            "env:a-b",
            "env: A",
            "file:",
            "exec: ",
            "ENV:A",
            "vault:x",
            "file:a\nb",
        ] {
            assert_eq!(bad.parse::<SecretRef>(), Err(SecretRefError), "{bad}");
        }
        assert_eq!("exec:a  b".parse::<SecretRef>().unwrap().to_string(), "exec:a b");
    }
}
