//! Whatever is changed behind the journal's back, `verify` names the event, and reading it is an error.

use rusqlite::{Connection, params};
use weir_journal::{Fork, Journal, NewEvent, Part, Problem, silent};
use weir_journal_sqlite::SqliteJournal;
use weir_types::{Event, Meta, PAYLOAD_INLINE_MAX, Seq};

use crate::support::{DataDir, append, branch_of, event, main_of, read_whole};

/// A journal with something of everything: 150 events with three kinds, a cause, a key, a large payload, a fork of a
/// fork, and a second stream.
async fn specimen() -> DataDir {
    let dir = DataDir::new();
    let journal = dir.open().await;
    let main = main_of("a");
    let first = event("k.0", r#"{"n":0}"#);
    let cause = Meta::new(&format!(r#"{{"causation":"{}"}}"#, first.id())).unwrap();
    append(&journal, &main, vec![first]).await;
    append(&journal, &main, vec![event("k.1", r#"{"caused":true}"#).with_meta(cause)]).await;
    let large = NewEvent::new("k.2".parse().unwrap(), "large ".repeat(PAYLOAD_INLINE_MAX / 5));
    append(&journal, &main, vec![large]).await;
    let mut keyed = Part::new(main.clone(), vec![event("k.0", "4"), event("k.1", "5")]);
    keyed.key = Some("the-key".parse().unwrap());
    journal.append(vec![keyed]).await.unwrap();
    for n in 6..=150 {
        append(
            &journal,
            &main,
            vec![event(&format!("k.{}", n % 3), format!(r#"{{"n":{n},"text":"some words"}}"#))],
        )
        .await;
    }
    for (from, at, name) in [("main", 70, "left"), ("left", 70, "leaf"), ("main", 100, "right")] {
        let fork = Fork { from: branch_of("a", from), at: Seq(at), name: name.parse().unwrap() };
        journal.fork(fork).await.unwrap();
    }
    append(&journal, &branch_of("a", "left"), (0..70).map(|n| event("k.0", n.to_string())).collect()).await;
    append(&journal, &branch_of("a", "leaf"), vec![event("k.1", "71")]).await;
    append(&journal, &main_of("b"), vec![event("k.0", "1"), event("k.0", "2")]).await;
    journal.close().await;
    dir
}

async fn problems(dir: &DataDir) -> Vec<Problem> {
    let journal = dir.open().await;
    let report = journal.verify(None, silent()).await.unwrap();
    journal.close().await;
    report.problems
}

fn names(problem: &Problem) -> (String, String, u64) {
    let text = |name: Option<String>| name.unwrap_or_default();
    let stream = text(problem.stream.as_ref().map(ToString::to_string));
    let branch = text(problem.branch.as_ref().map(ToString::to_string));
    (stream, branch, problem.seq.map_or(0, |seq| seq.0))
}

/// Applies `change` to a copy and expects the first problem at `place`.
async fn check(
    specimen: &DataDir,
    what: &str,
    change: impl FnOnce(&Connection),
    place: (&str, &str, u64),
) -> DataDir {
    let dir = specimen.copy();
    let connection = Connection::open(dir.file()).unwrap();
    change(&connection);
    connection.close().unwrap();
    let found = problems(&dir).await;
    let first = found.first().map(names);
    let place = (place.0.to_owned(), place.1.to_owned(), place.2);
    assert_eq!(first, Some(place), "{what}: {found:?}");
    dir
}

fn position(connection: &Connection, seq: u64) -> i64 {
    let sql = "SELECT position FROM events JOIN branches ON branches.no = branch WHERE name = 'main' AND stream = 1 AND seq = ?1";
    connection.query_row(sql, [seq as i64], |row| row.get(0)).unwrap()
}

fn flip(connection: &Connection, table: &str, column: &str, filter: &str) {
    let row: (i64, Vec<u8>) = connection
        .query_row(&format!("SELECT rowid, {column} FROM {table} WHERE {filter} LIMIT 1"), [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let (rowid, mut bytes) = row;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let sql = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
    assert_eq!(connection.execute(&sql, params![bytes, rowid]).unwrap(), 1);
}

async fn read_one(journal: &SqliteJournal, seq: u64) -> Result<Vec<Event>, weir_journal::ReadError> {
    journal.read(&main_of("a"), Seq(seq - 1), 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untouched_journal_is_sound() {
    let dir = specimen().await;
    assert_eq!(problems(&dir).await, vec![]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_event_is_named_and_cannot_be_read() {
    let dir = specimen().await;
    let changes = [
        "record = CAST(substr(record, 1, 4) || x'FF' || substr(record, 6) AS BLOB)",
        "record = x''",
        "record = zeroblob(10)",
        "id = x'0190000000000000000000000000AAAA'",
        "id = x'00'",
        "ts = ts + 1",
        "ts = 9223372036854775807",
        "kind = (kind % 3) + 1",
        "kind = 77",
        "chain = zeroblob(32)",
        "chain = x'00'",
        "form = 1 - form",
        "form = 9",
        "seq = seq + 1000",
        "branch = 2",
        "branch = 99",
    ];
    for seq in [9, 64, 65, 150] {
        for change in changes {
            let apply = |connection: &Connection| {
                let sql = format!("UPDATE events SET {change} WHERE position = ?1");
                assert_eq!(connection.execute(&sql, [position(connection, seq)]).unwrap(), 1);
            };
            let damaged = check(&dir, &format!("{change} at {seq}"), apply, ("a", "main", seq)).await;
            let journal = damaged.open().await;
            read_one(&journal, seq).await.unwrap_err();
            assert_eq!(read_one(&journal, seq - 1).await.unwrap().len(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_cut_and_swapped_events_are_named() {
    let dir = specimen().await;
    let remove = |connection: &Connection| {
        connection.execute("DELETE FROM events WHERE position = ?1", [position(connection, 40)]).unwrap();
    };
    let damaged = check(&dir, "removed", remove, ("a", "main", 40)).await;
    read_one(&damaged.open().await, 40).await.unwrap_err();

    let cut = |connection: &Connection| {
        connection.execute("DELETE FROM events WHERE branch = 1 AND seq > 147", []).unwrap();
    };
    check(&dir, "cut", cut, ("a", "main", 148)).await;

    let swap = |connection: &Connection| {
        let (a, b) = (position(connection, 20), position(connection, 21));
        for (from, to) in [(a, -1), (b, a), (-1, b)] {
            connection.execute("UPDATE events SET position = ?2 WHERE position = ?1", [from, to]).unwrap();
        }
    };
    let damaged = check(&dir, "swapped rows", swap, ("a", "main", 20)).await;
    read_one(&damaged.open().await, 20).await.unwrap_err();

    let renumber = |connection: &Connection| {
        let (a, b) = (position(connection, 20), position(connection, 21));
        for (from, to) in [(a, -1), (b, a), (-1, b)] {
            connection.execute("UPDATE events SET position = ?2 WHERE position = ?1", [from, to]).unwrap();
        }
        connection
            .execute("UPDATE events SET seq = 41 - seq WHERE branch = 1 AND seq IN (20, 21)", [])
            .unwrap();
    };
    check(&dir, "swapped and renumbered", renumber, ("a", "main", 20)).await;

    let inserted = |connection: &Connection| {
        let sql = "INSERT INTO events SELECT 100000, branch, 151, zeroblob(16), ts, kind, chain, form, record FROM events WHERE position = 5";
        connection.execute(sql, []).unwrap();
    };
    check(&dir, "a stray event", inserted, ("a", "main", 150)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_pointers_heads_and_indexes_are_named() {
    let dir = specimen().await;
    let cases: &[(&str, (&str, &str, u64))] = &[
        ("UPDATE branches SET at = 69 WHERE name = 'left'", ("a", "left", 69)),
        ("UPDATE branches SET at = 71 WHERE name = 'left'", ("a", "left", 71)),
        ("UPDATE branches SET at = 99 WHERE name = 'right'", ("a", "right", 99)),
        ("UPDATE branches SET chain = zeroblob(32) WHERE name = 'right'", ("a", "right", 100)),
        (
            "UPDATE branches SET parent = (SELECT no FROM branches WHERE name = 'left') WHERE name = 'right'",
            ("a", "right", 100),
        ),
        ("UPDATE branches SET parent = NULL WHERE name = 'right'", ("a", "right", 101)),
        ("UPDATE branches SET name = 'wrong' WHERE name = 'leaf'", ("a", "wrong", 71)),
        ("UPDATE streams SET name = 'z' WHERE name = 'b'", ("z", "main", 1)),
        ("UPDATE heads SET chain = zeroblob(32) WHERE branch = 1", ("a", "main", 150)),
        ("UPDATE heads SET ts = ts + 1 WHERE branch = 1", ("a", "main", 150)),
        ("UPDATE heads SET seq = 151 WHERE branch = 1", ("a", "main", 151)),
        ("UPDATE heads SET seq = 149 WHERE branch = 1", ("a", "main", 149)),
        ("UPDATE heads SET open = x'' WHERE branch = 1", ("a", "main", 129)),
        ("DELETE FROM heads WHERE branch = 1", ("a", "main", 1)),
        ("DELETE FROM blocks WHERE branch = 1 AND n = 1", ("a", "main", 65)),
        ("UPDATE blocks SET entries = x'0101' WHERE branch = 1 AND n = 1", ("a", "main", 65)),
        ("DELETE FROM kind_blocks WHERE branch = 1 AND n = 1 AND kind = 2", ("a", "main", 128)),
        ("UPDATE kinds SET name = 'k.9' WHERE name = 'k.2'", ("a", "main", 3)),
        ("DELETE FROM causes", ("a", "main", 2)),
        ("DELETE FROM refs", ("a", "main", 3)),
        ("UPDATE keys SET content = zeroblob(32)", ("a", "main", 4)),
        ("UPDATE keys SET first = 3", ("a", "main", 3)),
        ("UPDATE dictionaries SET bytes = zeroblob(100)", ("a", "main", 2)),
        ("DELETE FROM dictionaries", ("a", "main", 2)),
    ];
    for (sql, place) in cases {
        let change = |connection: &Connection| assert_ne!(connection.execute(sql, []).unwrap(), 0, "{sql}");
        check(&dir, sql, change, *place).await;
    }
    let flip_dictionary = |connection: &Connection| flip(connection, "dictionaries", "bytes", "no = 1");
    let damaged = check(&dir, "a flipped dictionary", flip_dictionary, ("a", "main", 2)).await;
    // The binary has the right one: what it reads is right.
    assert_eq!(read_whole(&damaged.open().await, &main_of("a")).await.len(), 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_lost_blob_is_named_by_the_event_that_needs_it() {
    let dir = specimen().await;
    let blob = walk(&dir.root.join("blobs"))
        .into_iter()
        .find(|path| std::fs::metadata(path).unwrap().len() > 0)
        .unwrap();
    let name = blob.strip_prefix(&dir.root).unwrap();
    for damage in [true, false] {
        let damaged = dir.copy();
        let path = damaged.root.join(name);
        if damage {
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            std::fs::write(&path, bytes).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        let found = problems(&damaged).await;
        assert_eq!(
            found.iter().map(names).collect::<Vec<_>>(),
            [("a".into(), "main".into(), 3)],
            "{found:?}"
        );
        read_one(&damaged.open().await, 3).await.unwrap_err();
    }
}

fn walk(root: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
