//! A session's files fork with it, and every past event has its exact tree.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::outside::{Project, field, script};

/// Path and hash of each file.
type Tree = BTreeMap<String, String>;

/// An agent that writes with `edit` when it is told `one`, with `bash` when it is told `two`, and so on.
fn writer() -> Project {
    let project = Project::new();
    let bash = |command: &str| json!([{"tool": "bash", "input": {"command": command}}]);
    let write = |path: &str, content: &str| json!([{"tool": "edit_write", "input": {"path": path, "content": content}}]);
    let turns = [
        ("^one", write("a.txt", "one\n")),
        ("^two", bash("mkdir d && echo two > d/b.txt && echo more >> a.txt && chmod +x d/b.txt")),
        ("^three", write("a.txt", "three\n")),
        ("^four", bash("rm a.txt && echo four > d/b.txt && echo new > c.txt")),
    ];
    let spec =
        "tools:\n  - { name: bash, access: write }\n  - { name: edit, access: write }\n  - { name: fs }\n";
    project.agent("writer", spec, &script(&turns));
    project
}

fn tree(files: &[Value]) -> Tree {
    files.iter().map(|file| (field(file, "path"), field(file, "hash"))).collect()
}

/// The paths and contents of a session's files.
fn contents(project: &Project, session: &str, at: &[&str]) -> BTreeMap<String, String> {
    let files = project.lines(&[&["fs", "ls", session], at].concat());
    let content = |file: &Value| {
        let path = field(file, "path");
        let text = project.ok(&[&["fs", "cat", session, &path], at].concat());
        (path, text)
    };
    files.iter().map(content).collect()
}

fn expected(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn both_branches_have_the_files_of_their_past_and_later_writes_stay_apart() {
    let project = writer();
    let session = project.chat("writer", "one", &[]);
    let say = |session: &str, words: &str| project.chat("writer", words, &["--session", session]);
    say(&session, "two");
    let after_two = [("a.txt", "one\nmore\n"), ("d/b.txt", "two\n")];
    assert_eq!(contents(&project, &session, &[]), expected(&after_two));

    // In the middle: right after the first write, and before the answer that followed it.
    let events = project.events(&session);
    let seq = |event: &Value| event["seq"].as_u64().unwrap();
    let written = events.iter().find(|event| event["kind"] == "tool.completed").map(seq).unwrap();
    let head = events.last().map(seq).unwrap();
    let (middle, late) = (format!("{session}@middle"), format!("{session}@late"));
    project.ok(&["session", "fork", &session, "--at", &written.to_string(), "--name", "middle"]);
    project.ok(&["session", "fork", &session, "--at", &head.to_string(), "--name", "late"]);
    assert_eq!(contents(&project, &middle, &[]), expected(&[("a.txt", "one\n")]));
    assert_eq!(contents(&project, &late, &[]), expected(&after_two));

    // The model reads on each branch what is there, and what it writes stays there.
    say(&late, "three");
    say(&middle, "two");
    say(&session, "four");
    assert_eq!(contents(&project, &late, &[]), expected(&[("a.txt", "three\n"), ("d/b.txt", "two\n")]));
    assert_eq!(contents(&project, &middle, &[]), expected(&after_two));
    assert_eq!(contents(&project, &session, &[]), expected(&[("c.txt", "new\n"), ("d/b.txt", "four\n")]));
    // Nor does a past change.
    let at = written.to_string();
    assert_eq!(contents(&project, &session, &["--at", &at]), expected(&[("a.txt", "one\n")]));
    assert_eq!(contents(&project, &late, &["--at", &at]), expected(&[("a.txt", "one\n")]));
    let executable = project.lines(&["fs", "ls", &late]);
    assert_eq!(executable.iter().map(|file| file["executable"].clone()).collect::<Vec<_>>(), [false, true]);
    project.ok(&["verify"]);
}

#[test]
fn every_past_event_has_its_exact_tree() {
    let project = writer();
    let session = project.chat("writer", "one", &[]);
    project.chat("writer", "two", &["--session", &session]);
    project.chat("writer", "four", &["--session", &session]);
    let events = project.events(&session);
    let mut folded = Tree::new();
    let mut trees = Vec::new();
    for event in &events {
        let payload = &event["payload"];
        let before = folded.clone();
        match event["kind"].as_str() {
            Some("file.written") => drop(folded.insert(field(payload, "path"), field(payload, "hash"))),
            Some("file.deleted") => drop(folded.remove(&field(payload, "path"))),
            _ => {}
        }
        trees.push((event["seq"].as_u64().unwrap(), folded != before, folded.clone()));
    }
    assert_eq!(trees.iter().filter(|(_, changed, _)| *changed).count(), 6, "{trees:?}");
    for (seq, changed, expected) in &trees {
        let at = seq.to_string();
        let state = project.json(&["session", "state", &session, "--at", &at]);
        assert_eq!(tree(state["files"].as_array().unwrap()), *expected, "at {seq}");
        if *changed {
            assert_eq!(tree(&project.lines(&["fs", "ls", &session, "--at", &at])), *expected, "at {seq}");
        }
    }
    // A file that is gone is there as it was.
    let deleted = events.iter().find(|event| event["kind"] == "file.deleted").unwrap();
    let before = (deleted["seq"].as_u64().unwrap() - 1).to_string();
    let path = field(&deleted["payload"], "path");
    assert_eq!(project.ok(&["fs", "cat", &session, &path, "--at", &before]), "one\nmore\n");
    assert_eq!(project.run(&["fs", "cat", &session, &path, "--at", &deleted["seq"].to_string()]).code, 1);
}
