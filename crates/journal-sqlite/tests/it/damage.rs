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

/// Changes by SQL; of each, the place and the words of a finding. Other checks may find the same change: here,
/// each check is seen to work by itself.
const CHANGES: &[(&str, &str, &str)] = &[
    ("UPDATE streams SET owner = x'00' WHERE no = 3", "table `streams`", "its owner is malformed"),
    ("DELETE FROM streams WHERE no = 5", "table `streams`", "stream number 5 is missing"),
    ("DELETE FROM streams WHERE no = 5", "table `branches`", "`main`, belongs to no stream"),
    ("DELETE FROM branches WHERE no = 5", "table `branches`", "branch number 5 is missing"),
    ("DELETE FROM branches WHERE no = 5", "table `heads`", "a row for branch number 5, which does not exist"),
    ("DELETE FROM branches WHERE no = 5", "table `attrs`", "a row for branch number 5, which does not exist"),
    ("DELETE FROM branches WHERE no = 5", "table `keys`", "a row for branch number 5, which does not exist"),
    (
        "DELETE FROM branches WHERE no = 1",
        "table `snapshots`",
        "a row for branch number 1, which does not exist",
    ),
    (
        "DELETE FROM branches WHERE no = 5",
        "table `events`",
        "events of branch number 5, which does not exist",
    ),
    ("UPDATE branches SET name = 'x' WHERE no = 5", "table `branches`", "the stream has no branch `main`"),
    ("UPDATE branches SET name = 'x' WHERE no = 5", "table `branches`", "its branch has no parent"),
    (
        "UPDATE branches SET parent = 999 WHERE name = 'left'",
        "table `branches`",
        "a branch that cannot be its parent",
    ),
    (
        "UPDATE branches SET at = 0 WHERE name = 'right'",
        "table `branches`",
        "names an event that does not exist",
    ),
    (
        "UPDATE branches SET at = 9999 WHERE name = 'right'",
        "table `branches`",
        "lies beyond the end of its parent",
    ),
    (
        "UPDATE branches SET chain = zeroblob(32) WHERE name = 'left'",
        "table `branches`",
        "not fit the chain of its",
    ),
    ("UPDATE branches SET chain = x'00' WHERE no = 5", "table `branches`", "row 5: "),
    ("UPDATE heads SET chain = x'00' WHERE branch = 3", "table `heads`", "row 3: "),
    ("DELETE FROM kinds WHERE no = 2", "table `kinds`", "kind number 2 is missing"),
    ("DELETE FROM kinds WHERE no = 2", "", "its kind is unknown to the file"),
    (
        "INSERT INTO kinds SELECT max(no) + 1, 'never' FROM kinds",
        "table `kinds`",
        "`never`, is the kind of no event",
    ),
    ("DELETE FROM heads WHERE branch = 3", "table `heads`", "the head of its branch is missing or malformed"),
    (
        "UPDATE heads SET seq = 1 WHERE branch = (SELECT no FROM branches WHERE name = 'right')",
        "table `heads`",
        "before its fork",
    ),
    ("UPDATE heads SET seq = seq + 1 WHERE branch = 3", "", "it is missing"),
    (
        "UPDATE heads SET seq = seq - 1 WHERE branch = 3",
        "table `heads`",
        "there are events after the head of its branch",
    ),
    ("UPDATE heads SET chain = zeroblob(32) WHERE branch = 3", "table `heads`", "has another chain"),
    ("UPDATE heads SET ts = ts + 1 WHERE branch = 3", "table `heads`", "has another time or position"),
    (
        "UPDATE heads SET position = position + 1 WHERE branch = 3",
        "table `heads`",
        "has another time or position",
    ),
    (
        "UPDATE heads SET open = x'' WHERE branch = 1",
        "table `heads`",
        "the open block of its branch is not that of",
    ),
    ("DELETE FROM events WHERE position = 9", "table `events`", "1 missing after position 8"),
    ("DELETE FROM events WHERE position = 9", "", "it is missing"),
    (
        "DELETE FROM events WHERE position = (SELECT max(position) - 1 FROM events)",
        "table `events`",
        "positions have no gaps",
    ),
    ("UPDATE events SET chain = x'00' WHERE position = 9", "", "a field is malformed"),
    ("UPDATE events SET chain = x'00', branch = 99 WHERE position = 9", "table `events`", "position 9: "),
    ("UPDATE events SET seq = 1 WHERE position = 10", "", "a second event has its place"),
    ("UPDATE events SET ts = 1 WHERE position = 10", "", "it is older than the event before it"),
    ("UPDATE events SET id = zeroblob(16) WHERE position = 10", "", "its hash chain does not fit"),
    ("UPDATE events SET record = x'' WHERE position = 10 AND form = 0", "", "its record is malformed"),
    ("UPDATE events SET record = x'00', form = 1 WHERE position = 10", "", "its record does not decompress"),
    (
        "UPDATE events SET form = 9 WHERE position = 10",
        "",
        "it needs dictionary 9, which is missing or damaged",
    ),
    (
        "UPDATE blocks SET entries = x'0101' WHERE branch = 1 AND n = 1",
        "table `blocks`",
        "the index of its branch is not",
    ),
    (
        "DELETE FROM blocks WHERE branch = 1 AND n = 1",
        "table `blocks`",
        "the index of its branch has no row for it",
    ),
    ("INSERT INTO blocks VALUES (1, 99, x'00')", "table `blocks`", "it has block 99 of branch number 1"),
    (
        "DELETE FROM kind_blocks WHERE branch = 1 AND n = 1",
        "table `kind_blocks`",
        "the index by kind does not have its block",
    ),
    (
        "INSERT INTO kind_blocks VALUES (1, 77, 0)",
        "table `kind_blocks`",
        "it has kind number 77 in block 0 of branch number 1",
    ),
    ("UPDATE keys SET key = '' WHERE key = 'key-7'", "table `keys`", "a key is malformed"),
    (
        "UPDATE keys SET first = last + 1 WHERE key = 'key-7'",
        "table `keys`",
        "events that its branch does not have",
    ),
    (
        "UPDATE keys SET position = 99999 WHERE key = 'key-7'",
        "table `keys`",
        "a key names events that are not there",
    ),
    (
        "UPDATE keys SET last = last + 7 WHERE key = 'key-7'",
        "table `keys`",
        "a key names events that are not there",
    ),
    (
        "UPDATE keys SET content = zeroblob(32) WHERE key = 'key-7'",
        "table `keys`",
        "a key was used for other content",
    ),
    (
        "INSERT INTO keys SELECT branch, 'other', first, last, position, content FROM keys WHERE key = 'key-7'",
        "table `keys`",
        "two keys name the same event",
    ),
    ("UPDATE keys SET last = 3 WHERE key = 'key-1'", "table `keys`", "two keys name the same event"),
    ("DELETE FROM keys WHERE key = 'key-7'", "table `keys`", "the key that it was appended with is missing"),
    (
        "UPDATE keys SET last = 1 WHERE key = 'key-7'",
        "table `keys`",
        "the key that it was appended with names other events",
    ),
    (
        "INSERT INTO keys SELECT 1, 'forged', seq, seq, position, zeroblob(32) FROM events WHERE branch = 1 AND seq = 9",
        "table `keys`",
        "a key names an event that was not appended with it",
    ),
    ("DELETE FROM causes", "table `causes`", "it is not found by its cause"),
    (
        "INSERT INTO causes VALUES (zeroblob(16), 9)",
        "table `causes`",
        "a row finds it that the event does not explain",
    ),
    (
        "INSERT INTO causes VALUES (zeroblob(16), 99999)",
        "table `causes`",
        "a row for position 99999, where there is no sound",
    ),
    ("DELETE FROM refs", "table `refs`", "it is not found by a blob it refers to"),
    (
        "INSERT INTO refs VALUES (zeroblob(32), 9)",
        "table `refs`",
        "a row finds it that the event does not explain",
    ),
    (
        "INSERT INTO refs VALUES (zeroblob(32), 99999)",
        "table `refs`",
        "a row for position 99999, where there is no sound",
    ),
    (
        "UPDATE attrs SET status = 'odd' WHERE branch = 3",
        "table `attrs`",
        "the status is not one of the known words",
    ),
    (
        "UPDATE attrs SET title = printf('%.*c', 100000, 'x') WHERE branch = 3",
        "table `attrs`",
        "a text is too long",
    ),
    (
        "UPDATE attrs SET due = 9223372036854775807 WHERE branch = 3",
        "table `attrs`",
        "something is due is malformed",
    ),
    (
        "UPDATE snapshots SET chain = zeroblob(32)",
        "table `snapshots`",
        "was not made of the events of its branch",
    ),
    (
        "UPDATE snapshots SET seq = 0 WHERE branch = 1",
        "table `snapshots`",
        "names an event that its branch does not have",
    ),
    (
        "UPDATE snapshots SET state = zeroblob(100000000) WHERE branch = 1",
        "table `snapshots`",
        "a snapshot is too large",
    ),
    (
        "UPDATE dictionaries SET bytes = zeroblob(9)",
        "table `dictionaries`",
        "dictionary 1, which records are compressed with",
    ),
    (
        "INSERT INTO dictionaries SELECT 7, hash, bytes FROM dictionaries",
        "table `dictionaries`",
        "compressed with dictionary 7",
    ),
    ("CREATE TABLE theirs (x)", "table or index `theirs`", "it does not belong to a journal"),
    ("DROP INDEX attrs_due", "table or index `attrs_due`", "it is missing"),
    (
        "DROP INDEX keys_last; CREATE INDEX keys_last ON keys (last)",
        "table or index `keys_last`",
        "its definition was changed",
    ),
];

