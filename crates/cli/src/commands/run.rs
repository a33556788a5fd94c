//! `weir run`: the agents of a project over HTTP while they are written. What is edited takes effect: also in sessions that
//! began before, which a server for others would never do.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use weir_compiler::Compiled;
use weir_types::Hash;

use crate::agents::{AgentError, missing_keys};
use crate::builds;
use crate::commands::Context;
use crate::commands::serve::tell_loops;
use crate::compiling;
use crate::paint::Paint;
use crate::planned;
use crate::problems::Problems;
use crate::project::{self, ProjectArgs};
use crate::report::{Failure, Outcome};
use crate::served::{Served, Sticks};
use crate::serving::{ServerArgs, ms, prepare};
use crate::show::printable;
use crate::store::blocking;
use crate::watched::{Fingerprints, ProjectWatch};
use crate::workbench::ToolArgs;

const EXAMPLES: &str = "\
Examples:
  weir init my-agents && cd my-agents && weir run
  weir run --project my-agents --port 3000
  curl -H 'content-type: application/json' -d '{\"message\":\"hello\"}' http://127.0.0.1:8080/agents/helper/chat

Specs, prompts, scripted models and tools of the project are watched: a line says what was reloaded. A mistake is shown as
`weir build` shows it, and the last good build goes on. Servers of a project are started only if `weir build` was
allowed to.";

/// How long files must stay the same before they are built: an editor or a tool may be writing several.
const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// How many files a line names.
const NAMED_MAX: usize = 3;

/// The arguments of `weir run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the project until it is told to stop.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let directory = args.project.directory.clone();
    project::must_be_there(&directory)?;
    let prepared = prepare(&args.server, &directory, Sticks::ToTheNewest, context).await?;
    let (json, paint) = (context.out.json, context.out.err);
    let reloading = Reloading {
        served: prepared.served.clone(),
        directory,
        data_dir: context.data_dir.clone(),
        json,
        paint,
        tools: args.server.tools().clone(),
        deployed: None,
        is_good: false,
        remarks: String::new(),
    };
    planned::log_variables();
    let (reloading, files) = reloading.begin(prepared.began).await?;
    prepared.run(reloading.watch(files)).await
}

/// What rebuilds the project whenever it has changed.
struct Reloading {
    served: Served,
    directory: PathBuf,
    data_dir: PathBuf,
    json: bool,
    paint: Paint,
    tools: ToolArgs,
    deployed: Option<Hash>,
    /// Whether the files were without mistakes when they were last looked at.
    is_good: bool,
    /// What was last remarked upon, which is not said twice.
    remarks: String,
}

/// Why a build cannot be used.
enum Refused {
    /// Its files.
    Problems(Box<Problems>),
    /// Something else.
    Told(Failure),
}

impl Reloading {
    /// Builds the project for the first time. One with mistakes is waited for.
    async fn begin(mut self, began: Instant) -> Outcome<(Self, Fingerprints)> {
        let files = self.fingerprints().await?;
        let built = self.build().await;
        self.is_good = built.is_ok();
        match built {
            Ok((hash, agents)) => {
                info!(manifest = %hash, agents, took_ms = ms(began), "project built");
            }
            Err(refused) => {
                self.tell(refused, "there is no build yet: it comes when the mistakes are mended");
            }
        }
        Ok((self, files))
    }

