//! Rows that a person forged with SQL, in every table and column: `weir verify` finds each, and none of them lets a call
//! run that nobody approved, makes a token count that does not, or puts anything into a purse.
//!
//! What is forged is a value, a row, or a row too many, with pages and checksums as SQLite writes them. Who sets back all
//! columns of a head together, or hides a stream, hides what it says until `weir verify` is run (docs/adr/0016).

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use serde_json::Value;

use crate::outside::Desk;

/// Columns that no event determines.
const NOT_DERIVED: &[(&str, &str)] = &[("streams", "owner")];

/// Columns by which a stream or branch is found; removed rows have no column. Who forges them hides the events that it leads to, which
/// `verify` finds and no read can see.
const LEADS_TO_EVENTS: &[(&str, &[&str])] =
    &[("streams", &["", "no", "name"]), ("branches", &["", "stream", "name"])];

/// Rows of one table that are forged, at most.
const ROWS_MAX: i64 = 40;

/// Forgeries that the bounded test tries.
const CASES: usize = 48;

/// A change of the journal.
struct Forgery {
    what: String,
    table: String,
    column: String,
    sql: String,
    values: Vec<Stored>,
}

/// A session that waits for an approval, one that ended, a revoked and a valid token, a purse, a fork, a key and a blob.
fn specimen() -> (Desk, String, String) {
    let desk = Desk::new();
    let project = &desk.project;
    let spec = std::fs::read_to_string(project.weir.path().join("weir.yaml")).unwrap();
    project.write("weir.yaml", &format!("{spec}budgets: {{ per_agent: {{ model_calls: 10 }} }}\n"));
    project.build();
    project.chat("helper", "hello", &[]);
    let revoked =
        project.json(&["token", "issue", "--principal", "user:eve"])["id"].as_str().unwrap().to_owned();
    project.ok(&["token", "issue", "--principal", "user:zoe"]);
    project.ok(&["token", "revoke", &revoked]);
    let append = ["append", "--stream", "notes", "--kind", "note.added", "--payload"];
    for n in 0..3 {
        project.ok(&[&append[..], &["{}", "--key", &format!("key-{n}")]].concat());
    }
    let large = format!("\"{}\"", "large ".repeat(20_000));
    project.write("large.json", &large);
    project.ok(&["append", "--stream", "notes", "--kind", "note.large", "--payload-file", "large.json"]);
    project.ok(&["branch", "fork", "--stream", "notes", "--at", "2", "--name", "draft"]);
    project.ok(&["append", "--stream", "notes", "--branch", "draft", "--kind", "note.edited"]);
    let (waiting, _) = desk.ask("helper", "ring", &["--live-writes"]);
    desk.rings();
    (desk, waiting, revoked)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => _ = std::fs::copy(&path, target).unwrap(),
        }
    }
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Other values that a column could have: near it, another row's, empty, none.
fn others(connection: &Connection, table: &str, column: &str, value: &Stored) -> Vec<Stored> {
    let mut others = match value {
        Stored::Integer(number) => {
            vec![Stored::Integer(number + 1), Stored::Integer(number - 1), Stored::Integer(0)]
        }
        Stored::Text(text) => vec![Stored::Text(format!("{text}x"))],
        Stored::Blob(bytes) => {
            let mut flipped = bytes.clone();
            flipped.last_mut().into_iter().for_each(|byte| *byte ^= 1);
            vec![Stored::Blob(flipped), Stored::Blob(vec![0; bytes.len()])]
        }
        Stored::Null | Stored::Real(_) => Vec::new(),
    };
    others.push(Stored::Null);
    let sql = format!("SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT ?1 LIMIT 2");
    let mut statement = connection.prepare(&sql).unwrap();
    others.extend(statement.query_map([value], |row| row.get(0)).unwrap().map(Result::unwrap));
    others.retain(|other| other != value);
    others
}

