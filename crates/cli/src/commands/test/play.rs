//! A scenario, played: an engine of its own, on a journal that is forgotten afterwards.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_compiler::Built;
use weir_engine::{
    Address, Agents, Engine, Explained, LockFiles, New, Options, Runnable, Said, Setup, SnapshotSeal,
    provision, recorded,
};
use weir_events::Body;
use weir_journal::transfer::{self, ImportError};
use weir_journal::{Journal, MemoryJournal, PAGE_MAX};
use weir_kernel::Agent;
use weir_models::{Model, Recorded, Replay};
use weir_spec::{Diagnostic, Scenario, TestModel, TestSpec};
use weir_types::{Block, BranchId, Explain, Fault, Hash, NanoUsd, Seq, SessionId, Wire};

use super::judge::{Happened, judge};
use crate::agents::{self, AgentError};
use crate::identity;
use crate::project::{self, Tested};
use crate::report::Outcome;
use crate::store::blocking;
use crate::workbench::{ToolArgs, Workbench};

/// How long an engine may take to let go of its session.
const FAREWELL: Duration = Duration::from_secs(5);

/// How many streams of a recording are looked at together.
const STREAMS_AT_ONCE: usize = 20;

/// What the scenarios of a file are played with.
pub(super) struct Stage<'a> {
    test: &'a TestSpec,
    agent: Agent,
    answers: Answers,
    tested: &'a Tested,
    directory: PathBuf,
}

/// Who answers. Each scenario gets a model of its own: some count.
enum Answers {
    /// The agent's own model, or a script.
    Script(Option<weir_spec::Script>),
    Recording(Vec<Recorded>),
    Echo,
}

/// What came of a scenario.
pub(super) struct Played {
    pub(super) problems: Vec<Diagnostic>,
    pub(super) cost: NanoUsd,
}

/// Why a scenario cannot be played.
#[derive(Debug, thiserror::Error)]
enum StageError {
    /// The agent's model would answer differently each time, and cost money.
    #[error("`{file}` tests `{agent}` on its own model `{model}`, which answers differently each time")]
    NotRepeatable { file: String, agent: String, model: String },
    #[error("cannot read the recording `{}`", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot use the recording `{}`", .path.display())]
    Import {
        path: PathBuf,
        #[source]
        source: ImportError,
    },
    #[error("the recording `{}` has {sessions} sessions; one is needed", .path.display())]
    Sessions { path: PathBuf, sessions: usize },
    #[error("a temporary directory cannot be used")]
    Temporary(#[source] std::io::Error),
}

impl Explain for StageError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotRepeatable { .. } => "test::not-repeatable",
            Self::Unreadable { .. } | Self::Import { .. } | Self::Sessions { .. } => "test::recording",
            Self::Temporary(_) => "test::temporary",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotRepeatable { .. } => {
                "add `model: scripted/NAME` or `model: recorded/NAME` to the file".into()
            }
            Self::Unreadable { path, .. } => {
                format!("record one with `weir export --stream session:ID -o {}`", path.display()).into()
            }
            Self::Import { path, .. } | Self::Sessions { path, .. } => {
                format!("record it again with `weir export --stream session:ID -o {}`", path.display()).into()
            }
            Self::Temporary(_) => "check free space and permissions of TMPDIR".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotRepeatable { .. } | Self::Import { .. } | Self::Sessions { .. } => Fault::Input,
            Self::Unreadable { .. } => Fault::Missing,
            Self::Temporary(_) => Fault::Storage,
        }
    }
}

/// The agent that is tested, and those that it calls.
struct Company {
    tested: Arc<Runnable>,
    others: BTreeMap<String, Result<Arc<Runnable>, Explained>>,
}

impl Agents for Company {
    fn agent<'a>(
        &'a self,
        name: &'a str,
        _build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        let other = self.others.get(name).cloned();
        let runnable = other.unwrap_or_else(|| Ok(Arc::clone(&self.tested)));
        async move { runnable }.boxed()
    }
}

