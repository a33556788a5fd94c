//! `weir blob`.

use std::path::PathBuf;

use insta::assert_snapshot;
use weir_types::Hash;

use crate::weir::Weir;

fn put(weir: &Weir, content: &[u8]) -> String {
    let ran = weir.run_with(&["blob", "put", "-"], content);
    assert_eq!(ran.code, 0, "{ran}");
    let hash = Hash::of(content).to_string();
    assert_eq!(ran.stdout.trim_end(), hash);
    hash
}

fn path(weir: &Weir, hash: &str) -> PathBuf {
    weir.data().join("blobs").join(&hash[..2]).join(&hash[2..])
}

#[test]
fn what_is_put_comes_back() {
    let weir = Weir::new();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(weir.path().join("in"), &content).unwrap();
    let stored = weir.json(&["blob", "put", "in"]);
    let hash = Hash::of(&content).to_string();
    assert_eq!((&stored["hash"], &stored["bytes"]), (&hash.clone().into(), &content.len().into()));
    let output = weir.command().args(["blob", "get", &hash]).output().unwrap();
    assert!(output.stdout == content, "the content is not the same");
    assert_snapshot!(weir.show(&["blob", "get", &hash, "--output", "out"]), @"
    exit 0
    -- stderr
    note: wrote 1.2 MB to `out`
    ");
    assert!(std::fs::read(weir.path().join("out")).unwrap() == content, "the content is not the same");
    assert_eq!(weir.json(&["blob", "get", &hash, "--output", "out"])["bytes"], content.len());
    assert_eq!(weir.json(&["blob", "stat", &hash]), stored);

    let empty = put(&weir, b"");
    assert_eq!(weir.ok(&["blob", "get", &empty]), "");
    assert_snapshot!(weir.show(&["blob", "stat", &empty]), @"
    exit 0
    -- stdout
    [hash]  0 bytes, stored in 41 bytes
    ");
}

#[test]
fn an_output_that_is_no_file_is_written_through() {
    let weir = Weir::new();
    let hash = put(&weir, b"content");
    let fifo = weir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read(fifo).unwrap()
    });
    weir.ok(&["blob", "get", &hash, "--output", "fifo"]);
    assert_eq!(reader.join().unwrap(), b"content");
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(&fifo).unwrap().file_type()));

    std::fs::write(weir.path().join("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", weir.path().join("link")).unwrap();
    weir.ok(&["blob", "get", &hash, "--output", "link"]);
    assert_eq!(std::fs::read_to_string(weir.path().join("real")).unwrap(), "content");
}

#[test]
fn missing_and_damaged_blobs_are_errors_and_leave_nothing() {
    let weir = Weir::new();
    let nothing = Hash::of(b"never stored").to_string();
    assert_snapshot!(weir.show(&["blob", "get", &nothing]), @"
    exit 1
    -- stderr
    error: there is no journal at `.weir`
    help: go to the project, or name it with `--project DIR`; `--data-dir DIR` names the data itself, and `weir chat AGENT` or `weir append` begins a journal
    ");
    let hash = put(&weir, &[b'a'; 1_000]);
    assert_snapshot!(weir.show(&["blob", "get", &nothing]), @"
    exit 1
    -- stderr
    error: there is no blob [hash]
    help: check the hash, or restore the blob from a backup with `weir blob put FILE`
    ");
    assert_snapshot!(weir.show(&["blob", "stat", &nothing]), @"
    exit 1
    -- stderr
    error: there is no blob [hash]
    help: check the hash, or restore the blob from a backup with `weir blob put FILE`
    ");
    assert_snapshot!(weir.show(&["blob", "get", "abc"]), @"
    exit 2
    -- stderr
    error: `abc` is not a SHA-256 hash (64 hex digits)
    help: `weir blob put FILE` prints the hash of what it stored
    ");

    let file = path(&weir, &hash);
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    std::fs::write(weir.path().join("out"), "old").unwrap();
    assert_eq!(weir.error(&["blob", "get", &hash, "--output", "out"]), (1, "blobs::mismatch".to_owned()));
    assert_eq!(std::fs::read_to_string(weir.path().join("out")).unwrap(), "old");
    assert_eq!(weir.run(&["blob", "get", &hash]).stdout, "");
    let left: Vec<_> =
        std::fs::read_dir(weir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "temporary files were left: {left:?}");

    put(&weir, &[b'a'; 1_000]);
    assert_eq!(weir.ok(&["blob", "get", &hash]), "a".repeat(1_000));
    assert_eq!(weir.error(&["blob", "put", "nowhere"]), (2, "cli::unreadable".to_owned()));
}

#[test]
fn garbage_is_collected_and_nothing_else() {
    let weir = Weir::new();
    weir.run_with(&["append", "--stream", "big", "--kind", "a.b", "--payload", "-"], &[7; 100_000]);
    let (used, garbage) = (Hash::of(&[7; 100_000]).to_string(), put(&weir, b"garbage"));
    assert_snapshot!(weir.show(&["blob", "gc"]), @"
    exit 0
    -- stdout
    removed 0 blobs (0 bytes)
    kept    0 in use, 2 younger than 24h
    ");
    assert_snapshot!(weir.show(&["blob", "gc", "--grace", "0s", "--dry-run"]), @"
    exit 0
    -- stdout
    would remove 1 blob (48 bytes)
    kept    1 in use, 0 younger than 0s
    ");
    assert!(path(&weir, &garbage).exists());
    assert_snapshot!(weir.show(&["blob", "gc", "--grace", "59m"]), @"
    exit 2
    -- stderr
    error: `--grace 59m` is less than an hour: an event that needs a new blob may still be on its way
    help: give it at least `1h`, or stop every other weir process and use `weir blob gc --offline`
    ");
    assert!(path(&weir, &garbage).exists());
    assert_snapshot!(weir.show(&["blob", "gc", "--grace", "0s", "--offline", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"dry_run":false,"seen":2,"live":1,"young":0,"removed":1,"removed_bytes":48,"temporary":0}
    "#);
    assert!(!path(&weir, &garbage).exists());
    assert!(path(&weir, &used).exists());
    assert_snapshot!(weir.show(&["blob", "gc", "--grace", "soon"]), @"
    exit 2
    -- stderr
    error: `soon` is not a length of time
    help: write a number and a unit: `90s`, `30m`, `24h` or `7d`
    ");
    weir.ok(&["verify"]);
}

#[test]
fn without_a_journal_nothing_is_garbage() {
    let weir = Weir::new();
    let hash = put(&weir, b"content");
    assert_eq!(weir.error(&["blob", "gc", "--grace", "1h"]), (1, "cli::no-journal".to_owned()));
    assert!(path(&weir, &hash).exists());
}
