//! A project and its data directory as `weir` of commit 7f0cc82 left them: everything is there, and goes on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::outside::Project;

/// A helper with tools, files, a note, a fork, and a message that waits for a larger budget.
const TALK: &str = "01M7TW9VWT5GRYRZMPR51WSXF6";
/// One result is so long that it is a blob.
const LONG: &str = "01M7TWA3XF4NZTX4TKNRSYZ53C";
/// 70 calls at once, and a snapshot in the middle of them without a seal.
const OFTEN: &str = "01M7TWA7JQG3DDSP25WV44HTJH";
/// It asked the helper, in a session of its own.
const BOSS: &str = "01M7TWA9103V1Q451APWHR2DFX";
const CHILD: &str = "01M7TWA9QE978Y1B33YE8R1TFK";
const APPROVED: &str = "01M7TWAAF093FQSSB4VS92FZ6F";
const DENIED: &str = "01M7TWAC9CK5638Q4YSXXACBBR";
/// Its call waits for an approval.
const WAITS: &str = "01M7TWAE7CGVY4WZANA4SQBSTX";
const HALTED: &str = "01M7TWAF5WV950C7TM64JS9HGC";
const CLOSED: &str = "01M7TWAGE08PYA6N7N8734VD2N";
const EVENTS: u64 = 758;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/7f0cc82").join(name)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() { copy(&from, &to) } else { _ = std::fs::copy(from, to).unwrap() }
    }
}

/// A copy of the project with its data directory.
fn old_project() -> Project {
    let project = Project::new();
    copy(&fixture("project"), project.weir.path());
    copy(&fixture("data"), &project.weir.data());
    project
}

/// Each session that is listed, and its status.
fn listed(project: &Project, more: &[&str]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |row: &Value| {
        let (id, branch) = (text(&row["id"]), text(&row["branch"]));
        (if branch == "main" { id } else { format!("{id}@{branch}") }, text(&row["status"]))
    };
    project.lines(&[&["session", "list"], more].concat()).iter().map(row).collect()
}

fn expected_list() -> Vec<(String, String)> {
    let other = format!("{TALK}@other");
    let rows = [
        (CLOSED, "closed"),
        (HALTED, "halted"),
        (WAITS, "waiting"),
        (DENIED, "idle"),
        (APPROVED, "idle"),
        (BOSS, "idle"),
        (CHILD, "idle"),
        (OFTEN, "idle"),
        (TALK, "waiting"),
        (&other, "idle"),
        (LONG, "idle"),
    ];
    rows.map(|(id, status)| (id.to_owned(), status.to_owned())).to_vec()
}

fn sorted(mut rows: Vec<(String, String)>) -> Vec<(String, String)> {
    rows.sort();
    rows
}

