//! Project tasks: `cargo xtask test | layers | tidy | real-model | real-mcp | real-clients | fuzz | soak | cgroups | bench | dictionary | advisories`.

mod advisories;
mod cgroups;
mod dictionary;
mod fuzz;
mod layers;
mod markdown;
mod opening;
mod packages;
#[cfg(test)]
mod pages;
mod process;
mod real_clients;
mod real_mcp;
mod real_model;
mod samples;
mod test;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;

use self::process::Ended;

/// Most tasks have nothing to say but that they went well.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Project tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Run what CI runs: format, clippy, layers, tidy, tests, doctests, docs, cargo deny
    Test(test::Args),
    /// Check that dependencies between crates point down the map
    Layers,
    /// Check that kinds of events are named by their payloads, not as text, and that Markdown is wrapped
    Tidy {
        /// Wrap the Markdown
        #[arg(long)]
        wrap: bool,
    },
    /// Run the model adapters against a real, small model
    RealModel,
    /// Run the MCP client against real servers and the official conformance suite
    RealMcp,
    /// Run the server against vendors' own SDKs and other people's clients
    RealClients {
        /// Passed on to nextest, for example part of a test's name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the parsers on bytes that nobody would write
    Fuzz {
        /// How long, for each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Run the exhaustive versions of the long tests
    Soak {
        /// Passed on to nextest, for example part of a test's name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the tests of the sandbox on a kernel with cgroup v2, in a virtual machine
    Cgroups(cgroups::Args),
    /// Measure one of the parts against its rivals, or opening against another tree, in release
    Bench {
        /// What to measure
        #[arg(value_parser = ["journal", "turn", "build", "tools", "policy", "server", "open"])]
        part: String,
        /// Passed on to the benchmark; `--help` lists what it takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Hold the locked versions against a copy of the RustSec advisory database
    Advisories {
        /// Where the copy is; `target/advisory-db` by default
        #[arg(long)]
        database: Option<PathBuf>,
    },
    /// Train the dictionary that the journal compresses with, or check the one that is committed
    Dictionary(dictionary::Args),
}

fn main() -> ExitCode {
    let root = root();
    let done = match Task::parse() {
        Task::Test(args) => test::run(&root, &args),
        Task::Layers => layers::run(&root),
        Task::Tidy { wrap } => tidy::run(&root, wrap),
        Task::RealModel => real_model(&root),
        Task::RealMcp => real_mcp(&root),
        Task::RealClients { arguments } => real_clients(&root, &arguments),
        Task::Fuzz { seconds } => fuzz(&root, seconds),
        Task::Soak { arguments } => soak(&root, &arguments),
        Task::Cgroups(args) => cgroups::run(&root, &args),
        Task::Bench { part, arguments } => bench(&root, &part, &arguments),
        Task::Advisories { database } => advisories::run(&root, database),
        Task::Dictionary(args) => dictionary::run(&root, &args),
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

fn real_model(root: &Path) -> Outcome {
    match real_model::run(root, &tools::NEXTEST.ensure(root)?)? {
        Ended::Well => Ok(()),
        how => Err(format!("the tests against a real model: {how}").into()),
    }
}

fn real_mcp(root: &Path) -> Outcome {
    match real_mcp::run(root, &tools::NEXTEST.ensure(root)?)? {
        Ended::Well => Ok(()),
        how => Err(format!("the tests against real MCP servers: {how}").into()),
    }
}

fn real_clients(root: &Path, arguments: &[String]) -> Outcome {
    match real_clients::run(root, &tools::NEXTEST.ensure(root)?, arguments)? {
        Ended::Well => Ok(()),
        how => Err(format!("the tests with real clients: {how}").into()),
    }
}

fn fuzz(root: &Path, seconds: u64) -> Outcome {
    match fuzz::run(root, Duration::from_secs(seconds))? {
        Ended::Well => Ok(()),
        how => Err(format!("fuzzing: {how}").into()),
    }
}

fn soak(root: &Path, arguments: &[String]) -> Outcome {
    let mut nextest = Command::new(tools::NEXTEST.ensure(root)?);
    nextest.args(["nextest", "run", "--profile", "soak", "--workspace", "--all-features"]).args(arguments);
    nextest.env("WEIR_SOAK", "1").current_dir(root);
    must(&mut nextest, Duration::from_secs(12 * 60 * 60))
}

fn bench(root: &Path, part: &str, arguments: &[String]) -> Outcome {
    if part == "open" {
        return opening::run(root, arguments);
    }
    if part == "server" {
        // What is measured is the program as it is released.
        let mut build = process::cargo();
        build.args(["build", "--release", "--package", "weir-cli"]).current_dir(root);
        must(&mut build, Duration::from_secs(60 * 60))?;
    }
    // The rivals live in a workspace of their own: the product never compiles them.
    let mut cargo = process::cargo();
    cargo.env("WEIR_BIN", process::target(root).join("release/weir"));
    cargo.args(["run", "--release", "--bin", &format!("bench-{part}"), "--"]).args(arguments);
    cargo.current_dir(root.join("bench"));
    must(&mut cargo, Duration::from_secs(6 * 60 * 60))
}

fn must(command: &mut Command, cap: Duration) -> Outcome {
    match process::run(command, cap)? {
        Ended::Well => Ok(()),
        how => Err(format!("`{}` {how}", process::shown(command)).into()),
    }
}
