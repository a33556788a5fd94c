//! Project tasks: `cargo xtask test | layers | soak | bench | dictionary`.

mod dictionary;
mod samples;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

/// Most tasks have nothing to say but that they went well.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Project tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Train the dictionary that the journal compresses with, or check the one that is committed
    Dictionary(dictionary::Args),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Dictionary(args) => dictionary::run(&root(), &args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
