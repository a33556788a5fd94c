//! `weir streams`, `weir count` and `weir cat`.

use insta::assert_snapshot;

use crate::weir::Weir;

#[test]
fn streams_are_listed() {
    let weir = Weir::with_notes();
    weir.ok(&["append", "--stream", "日本", "--kind", "a.b"]);
    assert_snapshot!(weir.show(&["streams"]), @"
    exit 0
    -- stdout
    STREAM  BRANCHES      EVENTS  UPDATED
    notes          2           4  [time]
    日本           1           1  [time]
    ");
    assert_snapshot!(weir.show(&["streams", "--json"]), @r#"
    exit 0
    -- stdout
    {"stream":"notes","branches":2,"events":4,"updated":"[time]","owner":null}
    {"stream":"日本","branches":1,"events":1,"updated":"[time]","owner":null}
    "#);
}

#[test]
fn more_streams_than_a_page_are_listed_once_each() {
    let weir = Weir::new();
    let lines: String = (0..1_203).map(|n| event_line(&format!("s{n:04}"))).collect();
    let file = format!("{{\"weir_export\":1}}\n{lines}");
    assert_eq!(weir.run_with(&["import", "-"], file.as_bytes()).code, 0);
    let listed = weir.ok(&["streams"]);
    let names: Vec<&str> = listed.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    let expected: Vec<String> = (0..1_203).map(|n| format!("s{n:04}")).collect();
    assert_eq!(names, expected);
}

/// A first event of a stream, as an export has it.
fn event_line(stream: &str) -> String {
    let event = weir_types::Event {
        position: weir_types::Position(0),
        stream: stream.parse().unwrap(),
        branch: weir_types::BranchName::main(),
        seq: weir_types::Seq(1),
        id: weir_journal::mint(),
        ts: weir_journal::now(),
        kind: "a.b".parse().unwrap(),
        payload: "{}".into(),
        meta: weir_types::Meta::default(),
        refs: Vec::new(),
        payload_hash: weir_types::Hash::of(b"{}"),
        chain: weir_types::Hash::ZERO,
    };
    let event = weir_types::Event { chain: event.chain_after(weir_types::Hash::ZERO), ..event };
    weir_journal::lines::to_line(&event, weir_journal::lines::Positions::Hidden) + "\n"
}

#[test]
fn events_are_counted_once_or_along_a_branch() {
    let weir = Weir::with_notes();
    assert_eq!(weir.ok(&["count", "--stream", "notes"]), "4\n");
    assert_eq!(weir.ok(&["count", "--stream", "notes", "--branch", "main"]), "3\n");
    assert_eq!(weir.ok(&["count", "--stream", "notes", "--branch", "draft"]), "3\n");
    assert_snapshot!(weir.show(&["count", "--stream", "notes", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"stream":"notes","branch":null,"count":4}
    "#);
    assert_snapshot!(weir.show(&["count", "--stream", "notes", "--branch", "draft", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"stream":"notes","branch":"draft","count":3}
    "#);
}

#[test]
fn events_are_printed_for_people() {
    let weir = Weir::with_notes();
    weir.run_with(
        &["append", "--stream", "notes", "--kind", "raw.text", "--payload", "-"],
        b"not json\x1b[2J\n",
    );
    weir.run_with(&["append", "--stream", "notes", "--kind", "raw.bytes", "--payload", "-"], &[0xff; 40]);
    weir.run_with(
        &["append", "--stream", "notes", "--kind", "json.laid-out", "--payload", "-"],
        b"{\n  \"a\": 1\n}\n",
    );
    assert_snapshot!(weir.show(&["cat", "--stream", "notes"]), @r#"
    exit 0
    -- stdout
         1  [time]  note.added     {"n":1}
         2  [time]  note.added     {"n":2}
         3  [time]  note.added     {"n":3}
         4  [time]  raw.text       <13 bytes> "not json\u{1b}[2J\n"
         5  [time]  raw.bytes      <40 bytes> ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff …
         6  [time]  json.laid-out  {   "a": 1 }
    "#);
    assert_snapshot!(weir.show(&["cat", "--stream", "notes", "--branch", "draft"]), @r#"
    exit 0
    -- stdout
         1  [time]  note.added   {"n":1}
         2  [time]  note.added   {"n":2}
         3  [time]  note.edited  {}
    "#);
    assert_snapshot!(weir.show(&["cat", "--stream", "notes", "--after", "2", "--kind", "raw.bytes"]), @"
    exit 0
    -- stdout
         5  [time]  raw.bytes  <40 bytes> ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff …
    ");
    assert_snapshot!(weir.show(&["cat", "--stream", "notes", "--after", "99"]), @"exit 0");
}

#[test]
fn events_are_printed_for_programs() {
    let weir = Weir::with_notes();
    let by_flag = weir.show(&["cat", "--stream", "notes", "--after", "2", "--json"]);
    assert_snapshot!(by_flag, @r#"
    exit 0
    -- stdout
    {"position":3,"stream":"notes","branch":"main","seq":3,"id":"[id]","ts":"[time]","kind":"note.added","payload":{"n":3},"meta":{"actor":"[actor]"},"refs":[],"payload_hash":"[hash]","chain":"[hash]"}
    "#);
    assert_eq!(weir.show(&["cat", "--stream", "notes", "--after", "2", "--format", "json"]), by_flag);
    let text = weir.show(&["cat", "--stream", "notes", "--after", "2", "--format", "text"]);
    assert!(text.contains("     3  [time]  note.added"), "{text}");
    weir.run_with(&["append", "--stream", "notes", "--kind", "raw.bytes", "--payload", "-"], &[0xff; 3]);
    let raw: serde_json::Value =
        serde_json::from_str(&weir.ok(&["cat", "--stream", "notes", "--after", "3", "--json"])).unwrap();
    assert_eq!((&raw["payload_base64"], raw.get("payload")), (&serde_json::Value::from("////"), None));
}

/// More than two pages, so that the seams between pages are crossed.
#[test]
fn a_long_stream_is_printed_whole_and_in_order() {
    let weir = Weir::new();
    append_many(&weir, 2_500);
    let seqs = |args: &[&str]| -> Vec<u64> {
        let lines = weir.ok(&[&["cat", "--stream", "many", "--json"], args].concat());
        lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(seqs(&[]), (1..=2_500).collect::<Vec<u64>>());
    assert_eq!(seqs(&["--after", "999"]), (1_000..=2_500).collect::<Vec<u64>>());
    assert_eq!(seqs(&["--kind", "even.seen"]), (1..=1_250).map(|half| half * 2).collect::<Vec<u64>>());
}

fn append_many(weir: &Weir, events: u64) {
    use weir_journal::{Journal, NewEvent, Part};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let blobs = std::sync::Arc::new(weir_blobs::DirBlobs::open(weir.data().join("blobs")).unwrap());
        let options = weir_journal_sqlite::Options { path: weir.journal(), blobs, vfs: None };
        let journal = weir_journal_sqlite::SqliteJournal::open(options).await.unwrap();
        let kind = |seq| if seq % 2 == 0 { "even.seen" } else { "odd.seen" }.parse().unwrap();
        let events = (1..=events).map(|seq| NewEvent::new(kind(seq), "{}")).collect();
        let branch = weir_types::BranchId::main("many".parse().unwrap());
        journal.append(vec![Part::new(branch, events)]).await.unwrap();
        journal.close().await;
    });
}

#[test]
fn what_is_not_there_is_said_with_the_next_step() {
    let empty = Weir::new();
    assert_snapshot!(empty.show(&["streams"]), @"
    exit 1
    -- stderr
    error: there is no journal at `.weir`
    help: go to the project, or name it with `--project DIR`; `--data-dir DIR` names the data itself, and `weir chat AGENT` or `weir append` begins a journal
    ");
    assert_snapshot!(empty.show(&["cat", "--stream", "notes", "--data-dir", "elsewhere", "--json"]), @r#"
    exit 1
    -- stderr
    {"error":{"code":"cli::no-journal","message":"there is no journal at `elsewhere`","help":"go to the project, or name it with `--project DIR`; `--data-dir DIR` names the data itself, and `weir chat AGENT` or `weir append` begins a journal"}}
    "#);
    assert!(!empty.data().exists(), "reading made a data directory");

    let weir = Weir::with_notes();
    assert_snapshot!(weir.show(&["cat", "--stream", "nowhere"]), @"
    exit 1
    -- stderr
    error: there is no stream `nowhere`
    help: list the streams with `weir streams`
    ");
    assert_snapshot!(weir.show(&["cat", "--stream", "notes", "--branch", "nowhere"]), @"
    exit 1
    -- stderr
    error: stream `notes` has no branch `nowhere`
    help: list its branches with `weir branch list --stream 'notes'`
    ");
    assert_snapshot!(weir.show(&["count", "--stream", "nowhere"]), @"
    exit 1
    -- stderr
    error: there is no stream `nowhere`
    help: list the streams with `weir streams`
    ");
    assert_snapshot!(weir.show(&["count", "--stream", "notes", "--branch", "nowhere"]), @"
    exit 1
    -- stderr
    error: stream `notes` has no branch `nowhere`
    help: list its branches with `weir branch list --stream 'notes'`
    ");
    assert_eq!(weir.error(&["cat", "--stream", "notes", "--kind", "a b"]), (2, "cli::name".to_owned()));
}

#[test]
fn a_journal_without_streams_says_so() {
    let weir = Weir::new();
    assert_eq!(weir.run_with(&["import", "-"], b"{\"weir_export\":1}\n").code, 0);
    assert_snapshot!(weir.show(&["streams"]), @"
    exit 0
    -- stderr
    note: the journal has no streams yet; begin one with `weir append`
    ");
    assert_snapshot!(weir.show(&["streams", "--json"]), @"exit 0");
}
