//! Every store runs the whole suite.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use weir_blobs::conformance::Fixture;
use weir_blobs::{Blobs, DirBlobs, MemoryBlobs};
use weir_types::Hash;

struct Memory(MemoryBlobs);

impl Fixture for Memory {
    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(self.0.clone())
    }

    fn age(&self, hash: Hash, by: Duration) -> BoxFuture<'_, ()> {
        self.0.backdate(hash, by);
        Box::pin(async {})
    }
}

struct Dir {
    blobs: DirBlobs,
    _root: TempDir,
}

impl Dir {
    fn new() -> Self {
        let root = TempDir::new().expect("a directory");
        Self { blobs: DirBlobs::open(root.path().join("blobs")).expect("a store"), _root: root }
    }
}

impl Fixture for Dir {
    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(self.blobs.clone())
    }

    fn age(&self, hash: Hash, by: Duration) -> BoxFuture<'_, ()> {
        let file = File::open(self.blobs.path(hash)).expect("a blob");
        file.set_modified(SystemTime::now() - by).expect("backdated");
        Box::pin(async {})
    }
}

weir_blobs::conformance_tests!(memory, Memory(MemoryBlobs::new()));
weir_blobs::conformance_tests!(dir, Dir::new());