/// Every forgery of a journal.
fn forgeries(connection: &Connection) -> Vec<Forgery> {
    let mut forgeries = Vec::new();
    for table in texts(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'") {
        let columns = texts(connection, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let keys = texts(connection, &format!("SELECT name FROM pragma_table_info('{table}') WHERE pk > 0"));
        let count: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        for nth in 0..count.min(ROWS_MAX) {
            // The newest rows are the interesting ones.
            let nth = count - 1 - nth;
            let sql = format!("SELECT {} FROM {table} LIMIT 1 OFFSET {nth}", columns.join(", "));
            let row: Vec<Stored> = connection
                .query_row(&sql, [], |row| (0..columns.len()).map(|column| row.get(column)).collect())
                .unwrap();
            let of_row: Vec<Stored> = keys
                .iter()
                .map(|key| row[columns.iter().position(|name| name == key).unwrap()].clone())
                .collect();
            let place = |from: usize| {
                let terms = keys.iter().enumerate().map(|(n, key)| format!("{key} = ?{}", from + n));
                terms.collect::<Vec<_>>().join(" AND ")
            };
            let mut forge = |what: String, column: &str, sql: String, values| {
                let (table, column) = (table.clone(), column.to_owned());
                forgeries.push(Forgery { what, table, column, sql, values });
            };
            let sql = format!("DELETE FROM {table} WHERE {}", place(1));
            forge(format!("row {nth} of {table} removed"), "", sql, of_row.clone());
            for (column, value) in columns.iter().zip(&row) {
                for other in others(connection, &table, column, value) {
                    let sql = format!("UPDATE {table} SET {column} = ?1 WHERE {}", place(2));
                    let what = format!("{column} of row {nth} of {table}: {value:?} became {other:?}");
                    let values = std::iter::once(other).chain(of_row.clone()).collect();
                    forge(what.chars().take(300).collect(), column, sql, values);
                }
            }
        }
    }
    forgeries
}

/// What is left in each purse, by its name.
fn purses(shown: &str) -> Vec<(String, u64)> {
    let lines = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["scope"].to_string(), line["left"]["model_calls"].as_u64().unwrap())).collect()
}

/// Whether `verify` must find it: something was changed that events determine.
fn is_derived(forgery: &Forgery) -> bool {
    !NOT_DERIVED.contains(&(&forgery.table, &forgery.column))
}

/// Whether it hides the events of a stream or branch.
fn hides_events(forgery: &Forgery) -> bool {
    let of_table = LEADS_TO_EVENTS.iter().find(|(table, _)| *table == forgery.table);
    of_table.is_some_and(|(_, columns)| columns.contains(&&*forgery.column))
}

#[test]
fn rows_that_are_forged_are_found_and_open_nothing() {
    let (desk, waiting, revoked) = specimen();
    let project = &desk.project;
    project.ok(&["verify"]);
    let truth = purses(&project.ok(&["budget", "show", "--json"]));
    assert!(truth.iter().any(|(_, left)| *left < 10), "{truth:?}");
    let connection = Connection::open(project.weir.journal()).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let all = forgeries(&connection);
    connection.close().unwrap();
    let step = if std::env::var_os("WEIR_SOAK").is_some() { 1 } else { all.len() / CASES };
    // Which of them are tried is another matter each time; a failure names the statement and its values.
    let start = std::process::id() as usize % step;
    let (mut applied, mut wrong) = (0, Vec::new());
    for forgery in all.iter().skip(start).step_by(step) {
        let forged = project.weir.path().join("forged");
        let _ = std::fs::remove_dir_all(&forged);
        copy(&project.weir.data(), &forged);
        let connection = Connection::open(forged.join("journal.db")).unwrap();
        // A value that the constraints of a table refuse is no forgery.
        let changed =
            connection.execute(&forgery.sql, rusqlite::params_from_iter(&forgery.values)).unwrap_or(0);
        connection.close().unwrap();
        if changed == 0 {
            continue;
        }
        applied += 1;
        let here = |args: &[&str]| project.run(&[args, &["--data-dir", "forged"]].concat());
        let mut bad = |what: &str| wrong.push(format!("{}: {what}", forgery.what));
        if is_derived(forgery) && here(&["verify"]).code == 0 {
            bad("`verify` did not find it");
        }
        let tokens = here(&["token", "list", "--json"]);
        let counts = tokens.stdout.lines().any(|line| {
            let token: Value = serde_json::from_str(line).unwrap();
            token["id"] == *revoked && token["revoked"].is_null()
        });
        if tokens.code == 0 && counts {
            bad("a revoked token counts");
        }
        let budgets = here(&["budget", "show", "--json"]);
        if budgets.code == 0
            && !hides_events(forgery)
            && purses(&budgets.stdout)
                .iter()
                .any(|(name, left)| truth.iter().any(|(known, before)| known == name && left > before))
        {
            bad("a purse has more in it");
        }
        here(&["session", "resume", &waiting, "--live-writes"]);
        if desk.rings() > 0 {
            bad("a call ran that nobody approved");
        }
    }
    assert!(wrong.is_empty(), "{applied} applied: {wrong:#?}");
    assert!(applied > CASES / 4, "only {applied} applied");
}
