//! An engine over the data directory, for as long as a command lasts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_blobs::Blobs;
use weir_engine::{Adopt, Agents, Engine, EngineError, LockFiles, Options, Setup, SnapshotSeal};
use weir_journal_sqlite::SqliteJournal;

use crate::agents::ProjectAgents;
use crate::report::Outcome;
use crate::served::Served;
use crate::store::{Store, blocking};
use crate::workbench::Workbench;

/// Who runs which session is told by files in this directory of the data directory.
const OWNERS: &str = "owners";

/// What snapshots are sealed with is in this file of the data directory.
const KEY: &str = "key";

/// How long an engine may take to let go of its sessions.
const FAREWELL: Duration = Duration::from_secs(5);

/// What takes no longer than this needs no line in the log.
const AT_ONCE: Duration = Duration::from_millis(100);

/// How long tools may take to come to their end when a server stops.
const PATIENCE: Duration = Duration::from_secs(10);

/// An engine, and the journal under it.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) journal: Arc<SqliteJournal>,
    pub(crate) blobs: Arc<dyn Blobs>,
    /// What its agents' tools are made with, if they have any.
    pub(crate) bench: Option<Workbench>,
    /// Where this process is registered if the data directory is only read.
    pub(crate) _elsewhere: Option<tempfile::TempDir>,
}

impl Host {
    /// Starts an engine that runs the sessions it is asked to run, and no others.
    pub(crate) async fn start(store: Store, data_dir: &Path, agents: ProjectAgents) -> Outcome<Self> {
        let Store { journal, blobs } = store;
        let journal = Arc::new(journal);
        let agents = agents.over(Arc::clone(&journal));
        let bench = agents.bench().clone();
        let host = Self::over(journal, blobs, data_dir, agents).await?;
        Ok(Self { bench: Some(bench), ..host })
    }

    /// The same with other agents.
    pub(crate) async fn with(store: Store, data_dir: &Path, agents: impl Agents) -> Outcome<Self> {
        Self::over(Arc::new(store.journal), store.blobs, data_dir, agents).await
    }

    /// An engine that takes up whatever has something to do, over what is deployed.
    pub(crate) async fn adopting(
        journal: Arc<SqliteJournal>,
        blobs: Arc<dyn Blobs>,
        data_dir: &Path,
        served: &Served,
    ) -> Outcome<Self> {
        let options = Options { adopt: Adopt::All, ..Options::default() };
        let host = Self::with_options(journal, blobs, data_dir, served.clone(), options).await?;
        Ok(Self { bench: Some(served.makings().bench.clone()), ..host })
    }

    /// The same over a journal that others hold, too.
    pub(crate) async fn over(
        journal: Arc<SqliteJournal>,
        blobs: Arc<dyn Blobs>,
        data_dir: &Path,
        agents: impl Agents,
    ) -> Outcome<Self> {
        Self::with_options(journal, blobs, data_dir, agents, Options::default()).await
    }

    async fn with_options(
        journal: Arc<SqliteJournal>,
        blobs: Arc<dyn Blobs>,
        data_dir: &Path,
        agents: impl Agents,
        options: Options,
    ) -> Outcome<Self> {
        let elsewhere = match journal.is_read_only() {
            true => Some(blocking(tempfile::tempdir).await?),
            false => None,
        };
        let unregistered = |path: &Path, source| EngineError::Register {
            path: path.display().to_string(),
            source: Arc::new(source),
        };
        let elsewhere = elsewhere.transpose().map_err(|source| unregistered(data_dir, source))?;
        let directory = elsewhere.as_ref().map_or(data_dir, |directory| directory.path()).join(OWNERS);
        let path = directory.display().to_string();
        let owners = blocking(move || LockFiles::register(&directory)).await?;
        let owners = owners.map_err(|source| EngineError::Register { path, source: Arc::new(source) })?;
        let setup = Setup {
            journal: Arc::clone(&journal) as Arc<dyn weir_journal::Journal>,
            blobs: Arc::clone(&blobs),
            agents: Arc::new(agents),
            owners: Arc::new(owners),
            seal: seal_of(data_dir).await?,
            options,
        };
        Ok(Self { engine: Engine::start(setup).await?, journal, blobs, bench: None, _elsewhere: elsewhere })
    }

    /// Begins nothing new, and waits until no tool is in the middle of something.
    pub(crate) async fn wind_down(&self) {
        if self.engine.wind_down(AT_ONCE).await {
            return;
        }
        tracing::info!("waiting for tools to come to their end");
        if !self.engine.wind_down(PATIENCE).await {
            tracing::warn!("some tools did not come to their end in time, and are cut off");
        }
    }

    /// Stops it. What is under way is interrupted, and goes on when somebody takes it up again.
    pub(crate) async fn stop(self) {
        self.engine.stop(FAREWELL).await;
        if let Some(bench) = &self.bench {
            let _ = tokio::time::timeout(FAREWELL, bench.close()).await;
        }
        self.journal.close().await;
    }
}

/// The seal of the snapshots in a data directory, for a command that changes nothing there.
pub(crate) async fn existing_seal_of(data_dir: &Path) -> Outcome<SnapshotSeal> {
    if data_dir.join(KEY).exists() {
        return seal_of(data_dir).await;
    }
    let shown = data_dir.join(KEY).display().to_string();
    let failed = |source| EngineError::Register { path: shown, source: Arc::new(source) };
    Ok(SnapshotSeal::in_memory().map_err(failed)?)
}

/// The seal of the snapshots in a data directory. Where its key cannot be kept, snapshots last as long as this process.
async fn seal_of(data_dir: &Path) -> Outcome<SnapshotSeal> {
    let path = data_dir.join(KEY);
    let shown = path.display().to_string();
    match blocking(move || SnapshotSeal::open(&path)).await? {
        Ok(seal) => Ok(seal),
        Err(error) => {
            tracing::warn!(path = shown, %error, "the key of snapshots cannot be kept: they are made anew each time");
            let failed = |source| EngineError::Register { path: shown.clone(), source: Arc::new(source) };
            Ok(SnapshotSeal::in_memory().map_err(failed)?)
        }
    }
}
