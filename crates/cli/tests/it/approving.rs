//! Programs that a project wants started: asked about, remembered, and never started unasked.

use insta::assert_snapshot;
use tempfile::TempDir;

use crate::typed::Terminal;
use crate::weir::{Ran, Weir};

/// A server with one tool; starting it leaves a trace.
const SERVER: &str = r#"#!/bin/sh
: > started
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}\n' "$id" ;;
  *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"look","description":"Looks around.","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
  esac
done
"#;

/// A project with a server of its own, and a home in which approvals are kept.
struct Project {
    weir: Weir,
    home: TempDir,
}

impl Project {
    fn new() -> Self {
        let weir = Weir::new();
        weir.write(
            "agents/scout/spec.yaml",
            "name: scout\nmodel: offline/echo\ntools:\n  - { server: \"mcp://./server.sh\", access: read }\n",
        );
        let project = Self { weir, home: tempfile::tempdir().unwrap() };
        project.serve(SERVER);
        project
    }

    /// Writes the server. Another process does it: a child that this one starts at the same moment would hold the file
    /// open for writing, and nobody could run it.
    fn serve(&self, text: &str) {
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-ec", "printf '%s' \"$TEXT\" > server.sh; chmod 755 server.sh"]).env("TEXT", text);
        assert!(shell.current_dir(self.weir.path()).status().unwrap().success());
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.weir.command();
        command.args(args).env_remove("XDG_STATE_HOME").env("HOME", self.home.path());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Whether the server has run since the last look.
    fn started(&self) -> bool {
        std::fs::remove_file(self.weir.path().join("started")).is_ok()
    }

    /// Builds on a terminal and answers its question.
    fn answer(&self, keys: &str) -> Option<i32> {
        let mut terminal = Terminal::run(self.command(&["build"]));
        terminal.see("[y/N] ");
        terminal.press(keys);
        terminal.end()
    }
}

#[test]
fn a_program_is_started_only_after_somebody_said_yes() {
    let project = Project::new();
    assert_snapshot!(project.run(&["build"]).to_string(), @r#"
    exit 2
    -- stderr
    error[build::not-approved]: `./server.sh` was never approved on this machine
       ╭─[agents/scout/spec.yaml:4:15]
     3 │ tools:
     4 │   - { server: "mcp://./server.sh", access: read }
       ·               ───────────────────
       ╰────
    help: approve it with `weir build` in a terminal or with `weir build --yes`; `weir build --offline` starts nothing
    "#);
    for args in [&["check"][..], &["build", "--offline"], &["chat", "scout", "-m", "hello"]] {
        assert_eq!(project.run(args).code, 2, "{args:?}");
    }
    assert_eq!(project.answer("\r"), Some(2));
    assert_eq!(project.answer("n\r"), Some(2));
    assert!(!project.started());

    assert_eq!(project.answer("y\r"), Some(0));
    assert!(project.started());
    // It is remembered, for this program and for no other.
    assert_eq!(project.run(&["build"]).code, 0);
    assert!(project.started());
    project.serve(&format!("{SERVER}# changed\n"));
    assert_eq!(project.run(&["build"]).code, 2);
    assert!(!project.started());
    // What the lock says is enough where nothing is started.
    assert_eq!(project.run(&["build", "--offline"]).code, 0);
    assert_eq!(project.run(&["check"]).code, 0);
    assert!(!project.started());
}

#[test]
fn a_cloned_project_starts_nothing_although_its_lock_names_the_program() {
    let project = Project::new();
    assert_eq!(project.run(&["build", "--yes"]).code, 0);
    assert!(project.started());
    let clone = Project::new();
    std::fs::copy(project.weir.path().join("weir.lock"), clone.weir.path().join("weir.lock")).unwrap();
    assert_eq!(clone.run(&["build"]).code, 2);
    // Not even where the same words were approved: they name another program there.
    let elsewhere = Project { weir: clone.weir, home: project.home };
    assert_eq!(elsewhere.run(&["build"]).code, 2);
    assert!(!elsewhere.started());
}

#[test]
fn a_tool_that_has_changed_is_shown_and_accepted_by_command() {
    let project = Project::new();
    assert_snapshot!(project.weir.mask(&project.run(&["build", "--yes"]).to_string()), @"
    exit 0
    -- stdout
    ✓ built 1 agent, 1 tool source (2.1 KB)
      [hash]
    -- stderr
    weir.lock has changed: commit it with the project
    ");
    project.serve(&SERVER.replace("Looks around.", "Looks around, and writes."));
    assert_snapshot!(project.run(&["build", "--yes"]).to_string(), @r#"
    exit 2
    -- stderr
    error[build::drift]: `mcp://./server.sh` is not what weir.lock says: `look`: `description` was "Looks around.", is now "Looks around, and writes."
       ╭─[agents/scout/spec.yaml:4:15]
     3 │ tools:
     4 │   - { server: "mcp://./server.sh", access: read }
       ·               ─────────┬─────────
       ·                        ╰── if you accept that, run `weir lock --update`
       ╰────
    note: `look`: `description` was "Looks around.", is now "Looks around, and writes.": weir.lock:13:19
    "#);
    assert_snapshot!(project.weir.mask(&project.run(&["lock", "--update"]).to_string()), @"
    exit 0
    -- stdout
    ✓ built 1 agent, 1 tool source (2.1 KB)
      [hash]
    -- stderr
    weir.lock has changed: commit it with the project
    ");
    assert_eq!(project.run(&["build"]).code, 0);
    let lock = project.weir.path().join("weir.lock");
    let edited = std::fs::read_to_string(&lock).unwrap().replace("and writes", "and reads");
    std::fs::write(&lock, edited).unwrap();
    assert_snapshot!(project.weir.mask(&project.run(&["build", "--offline"]).to_string()), @r#"
    exit 2
    -- stderr
    error[build::lock-edited]: the pin of `look` does not fit its own definition: somebody edited it
        ╭─[weir.lock:13:19]
     12 │           },
     13 │           "hash": "sha256:19f4663c1818d25953234ab166d2ddb260f64c8dc74609157c2fdc24af989908"
        ·                   ────────────────────────────────────────────────────────────
        ╰────
    help: restore weir.lock from version control, or make it anew with `weir lock --update`
    "#);
}
