//! The compiler, as commands use it: what may be started is asked, what takes long is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_compiler::{
    Approve, Command, Compiled, Credentials, Event, Launch, Mode, Nobody, Options, Progress,
};
use weir_engine::CredentialFile;
use weir_secrets::{Places, Redactor};
use weir_tools::Sandbox;
use weir_types::{Catalog, CatalogError, Explain, SandboxProfile, Secret};

use crate::identity;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{printable, shell};
use crate::workbench::hidden;

/// How a project is compiled.
pub(crate) struct Compiling {
    pub(crate) mode: Mode,
    /// Whether what has changed elsewhere is accepted.
    pub(crate) update_lock: bool,
    pub(crate) asking: Asking,
}

/// Whether a program of the project may be started that was not approved before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// `--yes`.
    Yes,
    /// The person at the terminal is asked.
    Terminal,
    /// Nobody is there to ask.
    Never,
}

impl Asking {
    pub(crate) fn new(yes: bool, out: &Out) -> Self {
        let someone = stdin().is_terminal() && stderr().is_terminal() && !out.json;
        match (yes, someone) {
            (true, _) => Self::Yes,
            (false, true) => Self::Terminal,
            (false, false) => Self::Never,
        }
    }
}

/// Compiles a project as a command wants it.
pub(crate) async fn compile(
    directory: &Path,
    data_dir: &Path,
    how: &Compiling,
    out: &Out,
) -> Outcome<Compiled> {
    let options = Options {
        mode: how.mode,
        update_lock: how.update_lock,
        timeout: None,
        approvals: approvals_file(),
        environment: variables(),
        credentials: Some(Arc::new(Stored::within(data_dir, directory))),
        launch: Some(Arc::new(Launching(Sandbox::default().with_hidden(hidden(data_dir))))),
    };
    let watching = Watching { shown: out.shows_progress(), asked: Mutex::default() };
    Ok(weir_compiler::compile(directory, &Catalog::builtin()?, &options, &how.asking, &watching).await)
}

/// Compiles a project for a command that wants to use it and nothing else.
pub(crate) async fn quietly(directory: &Path) -> Result<Compiled, CatalogError> {
    let options = Options { mode: Mode::Offline, ..Options::check() };
    Ok(weir_compiler::compile(directory, &Catalog::builtin()?, &options, &Nobody, &()).await)
}

/// Where `env:NAME` is looked up; servers see only what the project declares for them. A variable that is no text cannot
/// be named in a spec either.
pub(crate) fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

pub(crate) fn approvals_file() -> Option<PathBuf> {
    let [state, home] = ["XDG_STATE_HOME", "HOME"].map(|name| std::env::var_os(name).map(PathBuf::from));
    weir_compiler::approvals_file(state.as_deref(), home.as_deref())
}

/// Starts programs that are to be confined.
#[derive(Debug)]
struct Launching(Sandbox);

impl Launch for Launching {
    fn prefix(&self, profile: SandboxProfile) -> Vec<String> {
        self.0.supervised_prefix(profile)
    }
}

/// What this user has stored with `weir auth add`, and nothing of what the project declares.
#[derive(Debug)]
struct Stored(weir_engine::Credentials);

impl Stored {
    fn within(data_dir: &Path, directory: &Path) -> Self {
        let places = Places { variables: variables(), directory: directory.to_owned() };
        let file = CredentialFile::within(data_dir);
        Self(weir_engine::Credentials::new(BTreeMap::new(), file, places, Redactor::default()))
    }
}

impl Credentials for Stored {
    fn header<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<(String, Secret)>, String>> {
        async move {
            let resolved = self.0.resolve(server, &identity::principal(), &[]).await;
            let resolved = resolved.map_err(|error| format!("{error}; {}", error.help()))?;
            Ok(resolved.map(|found| (found.header, found.value)))
        }
        .boxed()
    }
}

impl Approve for Asking {
    fn approve<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, bool> {
        async move {
            match self {
                Self::Yes => true,
                Self::Never => false,
                Self::Terminal => ask(command.clone()).await,
            }
        }
        .boxed()
    }
}

/// The package of `npx` or `uvx`, if no version is named.
fn unpinned(argv: &[String]) -> Option<&str> {
    let package = match argv {
        [npx, flag, package, ..] if npx == "npx" && flag == "-y" => package,
        [uvx, package, ..] if uvx == "uvx" => package,
        _ => return None,
    };
    // The name of a scope begins with the same sign.
    let name = package.get(1..).unwrap_or_default();
    (!name.contains('@') && !name.contains("==")).then_some(package)
}

/// Asks the person at the terminal; anything but yes is no.
async fn ask(command: Command) -> bool {
    let asked = tokio::task::spawn_blocking(move || {
        let words = command
            .argv
            .iter()
            .map(|word| shell(&printable(word)).into_owned())
            .collect::<Vec<_>>()
            .join(" ");
        let mut terminal = stderr().lock();
        let _ = writeln!(
            terminal,
            "`{}` is a program that this project wants to start:",
            printable(&command.server)
        );
        let _ = writeln!(terminal, "  {words}");
        for (name, from) in &command.env {
            let _ = writeln!(terminal, "  with {} from {}", printable(name), printable(&from.to_string()));
        }
        let rights = match command.sandbox {
            SandboxProfile::Off => {
                "with all rights of this user; `sandbox: full` in its entry would confine it"
            }
            SandboxProfile::Files => "confined to its own files and the network (`sandbox: files`)",
            SandboxProfile::Network => "with all files of this user, without network (`sandbox: network`)",
            SandboxProfile::Full => "confined to its own files, without network (`sandbox: full`)",
        };
        let _ = writeln!(terminal, "  {rights}");
        for code in command.covered().into_iter().flatten() {
            let (directory, files) = (printable(&code.directory), code.files);
            let _ = writeln!(
                terminal,
                "  with the code in `{directory}` ({files} files); a change of it is asked about again"
            );
        }
        if let Some(package) = unpinned(&command.argv) {
            let _ = writeln!(
                terminal,
                "  the newest version each time; `{}@VERSION` would be the same one",
                printable(package)
            );
        }
        let _ = write!(terminal, "Start it, now and in later builds of this project? [y/N] ");
        let _ = terminal.flush();
        let mut line = String::new();
        stdin().read_line(&mut line).is_ok() && matches!(line.trim(), "y" | "Y" | "yes" | "Yes")
    });
    asked.await.unwrap_or(false)
}

/// A line on the terminal that says which servers are still to answer.
struct Watching {
    shown: bool,
    asked: Mutex<BTreeSet<String>>,
}

impl Progress for Watching {
    fn on(&self, event: Event<'_>) {
        if !self.shown {
            return;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Asking { server } => drop(asked.insert(server.to_owned())),
            Event::Answered { server, .. } => drop(asked.remove(server)),
            Event::Fetching { skill } => {
                let _ = write!(stderr(), "\r\x1b[2Kfetching {}", printable(skill));
                return;
            }
        }
        let line = match asked.first() {
            None => String::new(),
            Some(only) if asked.len() == 1 => format!("asking {}", printable(only)),
            Some(first) => format!("asking {} and {} more", printable(first), asked.len() - 1),
        };
        let _ = write!(stderr(), "\r\x1b[2K{line}");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}
