//! From arguments to an exit code: parse, run under the eyes of Ctrl-C, report.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use weir_types::{Explain, Fault};

use crate::args::{Cli, Early};
use crate::commands::{self, Context};
use crate::exit::Exit;
use crate::help;
use crate::identity::{Identity, IdentityError};
use crate::output::Out;
use crate::paint::{Paint, Surroundings, When};
use crate::place::{self, DATA, Found};
use crate::planned;
use crate::project::ProjectArgs;
use crate::report::{Bug, Failure, error_json};
use crate::show::{printable, shorten};
use crate::store::JOURNAL;
use crate::wrap::wrap;

/// How long an interrupted command may take to remove its temporary files.
const FAREWELL: Duration = Duration::from_millis(500);

/// A usage error never shows more of one argument than this.
const USAGE_COLUMNS_MAX: usize = 300;

/// Runs the command line.
pub(crate) fn run(args: &[OsString]) -> Exit {
    let early = Early::scan(args);
    let args = usual_words(args.to_vec());
    let color = match early.color {
        When::Auto => clap::ColorChoice::Auto,
        When::Always => clap::ColorChoice::Always,
        When::Never => clap::ColorChoice::Never,
    };
    let matches = help::tidy(Cli::command()).color(color).try_get_matches_from(&args);
    // Where a command works is found before anything else is done there.
    if let Ok(matches) = &matches
        && let Some(directory) = matches.get_one::<PathBuf>("chdir")
        && let Err(source) = std::env::set_current_dir(directory)
    {
        let directory = directory.clone();
        return tell(&ChdirError { directory, source }.into(), early.json, early.color);
    }
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => run_parsed(cli),
        Err(error) => match planned::command(&error, &args) {
            Some(command) => tell(&Planned { command }.into(), early.json, early.color),
            None => explain_usage(&error, early),
        },
    }
}

/// A command that will come.
#[derive(Debug, thiserror::Error)]
#[error("`weir {command}` is planned, and not in this version")]
struct Planned {
    command: String,
}

impl Explain for Planned {
    fn code(&self) -> &'static str {
        "cli::planned"
    }

    fn help(&self) -> Cow<'static, str> {
        "`weir --help` lists the commands of this version".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

fn run_parsed(cli: Cli) -> Exit {
    report_panics(cli.global.json, cli.global.color);
    let workers = cli.command.workers();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    match runtime {
        Ok(runtime) => {
            let exit = runtime.block_on(supervise(cli));
            // A thread that waits for standard input must not keep the process alive.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            tell(&Bug { what: format!("no runtime: {error}") }.into(), cli.global.json, cli.global.color)
        }
    }
}

/// The command runs as a task of its own, so that Ctrl-C is heard even while it waits for a slow reader.
async fn supervise(cli: Cli) -> Exit {
    let minds_itself = cli.command.minds_interrupts();
    let mut task = tokio::spawn(execute(cli));
    if minds_itself {
        return task.await.unwrap_or(Exit::Bug);
    }
    tokio::select! {
        // A panic has been reported by its hook.
        ended = &mut task => ended.unwrap_or(Exit::Bug),
        _ = tokio::signal::ctrl_c() => {
            task.abort();
            let _ = tokio::time::timeout(FAREWELL, task).await;
            Exit::Interrupted
        }
    }
}

async fn execute(cli: Cli) -> Exit {
    let (json, color) = (cli.global.json || cli.command.wants_json(), cli.global.color);
    let project = ProjectArgs::find(cli.global.project.clone());
    let data_dir = place::data_dir(cli.global.data_dir.clone(), &project.directory);
    let identity = match identity(&cli, &data_dir) {
        Ok(identity) => identity,
        Err(error) => return tell(&error.into(), json, color),
    };
    let out = Out::new(json, color);
    tell_place(&project, &data_dir, &out);
    let mut context = Context { data_dir, project, out, identity };
    let outcome = commands::run(cli.command, &mut context).await;
    // What was printed comes before what went wrong.
    let flushed = context.out.flush();
    match outcome.and(flushed) {
        Ok(()) => Exit::Done,
        Err(failure) => tell(&failure, json, color),
    }
}

