//! Servers that others wrote, as a project uses them: `mcp://npx/…`, `mcp://uvx/…`, a program of the project, and one behind HTTP, through
//! the real binary from `weir build` to the call. `cargo xtask test` installs them and then starts this; no other run does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than any healthy machine needs to start an interpreter.
const PLENTY: Duration = Duration::from_secs(120);

/// Pinned like the other packages, in `xtask`.
const TIME: &str = "mcp://uvx/mcp-server-time@2026.10.19";

/// Where `cargo xtask` put everything.
fn tools() -> PathBuf {
    std::env::var_os("WEIR_TEST_MCP_TOOLS")
        .expect("`cargo xtask test` installs the servers and sets this")
        .into()
}

/// A project whose packages are installed: nothing is downloaded when they are started.
struct Project {
    directory: TempDir,
    home: TempDir,
}

impl Project {
    /// An agent with these tools, as its spec lists them.
    fn new(entries: &[&str], replies: &Value) -> Self {
        let project = Self { directory: tempfile::tempdir().unwrap(), home: tempfile::tempdir().unwrap() };
        std::os::unix::fs::symlink(tools().join("node_modules"), project.file("node_modules")).unwrap();
        let entries: String = entries.iter().map(|entry| format!("  - {{ {entry} }}\n")).collect();
        project
            .write("agents/user/spec.yaml", &format!("name: user\nmodel: scripted/user\ntools:\n{entries}"));
        project.write("models/user.yaml", &json!({"replies": replies}).to_string());
        project
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        std::fs::write(self.file(name), content).unwrap();
    }

    /// What a command prints to its two streams, and its exit code.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let path = format!("{}:{}", tools().join("python/bin").display(), std::env::var("PATH").unwrap());
        command.args(args).current_dir(self.directory.path()).stdin(Stdio::null());
        command.env_remove("WEIR_DATA_DIR").env_remove("XDG_STATE_HOME").env("HOME", self.home.path());
        command.env("PATH", path).env("UV_CACHE_DIR", tools().join("uv")).env("UV_OFFLINE", "1");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn ok(&self, args: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
        stdout
    }

    /// Calls a tool; what it prints, or the error.
    fn call(&self, tool: &str, input: &Value, more: &[&str]) -> String {
        let input = input.to_string();
        let (_, stdout, stderr) = self.run(&[&["tools", "call", "user", tool, &input], more].concat());
        stdout + &stderr
    }
}

