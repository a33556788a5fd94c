//! Results that were too long to be shown whole.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use weir_types::Hash;

/// The long results of the session a call is made in, and no other's.
pub trait Results: Send + Sync {
    /// The whole of a result, if this session has one with this hash; its error is in words.
    fn whole(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Bytes>, String>>;
}
