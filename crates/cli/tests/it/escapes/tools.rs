//! The file tools of a session, through the real binary: whatever path a model thinks of, it is one of the session's own files or none. What a
//! command leaves behind for them to follow is followed by nobody.

use serde_json::{Value, json};

use super::{Canary, SECRET};
use crate::outside::{Project, field, script};

/// Ways to write the path of a file that is not the session's.
fn paths(canary: &Canary) -> Vec<String> {
    let (there, up) = (canary.path(), "../".repeat(20));
    let mut paths: Vec<String> = [
        "..",
        "../..",
        "./../x",
        "a/../../x",
        "a/b/../../../x",
        "/",
        "//",
        "/etc/passwd",
        "/etc/shadow",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/weir.yaml",
        "/dev/zero",
        "/dev/fd/0",
        "../weir.yaml",
        "../.weir/credentials.local",
        "~/../../etc/passwd",
        "file:///etc/passwd",
        "..\\..\\etc\\passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "a\0/../../etc/passwd",
        "link",
        "link/secret",
        "hard",
        "pipe",
        "",
        ".",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend([format!("{there}/secret"), format!("{up}{there}/secret"), format!("a/{up}{there}/secret")]);
    paths.extend(["x/".repeat(5_000), "x".repeat(5_000)]);
    paths
}

#[test]
fn no_path_of_a_file_tool_leads_out_of_the_session() {
    let (project, canary) = (Project::new(), Canary::new());
    project.write("given/own.txt", "own\n");
    project.write(".weir/credentials.local", SECRET);
    // A command does what it can to help: links of all kinds, and a pipe that nobody writes to.
    let command = format!(
        "ln -s {0} link; ln {0}/secret hard; mkfifo pipe; ln -s / root; echo own > made.txt",
        canary.path()
    );
    let mut calls = vec![json!({"tool": "bash", "input": {"command": command}})];
    for path in paths(&canary) {
        let each = [
            ("fs_read", json!({"path": path})),
            ("fs_list", json!({"path": path})),
            ("fs_glob", json!({"pattern": format!("{path}*")})),
            ("fs_search", json!({"pattern": "canary|root:", "glob": path})),
            ("edit_write", json!({"path": path, "content": "planted"})),
            ("edit_replace", json!({"path": path, "old": SECRET, "new": "planted"})),
            ("edit_multi", json!({"path": path, "edits": [{"old": SECRET, "new": "planted"}]})),
        ];
        calls.extend(each.map(|(tool, input)| json!({"tool": tool, "input": input})));
    }
    let spec =
        "tools:\n  - { name: fs }\n  - { name: edit, access: write }\n  - { name: bash, access: write }\n";
    project.agent("burglar", spec, &script(&[("^go", json!(calls))]));
    let session = project.chat("burglar", "go", &["--files", "given", "--live-writes"]);

    // Every call was decided about and ended, and the session goes on.
    let ended = project.results(&session);
    assert_eq!(ended.len(), calls.len());
    for (result, call) in ended.iter().zip(&calls) {
        let leaked =
            result.contains(SECRET) || result.contains("root:x:0") || result.contains("model: scripted");
        assert!(!leaked, "{call}: {result}");
    }
    assert!(canary.is_untouched());
    let weir = project.weir.path();
    for (name, expected) in [("given/own.txt", "own\n"), (".weir/credentials.local", SECRET)] {
        assert_eq!(std::fs::read_to_string(weir.join(name)).unwrap(), expected);
    }
    let root: Vec<_> = std::fs::read_dir(weir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(root.len(), 4, "agents, models, given and .weir: {root:?}");
    project.chat("burglar", "hello", &["--session", &session]);

    // What was written is the session's, and comes out as files below the directory that was named.
    let files: Vec<String> =
        project.lines(&["fs", "ls", &session]).iter().map(|file| field(file, "path")).collect();
    assert!(files.contains(&"own.txt".to_owned()) && files.contains(&"made.txt".to_owned()), "{files:?}");
    std::fs::create_dir(weir.join("out")).unwrap();
    project.ok(&["fs", "export", &session, "out/deep"]);
    let all = crate::secrets::walk(&weir.join("out"));
    assert!(all.iter().all(|path| path.starts_with(weir.join("out/deep"))), "{all:?}");
    assert_eq!(all.len(), files.len());
    assert!(canary.is_untouched());
    let completed = project.payloads(&session, "tool.completed");
    let not_kept = completed.iter().map(Value::to_string).find(|done| done.contains("not kept")).unwrap();
    for name in ["link", "pipe", "root"] {
        assert!(not_kept.contains(name), "{not_kept}");
    }
}
