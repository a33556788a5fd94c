//! Measures whole turns against the disk, the journal and a bare model call, in one run: `cargo xtask bench turn`.
//!
//! A turn is: user message → model → one tool → model → answer, with the scripted model. Rounds are interleaved, ratios
//! are formed within a round, and medians over the rounds are shown with their spread.

mod first_token;
mod resume;
mod stub;
mod turns;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use weir_bench::Error;
use weir_bench::findings::{Round, Summary, Target, save};

/// Measure turns against the disk, the journal and a bare model call
#[derive(Parser)]
#[command(name = "cargo xtask bench turn")]
struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Events of the long session
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Where the journals are made; they are removed afterwards [default: target/bench-data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Measure one part alone, and leave no file: for a profiler
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Print, but leave no file in bench/results
    #[arg(long)]
    no_save: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Alone,
    Together,
    FirstToken,
    Resume,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let run = runtime.map_err(Error::from).and_then(|runtime| runtime.block_on(run(&args)));
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(), Error> {
    let data = args.data.clone().unwrap_or_else(|| "target/bench-data".into());
    std::fs::create_dir_all(&data)?;
    let duration = Duration::from_secs_f64(args.seconds);
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let mut found = Round::new();
        if args.wants(Part::Alone) {
            turns::alone(&data, duration, &mut found).await?;
        }
        if args.wants(Part::Together) {
            turns::together(&data, duration, &mut found).await?;
        }
        if args.wants(Part::FirstToken) {
            first_token::measure(&data, duration, &mut found).await?;
        }
        rounds.push(found);
    }
    if args.wants(Part::Resume) {
        eprintln!("a session of {} events", args.events);
        let mut once = Round::new();
        resume::measure(&data, args.events, &mut once).await?;
        rounds.push(once);
    }
    let summary = Summary::of(&rounds);
    if args.only.is_some() {
        summary.print(&[]);
        return Ok(());
    }
    let targets = targets(&summary);
    summary.print(&targets);
    if !args.no_save {
        let file = save("turn", &data, &rounds, &targets)?;
        println!("\nsaved as {}", file.display());
    }
    Ok(())
}

/// The promises that the benchmark checks: text, what was found, whether it is met.
fn targets(summary: &Summary) -> Vec<Target> {
    let median = |name| summary.median(name);
    let (at_most, at_least) = (Target::at_most, Target::at_least);
    vec![
        at_most("1 session: 4 syncs per turn", median("alone_commits_per_turn"), 4.0),
        at_least(
            "1 session: ≥ 0.20 turns per fdatasync of the same run",
            median("alone_turns_per_fdatasync"),
            0.20,
        ),
        at_least(
            "1 session: ≥ 0.20 turns per fdatasync that a task leaves to a thread",
            median("alone_turns_per_handed_over_fdatasync"),
            0.20,
        ),
        at_most("64 sessions: ≤ 0.3 syncs per turn", median("together_commits_per_turn"), 0.3),
        at_least(
            "64 sessions: events/s ≥ 0.5 of the journal's own at 64",
            median("together_events_to_appends"),
            0.5,
        ),
        at_most(
            "resume of a long session reads what a short one reads, plus the snapshot's tail",
            median("resume_long_reads_beyond_short_and_tail"),
            0.0,
        ),
        at_most("first token, beyond the one sync, ≤ 1.2 × a bare call", median("first_token_ratio"), 1.2),
    ]
}
