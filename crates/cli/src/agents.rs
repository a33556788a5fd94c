//! The agents of a project, ready to run. Their files are read again for every run: what is edited takes effect.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_engine::{Address, Agents, EngineError, Explained, Functions, Runnable, get_time, recorded};
use weir_journal_sqlite::SqliteJournal;
use weir_kernel::{Agent, Limits, Tool, system};
use weir_models::{
    Echo, Endpoint, HttpClient, Model, ModelError, Replay, Scripted, Secret, connect, scripted, usual_key_env,
};
use weir_spec::Script;
use weir_types::{Explain, Fault, ModelCard, Wire};

use crate::project::{self, LoadedAgent, ProjectError};

/// The agents of a project.
pub(crate) struct ProjectAgents {
    directory: PathBuf,
    /// Instead of what the spec says.
    iterations: Option<u64>,
    client: HttpClient,
    /// Where recorded sessions are, for models that replay one.
    journal: Option<Arc<SqliteJournal>>,
}

/// Why an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Its files.
    #[error(transparent)]
    Project(#[from] ProjectError),
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
    /// Reading its files was cut short.
    #[error("reading the agent's files was interrupted")]
    Interrupted,
}

impl Explain for AgentError {
    fn code(&self) -> &'static str {
        match self {
            Self::Project(error) => error.code(),
            Self::Script(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::NoKey { .. } => "cli::no-key",
            Self::Replay(_) => "cli::replay",
            Self::Recorded(error) => error.code(),
            Self::Interrupted => "cli::interrupted",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Project(error) => error.help(),
            Self::Script(error) => error.help(),
            Self::Model(error) => error.help(),
            Self::NoKey { variable, .. } => {
                format!("set it with `export {variable}=…`, or try `model: offline/echo`, which needs none")
                    .into()
            }
            Self::Replay(_) => "write `replay/SESSION`, with an id from `weir session list`".into(),
            Self::Recorded(error) => error.help(),
            Self::Interrupted => "repeat the command".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Project(error) => error.fault(),
            Self::Script(error) => error.fault(),
            Self::Model(error) => error.fault(),
            Self::NoKey { .. } | Self::Replay(_) => Fault::Input,
            Self::Recorded(error) => error.fault(),
            Self::Interrupted => Fault::Storage,
        }
    }
}

/// The tools that agents can be given.
pub(crate) fn tools() -> Functions {
    Functions::new([get_time()])
}

impl ProjectAgents {
    pub(crate) fn new(directory: PathBuf, iterations: Option<u64>) -> Self {
        Self { directory, iterations, client: HttpClient::new(), journal: None }
    }

    /// Lets models replay the sessions of this journal.
    pub(crate) fn with_journal(self, journal: Arc<SqliteJournal>) -> Self {
        Self { journal: Some(journal), ..self }
    }

    async fn load(&self, name: &str) -> Result<Runnable, AgentError> {
        let (directory, name) = (self.directory.clone(), name.to_owned());
        let loaded = tokio::task::spawn_blocking(move || project::load(&directory, &name)).await;
        let loaded = loaded.map_err(|_| AgentError::Interrupted)??;
        let mut runnable = self.runnable(&loaded)?;
        if let (Wire::Replay, Some(journal)) = (loaded.card.wire, &self.journal) {
            let recorded = recorded(&**journal, &replayed(&loaded.model)?).await?;
            runnable.model = Arc::new(Replay::new(recorded));
        }
        Ok(runnable)
    }

    /// The agent, ready to run. Sends nothing yet, but finds out whether something is missing.
    pub(crate) fn runnable(&self, loaded: &LoadedAgent) -> Result<Runnable, AgentError> {
        let LoadedAgent { spec, model, card, sources, script, manifest } = loaded;
        let wanted = spec.tools.iter().map(|entry| entry.name.value.as_str());
        let agent = Agent {
            name: spec.name.value.clone(),
            model: model.clone(),
            card: card.clone(),
            system: system::prompt(sources),
            tools: tools_named(wanted),
            limits: limits(&spec.limits, self.iterations),
        };
        let answering = answering(model, card, script.as_ref(), &self.client)?;
        Ok(Runnable { agent, model: answering, manifest: *manifest })
    }
}

impl Agents for ProjectAgents {
    fn agent<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        async move {
            match self.load(name).await {
                Ok(runnable) => Ok(Arc::new(runnable)),
                Err(error) => Err(Arc::new(error) as Explained),
            }
        }
        .boxed()
    }
}

/// The tools of these names. The spec has been checked: there are no others.
pub(crate) fn tools_named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Tool> {
    let tools = tools();
    names.filter_map(|name| tools.tool(name)).collect()
}

fn limits(spec: &weir_spec::Limits, iterations: Option<u64>) -> Limits {
    let wall_clock_ms = spec.wall_clock.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    Limits {
        iterations: iterations.unwrap_or(spec.iterations),
        model_calls: spec.model_calls,
        tokens: spec.tokens,
        usd: spec.usd.as_ref().map(|usd| usd.value),
        wall_clock_ms,
        output_tokens: spec.output_tokens,
        context_tokens: spec.context_tokens,
    }
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
        Wire::Scripted => Ok(Arc::new(Scripted::new(rules(script))?)),
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
    Ok(found.map(|key| Secret::new(&key)))
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
