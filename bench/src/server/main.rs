//! Measures the server: `cargo xtask bench server`.
//!
//! The server is the real process, built as it is released; the engine that it is held against runs in this one, over a journal of
//! its own on the same disk. Calls to both take turns.

mod client;
mod engine;
mod journal;
mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use futures_util::StreamExt;
use futures_util::stream;
use weir_bench::Error;
use weir_bench::findings::{Round, Summary, Target, save};

use self::client::Connection;
use self::engine::Direct;
use self::process::{Server, project};

/// Measure how soon the server is ready, what it takes to sit there, and what it adds to a first word
#[derive(Parser)]
#[command(name = "cargo xtask bench server")]
struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long first words are measured in each round
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Events of the journal that the server starts with
    #[arg(long, default_value_t = 1_000_000)]
    events: usize,
    /// Sessions that each do a turn and rest
    #[arg(long, default_value_t = 1_000)]
    sessions: usize,
    /// The program that is measured; `cargo xtask bench server` builds it
    #[arg(long, env = "WEIR_BIN")]
    weir: PathBuf,
    /// Where the data directories are made; they are removed afterwards [default: target/bench-data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print, but leave no file in bench/results
    #[arg(long)]
    no_save: bool,
}

/// Turns at once while sessions are made.
const AT_ONCE: usize = 16;

/// Starts of a short program in each round.
const STARTS: usize = 100;

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
    let data = std::path::absolute(data)?.join(format!("server-{}", std::process::id()));
    std::fs::create_dir_all(&data)?;
    let measured = measured(args, &data).await;
    let kept = measured.and_then(|rounds| {
        let summary = Summary::of(&rounds);
        let targets = targets(&summary);
        summary.print(&targets);
        if !args.no_save {
            println!("\nsaved as {}", save("server", &data, &rounds, &targets)?.display());
        }
        Ok(())
    });
    std::fs::remove_dir_all(&data)?;
    kept
}

async fn measured(args: &Args, data: &Path) -> Result<Vec<Round>, Error> {
    let large = data.join("large");
    project(&args.weir, &large)?;
    eprintln!("a journal of {} events", args.events);
    journal::fill(&large.join(".weir"), args.events).await?;
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let mut found = Round::new();
        ready(args, &large, &mut found).await?;
        first_word(args, &data.join(format!("first-{round}")), &mut found).await?;
        resting(args, &data.join(format!("resting-{round}")), &mut found).await?;
        starts(args, &mut found)?;
        rounds.push(found);
    }
    Ok(rounds)
}

/// From the start of the process to the first answer of `/ready`, and what it takes to sit there.
async fn ready(args: &Args, project: &Path, found: &mut Round) -> Result<(), Error> {
    let began = Instant::now();
    let server = Server::start(&args.weir, project).await?;
    let mut connection = Connection::open(server.address).await?;
    connection.get("/ready").await?;
    found.insert("large_ready_ms", began.elapsed().as_secs_f64() * 1e3);
    found.insert("large_resident_mb", server.resident_mb()?);
    server.stop().await
}

/// How long until the first word, through the server and from the engine itself, in turns.
async fn first_word(args: &Args, directory: &Path, found: &mut Round) -> Result<(), Error> {
    project(&args.weir, directory)?;
    let server = Server::start(&args.weir, directory).await?;
    let direct = Direct::start(&directory.join("direct")).await?;
    let mut connection = Connection::open(server.address).await?;
    for _ in 0..10 {
        connection.first_word().await?;
        direct.first_word().await?;
    }
    let (mut through, mut bare) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs_f64(args.seconds) || through.len() < 20 {
        through.push(connection.first_word().await?);
        bare.push(direct.first_word().await?);
    }
    let [through, bare] = [through, bare].map(median);
    found.insert("first_word_server_ms", through * 1e3);
    found.insert("first_word_engine_ms", bare * 1e3);
    found.insert("first_word_ratio", through / bare);
    direct.stop().await;
    server.stop().await
}

/// What a server takes that has done nothing, that has just done a turn for each of many sessions, and when they have left memory.
async fn resting(args: &Args, directory: &Path, found: &mut Round) -> Result<(), Error> {
    project(&args.weir, directory)?;
    let server = Server::start(&args.weir, directory).await?;
    let mut connection = Connection::open(server.address).await?;
    connection.get("/ready").await?;
    found.insert("idle_resident_mb", server.resident_mb()?);
    let began = Instant::now();
    let address = server.address;
    let workers = stream::iter(0..AT_ONCE).map(|worker| async move {
        let mut connection = Connection::open(address).await?;
        for _ in (worker..args.sessions).step_by(AT_ONCE) {
            connection.first_word().await?;
        }
        Ok::<(), Error>(())
    });
    let ended: Vec<Result<(), Error>> = workers.buffer_unordered(AT_ONCE).collect().await;
    ended.into_iter().collect::<Result<(), Error>>()?;
    found.insert("turns_per_second", args.sessions as f64 / began.elapsed().as_secs_f64());
    let metrics = connection.get("/metrics").await?;
    found.insert("sessions_in_memory", metric(&metrics, "weir_sessions_active ")?);
    found.insert("sessions_resident_mb", server.resident_mb()?);
    server.stop().await
}

fn metric(text: &str, name: &str) -> Result<f64, Error> {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(value.ok_or_else(|| format!("no {name} in /metrics"))?.parse()?)
}

/// `weir --version` against a program that does nothing.
fn starts(args: &Args, found: &mut Round) -> Result<(), Error> {
    let start = |program: &Path, argument: &[&str]| -> Result<f64, Error> {
        let began = Instant::now();
        let status = Command::new(program).args(argument).stdout(Stdio::null()).status()?;
        match status.success() {
            true => Ok(began.elapsed().as_secs_f64()),
            false => Err(format!("{} failed", program.display()).into()),
        }
    };
    let (mut version, mut nothing) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        version.push(start(&args.weir, &["--version"])?);
        nothing.push(start(Path::new("true"), &[])?);
    }
    let [version, nothing] = [version, nothing].map(median);
    found.insert("version_ms", version * 1e3);
    found.insert("true_ms", nothing * 1e3);
    found.insert("version_to_true", version / nothing);
    Ok(())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn targets(summary: &Summary) -> Vec<Target> {
    let median = |name| summary.median(name);
    vec![
        Target::at_most("ready with a journal of 1M events: ≤ 100 ms", median("large_ready_ms"), 100.0),
        Target::at_most("idle: ≤ 40 MB", median("idle_resident_mb"), 40.0),
        Target::at_most("idle over 1M events: ≤ 40 MB", median("large_resident_mb"), 40.0),
        Target::at_most(
            "1,000 idle sessions that each did a turn: ≤ 120 MB",
            median("sessions_resident_mb"),
            120.0,
        ),
        Target::at_most(
            "first word through the server: ≤ 1.3 × that of the engine, p50",
            median("first_word_ratio"),
            1.3,
        ),
        Target::at_most("`weir --version`: ≤ 5 × `true`", median("version_to_true"), 5.0),
    ]
}
