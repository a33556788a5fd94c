//! The real binary on a data directory of its own, and what it said.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory to run `weir` in; its data is in `.weir` there.
pub(crate) struct Weir {
    directory: TempDir,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Weir {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// A journal with three events on `notes@main` and one on a fork at 2.
    pub(crate) fn with_notes() -> Self {
        let weir = Self::new();
        for n in 1..=3 {
            weir.ok(&[
                "append",
                "--stream",
                "notes",
                "--kind",
                "note.added",
                "--payload",
                &format!("{{\"n\":{n}}}"),
            ]);
        }
        weir.ok(&["branch", "fork", "--stream", "notes", "--at", "2", "--name", "draft"]);
        weir.ok(&["append", "--stream", "notes", "--branch", "draft", "--kind", "note.edited"]);
        weir
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Puts a file there, with the directories it needs.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".weir")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.data().join("journal.db")
    }

    /// The binary, with an environment that does not depend on who runs the tests.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.current_dir(self.path()).stdin(Stdio::null());
        for variable in
            ["WEIR_DATA_DIR", "WEIR_PROJECT", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LOG_LEVEL"]
        {
            command.env_remove(variable);
        }
        command.env("TZ", "UTC");
        command
    }

    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Ran {
        Ran::from(self.command().args(args).output().unwrap())
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &[u8]) -> Ran {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let content = stdin.to_owned();
        // A command that refuses its input closes the pipe early: that is its right.
        let writer = std::thread::spawn(move || drop(pipe.write_all(&content)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran::from(output)
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn ok(&self, args: &[impl AsRef<OsStr>]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    }

    /// The document that a successful command prints with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The error that a failing command prints with `--json`: exit code, code, message and help.
    pub(crate) fn error(&self, args: &[&str]) -> (i32, String) {
        self.run(&[args, &["--json"]].concat()).error()
    }

    /// A run as a snapshot: the exit code and both streams, without what differs from run to run.
    pub(crate) fn show(&self, args: &[&str]) -> String {
        self.mask(&self.run(args).to_string())
    }

    /// Replaces ids, times, hashes, sizes of files and directories.
    pub(crate) fn mask(&self, text: &str) -> String {
        mask(&text.replace(&*self.path().to_string_lossy(), "[dir]"))
    }
}

impl Ran {
    /// Exit code and error code of a failure told as JSON, which must be complete.
    pub(crate) fn error(&self) -> (i32, String) {
        let document: serde_json::Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {}", self.stderr));
        let error = &document["error"];
        for field in ["code", "message", "help"] {
            assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {document}");
        }
        (self.code, error["code"].as_str().unwrap().to_owned())
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, stdout, stderr } = self;
        write!(f, "exit {code}")?;
        for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
            if !text.is_empty() {
                write!(f, "\n-- {name}\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

/// Words that differ from run to run, by their shape.
pub(crate) fn mask(text: &str) -> String {
    let mut masked = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || "-:.".contains(c) {
            word.push(c);
            continue;
        }
        masked.push_str(mask_word(&word).unwrap_or(&word));
        masked.push(c);
        word.clear();
    }
    masked.pop();
    masked
}

fn mask_word(word: &str) -> Option<&'static str> {
    let all = |test: fn(char) -> bool| word.chars().all(test);
    let is_time =
        word.len() == 27 && word.ends_with('Z') && word.as_bytes()[10] == b'T' && word.starts_with("20");
    match word.len() {
        26 if all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) => Some("[id]"),
        64 if all(|c| c.is_ascii_hexdigit()) => Some("[hash]"),
        27 if is_time => Some("[time]"),
        _ if word.starts_with("user:") => Some("[actor]"),
        _ if word.ends_with(".part") || word.ends_with(".tmp") => Some("[temporary]"),
        _ => None,
    }
}
