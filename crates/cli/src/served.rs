//! The agents of builds that were kept: what a server runs. Nothing is read from sources, and a session stays with the build
//! that it began with.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_compiler::{Loaded, Which};
use weir_engine::{Agents, AsksFirst, Explained, Hooks, ProjectHooks, Runnable};
use weir_server::{Build, Builds};
use weir_types::{Explain, Fault, Hash, Wire};

use crate::agents::{self, AgentError, Makings, away};

/// Builds in memory, besides the one that is deployed: sessions go on with what they began with.
const KEPT_MAX: usize = 16;

/// Which build a session runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sticks {
    /// The one that it began with.
    ToItsBuild,
    /// The newest: what is edited takes effect.
    ToTheNewest,
}

/// What is deployed, and what sessions began with. Clones share everything.
#[derive(Clone)]
pub(crate) struct Served(Arc<Inner>);

struct Inner {
    makings: Makings,
    sticks: Sticks,
    current: RwLock<Option<Arc<Ready>>>,
    /// The newest last.
    kept: Mutex<VecDeque<Arc<Ready>>>,
    /// One build is read at a time: whoever waits finds it read.
    reading: tokio::sync::Mutex<()>,
}

/// A build whose policy is read, and its agents as far as somebody has asked for them.
pub(crate) struct Ready {
    build: Arc<Build>,
    agents: Mutex<BTreeMap<String, Arc<Runnable>>>,
}

impl Ready {
    pub(crate) fn build(&self) -> &Build {
        &self.build
    }
}

impl Served {
    pub(crate) fn new(makings: Makings, sticks: Sticks) -> Self {
        Self(Arc::new(Inner {
            makings,
            sticks,
            current: RwLock::default(),
            kept: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }))
    }

    /// What is made with these, to be closed in the end.
    pub(crate) fn makings(&self) -> &Makings {
        &self.0.makings
    }

    /// Reads a build that was kept: a hash, the beginning of one, or `latest`. Deploys nothing.
    pub(crate) async fn find(&self, which: &str) -> Result<Arc<Ready>, AgentError> {
        let which = which.to_owned();
        let read = move |data_dir: &Path| {
            let which = if which == "latest" { Which::Latest } else { Which::Prefix(&which) };
            weir_compiler::load(data_dir, &which)
        };
        let _alone = self.0.reading.lock().await;
        self.read(read).await
    }

    /// The same build, if it can be deployed.
    pub(crate) async fn check(&self, ready: &Ready) -> Result<(), AgentError> {
        let (build, directory) = (Arc::clone(&ready.build), self.0.makings.directory.clone());
        away(move || agents::check(&build.manifest, &directory)).await
    }

    /// What new sessions begin with from now on.
    pub(crate) fn deploy(&self, ready: Arc<Ready>) {
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Some(ready);
    }

    fn current_ready(&self) -> Option<Arc<Ready>> {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The build with this hash, from memory or from the disk.
    pub(crate) async fn ready(&self, hash: Hash) -> Result<Arc<Ready>, AgentError> {
        if let Some(known) = self.known(hash) {
            return Ok(known);
        }
        let _alone = self.0.reading.lock().await;
        match self.known(hash) {
            Some(known) => Ok(known),
            None => {
                self.read(move |data_dir| weir_compiler::load(data_dir, &Which::Prefix(&hash.to_string())))
                    .await
            }
        }
    }

    fn known(&self, hash: Hash) -> Option<Arc<Ready>> {
        if let Some(current) = self.current_ready().filter(|current| current.build.hash == hash) {
            return Some(current);
        }
        let mut kept = self.kept();
        let index = kept.iter().position(|ready| ready.build.hash == hash)?;
        let found = kept.remove(index)?;
        kept.push_back(Arc::clone(&found));
        Some(found)
    }

    /// Reads a manifest and its policy.
    async fn read(
        &self,
        load: impl FnOnce(&Path) -> Result<Loaded, weir_compiler::SaveError> + Send + 'static,
    ) -> Result<Arc<Ready>, AgentError> {
        let Makings { data_dir, bench, .. } = self.0.makings.clone();
        let read = move || {
            let Loaded { hash, manifest } = load(&data_dir)?;
            let gate = bench.gate(&manifest);
            Ok(Build { hash, manifest, gate })
        };
        let build = away(read).await?;
        if let Some(known) = self.known(build.hash) {
            return Ok(known);
        }
        let ready = Arc::new(Ready { build: Arc::new(build), agents: Mutex::default() });
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(&ready));
        Ok(ready)
    }

