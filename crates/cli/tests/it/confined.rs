//! Programs of MCP servers under the profiles of `sandbox:`. One program tries everything; each attempt succeeds where its profile leaves it open, or it
//! would show nothing where it fails. Linux only, as the sandbox.
#![cfg(target_os = "linux")]

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::escapes::{is_running, until};
use crate::outside::{Project, script};

const SECRET: &str = "the-key-of-a-person";

/// A server whose tool `attempt` does what its argument says, and answers with what came of it.
const HOSTILE: &str = include_str!("confined.py");

fn tool() -> Value {
    let schema =
        json!({"type": "object", "properties": {"what": {"type": "string"}, "where": {"type": "string"}}});
    json!({"name": "attempt", "description": "Attempts something.", "inputSchema": schema,
           "annotations": {"readOnlyHint": true}})
}

/// A project whose agent makes these attempts, one after the other.
struct Lab {
    project: Project,
}

impl Lab {
    fn new(profile: &str) -> Self {
        let project = Project::new();
        project.write("servers/a/beside.py", "ANSWER = 'a module beside it'\n");
        project.program("servers/a/main.py", HOSTILE);
        project.write("servers/a/tools.json", &json!([tool()]).to_string());
        project.write("data/table.txt", "a file that it is given\n");
        project.write("private/notes.txt", &format!("{SECRET}\n"));
        let home = project.home();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/id"), format!("{SECRET}\n")).unwrap();
        let lab = Self { project };
        lab.profile(profile);
        lab
    }

    fn profile(&self, profile: &str) {
        let entry = format!(
            "tools:\n  - {{ server: \"mcp://./servers/a/main.py?arg=./data\", access: read, sandbox: {profile} }}\n"
        );
        self.project.agent("busy", &entry, &script(&[]));
    }

    /// What came of an attempt.
    fn attempt(&self, what: &str, place: &str) -> String {
        let entry = std::fs::read_to_string(self.project.weir.path().join("agents/busy/spec.yaml")).unwrap();
        let rest = entry.split_once("tools:").unwrap().1;
        let calls = json!([{"tool": "attempt", "input": {"what": what, "where": place}}]);
        self.project.agent("busy", &format!("tools:{rest}"), &script(&[("^go", calls)]));
        let session = self.project.chat("busy", "go", &[]);
        self.project.results(&session).concat()
    }
}

/// Every attempt, where it is made, and what the profiles `off`, `files`, `network` and `full` let happen.
fn attempts(lab: &Lab, port: u16) -> Vec<(&'static str, String, [bool; 4])> {
    let at = |path: &str| lab.project.weir.path().join(path).display().to_string();
    let home = |path: &str| lab.project.home().join(path).display().to_string();
    let elsewhere = [true, false, true, false];
    vec![
        ("write", home("new"), elsewhere),
        ("write", at("servers/a/new"), elsewhere),
        ("chmod", at("data/table.txt"), elsewhere),
        ("read", home(".ssh/id"), elsewhere),
        ("read", at("private/notes.txt"), elsewhere),
        ("list", at("private"), elsewhere),
        ("connect", port.to_string(), [true, true, false, false]),
        ("unix", at("socket"), [true, false, false, false]),
        ("ptrace", String::new(), [true, false, false, false]),
        ("signal", String::new(), [true, false, false, false]),
        // What every profile leaves open.
        ("read", at("data/table.txt"), [true; 4]),
        ("import", String::new(), [true; 4]),
        ("temporary", String::new(), [true; 4]),
    ]
}

#[test]
fn each_profile_closes_what_it_says_and_nothing_else() {
    for (place, profile) in ["off", "files", "network", "full"].into_iter().enumerate() {
        let lab = Lab::new(profile);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = lab.project.weir.path().join("socket");
        let _unix = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        lab.project.build();
        let port = listener.local_addr().unwrap().port();
        for (what, at, expected) in attempts(&lab, port) {
            let came = lab.attempt(what, &at);
            let happened = came.contains("HAPPENED");
            assert_eq!(happened, expected[place], "{profile}: {what} {at}: {came}");
            assert!(!came.contains(SECRET) || expected[place], "{profile}: {what}: {came}");
        }
    }
}

#[test]
fn a_confined_server_that_multiplies_is_ended_and_leaves_nothing() {
    let lab = Lab::new("full");
    lab.project.build();
    let came = lab.attempt("multiply", "1000.4711");
    assert!(came.contains("too many processes at once"), "{came}");
    until("all of it is gone", || !is_running("1000.4711"));
}

#[test]
fn a_changed_profile_and_a_changed_module_ask_again() {
    let lab = Lab::new("full");
    lab.project.build();
    assert_eq!(lab.project.run(&["build"]).code, 0, "what was approved stays so");
    for profile in ["files", "off", "network"] {
        lab.profile(profile);
        let refused = lab.project.run(&["build"]);
        assert_ne!(refused.code, 0, "{profile}: {refused}");
        assert!(refused.stderr.contains("with `sandbox: full`"), "{refused}");
    }
    lab.profile("full");
    assert_eq!(lab.project.run(&["build"]).code, 0);
    // A build of before still asks for what it was approved with; a module beside the program is part of that.
    lab.project.write("servers/a/beside.py", "ANSWER = 'another one'\n");
    let refused = lab.project.run(&["build"]);
    assert!(refused.stderr.contains("code in its directory has"), "{refused}");
    let told = lab.attempt("import", "");
    assert!(told.contains("code in its directory has"), "{told}");
    lab.project.build();
    assert!(lab.attempt("import", "").contains("HAPPENED another one"));
}

#[test]
fn building_starts_a_program_confined_too() {
    let lab = Lab::new("full");
    // While it is asked for its tools, it already tries to write.
    let trap = lab.project.weir.path().join("private/trap");
    lab.project.write("servers/a/trap", &trap.display().to_string());
    lab.project.build();
    assert!(!trap.exists());
    lab.profile("off");
    lab.project.build();
    assert!(trap.exists(), "it does try");
}

#[test]
fn rooms_go_with_their_servers() {
    let lab = Lab::new("files");
    let rooms = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = lab.project.command(args).env("TMPDIR", rooms.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    run(&["build", "--yes"]);
    run(&["tools", "call", "busy", "attempt", r#"{"what": "temporary", "where": ""}"#]);
    assert_eq!(std::fs::read_dir(rooms.path()).unwrap().count(), 0);
}
