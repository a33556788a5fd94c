//! Blobs that clients store, in a stream per principal.

use serde::{Deserialize, Serialize};
use weir_types::Hash;

/// A blob was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobStored {
    /// Its name.
    pub hash: Hash,
    /// How long it is.
    pub bytes: u64,
}
