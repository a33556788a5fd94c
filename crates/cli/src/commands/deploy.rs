//! `weir deploy` and `weir rollback`: which build new sessions begin with. A server that runs takes it up at once; sessions
//! finish on what they began with.

use std::borrow::Cow;

use serde::Serialize;
use weir_engine::{Deploy, DeployError, Deployments};
use weir_events::DeploymentMade;
use weir_types::{Explain, Fault, Hash};

use crate::agents::Makings;
use crate::commands::Context;
use crate::report::Outcome;
use crate::served::{Served, Sticks};
use crate::show::shell;
use crate::store::Store;
use crate::workbench::ToolArgs;

const EXAMPLES: &str = "\
Examples:
  weir build && weir deploy latest
  weir deploy 4f1c
  weir rollback";

/// The arguments of `weir deploy`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The build: its hash, the beginning of one, or `latest`.
    #[arg(value_name = "HASH|latest")]
    manifest: String,
}

/// The arguments of `weir rollback`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RollbackArgs {
    /// A build, by mistake: going back leads to the one before.
    #[arg(hide = true, value_name = "HASH")]
    manifest: Option<String>,
}

/// A rollback to a build of one's choice is a deployment.
#[derive(Debug, thiserror::Error)]
#[error("`weir rollback` goes back to the build that was deployed before, and takes no build")]
struct WrongWay {
    manifest: String,
}

impl Explain for WrongWay {
    fn code(&self) -> &'static str {
        "cli::usage"
    }

    fn help(&self) -> Cow<'static, str> {
        format!("`weir deploy {}` deploys that one", shell(&self.manifest)).into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

#[derive(Serialize)]
struct Document<'a> {
    manifest: Hash,
    previous: Option<Hash>,
    by: Option<&'a str>,
    /// Whether it was deployed just now, or had been before.
    changed: bool,
}

/// Deploys a build.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    // Nothing is made for a build that is not there.
    let hash = checked(&args.manifest, context).await?;
    let store = context.store_or_new().await?;
    let made = Deployments::make(&store.journal, Deploy::Build(hash), context.identity.real()).await;
    store.close().await;
    tell(hash, made?.as_ref(), context)
}

/// Deploys what was deployed before.
pub(crate) async fn rollback(args: RollbackArgs, context: &mut Context) -> Outcome {
    if let Some(manifest) = args.manifest {
        return Err(WrongWay { manifest }.into());
    }
    let store = context.store().await?;
    let made = back(&store, context).await;
    store.close().await;
    let (hash, made) = made?;
    tell(hash, made.as_ref(), context)
}

async fn back(store: &Store, context: &Context) -> Outcome<(Hash, Option<DeploymentMade>)> {
    let before = Deployments::read(&store.journal).await?.before().ok_or(DeployError::NothingBefore)?;
    let hash = checked(&before.to_string(), context).await?;
    let made = Deployments::make(&store.journal, Deploy::Rollback, context.identity.real()).await?;
    Ok((made.as_ref().map_or(hash, |made| made.manifest), made))
}

/// A build that can be deployed: it is there, it can be read, and so can its policy and its scripts.
async fn checked(which: &str, context: &Context) -> Outcome<Hash> {
    let served = Served::new(
        Makings::new(&context.project.directory, &context.data_dir, &ToolArgs::default()),
        Sticks::ToItsBuild,
    );
    let ready = served.find(which).await?;
    served.check(&ready).await?;
    Ok(ready.build().hash)
}

fn tell(manifest: Hash, made: Option<&DeploymentMade>, context: &mut Context) -> Outcome {
    let previous = made.and_then(|made| made.previous);
    let out = &mut context.out;
    if out.json {
        let by = made.map(|made| made.by.as_str());
        return out.document(&Document { manifest, previous, by, changed: made.is_some() });
    }
    let manifest = out.paint.bold(&manifest.to_string()).into_owned();
    let Some(made) = made else { return out.line(format_args!("{manifest} is deployed already")) };
    let done = if made.rollback { "went back to" } else { "deployed" };
    out.line(format_args!("{} {done} {manifest}", out.paint.ok("✓")))?;
    if let Some(previous) = previous {
        out.line(format_args!("  before: {previous}"))?;
    }
    Ok(())
}
