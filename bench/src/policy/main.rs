//! Measures what a decision takes: `cargo xtask bench policy`.
//!
//! A policy with 20 and one with 200 rules is compiled as `weir build` does it and asked as a toolbox asks it: names and arguments in,
//! a decision with its reasons out. Beside it, Cedar alone evaluates the same policies, with a request that was made before. Both are
//! measured in turns, ratios are formed within a round, and medians over the rounds are shown with their spread.

mod subject;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use weir_bench::Error;
use weir_bench::findings::{Round, Summary, Target, save};

use self::subject::Subject;

/// Measure decisions against a bare evaluation of the same policies
#[derive(Parser)]
#[command(name = "cargo xtask bench policy")]
struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Print, but leave no file in bench/results
    #[arg(long)]
    no_save: bool,
}

/// The names under which numbers are kept: the whole, the bare one, their ratio, decisions in a second.
struct Names {
    whole: &'static str,
    bare: &'static str,
    ratio: &'static str,
    per_second: &'static str,
}

const OF_20: Names = Names {
    whole: "decide_20_rules_us",
    bare: "cedar_20_rules_us",
    ratio: "decide_to_cedar_20_rules",
    per_second: "decisions_per_second_20_rules",
};

const OF_200: Names = Names {
    whole: "decide_200_rules_us",
    bare: "cedar_200_rules_us",
    ratio: "decide_to_cedar_200_rules",
    per_second: "decisions_per_second_200_rules",
};

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Error> {
    let subjects = [(Subject::with(20)?, OF_20), (Subject::with(200)?, OF_200)];
    let duration = Duration::from_secs_f64(args.seconds);
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let mut found = Round::new();
        for (subject, names) in &subjects {
            measure(subject, names, duration, &mut found);
        }
        rounds.push(found);
    }
    let (summary, median) = (Summary::of(&rounds), Summary::of(&rounds));
    let median = |name| median.median(name);
    let targets = [
        Target::at_most("a decision with 20 rules: ≤ 2 × a bare evaluation", median(OF_20.ratio), 2.0),
        Target::at_most("a decision with 200 rules: ≤ 2 × a bare evaluation", median(OF_200.ratio), 2.0),
    ];
    summary.print(&targets);
    if !args.no_save {
        let data = std::path::Path::new("target");
        std::fs::create_dir_all(data)?;
        println!("\nsaved as {}", save("policy", data, &rounds, &targets)?.display());
    }
    Ok(())
}

/// Both in turns: all calls through the gate, then all of them through Cedar alone.
fn measure(subject: &Subject, names: &Names, duration: Duration, found: &mut Round) {
    let began = Instant::now();
    let (mut whole, mut bare) = (Duration::ZERO, Duration::ZERO);
    let mut count = 0_u32;
    while began.elapsed() < duration {
        let start = Instant::now();
        for call in subject.calls() {
            black_box(subject.decide(black_box(call)));
        }
        let between = Instant::now();
        for call in subject.calls() {
            black_box(subject.evaluate(black_box(call)));
        }
        whole += between - start;
        bare += between.elapsed();
        count += u32::try_from(subject.calls().len()).unwrap_or(u32::MAX);
    }
    let each = |all: Duration| all.as_secs_f64() * 1e6 / f64::from(count.max(1));
    found.insert(names.whole, each(whole));
    found.insert(names.bare, each(bare));
    found.insert(names.ratio, each(whole) / each(bare));
    found.insert(names.per_second, 1e6 / each(whole));
}
