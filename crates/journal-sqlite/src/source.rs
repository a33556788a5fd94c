//! Where readers and followers get events from: records of the file, with large payloads from the blob store.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use weir_blobs::Blobs;
use weir_journal::follow::Store;
use weir_journal::{PAYLOAD_MAX, ReadError};
use weir_types::{BranchId, Event, Position, Seq};

use crate::connection::Location;
use crate::pool::Pool;
use crate::read::{Loaded, Reader};
use crate::rows::Error;

/// Events that a follower reads at once, and bytes of payload at which such a page ends before. There may be thousands of followers, and
/// each of them holds a page.
const FOLLOWED_EVENTS: usize = 256;
const FOLLOWED_BYTES: usize = 1024 * 1024;

/// Where followers and readers get events from.
pub(crate) struct Source {
    pub(crate) pool: Arc<Pool>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) location: Location,
}

impl Source {
    /// Fetches large payloads from the blob store.
    pub(crate) async fn fill(&self, loaded: Vec<Loaded>) -> Result<Vec<Event>, ReadError> {
        self.fill_up_to(loaded, usize::MAX).await
    }

    /// The same, until the payloads have so many bytes; the event that reaches that is the last.
    async fn fill_up_to(&self, loaded: Vec<Loaded>, bytes_max: usize) -> Result<Vec<Event>, ReadError> {
        let (mut events, mut bytes) = (Vec::with_capacity(loaded.len()), 0);
        for Loaded { mut event, in_blob, .. } in loaded {
            if in_blob {
                let content = self.blobs.get_bytes(event.payload_hash, PAYLOAD_MAX as u64).await;
                let (branch, seq) = (event.branch_id(), event.seq);
                event.payload = content.map_err(|source| ReadError::Blob { branch, seq, source })?;
            }
            bytes += event.payload.len();
            events.push(event);
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(events)
    }

    /// A page for a follower, which asks for the next one unless there is nothing in it.
    async fn followed<F>(&self, read: F) -> Result<Vec<Event>, ReadError>
    where
        F: FnOnce(&mut Reader) -> Result<Vec<Loaded>, Error> + Send + 'static,
    {
        let loaded = self.pool.read(read).await?;
        self.fill_up_to(loaded, FOLLOWED_BYTES).await
    }

    pub(crate) async fn events<F>(&self, read: F) -> Result<Vec<Event>, ReadError>
    where
        F: FnOnce(&mut Reader) -> Result<Vec<Loaded>, Error> + Send + 'static,
    {
        let loaded = self.pool.read(read).await?;
        self.fill(loaded).await
    }
}

impl Store for Source {
    fn page(&self, branch: &BranchId, after: Seq) -> BoxFuture<'_, Result<Vec<Event>, ReadError>> {
        let branch = branch.clone();
        Box::pin(self.followed(move |reader| reader.read(&branch, after, FOLLOWED_EVENTS)))
    }

    fn page_all(&self, after: Position) -> BoxFuture<'_, Result<Vec<Event>, ReadError>> {
        Box::pin(self.followed(move |reader| reader.read_all(after, FOLLOWED_EVENTS)))
    }
}

#[cfg(test)]
mod tests {
    use weir_blobs::MemoryBlobs;
    use weir_journal::{Journal, NewEvent, Part};

    use crate::{Options, SqliteJournal};

    use super::*;

    /// Thousands may follow at once, and each of them holds what it has read.
    #[tokio::test]
    async fn what_a_follower_reads_at_once_is_bounded_by_number_and_by_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.db");
        let blobs = Arc::new(MemoryBlobs::new());
        let journal = SqliteJournal::open(Options { path, blobs, vfs: None }).await.unwrap();
        for (name, count, bytes, expected) in
            [("small", 300, 2, FOLLOWED_EVENTS), ("large", 20, 300_000, 4), ("huge", 2, 2_000_000, 1)]
        {
            let branch = BranchId::main(name.parse().unwrap());
            let event = |_| NewEvent::new("a.b".parse().unwrap(), "x".repeat(bytes));
            journal.append(vec![Part::new(branch.clone(), (0..count).map(event).collect())]).await.unwrap();
            let page = journal.source().page(&branch, Seq(0)).await.unwrap();
            assert_eq!(page.len(), expected, "{name}");
        }
        let before_large = journal.source().page_all(Position(300)).await.unwrap();
        assert_eq!(before_large.len(), 4);
        journal.close().await;
    }
}
