//! Ids are ULIDs: identity only. Order is `seq`; nothing may depend on how ids sort.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

/// Text that is not a ULID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id (a ULID has 26 characters, like `01J9ZDQ8M3E4F5G6H7J8K9MNPQ`)")]
pub struct IdError(String);

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(Ulid);

        impl $name {
            /// The id with this 128-bit value.
            pub const fn from_u128(value: u128) -> Self {
                Self(Ulid(value))
            }

            /// The 16 bytes as stored; they sort like the text.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.0.to_be_bytes()
            }

            /// A stored id, if it has the right length.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(|bytes| Self(Ulid(u128::from_be_bytes(bytes))))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let refuse = || IdError(text.chars().take(40).collect());
                Ulid::from_string(text).map(Self).map_err(|_| refuse())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
    };
}

ulid_id! {
    /// Names one event, for ever and everywhere.
    EventId
}
ulid_id! {
    /// Names one process that owns sessions; its lock file is `owners/<id>` in the data directory.
    OwnerId
}
ulid_id! {
    /// Names a session: its stream is `session:<id>`.
    SessionId
}
ulid_id! {
    /// Names one run of a session, from its trigger to its end.
    RunId
}
ulid_id! {
    /// Names one tool call; an approval of it has the same id.
    CallId
}
