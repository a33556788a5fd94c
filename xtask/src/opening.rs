//! `cargo xtask bench open --against TREE`: what opening a journal costs here and in another tree of this project.
//!
//! The program `bench/open` is built in release against the journal of each tree, as a package of its own, with the
//! versions that the tree has locked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Parser;

use crate::{Outcome, must, process};

const BUILD_CAP: Duration = Duration::from_secs(60 * 60);
const RUN_CAP: Duration = Duration::from_secs(2 * 60 * 60);

/// Compare what opening a journal costs in two trees
#[derive(Parser)]
#[command(name = "cargo xtask bench open")]
struct Args {
    /// Another checkout of this project, for example a worktree of an older commit
    #[arg(long)]
    against: PathBuf,
    /// How often each program opens each journal
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// Where the journals are made; they are removed afterwards [default: target/bench-open/data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Build both programs and do not run them
    #[arg(long)]
    build_only: bool,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let name = "cargo xtask bench open".to_owned();
    let args = Args::parse_from(std::iter::once(&name).chain(arguments));
    let place = process::target(root).join("bench-open");
    let this = build(root, root, &place, "this")?;
    let other = build(root, &fs::canonicalize(&args.against)?, &place, "other")?;
    if args.build_only {
        return Ok(());
    }
    let mut compare = Command::new(&this);
    compare.arg("compare").arg(&this).arg(other);
    compare.arg(args.data.unwrap_or_else(|| place.join("data"))).arg(args.rounds.to_string());
    must(&mut compare, RUN_CAP)
}

/// Builds the program against the journal of `tree`; returns where it is.
fn build(root: &Path, tree: &Path, place: &Path, name: &str) -> Outcome<PathBuf> {
    let package = place.join(name);
    fs::create_dir_all(&package)?;
    fs::write(package.join("Cargo.toml"), manifest(root, tree))?;
    // The versions of the tree; cargo drops those that are not needed.
    fs::copy(tree.join("Cargo.lock"), package.join("Cargo.lock"))?;
    let target = place.join("target");
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--offline"]).env("CARGO_TARGET_DIR", &target).current_dir(&package);
    must(&mut cargo, BUILD_CAP)?;
    let program = package.join("weir-bench-open");
    fs::copy(target.join("release/weir-bench-open"), &program)?;
    Ok(program)
}

fn manifest(root: &Path, tree: &Path) -> String {
    let ours = ["weir-blobs", "weir-journal", "weir-journal-sqlite", "weir-types"].map(|name| {
        let path = tree.join("crates").join(name.trim_start_matches("weir-"));
        format!("{name} = {{ path = {:?} }}\n", path.display().to_string())
    });
    format!(
        "[workspace]\n\n[package]\nname = \"weir-bench-open\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [[bin]]\nname = \"weir-bench-open\"\npath = {:?}\n\n[dependencies]\n{}\
         rusqlite = {{ version = \"*\", features = [\"bundled\"] }}\nserde_json = \"1\"\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n\
         [profile.release]\nlto = \"thin\"\ncodegen-units = 4\n",
        root.join("bench/open/main.rs").display().to_string(),
        ours.concat()
    )
}
