//! `weir build` and `weir check`: every mistake of a project, and one manifest.

use serde::Serialize;
use weir_compiler::Mode;
use weir_spec::{Diagnostic, Manifest};
use weir_types::Hash;

use crate::commands::Context;
use crate::compiling::{self, Asking, Compiling};
use crate::exit::Exit;
use crate::output::Out;
use crate::problems::Problems;
use crate::project::{self, ProjectArgs};
use crate::report::{Failure, Outcome};
use crate::schemas;
use crate::show::{count, size};
use crate::store::blocking;

const EXAMPLES: &str = "\
Examples:
  weir build
  weir build --offline
  weir build --json | jq .manifest";

/// The arguments of `weir build`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only look for mistakes: start nothing, fetch nothing, write nothing.
    #[arg(long, conflicts_with = "offline")]
    check: bool,
    /// Start and fetch nothing: tools and skills are those of weir.lock.
    #[arg(long)]
    offline: bool,
    /// Start the MCP servers of this project without asking, now and later.
    #[arg(long, conflicts_with_all = ["check", "offline"])]
    yes: bool,
    #[command(flatten)]
    project: ProjectArgs,
}

/// The arguments of `weir check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir check\n  weir check --project my-agents --json | jq .diagnostics")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    project: ProjectArgs,
}

/// The arguments of `weir lock`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir lock\n  weir lock --update")]
pub(crate) struct LockArgs {
    /// Accept what has changed: skills and the tools of MCP servers as they are now.
    #[arg(long)]
    update: bool,
    /// Start the MCP servers of this project without asking, now and later.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    /// The hash of the manifest; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loops: Option<usize>,
    lock_changed: bool,
    diagnostics: &'a [Diagnostic],
}

/// Builds the project.
pub(crate) async fn build(args: &Args, context: &mut Context) -> Outcome {
    let mode = match (args.check, args.offline) {
        (true, _) => Mode::Check,
        (_, true) => Mode::Offline,
        (false, false) => Mode::Online,
    };
    let compiling = Compiling { mode, update_lock: false, asking: Asking::new(args.yes, &context.out) };
    run(&args.project, &compiling, context).await
}

/// Only looks for mistakes.
pub(crate) async fn check(args: &CheckArgs, context: &mut Context) -> Outcome {
    let compiling = Compiling { mode: Mode::Check, update_lock: false, asking: Asking::Never };
    run(&args.project, &compiling, context).await
}

/// Pins what the project takes from elsewhere.
pub(crate) async fn lock(args: &LockArgs, context: &mut Context) -> Outcome {
    let asking = Asking::new(args.yes, &context.out);
    let compiling = Compiling { mode: Mode::Online, update_lock: args.update, asking };
    run(&args.project, &compiling, context).await
}

async fn run(project: &ProjectArgs, compiling: &Compiling, context: &mut Context) -> Outcome {
    let (directory, data_dir) = (&project.directory, &context.data_dir);
    project::must_be_there(directory)?;
    let compiled = compiling::compile(directory, data_dir, compiling, &context.out).await?;
    let failed = compiled.diagnostics.iter().any(Diagnostic::is_error);
    let lock_changed = compiled.lock.is_some();
    let problems = Problems::of(&compiled);
    let diagnostics = compiled.diagnostics.clone();
    if failed && !context.out.json {
        return Err(Failure::Problems(Box::new(problems)));
    }
    let found =
        compiled.built.as_ref().map(|built| (built.hash, Counts::of(&built.manifest), built.bytes.len()));
    if compiling.mode != Mode::Check && !failed {
        let (directory, data_dir) = (project.directory.clone(), context.data_dir.clone());
        blocking(move || {
            // Only editors miss them.
            let _ = schemas::write(&data_dir);
            weir_compiler::save(&directory, &data_dir, &compiled)
        })
        .await??;
    }
    if context.out.json {
        let manifest = found.as_ref().map(|(hash, ..)| *hash);
        let (agents, loops) = found.as_ref().map(|(_, counts, _)| (counts.agents, counts.loops)).unzip();
        let diagnostics = &diagnostics[..];
        context.out.document(&Document { manifest, agents, loops, lock_changed, diagnostics })?;
        return if failed { Err(Failure::Ended(Exit::Usage)) } else { Ok(()) };
    }
    if !diagnostics.is_empty() {
        context.out.aside(format_args!("{}", problems.to_text(context.out.err).trim_end()));
    }
    if lock_changed {
        context.out.aside(format_args!("weir.lock has changed: commit it with the project"));
    }
    match found {
        Some((hash, counts, bytes)) => {
            let words = format!("{}{}", counts.words(), project.elsewhere());
            tell(hash, &words, bytes, compiling.mode, &mut context.out)
        }
        None => Ok(()),
    }
}

/// How much there is of everything.
struct Counts {
    agents: usize,
    loops: usize,
    tools: usize,
    skills: usize,
}

impl Counts {
    fn of(manifest: &Manifest) -> Self {
        Self {
            agents: manifest.agents.len(),
            loops: manifest.loops.len(),
            tools: manifest.sources.len(),
            skills: manifest.skills.len(),
        }
    }

    fn words(&self) -> String {
        let parts = [
            (self.agents, "agent"),
            (self.loops, "loop"),
            (self.tools, "tool source"),
            (self.skills, "skill"),
        ];
        let there = parts.into_iter().filter(|(number, noun)| *number > 0 || *noun == "agent");
        there.map(|(number, noun)| count(number as u64, noun)).collect::<Vec<_>>().join(", ")
    }
}

fn tell(hash: Hash, words: &str, bytes: usize, mode: Mode, out: &mut Out) -> Outcome {
    if mode == Mode::Check {
        return out.line(format_args!("{} {words}: nothing is wrong", out.paint.ok("✓")));
    }
    out.line(format_args!("{} built {words} ({})", out.paint.ok("✓"), size(bytes as u64)))?;
    out.line(format_args!("  {}", out.paint.bold(&hash.to_string())))
}
