//! The agents of a project, ready to run. Their files are read again for every run: what is edited takes effect.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_compiler::{Built, SaveError};
use weir_engine::{
    Address, Agents, AsksFirst, EngineError, Explained, Hooks, ProjectHooks, Runnable, provision, recorded,
};
use weir_journal_sqlite::SqliteJournal;
use weir_kernel::system::{self, Sources};
use weir_kernel::{Agent, Limits};
use weir_models::{
    Echo, Endpoint, HttpClient, Model, ModelError, Replay, Scripted, connect, scripted, usual_key_env,
};
use weir_spec::{Manifest, Routing, Script, manifest};
use weir_tools::Gate;
use weir_types::{Explain, Fault, Hash, ModelCard, Secret, ToolDefinition, Wire};

use crate::builds;
use crate::identity::admins;
use crate::project::{self, ProjectError};
use crate::workbench::{ToolArgs, Workbench};

/// The agents of a project.
#[derive(Clone)]
pub(crate) struct ProjectAgents(Makings);

/// What agents of a build are made ready with. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Makings {
    /// The project.
    pub(crate) directory: PathBuf,
    /// Where builds are kept.
    pub(crate) data_dir: PathBuf,
    /// Instead of what the spec says.
    iterations: Option<u64>,
    client: HttpClient,
    /// What their tools are made with.
    pub(crate) bench: Workbench,
    /// Where recorded sessions are, for models that replay one.
    journal: Option<Arc<SqliteJournal>>,
}

