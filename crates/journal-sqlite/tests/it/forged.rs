//! Rows that a person forged with SQL so that they fit together: the events say otherwise, and what decides about an append
//! or about what a reader sees asks them.

use rusqlite::Connection;
use weir_journal::{Journal, Part, Problem};
use weir_types::Seq;

use crate::damage::{problems, specimen};
use crate::support::{branch_of, event, main_of};

/// Statements that make rows of `keys` fit together, so that only the events can say that they are wrong.
const FORGED_KEYS: &[&str] = &[
    "DELETE FROM keys WHERE key = 'key-7'",
    "DELETE FROM keys",
    "DELETE FROM keys WHERE key = 'both' AND branch = 2",
    "UPDATE keys SET key = 'key-7x' WHERE key = 'key-7'",
    "UPDATE keys SET key = 'both' WHERE key = 'key-0' AND branch <> 1",
    // Another event of the same branch, with the content that a repetition will have.
    "UPDATE keys SET key = 'key-1', first = 3, last = 3, position = (SELECT position FROM events WHERE branch = 2 AND seq = 3),
       content = (SELECT content FROM keys WHERE key = 'both' AND branch = 2) WHERE key = 'key-1'",
    // Half of the part.
    "UPDATE keys SET last = first WHERE key = 'key-9'",
    // Two keys of one branch that change places.
    "UPDATE keys SET key = CASE key WHEN 'key-1' THEN 'both' ELSE 'key-1' END || 'x' WHERE branch = 2;
     UPDATE keys SET key = substr(key, 1, length(key) - 1) WHERE branch = 2",
    // An event that was appended without a key.
    "INSERT INTO keys SELECT 1, 'forged', 9, 9, position, zeroblob(32) FROM events WHERE branch = 1 AND seq = 9",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_removed_renamed_or_pointed_elsewhere_is_found() {
    let dir = specimen().await;
    for sql in FORGED_KEYS {
        let damaged = dir.copy();
        Connection::open(damaged.file()).unwrap().execute_batch(sql).unwrap();
        let found = problems(&damaged).await.unwrap();
        let in_keys = |problem: &Problem| {
            problem.place.as_deref() == Some("table `keys`")
                && problem.stream.is_some()
                && problem.seq.is_some()
        };
        assert!(found.iter().any(in_keys), "{sql}: {found:?}");
    }
}

/// A row of `keys` is believed only if the event that it names has that key: otherwise a forged row would turn an append
/// into a repetition of another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_key_never_makes_an_append_a_repetition() {
    let dir = specimen().await;
    let one = event("kind.2", r#"{"n":9}"#);
    let part = |key: &str| Part {
        key: Some(key.parse().unwrap()),
        ..Part::new(main_of("session:00"), vec![one.clone()])
    };
    let content = part("forged").content();
    for (what, sql) in [
        (
            "an event without a key",
            "INSERT INTO keys SELECT 1, 'forged', seq, seq, position, ?1 FROM events WHERE branch = 1 AND seq = 9",
        ),
        (
            "an event of another branch",
            "INSERT INTO keys SELECT 1, 'forged', seq, seq, position, ?1 FROM events WHERE branch = 2 AND seq = 1",
        ),
        (
            "an event with another key",
            "INSERT INTO keys SELECT 1, 'forged', 1, 1, position, ?1 FROM events WHERE branch = 1 AND seq = 1",
        ),
        (
            "no event",
            "INSERT INTO keys SELECT 1, 'forged', 1, 1, 1000000, ?1 FROM events WHERE branch = 1 AND seq = 1",
        ),
    ] {
        let damaged = dir.copy();
        let connection = Connection::open(damaged.file()).unwrap();
        assert_eq!(connection.execute(sql, [content.as_bytes()]).unwrap(), 1, "{what}");
        connection.close().unwrap();
        let journal = damaged.open().await;
        let appended = journal.append(vec![part("forged")]).await;
        assert!(appended.is_err(), "{what}: {appended:?}");
        journal.close().await;
    }
}

/// A head that was set back would hide the newest events: a halt, a revoked token. The same head with other columns of the
/// events before it is only found by `verify`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_was_set_back_hides_nothing() {
    let dir = specimen().await;
    for branch in [main_of("session:00"), main_of("session:03"), branch_of("session:00", "left")] {
        let no = format!(
            "(SELECT branches.no FROM branches JOIN streams ON streams.no = stream WHERE streams.name = '{}' AND branches.name = '{}')",
            branch.stream, branch.branch
        );
        for change in [
            "seq = seq - 1",
            "seq = seq - 2",
            "seq = (SELECT at FROM branches WHERE no = branch)",
            "seq = seq + 1",
            "chain = zeroblob(32)",
            "open = x''",
            "position = position - 1",
        ] {
            let damaged = dir.copy();
            let connection = Connection::open(damaged.file()).unwrap();
            let sql = format!("UPDATE heads SET {change} WHERE branch = {no}");
            assert_eq!(connection.execute(&sql, []).unwrap(), 1, "{sql}");
            connection.close().unwrap();
            let journal = damaged.open().await;
            let appended = journal.append(vec![Part::new(branch.clone(), vec![event("k", "{}")])]).await;
            assert!(appended.is_err(), "{branch}, {change}: appended");
            if !change.starts_with("position") {
                let read = journal.read(&branch, Seq(0), 1_000).await;
                assert!(read.is_err(), "{branch}, {change}: {} events", read.unwrap().len());
            }
            journal.close().await;
        }
    }
}
