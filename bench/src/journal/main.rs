//! Measures the journal against what else there is, in one run: `cargo xtask bench journal`.
//!
//! Rounds are interleaved (every column does a piece of work before any column does the next), so that a slow minute of
//! the disk falls on all of them. Numbers are medians over the rounds with their spread; ratios are formed within a round.

mod payload;
mod report;
mod run;
mod subject;
mod table;
mod targets;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use self::subject::Error;
use self::table::Group;

/// Measure the journal against a raw file, plain SQLite and lago-journal
#[derive(Parser)]
#[command(name = "cargo xtask bench journal")]
struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each measurement of appends lasts
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Size of the large journal
    #[arg(long, default_value_t = 1_000_000)]
    events: usize,
    /// Seconds a column may take to fill the large journal
    #[arg(long, default_value_t = 120.0)]
    load_cap: f64,
    /// Only these parts (can be repeated)
    #[arg(long, value_enum)]
    only: Vec<Group>,
    /// Where the journals are made; they are removed afterwards [default: target/bench-data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print, but leave no file in bench/results
    #[arg(long)]
    no_save: bool,
    /// One measurement in a process of its own
    #[arg(long, hide = true)]
    child: Option<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &Args) -> Result<(), Error> {
    if let Some(job) = &args.child {
        let found = work::run(serde_json::from_str(job)?)?;
        println!("{}", serde_json::to_string(&found)?);
        return Ok(());
    }
    let measured = run::run(args)?;
    let targets = targets::judge(&measured.table);
    report::print(&measured, &targets);
    if !args.no_save {
        let file = report::save(args, &measured, &targets)?;
        println!("\nsaved as {}", file.display());
    }
    Ok(())
}
