//! Files of the workspace.

use serde::{Deserialize, Serialize};
use weir_types::Hash;

/// A file of the workspace has new content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWritten {
    /// Where.
    pub path: String,
    /// What.
    pub hash: Hash,
    /// Its permissions.
    pub mode: u32,
    /// How many bytes.
    pub size: u64,
}

/// A file of the workspace is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDeleted {
    /// Where it was.
    pub path: String,
}

/// The workspace gets a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotTaken {
    /// The name.
    pub name: String,
    /// The tree.
    pub tree: Hash,
}
