//! A `journal.db` that is not ours, not whole, or newer than we are: refused, and not touched.

use insta::assert_snapshot;
use rusqlite::Connection;

use crate::weir::Weir;

const COMMANDS: [&[&str]; 6] = [
    &["append", "--stream", "s", "--kind", "a.b"],
    &["streams"],
    &["cat", "--stream", "s"],
    &["verify"],
    &["export"],
    &["branch", "fork", "--stream", "s", "--at", "1", "--name", "b"],
];

/// Every command must fail with this exit code and leave the file as it is, with nothing but a lock beside it.
fn refuses(weir: &Weir, exit: i32) {
    let before = std::fs::read(weir.journal()).unwrap();
    let had_blobs = weir.data().join("blobs").exists();
    for args in COMMANDS {
        assert_eq!(weir.error(args).0, exit, "{args:?}");
    }
    assert_eq!(weir.error(&["doctor"]).0, 1);
    assert!(std::fs::read(weir.journal()).unwrap() == before, "the file was changed");
    assert_eq!(weir.data().join("blobs").exists(), had_blobs, "a refused journal got a blob store");
}

fn with_file(content: &[u8]) -> Weir {
    let weir = Weir::new();
    std::fs::create_dir(weir.data()).unwrap();
    std::fs::write(weir.journal(), content).unwrap();
    weir
}

#[test]
fn a_file_that_is_no_database() {
    let weir = with_file(&b"this is a diary, not a journal\n".repeat(100));
    refuses(&weir, 2);
    assert_snapshot!(weir.show(&["streams"]), @"
    exit 2
    -- stderr
    error: `.weir/journal.db` is not a journal
    help: move that file away, or choose another directory with `--data-dir DIR`
    ");
}

#[test]
fn a_database_of_somebody_else() {
    let weir = with_file(b"");
    Connection::open(weir.journal())
        .unwrap()
        .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
        .unwrap();
    refuses(&weir, 2);
    assert_snapshot!(weir.show(&["append", "--stream", "s", "--kind", "a.b"]), @"
    exit 2
    -- stderr
    error: `.weir/journal.db` is not a journal
    help: move that file away, or choose another directory with `--data-dir DIR`
    ");
}

#[test]
fn a_journal_of_a_newer_weir() {
    let weir = Weir::with_notes();
    Connection::open(weir.journal()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    refuses(&weir, 2);
    assert_snapshot!(weir.show(&["streams"]), @"
    exit 2
    -- stderr
    error: `.weir/journal.db` has format version 99; this version of weir reads up to 1
    help: use the newer weir that wrote it, or choose another `--data-dir DIR`
    ");
}

#[test]
fn a_journal_that_was_cut() {
    let weir = Weir::with_notes();
    let whole = std::fs::read(weir.journal()).unwrap();
    std::fs::write(weir.journal(), &whole[..whole.len() / 2]).unwrap();
    let ran = weir.run(&["verify", "--json"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert_eq!(weir.run(&["cat", "--stream", "notes"]).code, 1);
    assert_eq!(weir.run(&["doctor"]).code, 1);
}

#[test]
fn a_data_directory_that_is_a_file() {
    let weir = Weir::new();
    std::fs::write(weir.data(), "").unwrap();
    assert_snapshot!(weir.show(&["append", "--stream", "s", "--kind", "a.b"]), @"
    exit 2
    -- stderr
    error: `.weir` is not a directory
    help: name a directory with `--data-dir DIR`
    ");
    assert_snapshot!(weir.show(&["streams", "--data-dir", ".weir/below"]), @"
    exit 2
    -- stderr
    error: `.weir/below` is not a directory
    help: name a directory with `--data-dir DIR`
    ");
    assert_eq!(weir.error(&["append", "--stream", "s", "--kind", "a.b", "--data-dir", ""]).0, 2);
    assert_eq!(std::fs::read(weir.data()).unwrap(), b"");
}

#[test]
fn a_journal_that_is_a_directory() {
    let weir = Weir::new();
    std::fs::create_dir_all(weir.journal()).unwrap();
    let ran = weir.run(&["append", "--stream", "s", "--kind", "a.b", "--json"]);
    assert_eq!(ran.error(), (1, "journal::storage".to_owned()));
}

/// More events than one page has: each changed file is one.
#[test]
fn a_call_that_changes_more_files_than_a_page_has_events_has_a_result() {
    let weir = crate::weir::Weir::new();
    weir.write(
        "agents/helper/spec.yaml",
        "name: helper\nmodel: offline/echo\ntools: [{ name: bash, access: write }]\n",
    );
    let input = serde_json::json!({"command": "for i in $(seq 1100); do echo $i > f$i; done; echo made"});
    let called = weir.json(&["tools", "call", "helper", "bash", &input.to_string()]);
    assert_eq!(called["changed_files"].as_array().unwrap().len(), 1_100);
    assert!(called["text"].as_str().unwrap().contains("made"), "{}", called["text"]);
}
