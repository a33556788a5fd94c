//! The catalogue of damage: bits flipped in every b-tree of the file, the file and the blobs cut, rows removed, changed
//! and forged in every table. `verify` finds each and says where, or nothing that can be asked changes its answer.
//!
//! What `verify` of the journal alone cannot find is named in `EXEMPT`: events do not say it. Attributes and the state of
//! snapshots are compared with the fold of a session by `weir verify`, above the port.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags};
use weir_journal::{Attrs, FoldVersion, Fork, Journal, NewEvent, Part, Problem, Snapshot, Status, silent};
use weir_types::{Hash, Meta, PAYLOAD_INLINE_MAX, Seq, Timestamp};

use crate::support::{Chance, DataDir, append, branch_of, event, main_of, soak};

/// Columns that nothing else in the journal determines.
const EXEMPT: &[(&str, &str)] = &[
    // Who runs a stream is no event of the stream.
    ("streams", "owner"),
    // Compared with the fold by `weir verify`; another fold or version is never read.
    ("attrs", "branch"),
    ("attrs", "status"),
    ("attrs", "principal"),
    ("attrs", "agent"),
    ("attrs", "title"),
    ("attrs", "due"),
    ("snapshots", "fold"),
    ("snapshots", "version"),
    ("snapshots", "state"),
];

/// Tables from which a row can be removed without a trace: `attrs`, compared by `weir verify`; `snapshots`, which is a
/// cache.
const REMOVABLE: &[&str] = &["attrs", "snapshots"];

