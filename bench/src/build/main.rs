//! Measures the compiler: `cargo xtask bench build`.
//!
//! Every build is a process of its own, offline, on a project that was made for it; what it took is what that process
//! says of its own time on the processor and of its memory.

mod generate;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use serde::{Deserialize, Serialize};
use weir_bench::findings::{Round, Summary, Target, save};
use weir_bench::{Error, system};
use weir_compiler::{Mode, Nobody, Options, compile};
use weir_types::Catalog;

use self::generate::{Size, generate};

/// Measure how long projects of different sizes take to build
#[derive(Parser)]
#[command(name = "cargo xtask bench build")]
struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where the projects are made; they are removed afterwards [default: target/bench-data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print, but leave no file in bench/results
    #[arg(long)]
    no_save: bool,
    /// Build this project and say what it took
    #[arg(long, hide = true)]
    child: Option<PathBuf>,
}

/// What a build took.
#[derive(Serialize, Deserialize)]
struct Took {
    cpu_seconds: f64,
    memory_bytes: u64,
    manifest_bytes: usize,
}

/// From ten agents to ten thousand: the names under which they are reported.
const SIZES: [(Size, [&str; 3]); 4] = [
    (Size { agents: 10, loops: 2, tools: 1 }, ["10_first_cpu_s", "10_again_cpu_s", "10_memory_mb"]),
    (Size { agents: 100, loops: 20, tools: 10 }, ["100_first_cpu_s", "100_again_cpu_s", "100_memory_mb"]),
    (
        Size { agents: 1_000, loops: 200, tools: 100 },
        ["1000_first_cpu_s", "1000_again_cpu_s", "1000_memory_mb"],
    ),
    (
        Size { agents: 10_000, loops: 2_000, tools: 1_000 },
        ["10000_first_cpu_s", "10000_again_cpu_s", "10000_memory_mb"],
    ),
];

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.child {
        Some(project) => child(project),
        None => run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Error> {
    let data = args.data.clone().unwrap_or_else(|| "target/bench-data".into());
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let mut found = Round::new();
        for (size, [first, again, memory]) in &SIZES {
            let project = data.join(format!("project-{}-{}", size.agents, std::process::id()));
            generate(&project, *size)?;
            let (built, rebuilt) = (measure(&project)?, measure(&project)?);
            std::fs::remove_dir_all(&project)?;
            found.insert(first, built.cpu_seconds);
            found.insert(again, rebuilt.cpu_seconds);
            found.insert(memory, built.memory_bytes as f64 / 1e6);
        }
        found.insert("growth_10_to_10000", per_agent(&found, 3) / per_agent(&found, 0));
        found.insert("growth_1000_to_10000", per_agent(&found, 3) / per_agent(&found, 2));
        rounds.push(found);
    }
    let summary = Summary::of(&rounds);
    let targets = targets(&summary);
    summary.print(&targets);
    if !args.no_save {
        println!("\nsaved as {}", save("build", &data, &rounds, &targets)?.display());
    }
    Ok(())
}

/// Seconds for one agent and what comes with it.
fn per_agent(found: &Round, size: usize) -> f64 {
    let (size, [first, ..]) = &SIZES[size];
    found.get(first).copied().unwrap_or(f64::NAN) / size.agents as f64
}

fn targets(summary: &Summary) -> Vec<Target> {
    let median = |name| summary.median(name);
    vec![
        Target::at_most(
            "1,000 agents, 200 loops, 100 script tools: < 1 s of CPU",
            median("1000_first_cpu_s"),
            1.0,
        ),
        Target::at_most("unchanged: < 0.2 s of CPU", median("1000_again_cpu_s"), 0.2),
        Target::at_most("its memory: ≤ 200 MB", median("1000_memory_mb"), 200.0),
        Target::at_most("CPU per agent, 10,000 to 10: not more", median("growth_10_to_10000"), 1.0),
        Target::at_most(
            "CPU per agent, 10,000 to 1,000: linear (≤ 1.25)",
            median("growth_1000_to_10000"),
            1.25,
        ),
    ]
}

fn measure(project: &Path) -> Result<Took, Error> {
    let output = Command::new(std::env::current_exe()?).arg("--child").arg(project).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// One build, offline, with everything that `weir build` does.
fn child(project: &Path) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let options = Options { mode: Mode::Offline, ..Options::check() };
    let catalog = Catalog::builtin()?;
    let compiled = runtime.block_on(compile(project, &catalog, &options, &Nobody, &()));
    if let Some(problem) = compiled.diagnostics.iter().find(|problem| problem.is_error()) {
        return Err(problem.to_string().into());
    }
    let manifest_bytes = compiled.built.as_ref().map_or(0, |built| built.bytes.len());
    weir_compiler::save(project, &project.join(".weir"), &compiled)?;
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let took = Took {
        cpu_seconds: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        memory_bytes: system::memory()?.1,
        manifest_bytes,
    };
    println!("{}", serde_json::to_string(&took)?);
    Ok(())
}
