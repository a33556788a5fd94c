//! Names: checked once, here, and never truncated, folded or normalised afterwards. Two names are the same when
//! their bytes are.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing at all.
    #[error("a {what} name cannot be empty")]
    Empty {
        /// `stream`, `branch` or `kind`.
        what: &'static str,
    },
    /// More bytes than allowed.
    #[error("a {what} name has at most {bytes_max} bytes, this one has {bytes}")]
    TooLong {
        /// `stream`, `branch` or `kind`.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A character that would be invisible, or break a line or a listing.
    #[error("{what} name `{}` contains {}", .name.escape_debug(), describe(*.bad))]
    Character {
        /// `stream`, `branch` or `kind`.
        what: &'static str,
        /// The name as given.
        name: String,
        /// The first offending character.
        bad: char,
    },
}

fn describe(bad: char) -> String {
    if bad.is_whitespace() && !bad.is_control() {
        format!("white space (U+{:04X}) where none may be", u32::from(bad))
    } else {
        format!("the control character U+{:04X}", u32::from(bad))
    }
}

/// Which white space a kind of name tolerates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Inside,
    Nowhere,
}

fn check(what: &'static str, name: &str, bytes_max: usize, space: Space) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what });
    }
    if name.len() > bytes_max {
        return Err(NameError::TooLong { what, bytes: name.len(), bytes_max });
    }
    let refuse = |bad| Err(NameError::Character { what, name: name.to_owned(), bad });
    let edges = [name.chars().next(), name.chars().next_back()];
    for bad in name.chars() {
        if bad.is_control() || is_invisible(bad) || (space == Space::Nowhere && bad.is_whitespace()) {
            return refuse(bad);
        }
    }
    match edges.into_iter().flatten().find(|edge| edge.is_whitespace()) {
        Some(bad) => refuse(bad),
        None => Ok(()),
    }
}

/// Characters that change how a line is shown without being seen: a name must look like what it is.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $bytes_max:literal, $space:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest name allowed.
            pub const BYTES_MAX: usize = $bytes_max;

            /// The name as given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                check($what, name, $bytes_max, $space)?;
                Ok(Self(name.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                name.parse()
            }
        }
    };
}

name! {
    /// A stream of events: `session:01J…`, `loop:daily-digest`, or any name a user appends to.
    StreamName, "stream", 255, Space::Inside
}
name! {
    /// A branch of a stream; `main` exists from the first event.
    BranchName, "branch", 255, Space::Inside
}
name! {
    /// What an event says happened, as `area.verb`; foreign kinds are kept as they are.
    Kind, "kind", 255, Space::Nowhere
}

impl BranchName {
    /// The branch every stream starts with.
    pub fn main() -> Self {
        Self("main".into())
    }
}

/// One branch of one stream: what is appended to, read and followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchId {
    /// The stream.
    pub stream: StreamName,
    /// Its branch.
    pub branch: BranchName,
}

impl BranchId {
    /// The `main` branch of `stream`.
    pub fn main(stream: StreamName) -> Self {
        Self { stream, branch: BranchName::main() }
    }
}

impl fmt::Display for BranchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.stream, self.branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_names() {
        let long = "é".repeat(127);
        for name in ["a", "a@main", "../../etc/passwd", "main", "日本 語", "%00", "a/b:c", "'; drop--", &long]
        {
            assert_eq!(name.parse::<StreamName>().expect("a name").as_str(), name);
        }
    }

    #[test]
    fn unreadable_names_are_refused() {
        let long = "é".repeat(128);
        for name in ["", " a", "a ", "a\nb", "a\0", "\u{202E}a", "a\u{200B}", "\u{85}", &long] {
            assert!(name.parse::<StreamName>().is_err(), "{name:?}");
        }
        assert!("two words".parse::<Kind>().is_err());
    }
}
