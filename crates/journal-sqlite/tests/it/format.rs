//! Files of every released format still open, verify and say what they said.
//!
//! `WEIR_WRITE_FIXTURE=1` writes the fixture of the present format anew. Once a version is released, its fixture is
//! never written again; the next format gets a directory of its own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_journal::{
    Attrs, FoldVersion, Fork, Journal, ListFilter, Listed, NewEvent, Ownership, Part, Snapshot, Status,
    mint_owner, silent,
};
use weir_journal_sqlite::SqliteJournal;
use weir_types::{BranchId, Event, Hash, Meta, PAYLOAD_INLINE_MAX, Seq, Timestamp};

use crate::promises::everything;
use crate::support::{DataDir, append, branch_of, event, main_of};

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{version}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn format_1_is_still_read() {
    if std::env::var_os("WEIR_WRITE_FIXTURE").is_some() {
        write(&fixture(1)).await;
    }
    check(&fixture(1)).await;
}

/// Opens a copy, so that the fixture stays as it is; and goes on with it.
async fn check(fixture: &Path) {
    let dir = DataDir::at(fixture).copy();
    let expected = std::fs::read_to_string(fixture.join("expected.jsonl")).unwrap();
    let journal = dir.open().await;
    let found = describe(&journal).await;
    assert_eq!(found.len(), expected.lines().count());
    for (found, expected) in found.iter().zip(expected.lines()) {
        assert_eq!(found, &serde_json::from_str::<Value>(expected).unwrap());
    }
    let report = journal.verify(None, silent()).await.unwrap();
    // Its records were written before they had the key of their append; what is appended from now on has it.
    assert_eq!((report.problems, report.keys_not_known), (vec![], report.events));

    let head = journal.head(&main_of("session:1")).await.unwrap().unwrap().seq;
    append(&journal, &main_of("session:1"), vec![event("k", "more")]).await;
    assert_eq!(journal.head(&main_of("session:1")).await.unwrap().unwrap().seq, head.next());
    let keyed = Part {
        key: Some("another key".parse().unwrap()),
        ..Part::new(main_of("session:1"), vec![event("k", "")])
    };
    journal.append(vec![keyed]).await.unwrap();
    let after = journal.verify(None, silent()).await.unwrap();
    assert_eq!(
        (after.problems, after.events, after.keys_not_known),
        (vec![], report.events + 2, report.events)
    );
    journal.close().await;
}

/// Everything the journal says about itself, one value a line.
async fn describe(journal: &SqliteJournal) -> Vec<Value> {
    let events = everything(journal).await;
    let mut lines: Vec<Value> = events.iter().map(describe_event).collect();
    for stream in journal.streams(None, 100).await.unwrap() {
        let (name, owner) = (&stream.stream, stream.owner.map(|owner| owner.to_string()));
        lines.push(
            json!({ "stream": name, "branches": stream.branches, "events": stream.events, "owner": owner }),
        );
        for branch in journal.branches(name).await.unwrap() {
            let parent = branch.parent.map(|parent| json!([parent.branch, parent.at, parent.chain]));
            lines.push(json!({ "branch": branch.name, "parent": parent, "seq": branch.head.seq, "chain": branch.head.chain }));
            let id = BranchId { stream: name.clone(), branch: branch.name };
            for part in journal.keys(&id, Seq(1), branch.head.seq).await.unwrap() {
                lines.push(json!({ "key": part.key.as_str(), "first": part.first, "last": part.last }));
            }
            if let Some(Snapshot { seq, state, .. }) = journal.snapshot(&id, &fold()).await.unwrap() {
                lines.push(json!({ "snapshot": seq, "state": String::from_utf8_lossy(&state) }));
            }
        }
    }
    let listed = journal.list(ListFilter::default(), None, 100).await.unwrap();
    lines.extend(listed.iter().map(describe_attrs));
    lines
}

