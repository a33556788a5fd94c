//! A project of a test, with a home of its own in which approvals are kept.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::running::{Running, eventually_or};
use crate::weir::{Ran, Weir};

/// A project.
pub(crate) struct Project {
    pub(crate) weir: Weir,
    home: TempDir,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self { weir: Weir::new(), home: tempfile::tempdir().unwrap() }
    }

    /// The same project on the machine of someone who has approved nothing.
    pub(crate) fn elsewhere(self) -> Self {
        Self { home: tempfile::tempdir().unwrap(), ..self }
    }

    /// The home of the person whose project it is.
    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// Writes a file of it.
    pub(crate) fn write(&self, name: &str, content: &str) {
        self.weir.write(name, content);
    }

    /// Writes an agent: the rest of its spec in YAML, and a script for its model.
    pub(crate) fn agent(&self, name: &str, spec: &str, replies: &Value) {
        self.write(
            &format!("agents/{name}/spec.yaml"),
            &format!("name: {name}\nmodel: scripted/{name}\n{spec}"),
        );
        self.write(&format!("models/{name}.yaml"), &json!({"replies": replies}).to_string());
    }

    /// Writes a program of it. Another process does it: a child that this one starts at the same moment would hold the file
    /// open for writing, and nobody could run it.
    pub(crate) fn program(&self, name: &str, text: &str) {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-ec", "printf '%s' \"$TEXT\" > \"$0\"; chmod 755 \"$0\"", name]);
        assert!(shell.env("TEXT", text).current_dir(self.weir.path()).status().unwrap().success());
    }

    /// Writes an MCP server that is started as `mcp://./servers/NAME.py`.
    pub(crate) fn server(&self, name: &str, tools: &[Value]) {
        self.offer(name, tools);
        self.program(&format!("servers/{name}.py"), include_str!("server.py"));
    }

    /// Lets a server offer other tools from now on.
    pub(crate) fn offer(&self, name: &str, tools: &[Value]) {
        self.write(&format!("servers/{name}.tools.json"), &Value::from(tools.to_vec()).to_string());
    }

    /// Lets the calls of a server hang in the middle, or go on.
    pub(crate) fn hold(&self, name: &str, holds: bool) {
        let file = self.left_at(name, "hold");
        match holds {
            true => std::fs::write(file, "").unwrap(),
            false => std::fs::remove_file(file).unwrap(),
        }
    }

    /// Builds it, and approves what it wants started.
    pub(crate) fn build(&self) {
        let built = self.run(&["build", "--yes"]);
        assert_eq!(built.code, 0, "{built}");
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.weir.command();
        // The system's own python3 starts at once; a version manager's may not.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("/usr/bin:/bin:{path}"));
        command.args(args).env_remove("XDG_STATE_HOME").env("HOME", self.home.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran}");
        ran.stdout
    }

    /// Exit code and error code of a command that fails.
    pub(crate) fn error(&self, args: &[&str]) -> (i32, String) {
        self.run(&[args, &["--json"]].concat()).error()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// What a command prints as one object a line.
    pub(crate) fn lines(&self, args: &[&str]) -> Vec<Value> {
        let text = self.ok(&[args, &["--json"]].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
    }

    /// Says something to an agent once, and returns the session; its run must end well.
    pub(crate) fn chat(&self, agent: &str, message: &str, more: &[&str]) -> String {
        let told = self.json(&[&["chat", agent, "-m", message], more].concat());
        assert_eq!(told["stop"], "end", "{told}");
        told["session"].as_str().unwrap().to_owned()
    }

    /// All events of a session.
    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        self.lines(&["cat", "--stream", &format!("session:{session}")])
    }

    /// The payloads of one kind of events of a session.
    pub(crate) fn payloads(&self, session: &str, kind: &str) -> Vec<Value> {
        let events = self.events(session).into_iter().filter(|event| event["kind"] == kind);
        events.map(|event| event["payload"].clone()).collect()
    }

    /// The results of a session's calls as its model was told them, in order.
    pub(crate) fn results(&self, session: &str) -> Vec<String> {
        let events = self.events(session).into_iter();
        let results = events.filter_map(|event| match event["kind"].as_str() {
            Some("tool.completed") => Some(words(&event["payload"]["content"])),
            Some("tool.failed") => Some(field(&event["payload"], "message")),
            _ => None,
        });
        results.collect()
    }

    /// The latest session, waited for.
    pub(crate) fn latest(&self) -> String {
        let look = || {
            let listed = self.run(&["session", "list", "--json"]).stdout;
            let latest: Value = serde_json::from_str(listed.lines().next()?).ok()?;
            latest["id"].as_str().map(str::to_owned)
        };
        eventually_or(look, || "no session began".to_owned())
    }

    /// The session of this title, if it has begun.
    pub(crate) fn titled(&self, title: &str) -> Option<String> {
        let listed = self.run(&["session", "list", "--json"]).stdout;
        let mut sessions = listed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        sessions.find(|session| session["title"] == title).map(|session| field(&session, "id"))
    }

    /// Where a server leaves something.
    pub(crate) fn left_at(&self, server: &str, what: &str) -> PathBuf {
        self.weir.path().join(format!("servers/{server}.{what}"))
    }

    /// The lines that a server has left.
    pub(crate) fn left(&self, server: &str, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.left_at(server, what)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The calls that a server was asked for.
    pub(crate) fn calls(&self, server: &str) -> Vec<Value> {
        self.left(server, "calls").iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names of the tools that were called, and forgets them.
    pub(crate) fn touched(&self, server: &str) -> Vec<String> {
        let tools = self.calls(server).iter().map(|call| field(call, "tool")).collect();
        let _ = std::fs::remove_file(self.left_at(server, "calls"));
        tools
    }

    /// Waits until a server is in the middle of a call.
    pub(crate) fn await_call(&self, server: &str) {
        let look = || (!self.left(server, "calls").is_empty()).then_some(());
        eventually_or(look, || format!("`{server}` was never called"));
    }
}

/// A script that answers to these words with these calls, and to everything else with `Done.`
pub(crate) fn script(turns: &[(&str, Value)]) -> Value {
    let calls = turns.iter().map(|(user, calls)| json!({"when": {"user": user}, "call": calls}));
    calls.chain([json!({"say": "Done."})]).collect()
}

/// A field that is text.
pub(crate) fn field(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no `{name}` in {value}")).to_owned()
}

/// The text of blocks, as they are stored.
fn words(content: &Value) -> String {
    content.as_array().into_iter().flatten().map(|block| block.to_string()).collect()
}
