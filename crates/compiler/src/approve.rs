//! Which commands this user has allowed on this machine.
//!
//! A project says which servers it needs; whether they are started is not for the project to say. The answer is kept
//! outside of it, for this directory, these words, these variables and, for a program of the project, this content and the code in its directory:
//! a project that changes any of them is asked about again.

mod tree;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use weir_spec::{PRE_APPEND, SecretRef, canonical};
use weir_support::new_file;
use weir_types::{Hash, Hasher, SandboxProfile};

pub use tree::CoveredCode;

/// A command that a project wants started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The server's address, as the spec has it.
    pub server: String,
    /// The project's directory.
    pub directory: PathBuf,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The variables it is given, and where their values come from.
    pub env: BTreeMap<String, SecretRef>,
    /// How it is confined.
    pub sandbox: SandboxProfile,
}

/// Somebody who is asked before a command is started for the first time.
pub trait Approve: Send + Sync {
    /// Whether the command may be started, now and from now on.
    fn approve<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, bool>;
}

/// Nobody is there to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Approve for Nobody {
    fn approve<'a>(&'a self, _command: &'a Command) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// Why a command may not be started on this machine, and what would allow it; nothing, if it may. Blocks.
pub fn refusal(command: &Command, approvals: Option<&Path>) -> Option<String> {
    const HELP: &str = "approve it with `weir build` in a terminal or with `weir build --yes`";
    let words = command.argv.join(" ");
    let key = match key(command) {
        Ok(key) => key,
        Err(error) => return Some(format!("`{words}` cannot be read: {error}")),
    };
    match approvals.map(Approvals::load).transpose() {
        Ok(known) if known.as_ref().is_some_and(|known| known.contains(key)) => None,
        Ok(known) => Some(format!("{}; {HELP}", known.unwrap_or_default().why_not(command))),
        Err(error) => Some(format!("your approvals cannot be used: {error}")),
    }
}

/// Where approvals are kept, given `$XDG_STATE_HOME` and `$HOME`.
pub fn approvals_file(state_home: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let absolute = state_home.filter(|path| path.is_absolute()).map(Path::to_owned);
    let state = absolute.or_else(|| Some(home?.join(".local/state")))?;
    Some(state.join("weir/approved.json"))
}

/// What identifies a command, and what it would run.
#[derive(Serialize)]
struct Subject<'c> {
    directory: String,
    argv: &'c [String],
    env: &'c BTreeMap<String, SecretRef>,
    /// The content of every file of the project that it would run.
    programs: BTreeMap<&'c String, Hash>,
    /// The code in the directories of those.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    code: BTreeMap<String, Hash>,
    /// How it is confined, if at all: so approvals that are older than profiles stay.
    #[serde(skip_serializing_if = "SandboxProfile::is_off")]
    sandbox: SandboxProfile,
}

impl Command {
    /// The code of the project that an approval of it covers, by directory. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or is too much.
    pub fn covered(&self) -> io::Result<Vec<CoveredCode>> {
        let mut covered: BTreeMap<PathBuf, CoveredCode> = BTreeMap::new();
        for file in self.files() {
            let program = Path::new(file);
            let directory = program.parent().unwrap_or(Path::new("")).to_owned();
            if let std::collections::btree_map::Entry::Vacant(place) = covered.entry(directory) {
                place.insert(tree::beside(&self.directory, program)?);
            }
        }
        Ok(covered.into_values().collect())
    }

    /// The files of the project that it would run.
    fn files(&self) -> Vec<&String> {
        let own = self.argv.first().filter(|program| program.starts_with("./"));
        // What prints a secret is a program as well, and so may be what that is given: `exec:sh ./secret.sh`.
        let printing = self.env.values().filter_map(|reference| match reference {
            SecretRef::Exec(argv) => Some(argv),
            SecretRef::Env(_) | SecretRef::File(_) => None,
        });
        // What a hook is given may be the hook itself: `sh ./check.sh`. A server may as well be given data that changes.
        let given = self.argv.iter().skip(1).filter(|_| self.server == PRE_APPEND);
        let words = printing.flatten().chain(given).filter(|word| self.directory.join(word).is_file());
        own.into_iter().chain(words).collect()
    }
}

/// The commands that were allowed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Approvals {
    version: u32,
    approved: BTreeMap<Hash, Entry>,
}