    /// Builds whenever the files have changed; until it is dropped.
    async fn watch(mut self, mut built: Fingerprints) {
        let directory = self.directory.clone();
        let Ok(mut watch) = blocking(move || ProjectWatch::new(directory)).await else { return };
        let mut seen = built.clone();
        loop {
            match seen == built {
                true => watch.wait().await,
                false => tokio::time::sleep(SETTLED_AFTER).await,
            }
            let directory = self.directory.clone();
            let looked = blocking(move || {
                watch.refresh();
                (Fingerprints::of(&directory), watch)
            });
            let Ok((now, kept)) = looked.await else { return };
            watch = kept;
            // What is being written is left alone until it looks the same twice.
            let is_settled = now == seen;
            seen = now;
            if !is_settled || seen == built {
                continue;
            }
            let changed = names(&seen.changed_since(&built));
            built = seen.clone();
            let began = Instant::now();
            let (before, was_good) = (self.deployed, self.is_good);
            let now = self.build().await;
            self.is_good = now.is_ok();
            match now {
                Ok((hash, _)) if before == Some(hash) && was_good => {
                    info!(changed, manifest = %hash, took_ms = ms(began), "nothing is different");
                }
                Ok((hash, _)) if before == Some(hash) => {
                    info!(changed, manifest = %hash, took_ms = ms(began), "mended: the build is the one that is served");
                }
                Ok((hash, agents)) => {
                    info!(changed, manifest = %hash, agents, took_ms = ms(began), "reloaded");
                }
                Err(refused) if before.is_some() => {
                    self.tell(refused, &format!("{changed}: not reloaded, the last good build goes on"));
                }
                Err(refused) => self.tell(refused, &format!("{changed}: there is no build yet")),
            }
        }
    }

    async fn fingerprints(&self) -> Outcome<Fingerprints> {
        let directory = self.directory.clone();
        blocking(move || Fingerprints::of(&directory)).await
    }

    /// Builds the project, keeps the manifest for the sessions that will name it, and lets new runs use it.
    async fn build(&mut self) -> Result<(Hash, usize), Refused> {
        let mut compiled = compiling::quietly(&self.directory).await.map_err(|error| told(error.into()))?;
        let Some(built) = compiled.built.take() else { return Err(problems(&compiled)) };
        let (hash, agents) = (built.hash, built.manifest.agents.len());
        for variable in missing_keys(&built.manifest) {
            warn!(variable, "a model needs a key that is not set; agents that use it cannot answer");
        }
        if self.deployed.is_none() {
            tell_loops(&built.manifest);
            self.tools.log_unmatched(&built.manifest);
        }
        self.warn(&Problems::of(&compiled));
        builds::keep(built, &self.data_dir).await.map_err(|error| told(error.into()))?;
        let use_it = async {
            let ready = self.served.ready(hash).await?;
            self.served.check(&ready).await?;
            self.served.deploy(ready);
            Ok::<(), AgentError>(())
        };
        use_it.await.map_err(|error| told(error.into()))?;
        self.deployed = Some(hash);
        Ok((hash, agents))
    }

    /// Shows what is odd about a build that can be used, once.
    fn warn(&mut self, problems: &Problems) {
        let text = if self.json { problems.to_json() } else { problems.to_text(self.paint) };
        let remarks = if problems.is_empty() { String::new() } else { text };
        if remarks != self.remarks && !remarks.is_empty() {
            match self.json {
                true => warn!(problems = remarks, "the build has warnings"),
                false => show(&remarks),
            }
        }
        self.remarks = remarks;
    }

    /// Shows what is wrong as `weir build` does, and what that means.
    fn tell(&self, refused: Refused, meaning: &str) {
        let (text, failure) = match refused {
            Refused::Problems(problems) if self.json => (problems.to_json(), None),
            Refused::Problems(problems) => (problems.to_text(self.paint), None),
            Refused::Told(failure) => (failure.render(self.json, self.paint), Some(failure)),
        };
        match (self.json, failure) {
            (true, Some(failure)) => error!(error = failure.words().0, "{meaning}"),
            (true, None) => error!(problems = text, "{meaning}"),
            (false, _) => {
                show(&text);
                error!("{meaning}");
            }
        }
    }
}

/// Between lines of the log, in one piece.
fn show(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{}\n", text.trim_end()).as_bytes());
}

fn problems(compiled: &Compiled) -> Refused {
    Refused::Problems(Box::new(Problems::of(compiled)))
}

fn told(failure: Failure) -> Refused {
    Refused::Told(failure)
}

/// Some of the files, and how many more.
fn names(changed: &[String]) -> String {
    let named = changed.iter().take(NAMED_MAX).map(|name| printable(name)).collect::<Vec<_>>();
    match changed.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
