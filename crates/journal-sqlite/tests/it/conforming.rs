//! The suite that every engine runs.

use std::sync::Arc;

use weir_journal::conformance::{Fixture, Sweeping, SweptBlobs};
use weir_journal::{Journal, conformance_suite};
use weir_journal_sqlite::{Options, SqliteJournal};

use crate::support::DataDir;

/// A journal in a directory of its own; opened again, it is another handle on the same file.
async fn in_a_directory() -> Fixture {
    let dir = DataDir::new();
    let (blobs, root) = (dir.blobs(), dir.root.clone());
    let sweeping = Sweeping::new(Arc::clone(&blobs));
    let swept = Arc::new(SweptBlobs(Arc::clone(&sweeping)));
    let journal = SqliteJournal::open(Options { path: dir.file(), blobs: swept, vfs: None }).await.unwrap();
    let reopen = move || -> futures_util::future::BoxFuture<'static, Arc<dyn Journal>> {
        let dir = DataDir::at(&root);
        Box::pin(async move { Arc::new(dir.open().await) as Arc<dyn Journal> })
    };
    let journal = Arc::new(journal);
    Fixture { journal, blobs, sweeping, reopen: Box::new(reopen), keep: Box::new(dir) }
}

conformance_suite!(in_a_directory);