fn has(found: &[Problem], place: &str, what: &str) -> bool {
    let is_at = |problem: &Problem| problem.place.as_deref().unwrap_or_default() == place;
    found.iter().any(|problem| is_at(problem) && problem.what.contains(what))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_check_finds_what_it_is_for() {
    let dir = specimen().await;
    let mut missed = Vec::new();
    for (sql, place, what) in CHANGES {
        let damaged = dir.copy();
        let connection = Connection::open(damaged.file()).unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
        let found = problems(&damaged).await.unwrap_or_default();
        if !has(&found, place, what) {
            missed.push(format!("{sql}: {what:?} at {place:?} is not in {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Replaces bytes in the pages of one b-tree.
fn replace(dir: &DataDir, tree: &str, from: &[u8], to: &[u8]) {
    let trees = trees(dir);
    let (_, pages) = trees.iter().find(|(name, _)| name == tree).unwrap();
    let mut bytes = std::fs::read(dir.file()).unwrap();
    let mut changed = 0;
    for page in pages {
        let page = &mut bytes[(*page as usize - 1) * 4096..*page as usize * 4096];
        let Some(at) = page.windows(from.len()).position(|window| window == from) else { continue };
        page[at..at + to.len()].copy_from_slice(to);
        changed += 1;
    }
    assert_ne!(changed, 0, "{tree}");
    std::fs::write(dir.file(), bytes).unwrap();
}

/// What the constraints of a table refuse is only done by damage to its pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_there_twice_are_found() {
    let dir = specimen().await;
    for (table, from, to) in
        [("streams", "session:20", "session:21"), ("branches", "left", "leaf"), ("kinds", "kind.1", "kind.2")]
    {
        let damaged = dir.copy();
        replace(&damaged, table, from.as_bytes(), to.as_bytes());
        let found = problems(&damaged).await.unwrap();
        assert!(has(&found, &format!("table `{table}`"), "have the same name"), "{table}: {found:?}");
    }
}

/// A page that is none any more is found by each check that reads it, and the check goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_cannot_be_read_is_found_by_what_reads_it() {
    let dir = specimen().await;
    // The tree; where the finding is, and whether it names an event.
    for (tree, place, is_at_event) in [
        ("streams", "table `streams`", false),
        ("branches", "table `branches`", false),
        ("heads", "table `heads`", false),
        ("kinds", "table `kinds`", false),
        ("attrs", "table `attrs`", false),
        ("snapshots", "table `snapshots`", false),
        ("keys", "table `keys`", false),
        ("keys", "table `keys`", true),
        ("causes", "", true),
        ("refs", "", true),
        ("blocks", "table `blocks`", true),
        ("kind_blocks", "table `kind_blocks`", true),
        ("events", "table `events`", false),
        ("events", "", true),
        // Only SQLite itself reads all of an index.
        ("keys_last", "file `journal.db`", false),
    ] {
        let damaged = dir.copy();
        let trees = trees(&damaged);
        let (_, pages) = trees.iter().find(|(name, _)| name == tree).unwrap();
        let mut bytes = std::fs::read(damaged.file()).unwrap();
        // Without its newest event, the journal would not even open.
        let page = if tree == "events" { pages[pages.len() / 2] } else { *pages.last().unwrap() };
        bytes[(page as usize - 1) * 4096] = 0xff;
        std::fs::write(damaged.file(), bytes).unwrap();
        let Some(found) = problems(&damaged).await else { panic!("{tree}: the journal does not open") };
        let is_it = |problem: &&Problem| {
            problem.place.as_deref().unwrap_or_default() == place
                && problem.seq.is_some() == is_at_event
                && ["cannot be read", "it is missing", "cannot be checked to its end"]
                    .iter()
                    .any(|words| problem.what.contains(words))
        };
        assert!(found.iter().any(|problem| is_it(&problem)), "{tree} at {place:?}: {found:#?}");
    }
}

/// The check of one stream finds its events by their blocks, and them by their ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_of_one_stream_looks_events_up() {
    let dir = specimen().await;
    let in_stream = async |damaged: &DataDir, stream: &str| {
        let journal = damaged.open().await;
        let report = journal.verify(Some(stream.parse().unwrap()), silent()).await.unwrap();
        journal.close().await;
        report.problems
    };
    assert_eq!(in_stream(&dir, "session:00").await, vec![]);
    let at = "(SELECT position FROM events WHERE branch = 1 AND seq = 20)";
    let cases = [
        (format!("DELETE FROM events WHERE position = {at}"), "it is missing"),
        (format!("UPDATE events SET seq = 999 WHERE position = {at}"), "another event is in its place"),
        (format!("UPDATE events SET ts = 1 WHERE position = {at}"), "it is older than the event before it"),
        ("DELETE FROM blocks WHERE branch = 1 AND n = 1".to_owned(), "the index of its branch is damaged"),
    ];
    for (sql, what) in cases {
        let damaged = dir.copy();
        let connection = Connection::open(damaged.file()).unwrap();
        assert_eq!(connection.execute(&sql, []).unwrap(), 1);
        connection.close().unwrap();
        let found = in_stream(&damaged, "session:00").await;
        assert!(has(&found, "", what), "{sql}: {found:?}");
        assert_eq!(in_stream(&damaged, "session:01").await, vec![], "{sql}");
    }
    let damaged = dir.copy();
    let connection = Connection::open(damaged.file()).unwrap();
    let sql = format!("SELECT id FROM events WHERE position = {at}");
    let id: Vec<u8> = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
    connection.close().unwrap();
    let mut other = id.clone();
    other[15] ^= 1;
    replace(&damaged, "events_id", &id, &other);
    let found = in_stream(&damaged, "session:00").await;
    assert!(has(&found, "table `events`", "it is not found by its id"), "{found:?}");
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
