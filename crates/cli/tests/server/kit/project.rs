//! A project in a directory of its own, and the commands that are run in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, mpsc};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::DEADLINE;
use super::server::{Plan, Server};

/// What the usual project consists of. Its agents:
///
/// - `helper` answers `weather in CITY` with a tool call (and thinks first), `slow` in small pieces with pauses, `overload` on
///   its second attempt, `fail` never; everything else with `You said: …`.
/// - `careful` answers `refund N` with a call that needs an approval.
/// - `boss` asks `helper` about everything.
/// - `echo` repeats what it hears; only admins may talk to it.
///
/// `user:alice` and `user:bob` may talk to the first three, and use their tools.
const FILES: &[(&str, &str)] = &[
    ("weir.yaml", include_str!("project/weir.yaml")),
    ("agents/helper/spec.yaml", include_str!("project/helper.yaml")),
    ("agents/careful/spec.yaml", include_str!("project/careful.yaml")),
    ("agents/boss/spec.yaml", include_str!("project/boss.yaml")),
    ("agents/echo/spec.yaml", include_str!("project/echo.yaml")),
    ("models/helper.yaml", include_str!("project/helper-model.yaml")),
    ("models/careful.yaml", include_str!("project/careful-model.yaml")),
    ("models/boss.yaml", include_str!("project/boss-model.yaml")),
    ("tools/weather.ts", include_str!("project/weather.ts")),
    ("tools/refund.ts", include_str!("project/refund.ts")),
];

/// A project. Clones are the same one; its directory goes with the last of them, and of its servers.
#[derive(Clone)]
pub(crate) struct Project {
    directory: Arc<TempDir>,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Project {
    /// The usual project, built.
    pub(crate) fn new() -> Self {
        let project = Self::empty();
        for (name, text) in FILES {
            project.write(name, text);
        }
        project.build();
        project
    }

    /// A directory without anything in it.
    pub(crate) fn empty() -> Self {
        Self { directory: Arc::new(tempfile::tempdir().unwrap()) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".weir")
    }

    /// Writes a file of it, with the directories it needs.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Builds it, and returns the hash of the manifest.
    pub(crate) fn build(&self) -> String {
        self.json(&["build"])["manifest"].as_str().unwrap().to_owned()
    }

    /// The binary, with an environment that does not depend on who runs the tests.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.current_dir(self.path()).stdin(Stdio::null());
        for variable in
            ["WEIR_DATA_DIR", "WEIR_PROJECT", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "PORT", "LOG_LEVEL"]
        {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Ran {
        self.command().args(args).output().unwrap().into()
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn ok(&self, args: &[impl AsRef<OsStr> + std::fmt::Debug]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        ran.stdout
    }

    /// The document that a successful command prints.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// What a successful command prints as one object a line.
    pub(crate) fn lines(&self, args: &[&str]) -> Vec<Value> {
        let text = self.ok(&[args, &["--json"]].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// All events of a session, as the journal has them.
    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        self.lines(&["cat", "--stream", &format!("session:{session}")])
    }

    /// A server of this project, to be started: the latest build, on a port that the system chooses, writing for real.
    pub(crate) fn serve(&self) -> Serving {
        let args = ["serve", "--live-writes", "--manifest", "latest"].map(str::to_owned).to_vec();
        Serving { project: self.clone(), plan: Plan { args, variables: Vec::new(), port: 0 } }
    }

    /// `weir` with these words instead, to which `--port` and `--json` are added.
    pub(crate) fn serve_as(&self, args: &[&str]) -> Serving {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Serving { project: self.clone(), plan: Plan { args, variables: Vec::new(), port: 0 } }
    }
}

/// A server that is about to start.
pub(crate) struct Serving {
    project: Project,
    plan: Plan,
}

impl Serving {
    /// With one more word on its command line.
    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.plan.args.push(arg.to_owned());
        self
    }

    /// With a variable in its environment.
    pub(crate) fn env(self, name: &str, value: &str) -> Self {
        self.env_os(name, value.as_ref())
    }

    /// With a variable that need not be text.
    pub(crate) fn env_os(mut self, name: &str, value: &OsStr) -> Self {
        self.plan.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// On this port.
    pub(crate) fn port(mut self, port: u16) -> Self {
        self.plan.port = port;
        self
    }

    /// Starts it, and waits until it listens.
    pub(crate) async fn start(self) -> Server {
        Server::start(self.project, self.plan).await
    }

    /// A server that must refuse to start; what it said.
    pub(crate) fn refused(self) -> Ran {
        let mut command = self.plan.command(&self.project);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
        let ran: Ran = match ended.recv_timeout(DEADLINE) {
            Ok(output) => output.into(),
            Err(_) => {
                kill_process(pid, Signal::KILL).unwrap();
                panic!("it did not refuse: {:?}", ended.recv());
            }
        };
        assert_ne!(ran.code, 0, "it did not refuse: {}", ran.stderr);
        ran
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
