//! `weir serve`: the agents of a build over HTTP, from a manifest and a data directory alone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tracing::{error, info, warn};
use weir_compiler::SaveError;
use weir_engine::{Deploy, Deployments};
use weir_journal::Journal;
use weir_journal_sqlite::SqliteJournal;
use weir_server::Builds;
use weir_spec::Manifest;
use weir_types::{Explain, Hash};

use crate::agents::{AgentError, missing_keys};
use crate::commands::Context;
use crate::planned;
use crate::report::Outcome;
use crate::served::{Served, Sticks};
use crate::serving::{ServerArgs, ms, prepare};
use crate::store::blocking;

const EXAMPLES: &str = "\
Examples:
  weir build && weir serve --manifest latest
  weir serve --port 3000 --manifest 4f1c
  PORT=3000 LOG_LEVEL=debug weir serve --json
  curl http://127.0.0.1:8080/ready
  curl -H 'content-type: application/json' -d '{\"message\":\"hello\"}' http://127.0.0.1:8080/agents/helper/chat

It needs nothing but the data directory, in which `weir build` keeps what it builds. Without any manifest it serves the
persistence layer alone. Ctrl-C, or SIGTERM, lets what is under way come to a safe point; a run that is cut off goes on when
the server is there again.";

/// How long to wait before deployments are followed again after they could not be.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);

/// The arguments of `weir serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Deploy this build first: its hash, the beginning of one, or `latest`. Without it, what was deployed last is served, and the
    /// latest build if nothing ever was.
    #[arg(long, value_name = "HASH")]
    manifest: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Serves until it is told to stop.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    // Programs and secrets of a build are in its project.
    let directory = context.project.directory.clone();
    let prepared = prepare(&args.server, &directory, Sticks::ToItsBuild, context).await?;
    let (served, journal) = (prepared.served.clone(), Arc::clone(&prepared.journal));
    let deployments = deployed(args, &served, &*journal, context.identity.real()).await?;
    planned::log_variables();
    tell_deployed(&served, prepared.began);
    if let Some(build) = served.current() {
        args.server.tools().log_unmatched(&build.manifest);
    }
    tell_newer(&served, &context.data_dir).await;
    prepared.run(follow(served, journal, deployments)).await
}

/// Deploys what the command line names, or takes up what was deployed last, or deploys the latest build if none ever was. Nothing is written down before it is known to be
/// good.
async fn deployed(args: &Args, served: &Served, journal: &dyn Journal, by: &str) -> Outcome<Deployments> {
    let deployments = Deployments::read(journal).await?;
    // Whoever builds for the first time and serves then means that build.
    let latest = deployments.current().is_none().then_some("latest");
    let found = match args.manifest.as_deref().or(latest) {
        Some(which) => served.find(which).await.map(Some),
        None => Ok(None),
    };
    let found = match found {
        Err(AgentError::Save(SaveError::Nothing(_))) if args.manifest.is_none() => None,
        found => found?,
    };
    let Some(ready) = found else { return take_up_last(served, deployments).await };
    served.check(&ready).await?;
    Deployments::make(journal, Deploy::Build(ready.build().hash), by).await?;
    take_up_last(served, Deployments::read(journal).await?).await
}

async fn take_up_last(served: &Served, deployments: Deployments) -> Outcome<Deployments> {
    if let Some(hash) = deployments.current() {
        take_up(served, hash).await?;
    }
    Ok(deployments)
}

fn tell_deployed(served: &Served, began: Instant) {
    let Some(build) = served.current() else {
        warn!(
            "nothing was built: the persistence layer is served alone, until `weir build` and `weir deploy latest`"
        );
        return;
    };
    let agents = build.manifest.agents.len();
    info!(manifest = %build.hash, agents, took_ms = ms(began), "manifest loaded");
    for variable in missing_keys(&build.manifest) {
        warn!(variable, "a model needs a key that is not set; agents that use it cannot answer");
    }
    tell_loops(&build.manifest);
}

/// Says that nobody waits for the loops of a build.
pub(super) fn tell_loops(manifest: &Manifest) {
    if !manifest.loops.is_empty() {
        warn!(loops = manifest.loops.len(), "this version does not run loops yet: they never fire");
    }
}

/// Says that something newer was built than what is served, which is what was deployed last.
async fn tell_newer(served: &Served, data_dir: &Path) {
    let data_dir = data_dir.to_owned();
    let Ok(Ok(latest)) = blocking(move || weir_compiler::latest(&data_dir)).await else { return };
    if served.current().is_some_and(|build| build.hash != latest) {
        warn!(%latest, "there is a newer build: `weir deploy latest` serves it");
    }
}

/// Takes up whatever is deployed while the server runs. What cannot be had changes nothing.
async fn follow(served: Served, journal: Arc<SqliteJournal>, mut known: Deployments) {
    loop {
        let mut news = known.follow(&*journal);
        while let Some(Ok(made)) = news.next().await {
            let manifest = made.manifest;
            match take_up(&served, manifest).await {
                Ok(()) => info!(%manifest, by = made.by, rollback = made.rollback, "deployed"),
                Err(error) => {
                    let (code, help) = (error.code(), error.help());
                    error!(%manifest, code, %error, %help, "cannot deploy: what was there before goes on");
                }
            }
        }
        // A tail that fails is begun again; nothing is lost by it.
        tokio::time::sleep(FOLLOW_AGAIN).await;
        if let Ok(read) = Deployments::read(&*journal).await {
            if let Some(hash) = read.current().filter(|_| read != known) {
                let _ = take_up(&served, hash).await;
            }
            known = read;
        }
    }
}

async fn take_up(served: &Served, hash: Hash) -> Result<(), AgentError> {
    let ready = served.ready(hash).await?;
    served.check(&ready).await?;
    served.deploy(ready);
    Ok(())
}
