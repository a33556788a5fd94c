//! Memory.

use serde::{Deserialize, Serialize};
use weir_types::Hash;

/// Something was put into memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStored {
    /// The document.
    pub doc: String,
    /// Its title.
    pub title: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its content.
    pub hash: Hash,
}

/// Something was looked up there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRetrieved {
    /// What was asked.
    pub query: String,
    /// What was found.
    pub docs: Vec<String>,
}