/// For whoever reads the file; what counts is the key.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    directory: String,
    command: String,
    /// How many files of code it covers. An entry without it was written when an approval covered the program's own file alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<usize>,
    #[serde(default, skip_serializing_if = "SandboxProfile::is_off")]
    sandbox: SandboxProfile,
}

impl Approvals {
    const VERSION: u32 = 1;
    const BYTES_MAX: u64 = 16 * 1024 * 1024;

    /// What was allowed so far. A file that others could have written allows nothing.
    pub(crate) fn load(file: &Path) -> io::Result<Self> {
        let mut text = String::new();
        let opened = match File::open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        if opened.metadata()?.permissions().mode() & 0o022 != 0 {
            return Err(io::Error::other("others may write it"));
        }
        opened.take(Self::BYTES_MAX).read_to_string(&mut text)?;
        let read: Self = serde_json::from_str(&text).map_err(|_| io::Error::other("it is damaged"))?;
        if read.version != Self::VERSION {
            return Err(io::Error::other("it was written by another version of weir"));
        }
        Ok(read)
    }

    pub(crate) fn contains(&self, key: Hash) -> bool {
        self.approved.contains_key(&key)
    }

    /// Why a command that was not allowed is not: it is new, or it has changed, or what an approval covers has.
    pub(crate) fn why_not(&self, command: &Command) -> String {
        let (directory, words) = (command.directory.display().to_string(), command.argv.join(" "));
        let mut same = self
            .approved
            .values()
            .filter(|entry| entry.directory == directory && entry.command == words)
            .peekable();
        let has_files = !command.files().is_empty();
        let other = same
            .clone()
            .map(|entry| entry.sandbox)
            .max()
            .filter(|_| same.clone().all(|entry| entry.sandbox != command.sandbox));
        if same.peek().is_none() {
            format!("`{words}` was never approved on this machine")
        } else if let Some(other) = other {
            let [other, now] = [other, command.sandbox].map(SandboxProfile::as_str);
            format!(
                "`{words}` was approved on this machine with `sandbox: {other}`, and it now has `sandbox: {now}`"
            )
        } else if has_files && same.all(|entry| entry.files.is_none()) {
            format!(
                "`{words}` was approved by an earlier version of weir, which looked at its own file alone; an approval now covers the code in its directory"
            )
        } else if has_files {
            format!(
                "`{words}` has changed since it was approved on this machine, or code in its directory has"
            )
        } else {
            format!("`{words}` has changed since it was approved on this machine")
        }
    }

    /// Allows a command from now on.
    pub(crate) fn add(file: &Path, key: Hash, command: &Command) -> io::Result<()> {
        // Read again: another build may have added its own in the meantime.
        let mut approvals = Self::load(file).unwrap_or_default();
        approvals.version = Self::VERSION;
        let directory = command.directory.display().to_string();
        let covered = command.covered()?;
        let files = (!covered.is_empty()).then(|| covered.iter().map(|code| code.files).sum());
        approvals.approved.insert(
            key,
            Entry { directory, command: command.argv.join(" "), files, sandbox: command.sandbox },
        );
        let parent = file.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        new_file::write(file, &serde_json::to_vec_pretty(&approvals)?, 0o600)
    }
}

/// What identifies a command.
pub(crate) fn key(command: &Command) -> io::Result<Hash> {
    let mut programs = BTreeMap::new();
    for file in command.files() {
        programs.insert(file, content(&command.directory.join(file))?);
    }
    let code = command.covered()?.into_iter().map(|code| (code.directory, code.hash)).collect();
    let directory = command.directory.display().to_string();
    let Command { argv, env, sandbox, .. } = command;
    let subject = Subject { directory, argv, env, programs, code, sandbox: *sandbox };
    canonical::hash(&subject).map_err(io::Error::other)
}