/// Why an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Its files.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// Its build cannot be kept.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// It asks for what this version does not do yet.
    #[error("this version does not do yet: {}", .0.join(", "))]
    Later(Vec<String>),
    /// Its script.
    #[error(transparent)]
    Script(#[from] scripted::ScriptError),
    /// Its model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its model's key.
    #[error("the model `{model}` needs a key, and `{variable}` is not set")]
    NoKey {
        /// The model.
        model: String,
        /// Where the key should be.
        variable: String,
    },
    /// Its model names no session to replay.
    #[error("the model `{0}` names no session to replay")]
    Replay(String),
    /// The session to replay cannot be read.
    #[error(transparent)]
    Recorded(#[from] EngineError),
    /// The session's project has hooks, and is not here.
    #[error("the session's project has hooks that are asked first, and there is no project in `{}`", .0.display())]
    NoHooks(PathBuf),
    /// In a test, its model would answer differently each time, and cost money.
    #[error("`{agent}` is called in a test, and its model `{model}` answers differently each time")]
    NotRepeatable {
        /// The agent.
        agent: String,
        /// Its model.
        model: String,
    },
    /// Its policy cannot be read, so that it would say no to everything.
    #[error("the build's policy cannot be read: {why}")]
    Policy {
        /// Why.
        why: String,
        /// What to do.
        help: String,
    },
    /// No build is deployed.
    #[error("no build is deployed, so there are no agents")]
    NothingDeployed,
    /// Its build lacks what every build has.
    #[error("this is a bug in weir: the build says nothing about the model `{0}`")]
    NoCard(String),
    /// What makes it ready broke down.
    #[error("this is a bug in weir: an agent could not be made ready: {0}")]
    BrokenOff(String),
}

impl Explain for AgentError {
    fn code(&self) -> &'static str {
        match self {
            Self::Project(error) => error.code(),
            Self::Save(error) => error.code(),
            Self::Later(_) => "cli::not-supported-yet",
            Self::Script(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::NoKey { .. } => "cli::no-key",
            Self::Replay(_) => "cli::replay",
            Self::Recorded(error) => error.code(),
            Self::NoHooks(_) => "cli::no-hooks",
            Self::NotRepeatable { .. } => "cli::not-repeatable",
            Self::Policy { .. } => "cli::policy",
            Self::NothingDeployed => "cli::nothing-deployed",
            Self::NoCard(_) | Self::BrokenOff(_) => "cli::bug",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Project(error) => error.help(),
            Self::Save(error) => error.help(),
            Self::Later(_) => "it builds, but running it without them would not be what its spec says; remove them to try the rest".into(),
            Self::Script(error) => error.help(),
            Self::Model(error) => error.help(),
            Self::NoKey { variable, .. } => {
                format!("set it with `export {variable}=…`, or try `model: offline/echo`, which needs none")
                    .into()
            }
            Self::Replay(_) => "write `replay/SESSION`, with an id from `weir session list`".into(),
            Self::Recorded(error) => error.help(),
            Self::NoHooks(_) => "say it from the project's directory".into(),
            Self::NotRepeatable { .. } => "test it with agents whose models are scripted".into(),
            Self::Policy { help, .. } => help.clone().into(),
            Self::NothingDeployed => "deploy one: `weir build`, then `weir deploy latest`".into(),
            Self::NoCard(_) | Self::BrokenOff(_) => "please report this line and the command you ran".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Project(error) => error.fault(),
            Self::Save(error) => error.fault(),
            Self::Later(_) => Fault::Input,
            Self::Script(error) => error.fault(),
            Self::Model(error) => error.fault(),
            Self::NoKey { .. } | Self::Replay(_) | Self::NoHooks(_) | Self::NotRepeatable { .. } => {
                Fault::Input
            }
            Self::Recorded(error) => error.fault(),
            Self::Policy { .. } => Fault::Input,
            Self::NothingDeployed => Fault::Missing,
            Self::NoCard(_) | Self::BrokenOff(_) => Fault::Bug,
        }
    }
}

impl Makings {
    pub(crate) fn new(directory: &Path, data_dir: &Path, tools: &ToolArgs) -> Self {
        Self {
            directory: directory.to_owned(),
            data_dir: data_dir.to_owned(),
            iterations: None,
            client: HttpClient::new(),
            bench: Workbench::new(tools, directory, data_dir),
            journal: None,
        }
    }

    /// With another limit than the specs say.
    pub(crate) fn with_iterations(self, iterations: Option<u64>) -> Self {
        Self { iterations, ..self }
    }

    /// Lets models replay the sessions of this journal.
    pub(crate) fn over(self, journal: Arc<SqliteJournal>) -> Self {
        Self { journal: Some(journal), ..self }
    }

    /// An agent of a build, ready to run. Sends nothing yet, but finds out whether something is missing.
    pub(crate) fn runnable(
        &self,
        (manifest, hash): (&Manifest, Hash),
        gate: Arc<dyn Gate>,
        name: &str,
    ) -> Result<Runnable, AgentError> {
        let agent = prepared(manifest, name, &self.directory, self.iterations)?;
        let model = answering(&agent.model, &agent.card, script(manifest, &agent), &self.client)?;
        self.equipped((manifest, hash), gate, agent, model)
    }

    fn equipped(
        &self,
        (manifest, hash): (&Manifest, Hash),
        gate: Arc<dyn Gate>,
        agent: Agent,
        model: Arc<dyn Model>,
    ) -> Result<Runnable, AgentError> {
        let spec = project::agent(manifest, &agent.name, &self.directory)?;
        let tools = self.bench.equip_behind(manifest, spec, gate).toolbox;
        let budgets = provision::budgets(manifest, admins(&self.data_dir));
        Ok(Runnable { agent, model, tools, manifest: hash, budgets })
    }

    /// What a model that replays a session answers is read when it runs.
    pub(crate) async fn recorded(&self, runnable: &mut Runnable) -> Result<(), AgentError> {
        if let (Wire::Replay, Some(journal)) = (runnable.agent.card.wire, &self.journal) {
            let recorded = recorded(&**journal, &replayed(&runnable.agent.model)?).await?;
            runnable.model = Arc::new(Replay::new(recorded));
        }
        Ok(())
    }
}

impl ProjectAgents {
    pub(crate) fn new(directory: &Path, data_dir: &Path, tools: &ToolArgs) -> Self {
        Self(Makings::new(directory, data_dir, tools))
    }

    /// With another limit than the spec says.
    pub(crate) fn with_iterations(self, iterations: Option<u64>) -> Self {
        Self(self.0.with_iterations(iterations))
    }

    /// What their tools are made with, to be closed in the end.
    pub(crate) fn bench(&self) -> &Workbench {
        &self.0.bench
    }

    /// Lets models replay the sessions of this journal.
    pub(crate) fn over(self, journal: Arc<SqliteJournal>) -> Self {
        Self(self.0.over(journal))
    }

    /// The agent with its tools, and with another model than its own.
    pub(crate) async fn with_model(&self, name: &str, model: Arc<dyn Model>) -> Result<Runnable, AgentError> {
        let built = project::build(&self.0.directory).await?;
        let (makings, name) = (self.0.clone(), name.to_owned());
        let ready = move || {
            let Makings { directory, iterations, bench, .. } = &makings;
            let agent = prepared(&built.manifest, &name, directory, *iterations)?;
            let gate = bench.gate(&built.manifest);
            let runnable = makings.equipped((&built.manifest, built.hash), gate, agent, model)?;
            Ok((built, runnable))
        };
        let (built, runnable) = away(ready).await?;
        builds::keep(built, &self.0.data_dir).await?;
        Ok(runnable)
    }

    async fn load(&self, name: &str) -> Result<Runnable, AgentError> {
        let built = project::build(&self.0.directory).await?;
        let (agents, name) = (self.clone(), name.to_owned());
        let ready = move || agents.runnable(&built, &name).map(|runnable| (built, runnable));
        let (built, mut runnable) = away(ready).await?;
        builds::keep(built, &self.0.data_dir).await?;
        self.0.recorded(&mut runnable).await?;
        Ok(runnable)
    }

    /// The agent, ready to run. Sends nothing yet, but finds out whether something is missing.
    pub(crate) fn runnable(&self, built: &Built, name: &str) -> Result<Runnable, AgentError> {
        let gate = self.0.bench.gate(&built.manifest);
        self.0.runnable((&built.manifest, built.hash), gate, name)
    }

    /// Who is asked before something from outside is written down. Where the project is not, nobody can be; then there must be
    /// nobody to ask.
    pub(crate) async fn asked_first(
        &self,
        build: Option<Hash>,
    ) -> Result<Option<Arc<dyn Hooks>>, AgentError> {
        let Makings { directory, data_dir, bench, .. } = &self.0;
        let file = project::within(directory, "weir.yaml");
        if file.exists() {
            if !may_have_hooks(&file).await {
                return Ok(None);
            }
            let built = project::build(directory).await?;
            refuse_later(&built.manifest)?;
            return Ok(ProjectHooks::of(&built.manifest, bench.hook_means()));
        }
        let Some(build) = build else { return Ok(None) };
        let kept = builds::find(data_dir, &build.to_string()).await;
        match kept {
            Ok(kept) if !kept.manifest.hooks.pre_append.is_empty() => {
                Err(AgentError::NoHooks(directory.clone()))
            }
            _ => Ok(None),
        }
    }
}

/// Whether it is worth building a project to learn who is asked first. YAML can write a key only as it is, or with a backslash.
pub(crate) async fn may_have_hooks(file: &Path) -> bool {
    let text = tokio::fs::read(file).await.unwrap_or_default();
    // What cannot be read is told by the build.
    text.is_empty() || text.contains(&b'\\') || text.windows(7).any(|part| part == b"_append")
}

impl AsksFirst for ProjectAgents {
    fn hooks(&self, build: Option<Hash>) -> BoxFuture<'_, Result<Option<Arc<dyn Hooks>>, Explained>> {
        async move { self.asked_first(build).await.map_err(|error| Arc::new(error) as Explained) }.boxed()
    }
}

