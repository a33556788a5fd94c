//! What is planned and not in this version: commands and variables of the environment. Each is named, instead of being
//! mistaken for something else or ignored.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};

use crate::args::Cli;

/// Planned commands, each with the words before it.
const COMMANDS: &[(&str, &[&str])] = &[
    ("", &["search", "trace", "audit", "loop", "lane", "stats", "knowledge", "related", "why"]),
    ("session", &["merge", "diff", "replay"]),
    ("fs", &["diff", "snapshot", "log"]),
];

/// Variables that do nothing yet, and what that means.
const VARIABLES: &[(&str, &str)] = &[
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "this version exports no traces"),
    ("TRACE_BACKEND", "this version keeps no traces"),
    (
        "WEIR_MANAGED",
        "this version has no managed lane, so it switches nothing on or off: every session runs in this process",
    ),
    ("WEIR_CANARY_PCT", "this version has no managed lane, so no session is sent to one"),
];

/// The planned command that a command line asks for, in full, if its parser knew no such command.
pub(crate) fn command(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let at = args.iter().position(|arg| arg.to_string_lossy() == *unknown)?;
    let cli = Cli::command();
    let known =
        |arg: &&OsString| cli.get_subcommands().find(|known| known.get_name() == arg.to_string_lossy());
    let group = args[..at].iter().find_map(|arg| known(&arg)).map_or("", clap::Command::get_name);
    let is_planned = |(of, commands): &&(&str, &[&str])| *of == group && commands.contains(&unknown.as_str());
    COMMANDS.iter().find(is_planned).map(|_| format!("{group} {unknown}").trim_start().to_owned())
}

/// The variables that are set and do nothing yet, each with a sentence.
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    VARIABLES.iter().filter(move |(name, _)| is_set(name)).copied()
}

/// Logs them.
pub(crate) fn log_variables() {
    for (variable, why) in variables() {
        tracing::warn!(variable, "this variable is set and not used: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Option<String> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Cli::command().try_get_matches_from(&args).expect_err(line);
        command(&error, &args)
    }

    #[test]
    fn every_planned_command_is_named_and_no_other_is() {
        for (group, commands) in COMMANDS {
            for command in *commands {
                let full = format!("{group} {command}").trim_start().to_owned();
                assert_eq!(told(&format!("weir {full}")), Some(full.clone()), "{full}");
                assert_eq!(told(&format!("weir --json {full} --flag more")), Some(full));
            }
        }
        for line in
            ["weir serch", "weir policy audit", "weir fs merge", "weir session", "weir chat search more"]
        {
            assert_eq!(told(line), None, "{line}");
        }
    }
}
