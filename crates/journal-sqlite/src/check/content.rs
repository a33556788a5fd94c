//! Decoding records: is each event the one that its chain says, and is it found by its cause, its blobs, its key? And does
//! each key name the events that were appended with it?

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::params;
use weir_journal::content as content_hash;
use weir_types::{Event, Hash, Kind};

use super::damage;
use super::findings::Findings;
use super::moment::KeyRow;
use crate::read::Reader;
use crate::record::KeyNote;
use crate::rows::{BranchRow, EventRow, Result, clamp};

/// Events in the order in which they were read.
pub(super) type Batch = Vec<Item>;

/// An event to decode.
pub(super) struct Item {
    pub(super) branch: Arc<BranchRow>,
    pub(super) row: EventRow,
    /// The chain that it continues, if that is known.
    pub(super) before: Option<Hash>,
    /// The key whose first event it is.
    pub(super) key: Option<KeyRow>,
}

/// Rows that events explain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) causes: u64,
    pub(super) refs: u64,
    /// Events whose records were written before they had the key of their append.
    pub(super) keys_not_known: u64,
    /// Events that could not be read, so that it is not known what they explain.
    pub(super) failed: u64,
}

impl Found {
    pub(super) fn add(&mut self, part: Self) {
        self.causes += part.causes;
        self.refs += part.refs;
        self.keys_not_known += part.keys_not_known;
        self.failed += part.failed;
    }
}

/// A key whose events are being read.
struct Keyed {
    branch: Arc<BranchRow>,
    key: KeyRow,
    /// The next of its events.
    next: u64,
    events: Vec<(Kind, Hash, Vec<Hash>)>,
}

/// Takes batches until there are no more. `by_id`: also look each event up by its id, as SQLite's own check does for a
/// whole file.
pub(super) fn run(
    reader: &mut Reader,
    inbox: &Mutex<Receiver<Batch>>,
    findings: &Findings,
    by_id: bool,
) -> Result<Found> {
    let mut found = Found::default();
    loop {
        let batch = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return Ok(found) };
        reader.transaction(|reader| {
            let mut keyed = None;
            for item in batch {
                check(reader, item, &mut keyed, findings, by_id, &mut found)?;
            }
            if let Some(keyed) = keyed {
                keyed.end(findings);
            }
            Ok(())
        })?;
    }
}

fn check(
    reader: &mut Reader,
    item: Item,
    keyed: &mut Option<Keyed>,
    findings: &Findings,
    by_id: bool,
    found: &mut Found,
) -> Result<()> {
    let Item { branch, row, before, key } = item;
    let is_named = key.is_some();
    if let Some(key) = key {
        if let Some(unfinished) = keyed.take() {
            unfinished.end(findings);
        }
        *keyed = Some(Keyed { branch: branch.clone(), next: key.first, key, events: Vec::new() });
    }
    // Without the event before it, there is nothing that proves it; its branch is damaged before it.
    let Some(before) = before else { return Ok(()) };
    let (event, key) = match reader.finish(&branch, &row, before) {
        Ok(loaded) => (loaded.event, loaded.key),
        Err(error) => {
            findings.at_event(&branch, row.seq, damage(error)?);
            found.failed += 1;
            return Ok(());
        }
    };
    found.keys_not_known += u64::from(key == KeyNote::Unknown);
    match key_row(reader, &row, &key, is_named) {
        Ok(None) => {}
        Ok(Some(what)) => findings.in_table(&branch, row.seq, "keys", what),
        Err(error) => findings.in_table(&branch, row.seq, "keys", damage(error)?),
    }
    match links(reader, &event, row.position, by_id) {
        Ok(Linked { missing, part }) => {
            found.add(part);
            if let Some((table, what)) = missing {
                findings.in_table(&branch, row.seq, table, what);
            }
        }
        Err(error) => {
            findings.at_event(&branch, row.seq, damage(error)?);
            found.failed += 1;
        }
    }
    if !event.refs.is_empty() {
        findings.needs(&branch, row.seq, &event.refs);
    }
    if let Some(part) = keyed {
        part.take(&branch, event);
        if part.next > part.key.last
            && let Some(part) = keyed.take()
        {
            part.end(findings);
        }
    }
    Ok(())
}

/// What finds an event.
struct Linked {
    /// The table that does not, and what to say.
    missing: Option<(&'static str, &'static str)>,
    part: Found,
}

fn links(reader: &Reader, event: &Event, position: i64, by_id: bool) -> Result<Linked> {
    let (mut missing, mut part) = (None, Found::default());
    let rows = &reader.rows;
    if by_id {
        let sql = "SELECT position FROM events WHERE id = ?1";
        let by_id: Option<i64> = rows.one(sql, [event.id.to_bytes()], |row| row.get(0))?;
        if by_id != Some(position) {
            missing = Some(("events", "it is not found by its id"));
        }
    }
    if let Some(cause) = event.meta.causation() {
        let sql = "SELECT 1 FROM causes WHERE cause = ?1 AND position = ?2";
        match rows.one(sql, params![cause.to_bytes(), position], |_| Ok(()))? {
            Some(()) => part.causes += 1,
            None => missing = Some(("causes", "it is not found by its cause")),
        }
    }
    let mut hashes = event.refs.clone();
    hashes.sort_unstable_by_key(|hash| *hash.as_bytes());
    hashes.dedup();
    for hash in hashes {
        let sql = "SELECT 1 FROM refs WHERE hash = ?1 AND position = ?2";
        match rows.one(sql, params![hash.as_bytes(), position], |_| Ok(()))? {
            Some(()) => part.refs += 1,
            None => missing = Some(("refs", "it is not found by a blob it refers to")),
        }
    }
    Ok(Linked { missing, part })
}

/// What is wrong with the row of `keys` that an event's record asks for. `is_named`: a row names it as its first event.
fn key_row(reader: &Reader, row: &EventRow, key: &KeyNote, is_named: bool) -> Result<Option<&'static str>> {
    let (key, events) = match key {
        KeyNote::Unknown => return Ok(None),
        KeyNote::None => {
            return Ok(is_named.then_some("a key names an event that was not appended with it"));
        }
        KeyNote::First { key, events } => (key, *events),
    };
    let last = row.seq.saturating_add(events).saturating_sub(1);
    let expected = (clamp(row.seq), clamp(last), row.position);
    let sql = "SELECT first, last, position FROM keys WHERE branch = ?1 AND key = ?2";
    let stored = reader.rows.one(sql, params![row.branch, key.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    Ok(match stored {
        None => Some("the key that it was appended with is missing"),
        Some(stored) if stored != expected => Some("the key that it was appended with names other events"),
        Some(_) => None,
    })
}

impl Keyed {
    fn take(&mut self, branch: &BranchRow, event: Event) {
        if branch.no == self.branch.no && event.seq.0 == self.next {
            self.events.push((event.kind, event.payload_hash, event.refs));
            self.next += 1;
        }
    }

    fn end(self, findings: &Findings) {
        let wrong = |what: &str| findings.in_table(&self.branch, self.key.first, "keys", what);
        if self.next <= self.key.last {
            return wrong("a key names events that are not there");
        }
        let parts = self.events.iter().map(|(kind, payload, refs)| (kind, *payload, refs.as_slice()));
        if content_hash(parts) != self.key.content {
            wrong("a key was used for other content");
        }
    }
}
