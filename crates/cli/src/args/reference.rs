//! `docs/commands.md`: every command and option, from the definition that the parser uses.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use crate::exit::Exit;

const HEAD: &str = "\
# Command line

Every command with its arguments, as `weir help COMMAND` prints them. Written by
`WEIR_BLESS=1 cargo nextest run -p weir-cli reference`; a test compares this page with the parser.

Data goes to standard output; progress, hints and errors go to standard error.
";

fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = HEAD.to_owned();
    page.push_str("\n## Exit codes\n\n```text\n");
    page.push_str(Exit::table().trim_end());
    page.push_str("\n```\n\n## Global options\n\n");
    options(&root, true, &mut page);
    for command in root.get_subcommands().filter(|command| is_shown(command)) {
        section(command, "weir", 2, &mut page);
    }
    page
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// One command, then the commands below it.
fn section(command: &Command, parent: &str, depth: usize, page: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let _ = write!(page, "\n{} `{name}`\n\n", "#".repeat(depth));
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        let _ = write!(page, "{about}\n\n");
    }
    if !command.has_subcommands() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim();
        let _ = write!(page, "```text\n{usage}\n```\n\n");
        options(command, false, page);
        if let Some(examples) = command.get_after_help() {
            let _ = write!(page, "```text\n{}\n```\n", examples.to_string().trim_end());
        }
    }
    for inner in command.get_subcommands().filter(|inner| is_shown(inner)) {
        section(inner, &name, depth + 1, page);
    }
}

fn options(command: &Command, is_global: bool, page: &mut String) {
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.is_global_set() == is_global)
        .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
        .collect();
    for argument in &arguments {
        let about = argument.get_long_help().or(argument.get_help());
        let about = about.map(|about| about.to_string().replace('\n', " ")).unwrap_or_default();
        let _ = writeln!(page, "- `{}`: {about}{}", spelled(argument), also(argument));
    }
    if !arguments.is_empty() {
        page.push('\n');
    }
}

/// The argument as it is typed.
fn spelled(argument: &Arg) -> String {
    argument.to_string()
}

/// Short form, environment variable and default.
fn also(argument: &Arg) -> String {
    let mut notes = Vec::new();
    if let Some(short) = argument.get_short().filter(|_| argument.get_long().is_some()) {
        notes.push(format!("short `-{short}`"));
    }
    if let Some(variable) = argument.get_env() {
        notes.push(format!("`{}`", variable.to_string_lossy()));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        notes.push(format!("default `{}`", defaults.join(" ")));
    }
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) }
}

#[test]
fn the_page_about_the_command_line_is_what_the_parser_takes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = page();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == page,
        "docs/commands.md is old: run WEIR_BLESS=1 cargo nextest run -p weir-cli reference"
    );
}