impl<'a> Stage<'a> {
    /// Prepares the agent and its model.
    pub(super) async fn new(test: &'a TestSpec, tested: &'a Tested, directory: &Path) -> Outcome<Self> {
        let manifest = &tested.built.manifest;
        let mut agent = agents::prepared(manifest, &test.agent.value, directory, None)?;
        let answers = match test.model.as_ref().map(|model| &model.value) {
            // The agent keeps its own window and prices: only who answers is another.
            Some(TestModel::Scripted(name)) => {
                agent.card.wire = Wire::Scripted;
                Answers::Script(tested.sources.scripts.get(name).cloned())
            }
            Some(TestModel::Recorded(name)) => {
                agent.card.wire = Wire::Replay;
                let path = directory.join(format!("tests/recordings/{name}.jsonl"));
                Answers::Recording(recording(path).await?)
            }
            None => match agent.card.wire {
                Wire::Scripted => Answers::Script(agents::script(manifest, &agent).cloned()),
                Wire::Echo => Answers::Echo,
                Wire::Replay | Wire::Anthropic | Wire::OpenaiChat | Wire::OpenaiResponses | Wire::Gemini => {
                    let (file, model) = (test.file.clone(), agent.model.clone());
                    return Err(StageError::NotRepeatable { file, agent: agent.name, model }.into());
                }
            },
        };
        Ok(Self { test, agent, answers, tested, directory: directory.to_owned() })
    }

    fn model(&self) -> Result<Arc<dyn Model>, AgentError> {
        Ok(match &self.answers {
            Answers::Script(script) => agents::scripted(script.as_ref())?,
            Answers::Recording(recorded) => Arc::new(Replay::new(recorded.clone())),
            Answers::Echo => Arc::new(weir_models::Echo),
        })
    }

    /// The agent that is tested, on the model that it is tested on, and all others on their own, as far as those answer
    /// the same each time.
    fn company(&self) -> Result<Company, AgentError> {
        let tested = self.equipped(self.agent.clone(), self.model()?)?;
        let names = self.tested.built.manifest.agents.keys().filter(|name| **name != self.agent.name);
        let other = |name: &String| {
            let runnable = self.other(name).map(Arc::new).map_err(|error| Arc::new(error) as Explained);
            (name.clone(), runnable)
        };
        Ok(Company { tested: Arc::new(tested), others: names.map(other).collect() })
    }

    fn other(&self, name: &str) -> Result<Runnable, AgentError> {
        let manifest = &self.tested.built.manifest;
        let agent = agents::prepared(manifest, name, &self.directory, None)?;
        let model: Arc<dyn Model> = match agent.card.wire {
            Wire::Scripted => agents::scripted(agents::script(manifest, &agent))?,
            Wire::Echo => Arc::new(weir_models::Echo),
            Wire::Replay | Wire::Anthropic | Wire::OpenaiChat | Wire::OpenaiResponses | Wire::Gemini => {
                return Err(AgentError::NotRepeatable { agent: name.to_owned(), model: agent.model });
            }
        };
        self.equipped(agent, model)
    }

    /// Writes are stubbed: a test changes nothing.
    fn equipped(&self, agent: Agent, model: Arc<dyn Model>) -> Result<Runnable, AgentError> {
        let Built { manifest, hash, .. } = &self.tested.built;
        let spec = project::agent(manifest, &agent.name, &self.directory)?;
        let bench = Workbench::new(&ToolArgs::default(), &self.directory, &self.directory.join(".weir"));
        let tools = bench.equip(manifest, spec).toolbox;
        let budgets = provision::budgets(manifest, []);
        Ok(Runnable { agent, model, tools, manifest: *hash, budgets })
    }