/// Makes something ready away from the threads that must not wait: a policy of many rules takes a while to read.
pub(crate) async fn away<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AgentError> + Send + 'static,
) -> Result<T, AgentError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| AgentError::BrokenOff(error.to_string()))?
}

impl Agents for ProjectAgents {
    fn asks_first(&self) -> Option<&dyn AsksFirst> {
        Some(self)
    }

    fn agent<'a>(
        &'a self,
        name: &'a str,
        _build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        async move {
            match self.load(name).await {
                Ok(runnable) => Ok(Arc::new(runnable)),
                Err(error) => Err(Arc::new(error) as Explained),
            }
        }
        .boxed()
    }
}

/// An agent of a build, as the kernel wants it.
pub(crate) fn prepared(
    manifest: &Manifest,
    name: &str,
    directory: &Path,
    iterations: Option<u64>,
) -> Result<Agent, AgentError> {
    let agent = project::agent(manifest, name, directory)?;
    check_enforced(manifest)?;
    // INVARIANT: a manifest has the card of every model that its agents name.
    let card = manifest.models.get(&agent.model).cloned();
    let card = card.ok_or_else(|| AgentError::NoCard(agent.model.clone()))?;
    Ok(Agent {
        name: name.to_owned(),
        model: agent.model.clone(),
        card,
        system: system::prompt(&prompt_sources(manifest, agent)),
        tools: provision::tools(agent, &provision::offers(manifest, agent)),
        limits: limits(&agent.limits, iterations),
    })
}

