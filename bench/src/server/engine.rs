//! The same agent in an engine of this process, over a journal of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_bench::Error;
use weir_blobs::{Blobs, DirBlobs};
use weir_engine::{
    Agents, Budgets, Engine, Explained, Functions, LockFiles, New, Options, Runnable, Said, Setup, Update,
};
use weir_journal_sqlite::SqliteJournal;
use weir_kernel::{Agent, Limits};
use weir_models::scripted::{Reply, Script, Scripted};
use weir_types::{Block, Catalog, Hash, Seq};

/// What both are asked.
pub(crate) const QUESTION: &str = "What time is it now, in the harbour?";

/// What both answer.
pub(crate) const ANSWER: &str = "It is time, and here is a sentence of an ordinary length about it.";

/// What both are told to be.
pub(crate) const PROMPT: &str = "You tell the time.";

/// An engine that nobody stands in front of.
pub(crate) struct Direct {
    engine: Engine,
    journal: Arc<SqliteJournal>,
}

struct One(Arc<Runnable>);

impl Agents for One {
    fn agent<'a>(&'a self, _: &'a str, _: Option<Hash>) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        let runnable = Arc::clone(&self.0);
        async move { Ok(runnable) }.boxed()
    }
}

impl Direct {
    pub(crate) async fn start(directory: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(directory)?;
        let blobs: Arc<dyn Blobs> = Arc::new(DirBlobs::open(directory.join("blobs"))?);
        let path = directory.join("journal.db");
        let options = weir_journal_sqlite::Options { path, blobs: Arc::clone(&blobs), vfs: None };
        let journal = Arc::new(SqliteJournal::open(options).await?);
        let (model, card) = Catalog::default().find("scripted/bench")?;
        let (system, tools) = (PROMPT.to_owned(), Vec::new());
        let agent = Agent { name: "bench".to_owned(), model, card, system, tools, limits: Limits::default() };
        let script = Script { replies: vec![Reply { say: Some(ANSWER.to_owned()), ..Reply::default() }] };
        let runnable = Runnable {
            agent,
            model: Arc::new(Scripted::new(script)?),
            tools: Arc::new(Functions::default()),
            manifest: Hash::of(b"bench"),
            budgets: Budgets::default(),
        };
        let setup = Setup {
            journal: Arc::clone(&journal) as _,
            blobs,
            agents: Arc::new(One(Arc::new(runnable))),
            owners: Arc::new(LockFiles::register(&directory.join("owners"))?),
            seal: weir_engine::SnapshotSeal::open(&directory.join("key"))?,
            options: Options::default(),
        };
        Ok(Self { engine: Engine::start(setup).await?, journal })
    }

    /// Begins a session, and waits until it has nothing to do. Seconds until its first word.
    pub(crate) async fn first_word(&self) -> Result<f64, Error> {
        let address = self.engine.new_address();
        let said = Said {
            content: vec![Block::text(QUESTION)],
            runtime: BTreeMap::new(),
            actor: "user:bench".to_owned(),
        };
        let new = New { agent: "bench".to_owned(), principal: "user:bench".to_owned(), ..New::default() };
        let mut updates = self.engine.watch(&address, Seq(0));
        let began = Instant::now();
        self.engine.begin(&address, new, said).await?;
        loop {
            match updates.next().await? {
                Some(Update::Delta(_)) => break,
                Some(Update::Event(_)) => {}
                None => return Err("the session ended without a word".into()),
            }
        }
        let elapsed = began.elapsed().as_secs_f64();
        self.engine.settle(&address).await?;
        Ok(elapsed)
    }

    pub(crate) async fn stop(self) {
        self.engine.stop(Duration::from_secs(10)).await;
        self.journal.close().await;
    }
}
