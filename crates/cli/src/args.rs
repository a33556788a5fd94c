//! The command line as it is typed. Names stay text here: they are checked by the command, whose errors say more
//! than a parser's and never echo what could harm a terminal.

#[cfg(test)]
mod reference;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use weir_journal::{Key, KeyError};
use weir_spec::Principal;
use weir_types::{BranchId, BranchName, Explain, Fault, Hash, HashError, NameError, StreamName};

use crate::commands::{
    append, approvals, auth, backup, blob, branch, budget, build, cat, chat, completions, config, demo,
    deploy, diff, doctor, fs, ingest, init, new, policy, prompt, run, schema, serve, session, streams, test,
    token, tools, transfer, verify, whoami,
};
use crate::exit::Exit;
use crate::paint::When;

/// A durable, governed runtime for AI agents. An agent is a file; every step it takes is kept in a journal that loses
/// nothing it acknowledged, so that a session goes on after any crash.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100, after_help = after_help(), propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn after_help() -> String {
    let example = "weir append --stream notes --kind note.added --payload '{\"text\":\"hello\"}'";
    format!(
        "Examples:\n  weir demo\n  weir init my-agents\n  weir build\n  weir chat helper -m 'What time is it?'\n  weir session list\n  {example}\n  weir cat --stream notes\n  weir verify\n\nExit codes:\n{}",
        Exit::table()
    )
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Do as if started in this directory.
    #[arg(short = 'C', global = true, value_name = "DIR")]
    pub(crate) chdir: Option<PathBuf>,
    /// The project's directory, with `weir.yaml` and `agents/` in it [default: the current directory, else the nearest
    /// one above it that has a `weir.yaml`].
    #[arg(long, global = true, value_name = "DIR", env = "WEIR_PROJECT", hide_env_values = true)]
    pub(crate) project: Option<PathBuf>,
    /// Where the data is [default: `.weir` in the project; without a project, in the current directory].
    #[arg(long, global = true, value_name = "DIR", env = "WEIR_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print for programs: one JSON document, or one object a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour; `NO_COLOR` is obeyed too.
    #[arg(long, global = true, value_name = "WHEN", default_value_t)]
    #[arg(value_enum)]
    pub(crate) color: When,
    /// Act as someone else, with their grants and no others: `user:NAME`, `serviceaccount:NAME`. Only the owner of the data
    /// directory may.
    #[arg(long = "as", global = true, value_name = "PRINCIPAL", value_parser = principal)]
    pub(crate) on_behalf_of: Option<Principal>,
}

pub(crate) fn principal(text: &str) -> Result<Principal, String> {
    text.parse().map_err(|error| format!("{error}; write `user:NAME` or `serviceaccount:NAME`"))
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A guided tour, offline: a turn with a tool, a kill in the middle of it, resume, fork, verify, cost.
    Demo(demo::Args),
    /// Make a project that builds, chats and passes its tests at once, offline.
    Init(init::Args),
    /// Add an agent, a loop or a tool to a project.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir new agent reviewer\n  weir new tool lookup_order\n  weir new loop nightly --agent reviewer"
    )]
    New(new::Command),
    /// Compile the project: every mistake at once, or one manifest.
    Build(build::Args),
    /// Look for every mistake of the project; start, fetch and write nothing.
    Check(build::CheckArgs),
    /// Run the scenarios of tests/*.yaml.
    Test(test::Args),
    /// Talk to an agent, line by line or once.
    Chat(chat::Args),
    /// Serve the agents of the project while they are written: what is edited takes effect.
    Run(run::Args),
    /// Serve the agents of a build over HTTP.
    Serve(serve::Args),
    /// Let new sessions begin with another build, also where a server runs.
    Deploy(deploy::Args),
    /// Go back to the build that was deployed before.
    Rollback(deploy::RollbackArgs),
    /// Look at sessions, speak to them, and take them in hand.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir session list\n  weir session history -1\n  weir session resume -1\n  weir session fork -1 --at 12"
    )]
    Session(session::Command),
    /// List the calls that wait for someone's approval.
    Approvals(approvals::Args),
    /// Say yes to a call, and go on with the session that waited for it.
    Approve(approvals::ApproveArgs),
    /// Say no to a call, and go on with the session that waited for it.
    Deny(approvals::DenyArgs),
    /// Look at what may be used, and what is left of it.
    #[command(subcommand, after_help = "Examples:\n  weir budget show\n  weir budget show --agent helper")]
    Budget(budget::Command),
    /// Make, list and revoke the tokens that a server lets people in with.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir token issue --principal user:ada --expires 30d\n  weir token list\n  weir token revoke ID"
    )]
    Token(token::Command),
    /// List the tools of an agent, and try one.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir tools list helper\n  weir tools call helper get_time"
    )]
    Tools(tools::Command),
    /// See who may do what, why a call is allowed or denied, and what another policy would have decided.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir policy show\n  weir policy explain --agent helper --tool bash --input '{\"command\":\"ls\"}'\n  weir policy replay --since 7d"
    )]
    Policy(policy::Command),
    /// Look at the files of a session, at any of its events.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir fs ls -1\n  weir fs cat -1 report.md\n  weir fs export -1 out"
    )]
    Fs(fs::Command),
    /// Look at what agents are told.
    #[command(subcommand, after_help = "Examples:\n  weir prompt show helper")]
    Prompt(prompt::Command),
    /// Show what agents of one build may do that those of another may not.
    Diff(diff::Args),
    /// Pin skills and the tools of MCP servers in weir.lock, and accept what has changed.
    Lock(build::LockArgs),
    /// Print what can be written in a project's files, as JSON Schema.
    Schema(schema::Args),
    /// Keep what convinces MCP servers of who is asking, on this machine.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir auth add mcp://mail.example.com/mcp\n  weir auth list\n  weir auth remove mcp://mail.example.com/mcp"
    )]
    Auth(auth::Command),
    /// Append one event to a stream.
    Append(append::Args),
    /// Append what a recorded stream of server-sent events says.
    Ingest(ingest::Args),
    /// List the streams.
    Streams(streams::Args),
    /// Print how many events a stream has.
    Count(streams::CountArgs),
    /// Print the events of a branch, oldest first.
    Cat(cat::Args),
    /// Fork and list branches.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir branch fork --stream notes --at 12 --name draft\n  weir branch list --stream notes"
    )]
    Branch(branch::Command),
    /// Check every event, every index and every blob against the hash chains.
    Verify(verify::Args),
    /// Write streams as JSON Lines.
    Export(transfer::ExportArgs),
    /// Read streams from JSON Lines, as `weir export` writes them.
    Import(transfer::ImportArgs),
    /// Write the journal and its blobs into one archive, while others go on writing.
    Backup(backup::Args),
    /// Store, read and collect content by its hash.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir blob put report.pdf\n  weir blob get HASH > report.pdf\n  weir blob gc --dry-run"
    )]
    Blob(blob::Command),
    /// Look for what is wrong with this set-up.
    Doctor(doctor::Args),
    /// Show the configuration that is in force, and where each value comes from.
    #[command(
        subcommand,
        after_help = "Examples:\n  weir config show\n  weir config show --json | jq .settings"
    )]
    Config(config::Command),
    /// Say who asks: which principal, in which groups, and whether that one is an admin.
    Whoami(whoami::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// The process that `weir demo` kills.
    #[command(hide = true)]
    DemoDesk(demo::DeskArgs),
}