/// Whether a build could run, for all that can be said without its surroundings. What only a key is missing for may get one.
pub(crate) fn check(manifest: &Manifest, directory: &Path) -> Result<(), AgentError> {
    if let Some([why, help]) = provision::policy_problem(manifest) {
        return Err(AgentError::Policy { why, help });
    }
    for name in manifest.agents.keys() {
        let agent = prepared(manifest, name, directory, None)?;
        if agent.card.wire == Wire::Scripted {
            scripted(script(manifest, &agent))?;
        }
    }
    Ok(())
}

/// The variables that models of a build need a key in and that are not set.
pub(crate) fn missing_keys(manifest: &Manifest) -> Vec<String> {
    let needed = manifest.agents.values().filter_map(|agent| {
        let card = manifest.models.get(&agent.model)?;
        match (card.wire, key(&agent.model, card)) {
            (Wire::Echo | Wire::Scripted | Wire::Replay, _) => None,
            (_, Err(AgentError::NoKey { variable, .. })) => Some(variable),
            _ => None,
        }
    });
    needed.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// What an agent's system prompt is made of.
pub(crate) fn prompt_sources(manifest: &Manifest, agent: &manifest::Agent) -> Sources {
    let skills = agent.skills.iter().filter_map(|name| manifest.skills.get(name));
    Sources {
        identity: agent.identity.iter().map(|file| (file.file.clone(), file.text.clone())).collect(),
        description: agent.description.clone(),
        skills: skills.map(|skill| (skill.name.clone(), skill.fragments.join("\n\n"))).collect(),
        tools: String::new(),
    }
}

/// What a scripted model answers from.
pub(crate) fn script<'m>(manifest: &'m Manifest, agent: &Agent) -> Option<&'m Script> {
    let name = agent.card.api_name.as_deref().unwrap_or_else(|| agent.model.trim_start_matches("scripted/"));
    manifest.scripts.get(name)
}

/// Refuses hooks that this version does not ask yet.
pub(crate) fn refuse_later(manifest: &Manifest) -> Result<(), AgentError> {
    match manifest.hooks.post_append.is_empty() {
        true => Ok(()),
        false => Err(AgentError::Later(vec!["`hooks.post_append` of the project".to_owned()])),
    }
}

/// What a spec asks for and this version does not do yet is refused: a rule that nobody keeps is worse than none.
pub(crate) fn check_enforced(manifest: &Manifest) -> Result<(), AgentError> {
    let mut later: Vec<String> = Vec::new();
    for (is_there, name) in [
        (!manifest.hooks.post_append.is_empty(), "hooks.post_append"),
        (!manifest.knowledge.is_empty(), "knowledge"),
        (manifest.routing != Routing::default(), "routing"),
    ] {
        if is_there {
            later.push(format!("`{name}` of the project"));
        }
    }
    if later.is_empty() { Ok(()) } else { Err(AgentError::Later(later)) }
}