/// Who asks.
fn identity(cli: &Cli, data_dir: &Path) -> Result<Identity, IdentityError> {
    let tried = cli.global.on_behalf_of.as_ref();
    if tried.is_some() && !cli.command.minds_identity() {
        return Err(IdentityError::Meaningless);
    }
    Identity::new(tried, data_dir)
}

/// Tells what is not used although somebody may expect it.
fn tell_place(project: &ProjectArgs, data_dir: &Path, out: &Out) {
    if let Some(foreign) = &project.foreign {
        let shown = foreign.display().to_string();
        let shown = printable(&shown);
        out.warn(format_args!(
            "the project in {shown} belongs to another user and is not used; `--project` uses it"
        ));
    }
    if project.found == Found::Above && data_dir != Path::new(DATA) && Path::new(DATA).join(JOURNAL).is_file()
    {
        let shown = data_dir.display().to_string();
        let shown = printable(&shown);
        out.note(format_args!(
            "the data is in {shown}; `--data-dir {DATA}` uses the journal in this directory"
        ));
    }
}

/// The directory that `-C` names cannot be entered.
#[derive(Debug, thiserror::Error)]
#[error("cannot change to the directory `{}`", .directory.display())]
struct ChdirError {
    directory: PathBuf,
    #[source]
    source: std::io::Error,
}

impl Explain for ChdirError {
    fn code(&self) -> &'static str {
        "cli::chdir"
    }

    fn help(&self) -> Cow<'static, str> {
        "check the directory after `-C`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

fn tell(failure: &Failure, json: bool, color: When) -> Exit {
    let stderr = std::io::stderr();
    let paint = Paint::new(color, Surroundings::of(&stderr));
    // Nothing is left to do if even this cannot be said; the exit code says it too.
    let _ = stderr.lock().write_all(failure.render(json, paint).as_bytes());
    failure.exit()
}

fn report_panics(json: bool, color: When) {
    std::panic::set_hook(Box::new(move |panic| {
        let what = panic.payload_as_str().unwrap_or("a panic");
        let place = panic.location().map_or_else(String::new, |place| format!(" ({place})"));
        tell(&Bug { what: format!("{what}{place}") }.into(), json, color);
    }));
}

/// What people type for help and for the version, as the parser knows it.
fn usual_words(mut args: Vec<OsString>) -> Vec<OsString> {
    match args.get(1).and_then(|word| word.to_str()) {
        Some("version") => args[1] = "--version".into(),
        Some("help") => args.retain(|word| word != "-h" && word != "--help"),
        _ => {}
    }
    args
}

/// The version as a document; with the commit, if the build was told it.
fn version_json() -> String {
    let commit = option_env!("WEIR_COMMIT").map_or(serde_json::Value::Null, Into::into);
    serde_json::json!({ "version": 1, "name": "weir", "release": env!("CARGO_PKG_VERSION"), "commit": commit })
        .to_string()
}

/// Help and version are answers; everything else is wrong usage, told without echoing control characters.
fn explain_usage(error: &clap::Error, early: Early) -> Exit {
    match error.kind() {
        ErrorKind::DisplayVersion if early.json => {
            let _ = writeln!(std::io::stdout(), "{}", version_json());
            return Exit::Done;
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            help::print(&error.render(), early.color);
            return Exit::Done;
        }
        _ => {}
    }
    let text = error.render().to_string();
    let lines: Vec<String> =
        text.lines().map(|line| shorten(&printable(line), USAGE_COLUMNS_MAX).into_owned()).collect();
    let mut stderr = std::io::stderr();
    let _ = if early.json {
        let words = lines.iter().take_while(|line| !line.starts_with("Usage:") && !line.contains("--help"));
        let words = words.map(|line| line.trim()).filter(|line| !line.is_empty());
        let message = words.collect::<Vec<_>>().join(" ");
        let message = message.trim_start_matches("error: ").to_owned();
        writeln!(
            stderr,
            "{}",
            error_json("cli::usage", message, "see `weir --help`, or `weir COMMAND --help`")
        )
    } else {
        let paint = Paint::new(early.color, Surroundings::of(&stderr));
        let text = lines.join("\n");
        let text = wrap(&text, paint.columns(), 2);
        match text.strip_prefix("error:") {
            Some(rest) => writeln!(stderr, "{}{rest}", paint.error("error:")),
            None => writeln!(stderr, "{text}"),
        }
    };
    Exit::Usage
}
