//! The `weir` command: reads flags, environment and files, picks the adapters, prints, exits.

mod args;
mod commands;
mod exit;
mod identity;
mod input;
mod output;
mod paint;
mod problems;
mod project;
mod report;
mod run;
mod show;
mod store;
mod target;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    run::run(args).into()
}
