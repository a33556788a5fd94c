//! The same in a whole turn on a journal in memory: an engine whose agent has its tools behind the gate, beside one whose agent has a
//! bare function.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_bench::Error;
use weir_bench::findings::Round;
use weir_engine::{
    Agents, Budgets, Engine, Explained, Functions, LockFiles, New, Options, Runnable, Said, Setup, Tools,
    get_time,
};
use weir_journal::MemoryJournal;
use weir_kernel::{Agent, Limits, Tool};
use weir_models::scripted::{Call, Reply, Script, Scripted, When};
use weir_types::{Block, Catalog, Hash, Json};

use crate::project::{AGENT, PRINCIPAL, Project};
use crate::times::{Times, Until};

struct One(Arc<Runnable>);

impl Agents for One {
    fn agent<'a>(&'a self, _name: &'a str, _build: Option<Hash>) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        let runnable = Arc::clone(&self.0);
        async move { Ok(runnable) }.boxed()
    }
}

pub(crate) async fn measure(project: &Project, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let functions = Functions::new([get_time()]);
    let listed = functions.tools();
    // The same list for the model, so that only what stands behind it differs.
    let bare = engine(project, "bare", Arc::new(functions), listed.clone()).await?;
    let gated = engine(project, "gated", Arc::clone(&project.equipped.toolbox) as _, listed).await?;
    let (mut through, mut without) = (Times::new(), Times::new());
    let until = Until::after(duration);
    while !until.is_over(&through) {
        through.push(turn(&gated).await?);
        without.push(turn(&bare).await?);
    }
    for engine in [bare, gated] {
        engine.stop(Duration::from_secs(10)).await;
    }
    found.insert("turn_through_us", through.p50() * 1e6);
    found.insert("turn_bare_us", without.p50() * 1e6);
    found.insert("turn_beyond_us", (through.p50() - without.p50()) * 1e6);
    Ok(())
}

async fn engine(
    project: &Project,
    name: &str,
    tools: Arc<dyn Tools>,
    listed: Vec<Tool>,
) -> Result<Engine, Error> {
    let call = Call { tool: "get_time".to_owned(), input: Json::empty_object() };
    let replies = vec![
        Reply {
            when: Some(When { tool: Some("get_time".to_owned()), ..When::default() }),
            say: Some("It is time.".to_owned()),
            ..Reply::default()
        },
        Reply { say: Some("Let me look.".to_owned()), call: vec![call], ..Reply::default() },
    ];
    let (model, card) = Catalog::default().find("scripted/bench")?;
    let agent = Agent {
        name: AGENT.to_owned(),
        model,
        card,
        system: "You tell the time.".to_owned(),
        tools: listed,
        limits: Limits::default(),
    };
    let model = Arc::new(Scripted::new(Script { replies })?);
    let runnable =
        Runnable { agent, model, tools, manifest: Hash::of(b"bench"), budgets: Budgets::default() };
    let setup = Setup {
        journal: Arc::new(MemoryJournal::new(Arc::clone(&project.blobs))),
        blobs: Arc::clone(&project.blobs),
        agents: Arc::new(One(Arc::new(runnable))),
        owners: Arc::new(LockFiles::register(&project.directory.join("owners").join(name))?),
        options: Options::default(),
        seal: weir_engine::SnapshotSeal::in_memory()?,
    };
    Ok(Engine::start(setup).await?)
}

/// One turn with one call, in a session of its own.
async fn turn(engine: &Engine) -> Result<Duration, Error> {
    let (began, address) = (Instant::now(), engine.new_address());
    let actor = PRINCIPAL.to_owned();
    let said = Said { content: vec![Block::text("What time is it?")], actor, ..Said::default() };
    let new = New { agent: AGENT.to_owned(), principal: PRINCIPAL.to_owned(), ..New::default() };
    engine.begin(&address, new, said).await?;
    let outcome = engine.settle(&address).await?;
    match outcome.answer.as_deref() {
        Some("It is time.") => Ok(began.elapsed()),
        _ => Err(format!("a turn failed: {outcome:?}").into()),
    }
}