#[test]
fn a_server_of_npx_reads_and_writes_only_what_it_may() {
    let server = "server: \"mcp://npx/@modelcontextprotocol/server-filesystem?arg=./docs\"";
    let replies = json!([
        {"when": {"user": "read"}, "call": [{"tool": "read_text_file", "input": {"path": "notes.txt"}}]},
        {"when": {"tool": "read_text_file"}, "say": "It says: {{result}}"},
        {"say": "Done."},
    ]);
    let project = Project::new(&[&format!("{server}, access: write")], &replies);
    project.write("docs/notes.txt", "a low dam\n");
    project.write("elsewhere.txt", "not yours\n");
    // It is a program, and starts when its user says so.
    let (code, _, stderr) = project.run(&["build"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("was never approved on this machine"), "{stderr}");
    project.ok(&["build", "--yes"]);
    let listed = project.ok(&["tools", "list", "user"]);
    let write = listed.lines().find(|line| line.starts_with("write_file ")).unwrap();
    assert!(write.contains("write   write   high") && write.contains("stubbed"), "{write}");

    let path = |name: &str| project.file(name).display().to_string();
    let input = json!({"path": path("docs/new.txt"), "content": "new"});
    assert!(project.call("write_file", &input, &[]).contains("DRY RUN: nothing happened"));
    assert!(!project.file("docs/new.txt").exists());
    let written = project.call("write_file", &input, &["--live-writes=write_file"]);
    assert!(written.contains("Successfully wrote"), "{written}");
    assert_eq!(std::fs::read_to_string(project.file("docs/new.txt")).unwrap(), "new");
    let outside = project.call("read_text_file", &json!({"path": path("elsewhere.txt")}), &["--live-writes"]);
    assert!(outside.contains("Access denied"), "{outside}");

    // The author knows that these only look: then a chat needs no flag.
    let only = format!("{server}, access: read, effect: read, only: [read_text_file]");
    project.write(
        "agents/user/spec.yaml",
        &format!("name: user\nmodel: scripted/user\ntools:\n  - {{ {only} }}\n"),
    );
    project.ok(&["build"]);
    assert_eq!(project.ok(&["chat", "user", "-m", "read"]), "It says: a low dam\n");
}

#[test]
fn the_reference_server_answers_through_the_gate_over_npx_and_over_http() {
    let http = Listening::start();
    for server in ["mcp://npx/@modelcontextprotocol/server-everything", &http.address()] {
        let project =
            Project::new(&[&format!("server: \"{server}\", access: read")], &json!([{"say": "Done."}]));
        project.ok(&["build", "--yes"]);
        assert_eq!(project.call("echo", &json!({"message": "grüße"}), &[]), "Echo: grüße\n", "{server}");
        let unfit = project.call("get-sum", &json!({"a": "two"}), &[]);
        assert!(unfit.contains("schema: the arguments do not fit"), "{unfit}");
        let image = project.call("get-tiny-image", &json!({}), &[]);
        assert!(image.contains("[image: image/png]"), "{image}");
        if server != http.address() {
            // What it was given of our environment: what it needs to start, and nothing else.
            let given = project.call("get-env", &json!({}), &["--json"]);
            assert!(given.contains("PATH") && !given.contains("UV_OFFLINE"), "{given}");
        }
    }
}

#[test]
fn a_server_of_uvx_tells_the_time() {
    let variables = "env: { UV_CACHE_DIR: \"env:UV_CACHE_DIR\", UV_OFFLINE: \"env:UV_OFFLINE\" }";
    let entry = format!("server: \"{TIME}\", access: read, {variables}");
    let project = Project::new(&[&entry], &json!([{"say": "Done."}]));
    project.ok(&["build", "--yes"]);
    let told = project.call("get_current_time", &json!({"timezone": "Europe/Lisbon"}), &[]);
    assert!(told.contains(r#""timezone": "Europe/Lisbon""#), "{told}");
    let odd = project.call("get_current_time", &json!({"timezone": "Europe/Atlantis"}), &[]);
    assert!(odd.contains("error: `get_current_time` failed (tool)"), "{odd}");
}

#[test]
fn a_server_of_the_python_sdk_is_a_program_of_the_project() {
    let project =
        Project::new(&["server: \"mcp://./servers/python.sh\", access: read"], &json!([{"say": "Done."}]));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/real_mcp/server.py");
    let python = tools().join("python/bin/python");
    project.write(
        "servers/python.sh",
        &format!("#!/bin/sh\nexec {} {} stdio\n", python.display(), source.display()),
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(project.file("servers/python.sh"), mode).unwrap();
    project.ok(&["build", "--yes"]);
    assert_eq!(project.call("add", &json!({"a": 2, "b": 3}), &[]), "5\n");
    // One that offers more than was pinned is called for what was pinned.
    assert_eq!(project.call("learn", &json!({}), &[]), "learned\n");
    let failed = project.call("fail", &json!({}), &[]);
    assert!(failed.contains("error: `fail` failed (tool)"), "{failed}");
}

/// The reference server behind HTTP.
struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    fn start() -> Self {
        // Somebody else may take it in between, and then the test fails.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let package = tools().join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        let mut command = Command::new(tools().join("node"));
        command.arg(package).arg("streamableHttp").env("PORT", port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let listening = Self { child: command.spawn().unwrap(), port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < PLENTY, "nobody listens on {port}");
            std::thread::sleep(Duration::from_millis(50));
        }
        listening
    }

    fn address(&self) -> String {
        format!("mcp://127.0.0.1:{}/mcp", self.port)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself in the meantime.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
