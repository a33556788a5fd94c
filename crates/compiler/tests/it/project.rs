//! A project in a directory of its own, and how to build it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use weir_compiler::{Approve, Command, Compiled, Mode, Options, compile};
use weir_spec::Diagnostic;
use weir_types::Catalog;

/// An agent that needs nothing.
pub(crate) const HELPER: (&str, &str) =
    ("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\ndescription: Helps.\n");

/// A project on the disk. Beside it is the state of the user who builds it.
pub(crate) struct Project {
    place: TempDir,
    /// How often somebody was asked whether a command may start, and what was answered.
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) says_yes: bool,
}

impl Project {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let project = Self { place: tempfile::tempdir().unwrap(), asked: Mutex::default(), says_yes: true };
        std::fs::create_dir(project.path()).unwrap();
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.place.path().join("project")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.file(".weir")
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    /// Writes a file; a program, if it begins like one.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let (place, content) = (self.file(path), content.as_ref());
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        if content.starts_with(b"#!") {
            write_program(&place, content);
        } else {
            std::fs::write(&place, content).unwrap();
        }
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.file(path)).unwrap()
    }

    pub(crate) fn options(&self, mode: Mode) -> Options {
        let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        let approvals = Some(self.place.path().join("state/approved.json"));
        Options { mode, approvals, environment, ..Options::check() }
    }

    pub(crate) async fn build_with(&self, options: &Options) -> Compiled {
        compile(&self.path(), &Catalog::builtin().unwrap(), options, self, &()).await
    }

    pub(crate) async fn build(&self, mode: Mode) -> Compiled {
        self.build_with(&self.options(mode)).await
    }

    /// Builds and keeps it. There must be nothing wrong with it.
    pub(crate) async fn build_and_save(&self) -> Compiled {
        let compiled = self.build(Mode::Online).await;
        assert_eq!(compiled.diagnostics, []);
        weir_compiler::save(&self.path(), &self.data_dir(), &compiled).unwrap();
        compiled
    }

    /// `weir lock --update`.
    pub(crate) async fn update_lock(&self) -> Compiled {
        let compiled = self.build_with(&Options { update_lock: true, ..self.options(Mode::Online) }).await;
        assert_eq!(compiled.diagnostics, []);
        weir_compiler::save(&self.path(), &self.data_dir(), &compiled).unwrap();
        compiled
    }
}

/// Writes a program from another process. A process that is started by another test at the same moment would inherit our
/// open file, and nobody can start a program that somebody may still be writing.
fn write_program(place: &Path, content: &[u8]) {
    let script = "rm -f \"$0\" && cat > \"$0\" && chmod 755 \"$0\"";
    let mut shell = std::process::Command::new("sh");
    let mut shell = shell.arg("-c").arg(script).arg(place).stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(content).unwrap();
    assert!(shell.wait().unwrap().success());
}

impl Approve for Project {
    fn approve<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, bool> {
        self.asked.lock().unwrap().push(command.argv.join(" "));
        Box::pin(std::future::ready(self.says_yes))
    }
}

/// `code file:line message` of each problem.
pub(crate) fn told(compiled: &Compiled) -> Vec<String> {
    let line = |each: &Diagnostic| format!("{} {}:{} {}", each.code, each.file, each.span.line, each.message);
    compiled.diagnostics.iter().map(line).collect()
}

/// A server in a shell script that lists these tools, written as JSON.
pub(crate) fn server(tools: &str) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}}"#;
    let list = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":{tools}}}}}"#);
    format!(
        "#!/bin/sh\nread -r line\ncat <<'E'\n{hello}\nE\nread -r line\nread -r line\ncat <<'E'\n{list}\nE\nread -r line\n"
    )
}

/// Every file below a directory, with its content.
pub(crate) fn everything_below(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(place) = waiting.pop() {
        for entry in std::fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().display().to_string();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}