/// Flags that are needed even if the command line cannot be parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Early {
    pub(crate) json: bool,
    pub(crate) color: When,
}

impl Early {
    /// Looks for them the simple way; what follows `--` is not a flag.
    pub(crate) fn scan(args: &[OsString]) -> Self {
        let mut found = Self::default();
        let texts = args.iter().map(|arg| arg.to_string_lossy()).take_while(|arg| arg != "--");
        let mut previous = Cow::Borrowed("");
        for text in texts {
            found.json |= text == "--json";
            let color = text.strip_prefix("--color=").or((previous == "--color").then_some(text.as_ref()));
            if let Some(when) = color.and_then(|word| clap::ValueEnum::from_str(word, false).ok()) {
                found.color = when;
            }
            previous = text;
        }
        found
    }
}

/// Text on the command line that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgError {
    /// Not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Not a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Not a hash.
    #[error(transparent)]
    Hash(#[from] HashError),
}

impl Explain for ArgError {
    fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "cli::name",
            Self::Key(_) => "cli::key",
            Self::Hash(_) => "cli::hash",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Name(NameError::Character { what: "kind", .. }) => {
                "a kind is written `area.verb`, like `invoice.paid`: no spaces, nothing invisible".into()
            }
            Self::Name(NameError::Character { .. }) => {
                "use visible characters, and spaces only inside the name".into()
            }
            Self::Name(NameError::TooLong { .. }) => "choose a shorter name; names are never cut".into(),
            Self::Name(NameError::Empty { .. }) => "give it a name, like `notes`".into(),
            Self::Key(_) => "choose a key like `order-4711`".into(),
            Self::Hash(_) => "`weir blob put FILE` prints the hash of what it stored".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Checks a name, a key or a hash.
pub(crate) fn parse<T: FromStr>(text: &str) -> Result<T, ArgError>
where
    ArgError: From<T::Err>,
{
    text.parse().map_err(ArgError::from)
}

/// Checks a stream and a branch; `main` if none is named.
pub(crate) fn branch_id(stream: &str, branch: Option<&str>) -> Result<BranchId, ArgError> {
    let stream: StreamName = parse(stream)?;
    let branch = branch.map_or_else(|| Ok(BranchName::main()), parse)?;
    Ok(BranchId { stream, branch })
}

/// Checks a stream and a branch before a journal is opened; `-1` and the like are looked up there.
pub(crate) fn branch_id_or_session(stream: &str, branch: Option<&str>) -> Result<(), ArgError> {
    match crate::which::from_latest(stream.split('@').next().unwrap_or(stream)) {
        Some(_) => branch.map(parse::<BranchName>).transpose().map(drop),
        None => branch_id(stream, branch).map(drop),
    }
}

/// Checks a hash.
pub(crate) fn hash(text: &str) -> Result<Hash, ArgError> {
    parse(text)
}

/// Checks a key.
pub(crate) fn key(text: &str) -> Result<Key, ArgError> {
    parse(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command, path: &str) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let has_example = help.lines().any(|line| line.starts_with("  ") && line.contains(path));
            assert!(help.contains("Examples:") && has_example, "`{path} --help` has no example: {help}");
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                check(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        check(&Cli::command(), "weir");
    }

    #[test]
    fn early_flags_are_found_anywhere_but_after_a_double_dash() {
        let scan = |line: &str| {
            let early = Early::scan(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
            (early.json, early.color)
        };
        assert_eq!(scan("weir cat --json --color never"), (true, When::Never));
        assert_eq!(scan("weir --color=always cat"), (false, When::Always));
        assert_eq!(scan("weir cat -- --json --color=never"), (false, When::Auto));
        assert_eq!(scan("weir --color purple"), (false, When::Auto));
    }
}
