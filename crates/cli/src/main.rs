//! The `weir` command: reads flags, environment and files, picks the adapters, prints, exits.

mod admission;
mod agents;
mod args;
mod asked;
mod budget;
mod builds;
mod commands;
mod compiling;
mod damaged;
mod exit;
mod help;
mod history;
mod hooks;
mod host;
mod identity;
mod input;
mod live;
mod logs;
mod output;
mod paint;
mod piped;
mod place;
mod planned;
mod problems;
mod project;
mod report;
mod run;
mod scaffold;
mod schemas;
mod served;
mod serving;
mod show;
mod sign_of_life;
mod storage_watch;
mod store;
mod table;
mod target;
mod turn;
mod watched;
mod which;
mod workbench;
mod wrap;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match commands::sandbox_exec::run(&args) {
        Some(code) => code,
        None => run::run(&args).into(),
    }
}