    /// Plays a scenario.
    pub(super) async fn play(&self, scenario: &Scenario) -> Outcome<Played> {
        let temporary = tempfile::tempdir().map_err(StageError::Temporary)?;
        let directory = temporary.path().to_owned();
        let owners =
            blocking(move || LockFiles::register(&directory)).await?.map_err(StageError::Temporary)?;
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
        let journal = Arc::new(MemoryJournal::new(Arc::clone(&blobs)));
        let agents = Arc::new(self.company()?);
        let setup = Setup {
            journal: journal.clone(),
            blobs,
            agents,
            owners: Arc::new(owners),
            seal: SnapshotSeal::in_memory().map_err(StageError::Temporary)?,
            options: Options::default(),
        };
        let engine = Engine::start(setup).await?;
        let played = self.turns(scenario, &engine, &*journal).await;
        engine.stop(FAREWELL).await;
        played
    }

    async fn turns(&self, scenario: &Scenario, engine: &Engine, journal: &dyn Journal) -> Outcome<Played> {
        let (address, mut seen) = (engine.new_address(), Seq(0));
        let mut played = Played { problems: Vec::new(), cost: NanoUsd(0) };
        for (n, step) in scenario.steps.iter().enumerate() {
            self.say(&step.say.value, n, engine, &address).await?;
            let outcome = engine.settle(&address).await?;
            let bodies = bodies(journal, &address.branch_id(), &mut seen).await?;
            let happened = Happened::new(outcome, bodies.into_iter());
            played.cost.0 = played.cost.0.saturating_add(happened.cost.0);
            let problems = judge(step, &happened, &self.test.file);
            let failed = !problems.is_empty();
            played.problems.extend(problems);
            if failed || happened.outcome.stop.is_parked() {
                // What comes after a turn that went wrong says nothing.
                break;
            }
        }
        Ok(played)
    }

    async fn say(&self, words: &str, n: usize, engine: &Engine, address: &Address) -> Outcome {
        let me = identity::principal();
        let said = Said { content: vec![Block::text(words)], runtime: BTreeMap::new(), actor: me.clone() };
        if n == 0 {
            let new = New { agent: self.agent.name.clone(), principal: me, ..New::default() };
            engine.begin(address, new, said).await?;
        } else {
            engine.say(address, said).await?;
        }
        Ok(())
    }
}

/// What has happened on a branch since the last look.
async fn bodies(journal: &dyn Journal, branch: &BranchId, seen: &mut Seq) -> Outcome<Vec<Body>> {
    let mut bodies = Vec::new();
    loop {
        let page = journal.read(branch, *seen, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(bodies) };
        *seen = last.seq;
        bodies
            .extend(page.iter().filter_map(|event| Body::decode(&event.kind, &event.payload).ok().flatten()));
    }
}

/// The answers of a session that was exported.
async fn recording(path: PathBuf) -> Outcome<Vec<Recorded>> {
    let bytes = tokio::fs::read(&path).await;
    let bytes = bytes.map_err(|source| StageError::Unreadable { path: path.clone(), source })?;
    let blobs = Arc::new(MemoryBlobs::new());
    let journal = MemoryJournal::new(blobs.clone());
    let imported = transfer::restore(&journal, &*blobs, &mut Cursor::new(bytes)).await;
    imported.map_err(|source| StageError::Import { path: path.clone(), source })?;
    let (mut sessions, mut after) = (Vec::new(), None);
    loop {
        let page = journal.streams(after.take(), STREAMS_AT_ONCE).await?;
        let ids = page
            .iter()
            .filter_map(|stream| stream.stream.as_str().strip_prefix("session:")?.parse::<SessionId>().ok());
        sessions.extend(ids);
        match page.last() {
            Some(last) if page.len() == STREAMS_AT_ONCE => after = Some(last.stream.clone()),
            _ => break,
        }
    }
    let [session] = sessions[..] else {
        return Err(StageError::Sessions { path, sessions: sessions.len() }.into());
    };
    Ok(recorded(&journal, &Address { session, branch: weir_types::BranchName::main() }).await?)
}
