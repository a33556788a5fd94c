//! What several tests need: journals in temporary directories, and events.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_blobs::{Blobs, DirBlobs};
use weir_journal::{Journal, NewEvent, Part};
use weir_journal_sqlite::{OpenError, Options, SqliteJournal};
use weir_types::{BranchId, Event, Seq};

/// A data directory as the command line lays it out.
pub(crate) struct DataDir {
    pub(crate) root: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl DataDir {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        Self { root: temporary.path().to_owned(), _temporary: Some(temporary) }
    }

    /// Somebody else's directory.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), _temporary: None }
    }

    /// A directory with copies of this one's files.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        copy_all(&self.root, &copy.root);
        copy
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.root.join("journal.db")
    }

    pub(crate) fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(DirBlobs::open(self.root.join("blobs")).unwrap())
    }

    pub(crate) async fn try_open(&self) -> Result<SqliteJournal, OpenError> {
        SqliteJournal::open(Options { path: self.file(), blobs: self.blobs(), vfs: None }).await
    }

    pub(crate) async fn open(&self) -> SqliteJournal {
        self.try_open().await.unwrap()
    }
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn main_of(stream: &str) -> BranchId {
    BranchId::main(stream.parse().unwrap())
}

pub(crate) fn branch_of(stream: &str, branch: &str) -> BranchId {
    BranchId { stream: stream.parse().unwrap(), branch: branch.parse().unwrap() }
}

pub(crate) fn event(kind: &str, payload: impl Into<String>) -> NewEvent {
    NewEvent::new(kind.parse().unwrap(), payload.into())
}

pub(crate) async fn append(journal: &SqliteJournal, branch: &BranchId, events: Vec<NewEvent>) {
    journal.append(vec![Part::new(branch.clone(), events)]).await.unwrap();
}

/// Whether the long versions of the tests are wanted.
pub(crate) fn soak() -> bool {
    std::env::var_os("WEIR_SOAK").is_some()
}

/// Randomness that can be repeated. SplitMix64: short, and the same everywhere.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed that nobody chose; a test that uses one says which it was when it fails.
    pub(crate) fn surprise() -> u64 {
        use std::hash::{BuildHasher, Hasher};
        std::hash::RandomState::new().build_hasher().finish()
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Every event of a branch's lineage.
pub(crate) async fn read_whole(journal: &dyn Journal, branch: &BranchId) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(Seq(0), |event| event.seq);
        let page = journal.read(branch, after, 1_000).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}
