//! Tokens of the server, in the stream `engine:tokens`.

use serde::{Deserialize, Serialize};
use weir_types::{Hash, Timestamp};

/// A token was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenIssued {
    /// What it is called by.
    pub id: String,
    /// The SHA-256 of it.
    pub hash: Hash,
    /// Whom it is for.
    pub principal: String,
    /// The groups they come with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// A token does not count any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRevoked {
    /// Which.
    pub id: String,
}