fn content(program: &Path) -> io::Result<Hash> {
    let mut file = File::open(program)?;
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(directory: &Path) -> Command {
        let argv = vec!["./server".to_owned(), "a".to_owned()];
        let env = BTreeMap::from([("A".to_owned(), SecretRef::Env("A".to_owned()))]);
        Command {
            server: "mcp://./server?arg=a".to_owned(),
            directory: directory.to_owned(),
            argv,
            env,
            sandbox: SandboxProfile::Off,
        }
    }

    #[test]
    fn an_approval_is_for_this_command_here_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/weir/approved.json");
        std::fs::write(directory.path().join("server"), "one").unwrap();
        let command = command(directory.path());
        let approved = key(&command).unwrap();
        assert!(!Approvals::load(&file).unwrap().contains(approved));
        Approvals::add(&file, approved, &command).unwrap();
        assert!(Approvals::load(&file).unwrap().contains(approved));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let other_words = Command { argv: vec!["./server".to_owned(), "b".to_owned()], ..command.clone() };
        let other_env = Command {
            env: BTreeMap::from([("A".to_owned(), SecretRef::File("/etc/shadow".to_owned()))]),
            ..command.clone()
        };
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("server"), "one").unwrap();
        let other_place = Command { directory: elsewhere.path().to_owned(), ..command.clone() };
        let confined = Command { sandbox: SandboxProfile::Full, ..command.clone() };
        for other in [other_words, other_env, other_place, confined] {
            assert!(!Approvals::load(&file).unwrap().contains(key(&other).unwrap()), "{other:?}");
        }
        std::fs::write(directory.path().join("server"), "two").unwrap();
        assert!(!Approvals::load(&file).unwrap().contains(key(&command).unwrap()));
    }

    /// What was allowed before approvals covered directories is asked about once more, with the reason. What has no file of the project is not.
    #[test]
    fn older_approvals_are_asked_about_once_more() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("approved.json");
        std::fs::write(directory.path().join("server"), "one").unwrap();
        let command = command(directory.path());
        let package = Command { argv: ["npx", "-y", "p"].map(str::to_owned).to_vec(), ..command.clone() };
        // As it was computed then.
        let older = |command: &Command| {
            let programs: BTreeMap<&String, Hash> = command
                .files()
                .into_iter()
                .map(|file| (file, content(&command.directory.join(file)).unwrap()))
                .collect();
            let directory = command.directory.display().to_string();
            let subject = Subject {
                directory,
                argv: &command.argv,
                env: &command.env,
                programs,
                code: BTreeMap::new(),
                sandbox: command.sandbox,
            };
            canonical::hash(&subject).unwrap()
        };
        let entry = |command: &Command| serde_json::json!({"directory": command.directory.display().to_string(), "command": command.argv.join(" ")});
        let approved = serde_json::json!({older(&command).to_string(): entry(&command), older(&package).to_string(): entry(&package)});
        let text = serde_json::json!({"version": 1, "approved": approved}).to_string();
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(refusal(&package, Some(&file)), None);
        let why = refusal(&command, Some(&file)).unwrap();
        assert!(
            why.contains("approved by an earlier version of weir") && why.contains("`weir build --yes`"),
            "{why}"
        );
        Approvals::add(&file, key(&command).unwrap(), &command).unwrap();
        assert_eq!((refusal(&command, Some(&file)), refusal(&package, Some(&file))), (None, None));
        std::fs::write(directory.path().join("helper.py"), "").unwrap();
        let why = refusal(&command, Some(&file)).unwrap();
        assert!(why.contains("or code in its directory has"), "{why}");
    }

    #[test]
    fn a_file_that_others_can_write_allows_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("approved.json");
        std::fs::write(directory.path().join("server"), "one").unwrap();
        let command = command(directory.path());
        Approvals::add(&file, key(&command).unwrap(), &command).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(Approvals::load(&file).unwrap_err().to_string(), "others may write it");
        std::fs::write(&file, "{").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Approvals::load(&file).unwrap_err().to_string(), "it is damaged");
    }

    #[test]
    fn approvals_are_with_the_users_state() {
        let file = |state: Option<&str>, home: Option<&str>| {
            approvals_file(state.map(Path::new), home.map(Path::new)).map(|file| file.display().to_string())
        };
        assert_eq!(file(Some("/s"), Some("/h")).as_deref(), Some("/s/weir/approved.json"));
        assert_eq!(file(Some("relative"), Some("/h")).as_deref(), Some("/h/.local/state/weir/approved.json"));
        assert_eq!(file(None, Some("/h")).as_deref(), Some("/h/.local/state/weir/approved.json"));
        assert_eq!(file(None, None), None);
    }
}
