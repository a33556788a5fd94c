//! The suite that every engine runs.

use std::sync::Arc;

use weir_journal::conformance::Fixture;
use weir_journal::{Journal, conformance_suite};

use crate::support::DataDir;

/// A journal in a directory of its own; opened again, it is another handle on the same file.
async fn in_a_directory() -> Fixture {
    let dir = DataDir::new();
    let (journal, blobs, root) = (Arc::new(dir.open().await), dir.blobs(), dir.root.clone());
    let reopen = move || -> futures_util::future::BoxFuture<'static, Arc<dyn Journal>> {
        let dir = DataDir::at(&root);
        Box::pin(async move { Arc::new(dir.open().await) as Arc<dyn Journal> })
    };
    Fixture { journal, blobs, reopen: Box::new(reopen), keep: Box::new(dir) }
}

conformance_suite!(in_a_directory);
