//! A server without a process around it, for tests: nothing in it, and one administrator.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_engine::{Agents, Engine, Explained, LockFiles, Options, Runnable, Setup, SnapshotSeal};
use weir_journal::MemoryJournal;
use weir_types::Hash;

use crate::app::{App, Build, Builds, Parts, Settings};
use crate::auth::{Auth, Caller};

/// What servers share.
pub(crate) struct Data {
    directory: TempDir,
    blobs: Arc<dyn Blobs>,
    journal: Arc<MemoryJournal>,
}

impl Default for Data {
    fn default() -> Self {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
        let journal = Arc::new(MemoryJournal::new(Arc::clone(&blobs)));
        Self { directory: tempfile::tempdir().unwrap(), blobs, journal }
    }
}

impl Data {
    /// A server over it. Each is a process of its own, as far as others can tell.
    pub(crate) async fn app(&self) -> App {
        let (journal, blobs) = (self.journal.clone(), Arc::clone(&self.blobs));
        let setup = Setup {
            journal: journal.clone(),
            blobs: Arc::clone(&blobs),
            agents: Arc::new(Nothing),
            owners: Arc::new(LockFiles::register(self.directory.path()).unwrap()),
            seal: SnapshotSeal::in_memory().unwrap(),
            options: Options::default(),
        };
        let engine = Engine::start(setup).await.unwrap();
        let auth = Auth::local(ada(), vec![ada().principal]);
        let (builds, settings) = (Arc::new(Nothing), Settings::default());
        App::new(Parts { engine, journal, blobs, builds, auth, settings })
    }
}

/// The administrator.
pub(crate) fn ada() -> Caller {
    Caller { principal: "user:ada".to_owned(), groups: vec![] }
}

/// No agents and no builds.
struct Nothing;

impl Agents for Nothing {
    fn agent<'a>(&'a self, _: &'a str, _: Option<Hash>) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        unreachable!("nobody is asked for")
    }
}

impl Builds for Nothing {
    fn current(&self) -> Option<Arc<Build>> {
        None
    }

    fn of(&self, _: Hash) -> BoxFuture<'_, Result<Arc<Build>, Explained>> {
        std::future::pending().boxed()
    }
}
