//! Measures what stands between an agent and its tools: `cargo xtask bench tools`.
//!
//! A project is made, compiled and equipped as `weir` does it, and its tools are called through the one gate: a built-in beside the
//! function it is, a script, a confined command beside an unconfined one, and a hundred calls over one connection to an MCP server.
//! What is compared is measured in turns, differences and ratios are formed within a round, and medians over the rounds are shown
//! with their spread.

mod command;
mod dispatch;
mod files;
mod launcher;
mod project;
mod script;
mod server;
mod stub;
mod times;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use weir_bench::Error;
use weir_bench::findings::{Round, Summary, Target, save};

use self::project::Project;

/// Measure calls of tools against what they stand on
#[derive(Parser)]
#[command(name = "cargo xtask bench tools")]
struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The `weir` that confines commands, built in release [default: build it now]
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// Where the project is made; it is removed afterwards [default: target/bench-data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Measure one part alone, and leave no file: for a profiler
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Print, but leave no file in bench/results
    #[arg(long)]
    no_save: bool,
    /// Be an MCP server
    #[arg(long, hide = true)]
    serve: bool,
    /// Call the script of this project once, and say how long it took
    #[arg(long, hide = true)]
    first: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Dispatch,
    Turn,
    Script,
    Command,
    Server,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = if args.serve { stub::serve() } else { start(&args) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.first {
            Some(directory) => script::first(directory).await,
            None => run(args).await,
        }
    })
}

async fn run(args: &Args) -> Result<(), Error> {
    let data = args.data.clone().unwrap_or_else(|| "target/bench-data".into());
    std::fs::create_dir_all(&data)?;
    let weir = launcher::weir(args.weir.as_deref())?;
    let project = Project::make(&data, &weir).await?;
    let duration = Duration::from_secs_f64(args.seconds);
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let mut found = Round::new();
        if args.wants(Part::Dispatch) {
            dispatch::measure(&project, duration, &mut found).await?;
        }
        if args.wants(Part::Turn) {
            turn::measure(&project, duration, &mut found).await?;
        }
        if args.wants(Part::Script) {
            script::measure(&project, duration, &mut found).await?;
        }
        if args.wants(Part::Command) {
            command::measure(&project, duration, &mut found).await?;
        }
        if args.wants(Part::Server) {
            server::measure(&project, duration, &mut found).await?;
        }
        rounds.push(found);
    }
    project.remove().await?;
    let summary = Summary::of(&rounds);
    if args.only.is_some() {
        summary.print(&[]);
        return Ok(());
    }
    let targets = targets(&summary);
    summary.print(&targets);
    if !args.no_save {
        println!("\nsaved as {}", save("tools", &data, &rounds, &targets)?.display());
    }
    Ok(())
}

/// The promises that the benchmark checks: text, what was found, whether it is met.
fn targets(summary: &Summary) -> Vec<Target> {
    let median = |name| summary.median(name);
    let at_most = Target::at_most;
    vec![
        at_most(
            "a built-in through the gate: ≤ 50 µs beyond the function it is",
            median("dispatch_beyond_us"),
            50.0,
        ),
        at_most("a call of a script: ≤ 3 ms", median("script_p50_ms"), 3.0),
        at_most("a script's first call in a process: ≤ 3 ms", median("script_first_ms"), 3.0),
        at_most(
            "a confined `bash -c true`, with its room: within 5 ms of an unconfined one",
            median("command_beyond_ms"),
            5.0,
        ),
        at_most(
            "99 MCP calls beside one of 1 s: not longer than one after another",
            median("server_99_beside_slow_to_one_by_one"),
            1.0,
        ),
        at_most(
            "99 MCP calls beside one of 1 s: ≤ 1.5 × what they take without it",
            median("server_99_beside_slow_to_without"),
            1.5,
        ),
        at_most(
            "99 MCP calls beside one of 1 s: done in a tenth of its time",
            median("server_99_beside_slow_to_slow"),
            0.1,
        ),
    ]
}
