//! What is no approval, however much it looks like one: nothing happens outside.

use insta::assert_snapshot;
use serde_json::{Value, json};
use weir_engine::{Address, stream_of};
use weir_events::{About, ApprovalGranted, ApprovalRequested, Body, Scope};
use weir_journal::{Journal, NewEvent, Part};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_types::{CallId, Hash, SessionId, Timestamp};

use crate::outside::{Desk, field};

/// Writes an event into a session, as someone could who has the file and our library.
fn write(desk: &Desk, session: &str, body: impl Into<Body>, actor: &str) {
    let (directory, body) = (desk.project.weir.data(), body.into());
    let about = About { actor: Some(actor.to_owned()), ..About::default() };
    let event = NewEvent::new(body.kind_str().parse().unwrap(), body.encode().unwrap())
        .with_meta(about.encode().unwrap());
    let session: SessionId = session.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let blobs = weir_blobs::DirBlobs::open(directory.join("blobs")).unwrap();
        let options =
            Options { path: directory.join("journal.db"), blobs: std::sync::Arc::new(blobs), vfs: None };
        let journal = SqliteJournal::open(options).await.unwrap();
        let branch = Address::main(session).branch_id();
        assert_eq!(branch.stream, stream_of(session));
        journal.append(vec![Part::new(branch, vec![event])]).await.unwrap();
        journal.close().await;
    });
}

/// The arguments' hash and the call, as they are asked about.
fn asked(desk: &Desk, session: &str) -> (CallId, Hash) {
    let asked = desk.project.payloads(session, "approval.requested");
    let asked = asked.last().unwrap();
    (field(asked, "call").parse().unwrap(), field(asked, "input_hash").parse().unwrap())
}

fn me() -> String {
    format!("user:{}", nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name)
}

fn started(desk: &Desk, session: &str) -> usize {
    desk.project.payloads(session, "tool.started").len()
}

#[test]
fn an_approval_that_someone_appends_is_refused() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    let (_, hash) = asked(&desk, &session);
    let payload =
        json!({"call": calls[0], "by": me(), "input_hash": hash.to_string(), "scope": "once"}).to_string();
    let stream = format!("session:{session}");
    let append = |stream: &str| {
        let shown =
            desk.show(&["append", "--stream", stream, "--kind", "approval.granted", "--payload", &payload]);
        shown.replace(&session, "[id]")
    };
    assert_snapshot!(append(&stream), @"
    exit 2
    -- stderr
    error: stream `session:[id]` is reserved: only the runtime writes streams that begin with `session:`, `loop:`, `budget:`, `engine:`
    help: choose a name without that prefix, like `notes`
    ");
    assert_snapshot!(append("notes"), @"
    exit 2
    -- stderr
    error: kind `approval.granted` is reserved: only the runtime writes it, because it acts on what it says
    help: choose a kind of your own, like `my.granted`
    ");
    assert_eq!(desk.project.run(&["session", "resume", &session, "--live-writes"]).code, 5);
    assert_eq!((desk.rings(), started(&desk, &session)), (0, 0));
}

/// Whoever has a journal of their own can approve there whatever they like. Brought here, it approves nothing.
#[test]
fn an_approval_that_is_imported_approves_nothing() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    desk.project.ok(&["approve", &calls[0], "--no-run"]);
    let stream = format!("session:{session}");
    desk.project.ok(&["export", "--stream", &stream, "--output", "theirs.jsonl"]);
    let here = ["--data-dir", "elsewhere"];
    let run = |args: &[&str]| desk.project.run(&[args, &here].concat());
    let imported = run(&["import", "theirs.jsonl"]);
    assert_eq!(imported.code, 0, "{imported}");
    let late = run(&["approve", &calls[0], "--live-writes"]);
    assert_snapshot!(desk.mask(&late), @"
    exit 1
    -- stderr
    error: session [id] is halted
    help: go on with `weir session resume [id]`
    ");
    let resumed = run(&["session", "resume", &session, "--live-writes"]);
    assert_snapshot!(desk.mask(&resumed), @"
    exit 0
    -- stdout
    It said: interrupted: the call did not finish
    -- stderr
    ✗ ring: interrupted: the call did not finish
    ");
    assert_eq!(desk.rings(), 0);
    // Where it was approved, it still may run.
    desk.project.ok(&["session", "resume", &session, "--live-writes"]);
    assert_eq!(desk.rings(), 1);
}

/// A yes names the arguments: one for others, or by someone who may not, or in someone else's name, asks again.
#[test]
fn a_yes_that_does_not_fit_asks_again() {
    let desk = Desk::new();
    let cases: [(&str, &str, bool); 3] =
        [(&me(), &me(), true), ("user:eve", "user:eve", false), (&me(), "user:eve", false)];
    for (by, actor, other_arguments) in cases {
        let (session, _) = desk.ask("helper", "ring", &["--live-writes"]);
        let (call, hash) = asked(&desk, &session);
        let input_hash = if other_arguments { Hash::of(b"{\"n\":2}") } else { hash };
        let granted = ApprovalGranted {
            call,
            by: by.to_owned(),
            groups: vec![],
            input_hash,
            input: None,
            scope: Scope::Once,
            runs: None,
        };
        write(&desk, &session, granted, actor);
        let resumed = desk.project.run(&["session", "resume", &session, "--live-writes"]);
        assert_eq!(resumed.code, 5, "{by} {actor}: {resumed}");
        assert_eq!((desk.rings(), started(&desk, &session)), (0, 0), "{by} {actor}");
    }
}

#[test]
fn too_late_is_too_late() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    let (call, input_hash) = asked(&desk, &session);
    let expires: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let rule = "approval: always".to_owned();
    write(
        &desk,
        &session,
        ApprovalRequested { call, input_hash, rule, expires: Some(expires), because: None, escalates: None },
        &me(),
    );
    let listed = desk.project.run(&["approvals"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""), "nobody can approve it: {listed}");
    assert_snapshot!(desk.show(&["approve", &calls[0], "--live-writes"]), @"
    exit 1
    -- stderr
    error: call [id] waited until [time], and nobody approved it in time
    help: the agent is told so when it goes on: `weir session resume [id]`
    ");
    assert_snapshot!(desk.show(&["session", "resume", &session, "--live-writes"]), @"
    exit 0
    -- stdout
    It said: tool 'ring' blocked: nobody approved it in time
    -- stderr
    ✗ ring: tool 'ring' blocked: nobody approved it in time
    ");
    assert_snapshot!(desk.show(&["approve", &calls[0], "--live-writes"]), @"
    exit 1
    -- stderr
    error: call [id] expired: nobody approved it in time
    help: see `weir session history [id] --all`
    ");
    assert_eq!((desk.rings(), started(&desk, &session)), (0, 0));
}

/// What was taken back while it waited is not given by a yes.
#[test]
fn a_grant_that_is_taken_back_while_it_waits_counts() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes", "--as", "user:writer"]);
    desk.project.write("weir.yaml", "project: desk\n");
    let said = desk.project.ok(&["approve", &calls[0], "--live-writes"]);
    assert!(said.starts_with("It said: tool 'ring' blocked: grant: `user:writer` holds no grant"), "{said}");
    assert_eq!((desk.rings(), started(&desk, &session)), (0, 0));
    let decided: Vec<Value> = desk.project.payloads(&session, "tool.decided");
    assert_eq!(decided.last().unwrap()["outcome"], "deny");
}
