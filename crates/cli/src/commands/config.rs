//! `weir config show`: what is in force, and where each value comes from. Never a secret's value.

use std::env;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};
use serde::Serialize;
use weir_models::USUAL_KEY_ENVS;

use crate::admission::SECRET;
use crate::args::Cli;
use crate::commands::Context;
use crate::compiling::approvals_file;
use crate::logs;
use crate::output::Out;
use crate::place::{self, Found};
use crate::planned;
use crate::report::Outcome;
use crate::serving::BRIDGE_SECRET;
use crate::show::printable;
use crate::store::JOURNAL;
use crate::table;

/// The longest value that is shown.
const VALUE_CHARS_MAX: usize = 300;

/// Options whose value may have a secret in it, such as a password in an address.
const CONFIDENTIAL: [&str; 1] = ["auth_jwks"];

const EXAMPLES: &str = "\
Examples:
  weir config show
  weir config show --json | jq -r '.settings[] | select(.from != \"default\")'";

/// What to do with the configuration.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show what is in force, and where each value comes from.
    Show(ShowArgs),
}

/// The arguments of `weir config show`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {}

#[derive(Serialize)]
struct Document {
    /// The options, and what they default to.
    settings: Vec<Setting>,
    /// Variables of the environment without an option.
    variables: Vec<Variable>,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    /// Nothing, if nothing is set.
    value: Option<String>,
    /// A flag, a variable of the environment, or what else decides.
    from: String,
}

#[derive(Serialize)]
struct Variable {
    name: &'static str,
    set: bool,
    /// Nothing, if it is not set or its value is a secret.
    value: Option<String>,
    #[serde(rename = "for")]
    purpose: String,
}

/// Runs one of them.
pub(crate) fn run(command: &Command, context: &mut Context) -> Outcome {
    let Command::Show(ShowArgs {}) = command;
    let matches = Cli::command().get_matches_from(env::args_os());
    let mut settings = places(&matches, context);
    settings.extend(of_servers());
    let document = Document { settings, variables: variables() };
    match context.out.json {
        true => context.out.document(&document),
        false => print(&document, &mut context.out),
    }
}

/// Which project is used, and where things are kept.
fn places(matches: &ArgMatches, context: &Context) -> Vec<Setting> {
    let Context { project, data_dir, identity, .. } = context;
    let set = |name: &str, value: Option<String>, from: &str| Setting {
        name: name.to_owned(),
        value,
        from: from.to_owned(),
    };
    let has_project = place::has_project(&project.directory);
    let project_from = match (project.found, has_project) {
        (Found::Named, _) => named("project", matches),
        (Found::Here, true) => "the current directory",
        (Found::Here, false) => "no project here or above",
        (Found::Above, _) => "found above the current directory",
    };
    let data_from = match (matches.value_source("data_dir"), has_project) {
        (Some(_), _) => named("data_dir", matches),
        (None, true) => "the project",
        (None, false) => "the current directory",
    };
    let journal = data_dir.join(JOURNAL);
    let journal_from = if journal.is_file() { "exists" } else { "does not exist yet" };
    let who = if identity.is_tried() { "--as" } else { "the operating system" };
    let approvals = approvals_file();
    let approvals_from = if env::var_os("XDG_STATE_HOME").is_some() { "XDG_STATE_HOME" } else { "HOME" };
    let color_from = named("color", matches);
    let color = matches.get_raw("color").and_then(Iterator::last);
    vec![
        set("project", has_project.then(|| full(&project.directory)), project_from),
        set("data-dir", Some(full(data_dir)), data_from),
        set("journal", Some(full(&journal)), journal_from),
        set("approved-programs", approvals.as_deref().map(full), approvals_from),
        set("principal", Some(identity.principal().to_owned()), who),
        set("color", color.map(|when| when.to_string_lossy().into_owned()), color_from),
    ]
}

/// What names an option of every command.
fn named(id: &str, matches: &ArgMatches) -> &'static str {
    match (matches.value_source(id), id) {
        (Some(ValueSource::EnvVariable), "project") => "WEIR_PROJECT",
        (Some(ValueSource::EnvVariable), "data_dir") => "WEIR_DATA_DIR",
        (Some(ValueSource::CommandLine), "project") => "--project",
        (Some(ValueSource::CommandLine), "data_dir") => "--data-dir",
        (Some(ValueSource::CommandLine), "color") => "--color",
        _ => "default",
    }
}

fn full(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // `project/../..` says less than where that is.
    let path: PathBuf = path.canonicalize().unwrap_or(path);
    path.display().to_string()
}

/// The options of `weir serve` and `weir run` that the environment can set.
fn of_servers() -> Vec<Setting> {
    let cli = Cli::command();
    let arguments = cli.find_subcommand("serve").into_iter().flat_map(clap::Command::get_arguments);
    let of_environment = arguments.filter_map(|argument| Some((argument, argument.get_env()?.to_owned())));
    let setting = |(argument, variable): (&clap::Arg, std::ffi::OsString)| {
        let name = format!("serve --{}", argument.get_long().unwrap_or_default());
        let (value, from) = match env::var_os(&variable) {
            Some(_) if CONFIDENTIAL.contains(&argument.get_id().as_str()) => {
                (Some("(set)".to_owned()), variable.to_string_lossy().into_owned())
            }
            Some(value) => {
                (Some(value.to_string_lossy().into_owned()), variable.to_string_lossy().into_owned())
            }
            None => {
                let usual: Vec<_> =
                    argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
                let takes = argument.get_action().takes_values();
                ((takes && !usual.is_empty()).then(|| usual.join(",")), "default".to_owned())
            }
        };
        Setting { name, value, from }
    };
    of_environment.map(setting).collect()
}

/// Variables that count and have no option.
fn variables() -> Vec<Variable> {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let open = |name: &'static str, purpose: &str| Variable {
        name,
        set: is_set(name),
        value: env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        purpose: purpose.to_owned(),
    };
    let secret =
        |name: &'static str, purpose: String| Variable { name, set: is_set(name), value: None, purpose };
    let mut variables = vec![
        open(logs::VARIABLE, "how much is logged"),
        open("NO_COLOR", "no colour"),
        secret(SECRET, "the secret that signs JWTs".to_owned()),
        secret(BRIDGE_SECRET, "the secret that tokens of the bridge are derived from".to_owned()),
    ];
    let keys = USUAL_KEY_ENVS.iter().map(|(provider, name)| secret(name, format!("the key of {provider}")));
    variables.extend(keys);
    variables.extend(planned::variables().map(|(name, why)| open(name, &format!("not used: {why}"))));
    variables
}

fn print(document: &Document, out: &mut Out) -> Outcome {
    let shown = |value: &str| printable(value).chars().take(VALUE_CHARS_MAX).collect::<String>();
    let settings = document.settings.iter().map(|setting| {
        [
            setting.name.clone(),
            setting.value.as_deref().map_or_else(|| "-".to_owned(), shown),
            setting.from.clone(),
        ]
    });
    let settings: Vec<[String; 3]> = settings.collect();
    table::print(["SETTING", "VALUE", "FROM"], &settings, out)?;
    out.line(format_args!(""))?;
    let variables = document.variables.iter().map(|variable| {
        let value = match (&variable.value, variable.set) {
            (Some(value), _) => shown(value),
            (None, true) => "(set)".to_owned(),
            (None, false) => "-".to_owned(),
        };
        [variable.name.to_owned(), value, variable.purpose.clone()]
    });
    let variables: Vec<[String; 3]> = variables.collect();
    table::print(["VARIABLE", "VALUE", "FOR"], &variables, out)
}
