//! Rows that no event explains. Only looked for when there are more rows than events explain.

use std::collections::HashMap;

use rusqlite::params;
use weir_types::{EventId, Hash};

use super::findings::Findings;
use super::in_table;
use crate::block::{self, BLOCK};
use crate::read::Reader;
use crate::rows::{Result, convert};

/// There are more rows than events explain.
pub(super) struct More {
    pub(super) table: &'static str,
    pub(super) number: u64,
    /// Every event was read. Otherwise those that were not may explain the rows.
    pub(super) is_complete: bool,
}

/// Names the first rows of a table that no event explains.
pub(super) fn rows_too_many(reader: &mut Reader, more: &More, findings: &Findings) -> Result<()> {
    let More { table, number, is_complete } = *more;
    let named = match table {
        "causes" => links(reader, findings, Link::Cause, is_complete),
        "refs" => links(reader, findings, Link::Blob, is_complete),
        "blocks" => blocks(reader, findings),
        _ => kind_blocks(reader, findings),
    };
    // A table that cannot be read to its end has been named by other checks.
    if is_complete && !named.unwrap_or(false) {
        findings.note(in_table(table, format!("it has {number} more rows than its events explain")));
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Cause,
    Blob,
}

fn links(reader: &mut Reader, findings: &Findings, link: Link, is_complete: bool) -> Result<bool> {
    let (table, sql) = match link {
        Link::Cause => (
            "causes",
            "SELECT cause, position FROM causes WHERE (cause, position) > (?1, ?2) ORDER BY cause, position LIMIT 1000",
        ),
        Link::Blob => (
            "refs",
            "SELECT hash, position FROM refs WHERE (hash, position) > (?1, ?2) ORDER BY hash, position LIMIT 1000",
        ),
    };
    let mut after: (Vec<u8>, i64) = (Vec::new(), i64::MIN);
    let mut is_named = false;
    loop {
        let page: Vec<(Vec<u8>, i64)> =
            reader.rows.many(sql, params![after.0, after.1], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some(last) = page.last().filter(|last| **last > after) else { return Ok(is_named) };
        after = last.clone();
        for (name, position) in page {
            let Ok(loaded) = reader.at_position(position) else {
                if !is_complete {
                    continue;
                }
                let what = format!("it has a row for position {position}, where there is no sound event");
                findings.note(in_table(table, what));
                is_named = true;
                continue;
            };
            let event = loaded.event;
            let is_explained = match link {
                Link::Cause => event.meta.causation() == EventId::from_slice(&name),
                Link::Blob => Hash::from_slice(&name).is_some_and(|hash| event.refs.contains(&hash)),
            };
            if !is_explained {
                let branch = reader.rows.existing(&event.branch_id())?;
                findings.in_table(
                    &branch,
                    event.seq.0,
                    table,
                    "a row finds it that the event does not explain",
                );
                is_named = true;
            }
        }
    }
}

fn blocks(reader: &mut Reader, findings: &Findings) -> Result<bool> {
    let sql = "SELECT blocks.branch, n FROM blocks LEFT JOIN branches ON branches.no = blocks.branch \
               LEFT JOIN heads ON heads.branch = blocks.branch \
               WHERE seq IS NULL OR at IS NULL OR n < 0 OR n >= (seq - at) / ?1 LIMIT 10";
    let found: Vec<(i64, i64)> =
        reader.rows.many(sql, [BLOCK as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (branch, n) in &found {
        findings.note(in_table(
            "blocks",
            format!("it has block {n} of branch number {branch}, which has no such block"),
        ));
    }
    Ok(!found.is_empty())
}

fn kind_blocks(reader: &mut Reader, findings: &Findings) -> Result<bool> {
    let sql = "SELECT kind_blocks.branch, kind, kind_blocks.n, entries FROM kind_blocks \
               LEFT JOIN blocks ON blocks.branch = kind_blocks.branch AND blocks.n = kind_blocks.n";
    let mut statement = reader.rows.connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut named = HashMap::new();
    while let Some(row) = rows.next()? {
        let (branch, kind, n): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let entries = convert(row, 3, block::decode).unwrap_or_default();
        if entries.iter().any(|entry| entry.kind == kind) {
            continue;
        }
        if named.len() < 10 {
            named.insert((branch, n, kind), ());
            let what = format!(
                "it has kind number {kind} in block {n} of branch number {branch}, which has no event of that kind there"
            );
            findings.note(in_table("kind_blocks", what));
        }
    }
    Ok(!named.is_empty())
}
