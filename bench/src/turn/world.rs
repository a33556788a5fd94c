//! An engine on a fresh journal, with one agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_blobs::{Blobs, DirBlobs};
use weir_engine::{
    Address, Agents, Budgets, Engine, Explained, Functions, LockFiles, New, Options, Runnable, Said, Setup,
    get_time,
};
use weir_journal_sqlite::SqliteJournal;
use weir_kernel::{Agent, Limits};
use weir_models::Model;
use weir_models::scripted::{Call, Reply, Script, Scripted, When};
use weir_types::{Block, Catalog, Hash, Json};

use weir_bench::Error;

/// A data directory that is gone afterwards, with an engine on it.
pub(crate) struct World {
    pub(crate) journal: Arc<SqliteJournal>,
    pub(crate) engine: Engine,
    setup: Setup,
    directory: PathBuf,
}

struct One(Arc<Runnable>);

impl Agents for One {
    fn agent<'a>(&'a self, _name: &'a str, _build: Option<Hash>) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        let runnable = Arc::clone(&self.0);
        async move { Ok(runnable) }.boxed()
    }
}

impl World {
    /// A world whose agent answers from a script: one tool call, then the answer.
    pub(crate) async fn scripted(data: &Path, context_window: u64) -> Result<Self, Error> {
        let when = |when: When| Some(when);
        let call = Call { tool: "get_time".to_owned(), input: Json::empty_object() };
        let replies = vec![
            Reply {
                when: when(When { summarize: true, ..When::default() }),
                say: Some("They asked for the time.".to_owned()),
                ..Reply::default()
            },
            Reply {
                when: when(When { tool: Some("get_time".to_owned()), ..When::default() }),
                say: Some("It is time, and here is a sentence of an ordinary length about it.".to_owned()),
                ..Reply::default()
            },
            Reply { say: Some("Let me look at the clock.".to_owned()), call: vec![call], ..Reply::default() },
        ];
        Self::new(data, Arc::new(Scripted::new(Script { replies })?), context_window).await
    }

    pub(crate) async fn new(data: &Path, model: Arc<dyn Model>, context_window: u64) -> Result<Self, Error> {
        let directory = data.join(format!("turn-{}", weir_journal::mint()));
        std::fs::create_dir_all(&directory)?;
        let blobs: Arc<dyn Blobs> = Arc::new(DirBlobs::open(directory.join("blobs"))?);
        let options = weir_journal_sqlite::Options {
            path: directory.join("journal.db"),
            blobs: Arc::clone(&blobs),
            vfs: None,
        };
        let journal = Arc::new(SqliteJournal::open(options).await?);
        let (full, mut card) = Catalog::default().find("scripted/bench")?;
        card.context_window = context_window;
        let functions = Functions::new([get_time()]);
        let agent = Agent {
            name: "bench".to_owned(),
            model: full,
            card,
            system: "You tell the time.".to_owned(),
            tools: functions.tools(),
            limits: Limits::default(),
        };
        let tools = Arc::new(functions);
        let runnable =
            Runnable { agent, model, tools, manifest: Hash::of(b"bench"), budgets: Budgets::default() };
        let setup = Setup {
            journal: Arc::clone(&journal) as _,
            blobs,
            agents: Arc::new(One(Arc::new(runnable))),
            owners: Arc::new(LockFiles::register(&directory.join("owners"))?),
            seal: weir_engine::SnapshotSeal::open(&directory.join("key"))?,
            options: Options::default(),
        };
        let engine = Engine::start(setup.clone()).await?;
        Ok(Self { journal, engine, setup, directory })
    }

    /// Another engine on the same journal, with nothing in memory.
    pub(crate) async fn restarted(&self) -> Result<Engine, Error> {
        Ok(Engine::start(self.setup.clone()).await?)
    }

    pub(crate) async fn remove(self) -> Result<(), Error> {
        self.engine.stop(Duration::from_secs(10)).await;
        self.journal.close().await;
        std::fs::remove_dir_all(&self.directory)?;
        Ok(())
    }
}

/// One turn of a session, which begins with the first.
pub(crate) async fn turn(engine: &Engine, address: &Address, n: usize) -> Result<(), Error> {
    say(engine, address, n).await?;
    let outcome = engine.settle(address).await?;
    if outcome.answer.is_none() {
        return Err(format!("a turn failed: {outcome:?}").into());
    }
    Ok(())
}

pub(crate) async fn say(engine: &Engine, address: &Address, n: usize) -> Result<(), Error> {
    let said = Said {
        content: vec![Block::text(format!("Question {n}: what time is it now, in the harbour?"))],
        runtime: BTreeMap::new(),
        actor: "user:bench".to_owned(),
    };
    let new = New { agent: "bench".to_owned(), principal: "user:bench".to_owned(), ..New::default() };
    match n {
        0 => engine.begin(address, new, said).await?,
        _ => engine.say(address, said).await?,
    };
    Ok(())
}