fn describe_event(event: &Event) -> Value {
    // Long payloads stand in the fixture once; their hash is enough here.
    assert_eq!(Hash::of(&event.payload), event.payload_hash);
    let payload = std::str::from_utf8(&event.payload).ok().filter(|text| text.len() < 200);
    json!({
        "position": event.position, "stream": event.stream, "branch": event.branch, "seq": event.seq,
        "id": event.id, "ts": event.ts.as_micros(), "kind": event.kind, "meta": event.meta.as_str(),
        "refs": event.refs, "payload": payload, "payload_hash": event.payload_hash, "chain": event.chain,
    })
}

fn describe_attrs(listed: &Listed) -> Value {
    let Attrs { status, principal, agent, title, due } = &listed.attrs;
    json!({
        "listed": listed.branch.to_string(), "status": status, "principal": principal, "agent": agent,
        "title": title, "due": due.map(Timestamp::as_micros),
    })
}

fn fold() -> FoldVersion {
    FoldVersion { fold: "state".to_owned(), version: 3 }
}

/// Writes a journal with something of everything.
async fn write(fixture: &Path) {
    let _ = std::fs::remove_dir_all(fixture);
    let dir = DataDir::at(fixture);
    let journal = dir.open().await;
    fill(&journal, &dir).await;
    let lines: String = describe(&journal).await.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(fixture.join("expected.jsonl"), lines).unwrap();
    journal.close().await;
    std::fs::remove_file(fixture.join("lock")).unwrap();
}

async fn fill(journal: &SqliteJournal, dir: &DataDir) {
    let main = main_of("session:1");
    let first = event("session.created", r#"{"agent":"writer","principal":"user:ada"}"#);
    let cause = Meta::new(&format!(r#"{{"actor":"user:ada","causation":"{}"}}"#, first.id())).unwrap();
    let mut attrs = Attrs::new(Status::Waiting);
    (attrs.principal, attrs.agent) = (Some("user:ada".to_owned()), Some("writer".to_owned()));
    (attrs.title, attrs.due) = (
        Some("Wie hoch ist das Wasser? 水".to_owned()),
        Some(Timestamp::from_micros(1_700_000_000_000_000).unwrap()),
    );
    let owner = Ownership::Claim { by: mint_owner(), replacing: None };
    let part = Part { attrs: Some(attrs), owner, ..Part::new(main.clone(), vec![first]) };
    journal.append(vec![part]).await.unwrap();

    let blob = dir.blobs().put_bytes("a blob that an event refers to".into()).await.unwrap().hash;
    let large = NewEvent::new("file.written".parse().unwrap(), "large ".repeat(PAYLOAD_INLINE_MAX / 6 + 1));
    let odd = NewEvent::new("finance.invoice".parse().unwrap(), vec![0, 159, 146, 150, b'\n', 255]);
    let keyed = Part {
        key: Some("the key".parse().unwrap()),
        ..Part::new(
            main.clone(),
            vec![event("user.message", "{}").with_meta(cause).with_refs(vec![blob]), large],
        )
    };
    journal.append(vec![keyed, Part::new(main_of("水位"), vec![odd, event("empty", "")])]).await.unwrap();
    let message =
        |n| event("assistant.message", format!(r#"{{"content":[{{"type":"text","text":"message {n}"}}]}}"#));
    append(journal, &main, (4..=140).map(message).collect()).await;
    for (from, at, name) in [("main", 70, "left"), ("left", 72, "leaf"), ("main", 139, "right")] {
        if name == "leaf" {
            append(journal, &branch_of("session:1", "left"), (71..=140).map(message).collect()).await;
        }
        let fork = Fork { from: branch_of("session:1", from), at: Seq(at), name: name.parse().unwrap() };
        journal.fork(fork).await.unwrap();
    }
    let chain = journal.head(&main).await.unwrap().unwrap().chain;
    let snapshot =
        Snapshot { branch: main.clone(), seq: Seq(140), chain, fold: fold(), state: "the state".into() };
    journal.put_snapshot(snapshot).await.unwrap();
    append(journal, &branch_of("session:1", "leaf"), vec![event("run.finished", r#"{"stop":"end"}"#)]).await;
}
