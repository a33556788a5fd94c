//! Measures whole turns against the disk, the journal and a bare model call, in one run: `cargo xtask bench turn`.
//!
//! A turn is: user message → model → one tool → model → answer, with the scripted model. Rounds are interleaved, ratios
//! are formed within a round, and medians over the rounds are shown with their spread.

mod first_token;
mod resume;
mod stub;
mod turns;
mod world;

#[path = "../journal/system.rs"]
#[allow(dead_code, reason = "the other benchmark uses the rest of it")]
mod system;

/// What `system` calls errors.
mod subject {
    pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
}

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::json;

use self::subject::Error;
use self::system::Machine;

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

/// What one round found, by name.
type Round = BTreeMap<&'static str, f64>;

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
    let summary = summarise(&rounds);
    if args.only.is_some() {
        print(&summary, &[]);
        return Ok(());
    }
    let targets = judge(&summary);
    print(&summary, &targets);
    if !args.no_save {
        let file = save(args, &data, &rounds, &targets)?;
        println!("\nsaved as {}", file.display());
    }
    Ok(())
}

/// Median, smallest and largest, by name.
fn summarise(rounds: &[Round]) -> BTreeMap<&'static str, [f64; 3]> {
    let mut values: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (name, value) in rounds.iter().flatten() {
        values.entry(name).or_default().push(*value);
    }
    let spread = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        [values[values.len() / 2], values[0], values[values.len() - 1]]
    };
    values.into_iter().map(|(name, values)| (name, spread(values))).collect()
}

/// The promises that the benchmark checks: text, what was found, whether it is met.
fn judge(summary: &BTreeMap<&'static str, [f64; 3]>) -> Vec<(&'static str, f64, bool)> {
    let median = |name: &str| summary.get(name).map_or(f64::NAN, |values| values[0]);
    let at_most = |text, value: f64, limit: f64| (text, value, value <= limit);
    let at_least = |text, value: f64, limit: f64| (text, value, value >= limit);
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

fn print(summary: &BTreeMap<&'static str, [f64; 3]>, targets: &[(&'static str, f64, bool)]) {
    println!("\nMedians over the rounds (smallest to largest):\n");
    for (name, [median, min, max]) in summary {
        println!("{name:<44} {median:>12.3} ({min:.3}–{max:.3})");
    }
    println!("\nTargets:\n");
    for (text, value, is_met) in targets {
        println!("{:<8} {value:>8.3}  {text}", if *is_met { "met" } else { "MISSED" });
    }
}

fn save(
    args: &Args,
    data: &Path,
    rounds: &[Round],
    targets: &[(&'static str, f64, bool)],
) -> Result<PathBuf, Error> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |arguments: &[&str]| -> Result<String, Error> {
        let output = std::process::Command::new("git").args(arguments).current_dir(bench).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let now = weir_journal::now().to_string();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let targets: Vec<_> = targets
        .iter()
        .map(|(text, value, met)| json!({ "text": text, "value": value, "is_met": met }))
        .collect();
    let report = json!({
        "command": format!("cargo xtask bench turn {}", arguments.join(" ")).trim_end(),
        "date": now,
        "commit": git(&["rev-parse", "HEAD"])?,
        "uncommitted_changes": !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
        "machine": Machine::of(data)?,
        "rounds": args.rounds,
        "seconds": args.seconds,
        "targets": targets,
        "measured": rounds,
    });
    let stamp: String = now.chars().take(19).filter(|c| *c != ':').collect();
    let file = bench.join("results").join(format!("turn-{stamp}.json"));
    std::fs::write(&file, format!("{report:#}\n"))?;
    Ok(file)
}