    /// What a session runs with that began with this build, or with an unknown one. Nothing, while nothing is deployed.
    async fn ready_for(&self, build: Option<Hash>) -> Result<Option<Arc<Ready>>, AgentError> {
        match build.filter(|_| self.0.sticks == Sticks::ToItsBuild) {
            Some(hash) => self.ready(hash).await.map(Some),
            None => Ok(self.current_ready()),
        }
    }

    async fn runnable(&self, name: &str, build: Option<Hash>) -> Result<Arc<Runnable>, AgentError> {
        let ready = self.ready_for(build).await?.ok_or(AgentError::NothingDeployed)?;
        if let Some(known) = ready.agents().get(name) {
            return Ok(Arc::clone(known));
        }
        let (makings, of, name) = (self.0.makings.clone(), Arc::clone(&ready.build), name.to_owned());
        let made = move || makings.runnable((&of.manifest, of.hash), Arc::clone(&of.gate), &name);
        let mut runnable = away(made).await?;
        self.0.makings.recorded(&mut runnable).await?;
        let runnable = Arc::new(runnable);
        // What a recording has answered it does not answer again: each run has its own.
        if runnable.agent.card.wire != Wire::Replay {
            ready.agents().insert(runnable.agent.name.clone(), Arc::clone(&runnable));
        }
        Ok(runnable)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Ready>>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ready {
    fn agents(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Runnable>>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Builds for Served {
    fn current(&self) -> Option<Arc<Build>> {
        self.current_ready().map(|ready| Arc::clone(&ready.build))
    }

    fn of(&self, hash: Hash) -> BoxFuture<'_, Result<Arc<Build>, Explained>> {
        async move {
            let ready = match self.ready_for(Some(hash)).await.map_err(explained)? {
                Some(ready) => ready,
                // Nothing is deployed yet; what the session began with can be read all the same.
                None => self.ready(hash).await.map_err(explained)?,
            };
            Ok(Arc::clone(&ready.build))
        }
        .boxed()
    }
}

impl Agents for Served {
    fn asks_first(&self) -> Option<&dyn AsksFirst> {
        Some(self)
    }

    fn agent<'a>(
        &'a self,
        name: &'a str,
        build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        async move { self.runnable(name, build).await.map_err(|error| self.told(name, error)) }.boxed()
    }
}

impl AsksFirst for Served {
    fn hooks(&self, build: Option<Hash>) -> BoxFuture<'_, Result<Option<Arc<dyn Hooks>>, Explained>> {
        async move {
            let ready = self.ready_for(build).await.map_err(explained)?;
            let means = || self.0.makings.bench.hook_means();
            Ok(ready.and_then(|ready| ProjectHooks::of(&ready.build.manifest, means())))
        }
        .boxed()
    }
}

fn explained(error: AgentError) -> Explained {
    Arc::new(error)
}

/// What others are told of an agent that lacks something: what it is, and what to do about it, is for whoever runs the server.
#[derive(Debug, thiserror::Error)]
#[error("agent `{0}` cannot answer at the moment")]
struct CannotAnswer(String);

impl Explain for CannotAnswer {
    fn code(&self) -> &'static str {
        "server::agent-unavailable"
    }

    fn help(&self) -> Cow<'static, str> {
        "whoever runs the server finds the reason in its log; try again later".into()
    }

    fn fault(&self) -> Fault {
        Fault::Unreachable
    }
}

impl Served {
    /// Why an agent cannot be had, for whoever talks to it. Whoever develops it talks to it themselves.
    fn told(&self, agent: &str, error: AgentError) -> Explained {
        if self.0.sticks == Sticks::ToTheNewest || error.fault() != Fault::Input {
            return explained(error);
        }
        tracing::error!(agent, code = error.code(), %error, help = %error.help(), "an agent cannot answer");
        Arc::new(CannotAnswer(agent.to_owned()))
    }
}
