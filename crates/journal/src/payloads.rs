//! The blobs that events need: stored, and there, when the events are committed.

use std::collections::BTreeSet;

use weir_blobs::{Blobs, Lease};
use weir_types::Hash;

use crate::append::{NewEvent, Part};
use crate::error::AppendError;

/// Stores the large payloads of an append, and makes sure that every blob that its events name is there. No collector removes
/// one of them while the lease lives: it is kept until the events are durable.
///
/// # Errors
/// When a payload cannot be stored, or an event names a blob that is not there.
pub async fn lease(blobs: &dyn Blobs, parts: &[Part]) -> Result<Lease, AppendError> {
    let events = || parts.iter().flat_map(|part| &part.events);
    let named: BTreeSet<Hash> = events().flat_map(NewEvent::refs).copied().collect();
    if named.is_empty() {
        return Ok(Lease::default());
    }
    let named: Vec<Hash> = named.into_iter().collect();
    let lease = blobs.lease(&named).await.map_err(AppendError::Blob)?;
    let large: Vec<&NewEvent> = events().filter(|event| event.is_large()).collect();
    let is_own = |hash: &Hash| large.iter().any(|event| event.payload_hash() == *hash);
    if let Some(hash) = lease.missing().iter().find(|hash| !is_own(hash)) {
        return Err(AppendError::NoBlob { hash: *hash });
    }
    for event in &large {
        blobs.put_bytes(event.payload().clone()).await.map_err(AppendError::Blob)?;
    }
    Ok(lease)
}