/// What a model sees of an agent's tools.
pub(crate) fn definitions(manifest: &Manifest, agent: &manifest::Agent) -> Vec<ToolDefinition> {
    provision::offers(manifest, agent).into_iter().map(|offer| offer.definition).collect()
}

fn limits(limits: &manifest::Limits, iterations: Option<u64>) -> Limits {
    let manifest::Limits { usd, wall_clock_ms, output_tokens, context_tokens, tokens, model_calls, .. } =
        *limits;
    let iterations = iterations.unwrap_or(limits.iterations);
    Limits { iterations, model_calls, tokens, usd, wall_clock_ms, output_tokens, context_tokens }
}

/// Whoever answers for a model. Sends nothing yet.
fn answering(
    name: &str,
    card: &ModelCard,
    script: Option<&Script>,
    client: &HttpClient,
) -> Result<Arc<dyn Model>, AgentError> {
    match card.wire {
        Wire::Echo => Ok(Arc::new(Echo)),
        Wire::Scripted => scripted(script),
        // What it answers is read when it runs.
        Wire::Replay => replayed(name).map(|_| Arc::new(Replay::new(Vec::new())) as Arc<dyn Model>),
        Wire::Anthropic | Wire::OpenaiChat | Wire::OpenaiResponses | Wire::Gemini => {
            let key = key(name, card)?;
            Ok(connect(card, name, Endpoint::of(card, name, key), client)?)
        }
    }
}

/// The session that a model replays: `replay/ID` or `replay/ID@BRANCH`.
fn replayed(name: &str) -> Result<Address, AgentError> {
    let parse = || {
        let (_, text) = name.split_once('/')?;
        let (session, branch) = text.split_once('@').unwrap_or((text, "main"));
        Some(Address { session: session.parse().ok()?, branch: branch.parse().ok()? })
    };
    parse().ok_or_else(|| AgentError::Replay(name.to_owned()))
}

/// The key of a model's provider. A place of its own may need none; a provider's usual place always does.
fn key(name: &str, card: &ModelCard) -> Result<Option<Secret>, AgentError> {
    let provider = name.split_once('/').map_or(name, |(provider, _)| provider);
    let usual = usual_key_env(provider);
    let Some(variable) = card.key_env.as_deref().or(usual) else { return Ok(None) };
    let found = std::env::var(variable).ok().filter(|key| !key.trim().is_empty());
    let optional = card.key_env.is_none() && card.base_url.is_some();
    if found.is_none() && !optional {
        let (model, variable) = (name.to_owned(), variable.to_owned());
        return Err(AgentError::NoKey { model, variable });
    }
    // White space around it, as files and variables tend to have, is not part of it.
    Ok(found.map(|key| Secret::new(key.trim())))
}

/// A model that answers from a script.
pub(crate) fn scripted(script: Option<&Script>) -> Result<Arc<dyn Model>, AgentError> {
    Ok(Arc::new(Scripted::new(rules(script))?))
}

/// The same rules in the words of the model that plays them.
fn rules(script: Option<&Script>) -> scripted::Script {
    let replies = script.into_iter().flat_map(|script| &script.replies).cloned();
    let replies = replies.map(|reply| scripted::Reply {
        when: reply.when.map(|when| scripted::When {
            user: when.user,
            tool: when.tool,
            failed: when.failed,
            summarize: when.summarize,
        }),
        think: reply.think,
        say: reply.say,
        call: reply
            .call
            .into_iter()
            .map(|call| scripted::Call { tool: call.tool, input: call.input })
            .collect(),
        error: reply.error,
        times: reply.times,
        usage: reply.usage,
        delay: reply.delay,
        chunk: reply.chunk.map(|chunk| chunk as usize),
        stop: reply.stop,
    });
    scripted::Script { replies: replies.collect() }
}
