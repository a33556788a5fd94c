//! The journal in memory keeps every promise of the port.

use std::sync::Arc;

use futures_util::FutureExt;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_journal::conformance::{Fixture, Sweeping, SweptBlobs};
use weir_journal::{Journal, MemoryJournal, conformance_suite};

async fn in_memory() -> Fixture {
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
    let sweeping = Sweeping::new(Arc::clone(&blobs));
    let journal = MemoryJournal::new(Arc::new(SweptBlobs(Arc::clone(&sweeping))));
    let handle = journal.clone();
    let reopen = Box::new(move || {
        let handle: Arc<dyn Journal> = Arc::new(handle.clone());
        async move { handle }.boxed()
    });
    Fixture { journal: Arc::new(journal), blobs, sweeping, reopen, keep: Box::new(()) }
}

conformance_suite!(in_memory);