/// Several streams, forks, keys, causes, refs, attributes, snapshots, blobs, and more than 64 events on some branches.
pub(crate) async fn specimen() -> DataDir {
    let dir = DataDir::new();
    let journal = dir.open().await;
    let blob = dir.blobs().put_bytes("a blob that events refer to".into()).await.unwrap().hash;
    for n in 0..40 {
        let stream = main_of(&format!("session:{n:02}"));
        let first = event(&format!("kind.{}", n % 7), format!(r#"{{"n":{n}}}"#));
        let cause = Meta::new(&format!(r#"{{"causation":"{}"}}"#, first.id())).unwrap();
        let second = event("caused", "{}").with_meta(cause).with_refs(vec![blob]);
        let mut attrs = Attrs::new(Status::ALL[n % 5]);
        attrs.principal = (n % 2 == 0).then(|| format!("user:{}", n % 3));
        attrs.agent = (n % 3 == 0).then(|| format!("agent-{n}"));
        attrs.title = Some(format!("title of {n}"));
        attrs.due = (n % 4 == 0).then(|| Timestamp::from_micros(1_700_000_000_000_000 + n as i64).unwrap());
        let mut part = Part { attrs: Some(attrs), ..Part::new(stream.clone(), vec![first, second]) };
        part.key = Some(format!("key-{n}").parse().unwrap());
        journal.append(vec![part]).await.unwrap();
    }
    // One key for two parts of one append.
    let both = ["session:01", "session:02"].map(|name| Part {
        key: Some("both".parse().unwrap()),
        ..Part::new(main_of(name), vec![event("kind.1", "{}")])
    });
    journal.append(both.to_vec()).await.unwrap();
    let main = main_of("session:00");
    let large = NewEvent::new("large".parse().unwrap(), "large ".repeat(PAYLOAD_INLINE_MAX / 5));
    append(&journal, &main, vec![large]).await;
    for n in 4..=150 {
        append(
            &journal,
            &main,
            vec![event(&format!("kind.{}", n % 7), format!(r#"{{"n":{n},"text":"words"}}"#))],
        )
        .await;
    }
    for (from, at, name) in [("main", 70, "left"), ("left", 70, "leaf"), ("main", 100, "right")] {
        let fork = Fork { from: branch_of("session:00", from), at: Seq(at), name: name.parse().unwrap() };
        journal.fork(fork).await.unwrap();
    }
    let left = branch_of("session:00", "left");
    append(&journal, &left, (0..70).map(|n| event("kind.1", n.to_string())).collect()).await;
    let again = vec![event("kind.1", "{}"), event("kind.2", "{}")];
    journal
        .append(vec![Part { key: Some("key-0".parse().unwrap()), ..Part::new(left.clone(), again) }])
        .await
        .unwrap();
    for branch in [&main, &left] {
        let head = journal.head(branch).await.unwrap().unwrap();
        let fold = FoldVersion { fold: "session".to_owned(), version: 1 };
        let state = "the state ".repeat(20).into();
        let snapshot = Snapshot { branch: branch.clone(), seq: head.seq, chain: head.chain, fold, state };
        journal.put_snapshot(snapshot).await.unwrap();
    }
    append(&journal, &main_of("last"), vec![event("kind.0", "{}")]).await;
    journal.close().await;
    assert!(!dir.root.join("journal.db-wal").exists(), "the log is in the file");
    dir
}

/// What `verify` finds; `None` if the journal does not open, which is also an answer.
pub(crate) async fn problems(dir: &DataDir) -> Option<Vec<Problem>> {
    let journal = dir.try_open().await.ok()?;
    let report = journal.verify(None, silent()).await;
    journal.close().await;
    Some(report.ok()?.problems)
}

/// Asserts that damage is found and located; returns whether it was found.
async fn is_found(dir: &DataDir, what: &str) -> bool {
    let Some(found) = problems(dir).await else { return true };
    for problem in &found {
        assert!(problem.place.is_some() || problem.stream.is_some(), "{what}: {problem:?} has no place");
    }
    !found.is_empty()
}

/// The answer of every question: each table row by row, through its own b-tree and through each of its indexes, and each
/// row looked up by each of them. Columns that are exempt are left out.
fn dump(dir: &Path) -> Option<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(dir.join("journal.db"), flags).ok()?;
    let mut dump = String::new();
    for table in tables(&connection).ok()? {
        let columns = columns(&connection, &table).ok()?;
        let kept: Vec<&str> = columns
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| {
                !EXEMPT.contains(&(&table, name)) || ["status", "principal", "agent", "due"].contains(name)
            })
            .collect();
        let list = kept.join(", ");
        rows(&connection, &format!("SELECT {list} FROM {table} NOT INDEXED"), &mut dump).ok()?;
        for (index, indexed, filter) in indexes(&connection, &table).ok()? {
            let through = format!("{table} INDEXED BY {index}");
            let by = indexed.join(", ");
            rows(&connection, &format!("SELECT {by} FROM {through} WHERE {filter} ORDER BY {by}"), &mut dump)
                .ok()?;
            let same: Vec<String> =
                indexed.iter().map(|name| format!("inner.{name} = outer.{name}")).collect();
            let (same, filter) = (
                same.join(" AND "),
                filter
                    .replace("principal", "inner.principal")
                    .replace("agent", "inner.agent")
                    .replace("due", "inner.due"),
            );
            let sql = format!(
                "SELECT (SELECT count(*) FROM {table} AS inner INDEXED BY {index} WHERE {filter} AND {same}) FROM {table} AS outer NOT INDEXED"
            );
            rows(&connection, &sql, &mut dump).ok()?;
        }
    }
    Some(dump)
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Names of columns, and whether each is part of the primary key.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, bool)>> {
    let sql = format!("SELECT name, pk > 0 FROM pragma_table_info('{table}')");
    connection.prepare(&sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// The indexes of a table: their names, columns, and the rows they have.
fn indexes(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, Vec<String>, String)>> {
    let sql = format!(
        "SELECT name, partial FROM pragma_index_list('{table}') WHERE origin <> 'pk' OR name LIKE 'sqlite_autoindex_snapshots%' ORDER BY name"
    );
    let mut statement = connection.prepare(&sql)?;
    let names: Vec<(String, bool)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let mut found = Vec::new();
    for (name, is_partial) in names {
        let sql = format!("SELECT name FROM pragma_index_info('{name}') ORDER BY seqno");
        let columns: Vec<String> =
            connection.prepare(&sql)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let filter = if is_partial { format!("{} IS NOT NULL", columns[0]) } else { "1".to_owned() };
        found.push((name, columns, filter));
    }
    Ok(found)
}

fn rows(connection: &Connection, sql: &str, dump: &mut String) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..width {
            match row.get_ref(column)? {
                ValueRef::Blob(bytes) => _ = write!(dump, "{},", Hash::of(bytes)),
                other => _ = write!(dump, "{other:?},"),
            }
        }
        dump.push('\n');
    }
    Ok(())
}

/// Every b-tree of the file with its pages.
fn trees(dir: &DataDir) -> Vec<(String, Vec<u64>)> {
    let connection = Connection::open(dir.file()).unwrap();
    let sql = "SELECT name, pageno FROM dbstat ORDER BY name, pageno";
    let mut statement = connection.prepare(sql).unwrap();
    let pages =
        statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? as u64))).unwrap();
    let mut trees: Vec<(String, Vec<u64>)> = Vec::new();
    for page in pages {
        let (name, page) = page.unwrap();
        match trees.last_mut() {
            Some((last, pages)) if *last == name => pages.push(page),
            _ => trees.push((name, vec![page])),
        }
    }
    trees
}

/// Where bits are flipped: in each b-tree, at the beginning of its pages, where their structure is, and all over them.
fn flips(dir: &DataDir, chance: &mut Chance) -> Vec<(String, u64)> {
    const PAGE: u64 = 4096;
    let each = if soak() { 4_000 } else { 7 };
    let mut flips = Vec::new();
    for (name, pages) in trees(dir) {
        for n in 0..each {
            let page = pages[chance.below(pages.len() as u64) as usize] - 1;
            let within = if n % 3 == 0 { chance.below(60) } else { chance.below(PAGE) };
            flips.push((name.clone(), (page * PAGE + within) * 8 + chance.below(8)));
        }
    }
    flips
}

fn flip(path: &Path, bit: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_any_tree_is_found_or_changes_no_answer() {
    let dir = specimen().await;
    assert_eq!(problems(&dir).await, Some(vec![]));
    let expected = dump(&dir.root).unwrap();
    let seed = Chance::surprise();
    let flips = flips(&dir, &mut Chance::new(seed));
    let trees: std::collections::HashSet<&str> = flips.iter().map(|(tree, _)| tree.as_str()).collect();
    assert!(trees.len() >= 22, "{trees:?}");
    let (mut found, mut harmless) = (0, 0);
    for (tree, bit) in &flips {
        let damaged = dir.copy();
        flip(&damaged.file(), *bit);
        let what = format!("bit {bit}, in `{tree}`, seed {seed}");
        if is_found(&damaged, &what).await {
            found += 1;
            continue;
        }
        harmless += 1;
        let answers = dump(&damaged.root);
        assert!(answers.as_ref() == Some(&expected), "{what}: the answers changed, and nothing was found");
    }
    assert!(found > harmless / 4, "{found} found, {harmless} without effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_anywhere_is_found() {
    let dir = specimen().await;
    let size = std::fs::metadata(dir.file()).unwrap().len();
    let cuts = if soak() { 2_000 } else { 24 };
    // A file of no bytes, or of one, is empty to SQLite: a new journal. That there was one is for an anchor to say.
    for n in 0..cuts {
        let damaged = dir.copy();
        let length = 2 + (size - 3) * n / cuts;
        std::fs::OpenOptions::new().write(true).open(damaged.file()).unwrap().set_len(length).unwrap();
        assert!(is_found(&damaged, "a cut").await, "cut at {length} of {size}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_to_a_blob_is_found() {
    let dir = specimen().await;
    let mut chance = Chance::new(7);
    let shards = std::fs::read_dir(dir.root.join("blobs")).unwrap().map(|entry| entry.unwrap().path());
    let files = shards.filter(|path| path.is_dir()).flat_map(|shard| std::fs::read_dir(shard).unwrap());
    let blobs: Vec<_> =
        files.map(|file| file.unwrap().path()).filter(|path| path.metadata().unwrap().len() > 0).collect();
    assert_eq!(blobs.len(), 2);
    for blob in blobs {
        let (name, size) = (blob.strip_prefix(&dir.root).unwrap(), blob.metadata().unwrap().len());
        for n in 0..if soak() { size * 8 } else { 12 } {
            let damaged = dir.copy();
            let path = damaged.root.join(name);
            let bit = if soak() { n } else { chance.below(size * 8) };
            flip(&path, bit);
            assert!(is_found(&damaged, "a blob").await, "bit {bit} of {}", name.display());
        }
        for length in [0, 1, size / 2, size - 1] {
            let damaged = dir.copy();
            let file = std::fs::OpenOptions::new().write(true).open(damaged.root.join(name)).unwrap();
            file.set_len(length).unwrap();
            assert!(is_found(&damaged, "a blob").await, "{} cut at {length}", name.display());
        }
    }
}

/// Another value of the same type.
fn other(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Integer(number) => Value::Integer(number + 1),
        Value::Real(number) => Value::Real(number + 1.0),
        Value::Text(text) => Value::Text(format!("{text}x")),
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            match bytes.last_mut() {
                Some(last) => *last ^= 1,
                None => bytes.push(1),
            }
            Value::Blob(bytes)
        }
    }
}

/// Changes of a table by SQL: what each is, the statement, and its values.
fn changes(connection: &Connection, table: &str) -> Vec<(String, String, Vec<Value>)> {
    let columns = columns(connection, table).unwrap();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let list = names.join(", ");
    let count: i64 =
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    let mut changes = Vec::new();
    let picked = if soak() { (0..count.min(50)).collect() } else { vec![0, count / 2, count - 1] };
    for nth in picked {
        let row: Vec<Value> = connection
            .query_row(&format!("SELECT {list} FROM {table} LIMIT 1 OFFSET {nth}"), [], |row| {
                (0..names.len()).map(|column| row.get(column)).collect()
            })
            .unwrap();
        let key: Vec<usize> =
            columns.iter().enumerate().filter(|(_, column)| column.1).map(|(n, _)| n).collect();
        let place = |from: usize| -> String {
            let terms: Vec<String> = key
                .iter()
                .enumerate()
                .map(|(n, column)| format!("{} = ?{}", names[*column], from + n))
                .collect();
            terms.join(" AND ")
        };
        let key_values = || key.iter().map(|column| row[*column].clone());
        if !REMOVABLE.contains(&table) {
            let sql = format!("DELETE FROM {table} WHERE {}", place(1));
            changes.push((format!("row {nth} of {table} removed"), sql, key_values().collect()));
        }
        for (n, name) in names.iter().enumerate() {
            if EXEMPT.contains(&(table, name)) || row[n] == Value::Null {
                continue;
            }
            // What a fork is called is in the chains of its own events, if it has any.
            if (table, *name) == ("branches", "name") && is_fork_without_events(connection, &row[0]) {
                continue;
            }
            let sql = format!("UPDATE {table} SET {name} = ?1 WHERE {}", place(2));
            let values = std::iter::once(other(&row[n])).chain(key_values()).collect();
            changes.push((format!("{name} of row {nth} of {table} changed"), sql, values));
        }
        let holes: Vec<String> = (1..=names.len()).map(|n| format!("?{n}")).collect();
        let sql = format!("INSERT INTO {table} ({list}) VALUES ({})", holes.join(", "));
        for column in &key {
            let mut forged = row.clone();
            forged[*column] = match &row[*column] {
                Value::Integer(number) => Value::Integer(number + 100_000),
                value => other(value),
            };
            // Names and ids that must be unique are.
            for (n, name) in names.iter().enumerate() {
                if (*name == "name" || *name == "id") && n != *column {
                    forged[n] = other(&row[n]);
                }
            }
            if !(table == "snapshots" && ["fold", "version"].contains(&names[*column])) {
                changes.push((format!("row like row {nth} of {table} forged"), sql.clone(), forged));
            }
        }
    }
    changes
}

fn is_fork_without_events(connection: &Connection, no: &Value) -> bool {
    let sql =
        "SELECT parent IS NOT NULL AND seq = at FROM branches JOIN heads ON heads.branch = no WHERE no = ?1";
    connection.query_row(sql, [no], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_removed_changed_or_forged_in_any_table_is_found() {
    let dir = specimen().await;
    let connection = Connection::open(dir.file()).unwrap();
    let tables = tables(&connection).unwrap();
    let all: Vec<_> = tables.iter().flat_map(|table| changes(&connection, table)).collect();
    connection.close().unwrap();
    let mut applied = 0;
    let mut missed = Vec::new();
    for (what, sql, values) in all {
        let damaged = dir.copy();
        let connection = Connection::open(damaged.file()).unwrap();
        // A change that the constraints of the table refuse is none.
        let changed = connection.execute(&sql, rusqlite::params_from_iter(&values)).unwrap_or(0);
        connection.close().unwrap();
        if changed == 0 {
            continue;
        }
        applied += 1;
        if !is_found(&damaged, &what).await {
            missed.push(format!("{what}: {values:?}"));
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
    assert!(applied > 150, "only {applied} changes");
}

/// A page of streams whose last name is not greater than the cursor would be asked for again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_index_never_sends_a_reader_round_in_circles() {
    let dir = specimen().await;
    let journal_pages = trees(&dir);
    let (_, pages) = journal_pages.iter().find(|(name, _)| name == "sqlite_autoindex_streams_1").unwrap();
    let mut bytes = std::fs::read(dir.file()).unwrap();
    let mut changed = 0;
    for page in pages {
        let page = &mut bytes[(*page as usize - 1) * 4096..*page as usize * 4096];
        let name = b"session:20";
        for at in 0..page.len() - name.len() {
            if page[at..].starts_with(name) {
                page[at] = b'a';
                changed += 1;
            }
        }
    }
    assert_eq!(changed, 1);
    std::fs::write(dir.file(), bytes).unwrap();

    let journal = dir.open().await;
    let mut refused = 0;
    // With two on a page, the changed name is the last of one.
    for limit in [1, 2, 3, 11, 1_000] {
        let (mut after, mut pages) = (None, 0);
        loop {
            match journal.streams(after.take(), limit).await {
                Ok(page) if page.is_empty() => break,
                Ok(page) => after = page.into_iter().next_back().map(|summary| summary.stream),
                Err(error) => {
                    assert!(error.to_string().contains("damaged"), "{error}");
                    refused += 1;
                    break;
                }
            }
            pages += 1;
            assert!(pages < 100, "it goes round in circles, {limit} on a page");
        }
    }
    assert!(refused >= 3, "{refused}");
    let found = journal.verify(None, silent()).await.unwrap().problems;
    let is_named =
        |problem: &Problem| problem.stream.as_ref().is_some_and(|name| name.as_str() == "session:20");
    assert!(found.iter().any(is_named), "{found:?}");
    journal.close().await;
}

/// The quick check finds what hides streams and branches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quick_check_finds_places_heads_and_pages() {
    let dir = specimen().await;
    let journal = dir.open().await;
    let report = journal.verify_quick(silent()).await.unwrap();
    assert_eq!((report.problems, report.events > 200), (vec![], true));
    journal.close().await;
    for sql in [
        "DELETE FROM streams WHERE no = 3",
        "DELETE FROM heads WHERE branch = 3",
        "DELETE FROM events WHERE position = 9",
        "UPDATE events SET seq = seq + 1 WHERE position = 9",
        "UPDATE heads SET seq = seq - 1 WHERE branch = 1",
        "UPDATE branches SET at = at + 1 WHERE name = 'right'",
        "DELETE FROM blocks WHERE n = 1",
    ] {
        let damaged = dir.copy();
        let connection = Connection::open(damaged.file()).unwrap();
        assert_ne!(connection.execute(sql, []).unwrap(), 0, "{sql}");
        connection.close().unwrap();
        let journal = damaged.open().await;
        assert!(!journal.verify_quick(silent()).await.unwrap().is_sound(), "{sql}");
        journal.close().await;
    }
}
