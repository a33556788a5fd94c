//! The pages of the file, as SQLite itself checks them: every b-tree, every index against its table, the list of free
//! pages; and the schema, compared with the one that this version makes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;
use weir_journal::{Problem, StorageFailure};
use weir_types::StreamName;

use super::findings::Findings;
use super::{Depth, Stop};
use crate::connection::failure;
use crate::pool::Pool;
use crate::rows::{Result, parse};
use crate::{dictionary, schema};

/// Findings of SQLite that are kept.
const MESSAGES_MAX: usize = 50;

/// Steps of SQLite between looks at whether the caller still waits.
const STEPS: i32 = 100_000;

/// Small tables, whose indexes are also compared with them by the quick check.
const SMALL: [&str; 5] = ["streams", "branches", "heads", "kinds", "attrs"];

/// Checks the file. Blocks.
pub(super) fn check(pool: &Arc<Pool>, depth: Depth, findings: &Findings, stop: &Stop) -> Result<()> {
    let mut reader = pool.private_reader()?;
    let connection = &mut reader.rows.connection;
    let abandoned = stop.clone();
    connection.progress_handler(STEPS, Some(move || abandoned.load(Ordering::Relaxed)))?;
    let checked = run(connection, depth, findings);
    match checked {
        Err(error) if stop.load(Ordering::Relaxed) || failure(&error) != StorageFailure::Corrupt => {
            Err(error.into())
        }
        Err(error) => {
            findings.note(in_file(format!("it cannot be checked to its end ({error})")));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn run(connection: &Connection, depth: Depth, findings: &Findings) -> rusqlite::Result<()> {
    let names = Names::read(connection)?;
    compare_schema(connection, findings)?;
    for stored in dictionary::check(connection)? {
        if !stored.is_sound {
            findings.note(dictionary_damaged(connection, stored.no)?);
        } else if !is_used(connection, stored.no)? {
            let what = format!("no record is compressed with dictionary {}", stored.no);
            findings.note(Problem::at_place("table `dictionaries`", what));
        }
    }
    match depth {
        Depth::Full => pragma(connection, &format!("integrity_check({MESSAGES_MAX})"), &names, findings),
        Depth::Quick => {
            pragma(connection, &format!("quick_check({MESSAGES_MAX})"), &names, findings)?;
            SMALL.iter().try_for_each(|table| {
                pragma(connection, &format!("integrity_check({table})"), &names, findings)
            })
        }
    }
}

fn in_file(what: impl Into<String>) -> Problem {
    Problem::at_place("file `journal.db`", what)
}

/// The tables and indexes are defined as this version defines them: SQLite enforces what the file says.
fn compare_schema(connection: &Connection, findings: &Findings) -> rusqlite::Result<()> {
    let mut reference = Connection::open_in_memory()?;
    schema::migrate(&mut reference, schema::STEPS)?;
    let (expected, mut found) = (definitions(&reference)?, definitions(connection)?);
    for (name, definition) in expected {
        match found.remove(&name) {
            Some(same) if same == definition => {}
            Some(_) => findings
                .note(Problem::at_place(format!("table or index `{name}`"), "its definition was changed")),
            None => findings.note(Problem::at_place(format!("table or index `{name}`"), "it is missing")),
        }
    }
    for name in found.into_keys() {
        let what = "it does not belong to a journal";
        findings.note(Problem::at_place(format!("table or index `{name}`"), what));
    }
    Ok(())
}

/// What the file says each table and index is.
type Definitions = HashMap<String, (String, String, Option<String>)>;

fn definitions(connection: &Connection) -> rusqlite::Result<Definitions> {
    // `sqlite_stat…` is made by ANALYZE, which changes nothing that is stored.
    let sql = "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))))?;
    rows.collect()
}

/// Names the first event that is compressed with a damaged dictionary.
fn dictionary_damaged(connection: &Connection, no: i64) -> rusqlite::Result<Problem> {
    let what = format!("dictionary {no}, which records are compressed with, is damaged or missing");
    let sql = "SELECT streams.name, branches.name, seq FROM events JOIN branches ON branches.no = branch \
               JOIN streams ON streams.no = stream WHERE form = ?1 ORDER BY position LIMIT 1";
    let mut problem = Problem::at_place("table `dictionaries`", what);
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([no])?;
    if let Some(row) = rows.next()? {
        problem.stream = parse(row, 0).ok();
        problem.branch = parse(row, 1).ok();
        problem.seq = row.get::<_, i64>(2).ok().map(|seq| weir_types::Seq(seq.unsigned_abs()));
    }
    Ok(problem)
}

/// Whether a dictionary belongs there: this version writes with it, or an event is compressed with it.
fn is_used(connection: &Connection, no: i64) -> rusqlite::Result<bool> {
    if no == dictionary::CURRENT {
        return Ok(true);
    }
    connection.query_row("SELECT EXISTS (SELECT 1 FROM events WHERE form = ?1)", [no], |row| row.get(0))
}

/// Which table or index has which pages, and which table an index is of.
struct Names {
    by_root: HashMap<u64, String>,
    tables: HashMap<String, String>,
}

impl Names {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let (mut by_root, mut tables) =
            (HashMap::from([(1, "table `sqlite_schema`".to_owned())]), HashMap::new());
        let mut statement = connection.prepare("SELECT type, name, tbl_name, rootpage FROM sqlite_schema")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (noun, name): (String, String) = (row.get(0)?, row.get(1)?);
            by_root.insert(row.get::<_, i64>(3)?.unsigned_abs(), format!("{noun} `{name}`"));
            tables.insert(name, row.get(2)?);
        }
        Ok(Self { by_root, tables })
    }
}

fn pragma(connection: &Connection, pragma: &str, names: &Names, findings: &Findings) -> rusqlite::Result<()> {
    let mut messages = Vec::new();
    {
        let mut statement = connection.prepare(&format!("PRAGMA {pragma}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            messages.push(row.get::<_, String>(0)?);
        }
    }
    let lines = messages.iter().flat_map(|message| message.lines());
    for line in lines.filter(|line| *line != "ok" && !line.starts_with("***")) {
        findings.note(explain(connection, line, names));
    }
    Ok(())
}

/// What a line of SQLite's check says, with the table or index and, if it names a row, the stream.
fn explain(connection: &Connection, line: &str, names: &Names) -> Problem {
    if let Some((root, what)) = line.strip_prefix("Tree ").and_then(|rest| rest.split_once(' '))
        && let Some(name) = root.parse().ok().and_then(|root: u64| names.by_root.get(&root))
    {
        return Problem::at_place(name.clone(), what);
    }
    let index = line.rsplit_once(" index ").map(|(_, index)| index);
    if let Some((index, table)) = index.and_then(|index| Some((index, names.tables.get(index)?))) {
        let mut problem = Problem::at_place(format!("index `{index}` of table `{table}`"), line);
        let row = line.strip_prefix("row ").and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
        problem.stream = row.and_then(|row| stream_of(connection, table, row));
        return problem;
    }
    let table = names.tables.values().find(|table| line.contains(&format!(" {table}.")));
    match table {
        Some(table) => Problem::at_place(format!("table `{table}`"), line),
        None => in_file(line),
    }
}

/// The stream that a row of a table belongs to.
fn stream_of(connection: &Connection, table: &str, row: i64) -> Option<StreamName> {
    let sql = match table {
        "streams" => "SELECT name FROM streams NOT INDEXED WHERE no = ?1",
        "branches" => {
            "SELECT name FROM streams WHERE no = (SELECT stream FROM branches NOT INDEXED WHERE no = ?1)"
        }
        "attrs" => {
            "SELECT streams.name FROM attrs JOIN branches ON branches.no = attrs.branch \
             JOIN streams ON streams.no = stream WHERE attrs.branch = ?1"
        }
        "events" => {
            "SELECT streams.name FROM events JOIN branches ON branches.no = branch \
             JOIN streams ON streams.no = stream WHERE position = ?1"
        }
        _ => return None,
    };
    connection.query_row(sql, [row], |row| parse(row, 0)).ok()
}
