//! An engine over the data directory, for as long as a command lasts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_blobs::Blobs;
use weir_engine::{Agents, Engine, EngineError, LockFiles, Options, Setup, Tools};
use weir_journal_sqlite::SqliteJournal;

use crate::agents::{self, ProjectAgents};
use crate::report::Outcome;
use crate::store::{Store, blocking};

/// Who runs which session is told by files in this directory of the data directory.
const OWNERS: &str = "owners";

/// How long an engine may take to let go of its sessions.
const FAREWELL: Duration = Duration::from_secs(5);

/// An engine, and the journal under it.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) journal: Arc<SqliteJournal>,
}

impl Host {
    /// Starts an engine that runs the sessions it is asked to run, and no others.
    pub(crate) async fn start(store: Store, data_dir: &Path, agents: ProjectAgents) -> Outcome<Self> {
        let Store { journal, blobs } = store;
        let journal = Arc::new(journal);
        let agents = agents.with_journal(Arc::clone(&journal));
        Self::over(journal, blobs, data_dir, agents, agents::tools()).await
    }

    /// The same with other agents and tools.
    pub(crate) async fn with(
        store: Store,
        data_dir: &Path,
        agents: impl Agents,
        tools: impl Tools,
    ) -> Outcome<Self> {
        Self::over(Arc::new(store.journal), store.blobs, data_dir, agents, tools).await
    }

    async fn over(
        journal: Arc<SqliteJournal>,
        blobs: Arc<dyn Blobs>,
        data_dir: &Path,
        agents: impl Agents,
        tools: impl Tools,
    ) -> Outcome<Self> {
        let directory = data_dir.join(OWNERS);
        let path = directory.display().to_string();
        let owners = blocking(move || LockFiles::register(&directory)).await?;
        let owners = owners.map_err(|source| EngineError::Register { path, source: Arc::new(source) })?;
        let setup = Setup {
            journal: Arc::clone(&journal) as Arc<dyn weir_journal::Journal>,
            blobs,
            agents: Arc::new(agents),
            tools: Arc::new(tools),
            owners: Arc::new(owners),
            options: Options::default(),
        };
        Ok(Self { engine: Engine::start(setup).await?, journal })
    }

    /// Stops it. What is under way is interrupted, and goes on when somebody takes it up again.
    pub(crate) async fn stop(self) {
        self.engine.stop(FAREWELL).await;
        self.journal.close().await;
    }
}