/// Checks everything; `not_known` is what an earlier version did not write down.
fn verify(project: &Project, more: &[&str], not_known: &[&str]) -> Value {
    let told = project.json(&[&["verify"], more].concat());
    assert_eq!((&told["sound"], &told["problems"]), (&json!(true), &json!([])), "{told}");
    let always = ["names-of-empty-forks", "owners"];
    let known: Vec<&str> = not_known.iter().copied().chain(always).collect();
    let said: Vec<&str> = told["not_known"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    assert!(known.iter().all(|word| said.contains(word)), "{told}");
    told
}

#[test]
fn it_opens_and_tells_what_it_told() {
    let project = old_project();
    // Its files were 0644 in a directory of 0700: other users could not reach them, and that is no warning.
    let journal = project.weir.journal();
    for (path, mode) in [(project.weir.data(), 0o700), (journal.clone(), 0o644)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(project.run(&["session", "list"]).stderr, "");
    assert_eq!(std::fs::metadata(&journal).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(sorted(listed(&project, &[])), sorted(expected_list()));

    let history = project.ok(&["session", "history", TALK]);
    for line in ["time please", "Let me look.", "I have looked.", "write it down", "It is kept.", "one more"]
    {
        assert!(history.lines().any(|told| told == line), "{line}: {history}");
    }
    let other = project.ok(&["session", "history", &format!("{TALK}@other")]);
    assert!(other.contains("You said: hello again") && !other.contains("write it down"), "{other}");
    let shown = project.json(&["session", "show", TALK]);
    assert_eq!(
        (&shown["title"], &shown["labels"], &shown["principal"], &shown["requests"]),
        (&json!("The tide"), &json!({"kind": "talk"}), &json!("user:ada"), &json!(19))
    );
    assert_eq!(project.ok(&["fs", "cat", TALK, "notes/tide.md"]), "High water at six.");
    // What was sent to the model is made again from the prompt's blobs, byte for byte.
    assert_eq!(project.json(&["session", "show", TALK, "--request", "1"])["exact"], true);
    let long = project.ok(&["session", "history", LONG]);
    assert!(long.contains("harbour 0 has 0 berths"), "{long}");
    assert_eq!(project.payloads(OFTEN, "tool.completed").len(), 70);

    let tokens = project.lines(&["token", "list"]);
    let tokens: Vec<_> =
        tokens.iter().map(|t| (t["name"].as_str().unwrap(), t["revoked"].is_null())).collect();
    assert_eq!(tokens, [("kept", true), ("revoked", false)]);
    let purses = project.lines(&["budget", "show", "--session", TALK]);
    let purse = purses.iter().find(|purse| purse["scope"] == format!("session:{TALK}")).unwrap();
    assert_eq!((&purse["limit"], &purse["left"]), (&json!({"model_calls": 20}), &json!({"model_calls": 0})));
    let waiting = project.lines(&["approvals"]);
    assert_eq!(waiting.len(), 1);
    assert_eq!((&waiting[0]["session"], &waiting[0]["input"]), (&json!(WAITS), &json!({"amount": "30"})));
    assert_eq!(project.lines(&["cat", "--stream", "notes", "--branch", "draft"]).len(), 67);
    project.ok(&["doctor"]);
}

#[test]
fn it_verifies_and_is_the_one_that_was_anchored() {
    let project = old_project();
    let anchor = fixture("anchor");
    let told = verify(&project, &["--anchor", anchor.to_str().unwrap()], &["removed-keys"]);
    assert_eq!(
        (&told["streams"], &told["branches"], &told["events"]),
        (&json!(27), &json!(30), &json!(EVENTS))
    );
    verify(&project, &["--quick"], &["removed-keys"]);
    // Its records do not say which keys there were: a removed key is not found, a forged one is.
    let connection = rusqlite::Connection::open(project.weir.journal()).unwrap();
    connection.execute("DELETE FROM keys WHERE key = 'note-3'", []).unwrap();
    verify(&project, &[], &["removed-keys"]);
    connection
        .execute("UPDATE keys SET first = first + 1, last = last + 1 WHERE key = 'note-5'", [])
        .unwrap();
    assert_eq!(project.run(&["verify"]).code, 1);
    connection
        .execute("UPDATE keys SET first = first - 1, last = last - 1 WHERE key = 'note-5'", [])
        .unwrap();
    verify(&project, &[], &["removed-keys"]);
    connection.execute("UPDATE events SET ts = ts + 1 WHERE position = 300", []).unwrap();
    assert_eq!(project.run(&["verify"]).code, 1);
}

#[test]
fn it_is_exported_imported_and_restored() {
    let project = old_project();
    let anchor = fixture("anchor");
    let anchor = anchor.to_str().unwrap();
    let exported = project.ok(&["export", "--stream", &format!("session:{WAITS}")]);
    let before = std::fs::read_to_string(fixture("export.jsonl")).unwrap();
    assert_eq!(exported, before, "an export of today is not what it was");

    project.ok(&["export", "-o", "sessions.jsonl"]);
    project.ok(&["import", "sessions.jsonl", "--data-dir", "imported"]);
    verify(&project, &["--data-dir", "imported"], &[]);
    let halted = expected_list().into_iter().map(|(id, _)| (id, "halted".to_owned())).collect();
    assert_eq!(sorted(listed(&project, &["--data-dir", "imported"])), sorted(halted));
    // What the earlier version exported is imported, too, and approves nothing.
    let old = fixture("export.jsonl");
    project.ok(&["import", old.to_str().unwrap(), "--data-dir", "from-old"]);
    assert_eq!(project.lines(&["approvals", "--data-dir", "from-old"]).len(), 0);

    project.ok(&["export", "--all", "-o", "all.jsonl"]);
    let refused = project.error(&["import", "all.jsonl", "--data-dir", "imported"]);
    assert_eq!(refused.0, 3, "{refused:?}");
    project.ok(&["import", "--as-restore", "all.jsonl", "--data-dir", "again"]);
    verify(&project, &["--data-dir", "again", "--anchor", anchor], &[]);

    project.ok(&["backup", "kept.tar"]);
    let unpack = "mkdir restored && tar -xf kept.tar -C restored";
    let unpacked =
        Command::new("sh").args(["-ec", unpack]).current_dir(project.weir.path()).status().unwrap();
    assert!(unpacked.success());
    verify(&project, &["--data-dir", "restored", "--anchor", anchor], &["removed-keys"]);
    assert_eq!(sorted(listed(&project, &["--data-dir", "restored"])), sorted(expected_list()));
    assert_eq!(project.lines(&["token", "list", "--data-dir", "restored"]).len(), 2);
}

#[test]
fn it_goes_on() {
    let project = old_project();
    // The waiting call is approved as it was asked for, and runs with the build that its session has.
    let approved = project.ok(&["approve", "--live-writes"]);
    assert!(approved.contains("Done: refunded 30"), "{approved}");
    assert_eq!(project.lines(&["approvals"]).len(), 0);
    // The message that waits for its budget is answered when there is more.
    let answer = project.ok(&["session", "resume", TALK, "--budget", "model_calls=20"]);
    assert!(answer.contains("You said: one more"), "{answer}");
    let say = |session: &str, agent: &str, text: &str| {
        project.json(&["chat", agent, "--session", session, "-m", text, "--as", "user:ada"])
    };
    assert_eq!(say(TALK, "helper", "still here?")["answer"], "You said: still here?");
    assert_eq!(say(&format!("{TALK}@other"), "helper", "and here?")["answer"], "You said: and here?");
    // What is said to a halted session is answered when it is resumed; a closed one stays closed.
    assert_ne!(project.run(&["chat", "helper", "--session", HALTED, "-m", "hello?"]).code, 0);
    project.ok(&["session", "resume", HALTED]);
    assert_eq!(say(HALTED, "helper", "awake?")["answer"], "You said: awake?");
    assert_ne!(project.run(&["chat", "helper", "--session", CLOSED, "-m", "hello?"]).code, 0);
    // Forks in the middle of 70 calls, before the snapshot and behind it; and the session itself.
    for (at, name) in [("100", "early"), ("270", "late")] {
        project.ok(&["session", "fork", OFTEN, "--at", at, "--name", name]);
    }
    assert_eq!(say(OFTEN, "runner", "once more")["answer"], "I have looked often.");
    assert_eq!(say(&format!("{OFTEN}@late"), "runner", "once more")["answer"], "I have looked often.");
    assert_eq!(say(BOSS, "boss", "and now?")["answer"], "The helper says: You said: and now?");
    // A key of the earlier version is known: nothing is appended a second time.
    let again = ["append", "--stream", "notes", "--kind", "note.added", "--key", "note-70"];
    project.ok(&[&again[..], &["--payload", "{\"n\":70}"]].concat());
    assert_eq!(project.ok(&["count", "--stream", "notes"]), "72\n");
    // The streams, the tokens, the deployment and the notes of agents take more.
    project.ok(&["append", "--stream", "notes", "--branch", "empty", "--kind", "note.added"]);
    project.ok(&["token", "issue", "--principal", "user:eve"]);
    project.ok(&["session", "fork", TALK, "--at", "40", "--name", "tide"]);
    assert_eq!(say(&format!("{TALK}@tide"), "helper", "keep it")["answer"], "It is kept.");
    project.build();
    project.ok(&["deploy", "latest"]);
    assert_eq!(project.chat("helper", "hello", &["--as", "user:ada"]).len(), 26);
    let anchor = fixture("anchor");
    let told = verify(&project, &["--anchor", anchor.to_str().unwrap()], &["removed-keys"]);
    assert!(told["events"].as_u64().unwrap() > EVENTS + 100, "{told}");
}
