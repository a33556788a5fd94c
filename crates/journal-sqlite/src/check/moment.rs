//! The tables that say which branches there are, and what they looked like at the moment when the check began.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, Row};
use weir_journal::{Attrs, Problem, ReadError, SNAPSHOT_MAX, Status};
use weir_types::{BranchId, BranchName, Hash, Kind, OwnerId, StreamName};

use super::findings::Findings;
use super::{Scope, damage, in_table};
use crate::rows::{BranchRow, Error, HeadRow, NEWEST_POSITION, Result, convert, parse, timestamp, unsigned};

/// A place in the chain of a branch that something else names.
pub(super) type Place = (i64, u64);

/// A branch, its head, and the event that it was forked at.
pub(super) struct Subject {
    pub(super) row: Arc<BranchRow>,
    /// `None` if it is missing or malformed.
    pub(super) head: Option<HeadRow>,
    /// The own event of an ancestor that the branch continues; none for `main`.
    pub(super) forked_at: Option<Place>,
}

/// A row of `keys`.
pub(super) struct KeyRow {
    pub(super) branch: i64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) content: Hash,
}

/// A row of `snapshots`.
pub(super) struct SnapshotRow {
    pub(super) branch: Arc<BranchRow>,
    pub(super) place: Place,
    pub(super) chain: Hash,
}

/// How many rows the tables have that hold several rows per branch.
pub(super) struct Counts {
    pub(super) blocks: u64,
    pub(super) kind_blocks: u64,
    pub(super) causes: u64,
    pub(super) refs: u64,
}

/// The small tables of one moment.
pub(super) struct Moment {
    /// The newest position.
    pub(super) end: i64,
    pub(super) streams: u64,
    pub(super) subjects: Vec<Subject>,
    pub(super) kinds: HashMap<i64, Kind>,
    /// By the position of the first event.
    pub(super) keys: HashMap<i64, KeyRow>,
    pub(super) snapshots: Vec<SnapshotRow>,
    pub(super) counts: Counts,
}

/// Reads the tables. Rows that cannot be are findings.
pub(super) fn read(
    connection: &Connection,
    scope: &Scope,
    with_keys: bool,
    findings: &Findings,
) -> Result<Moment> {
    let end = connection.query_row(NEWEST_POSITION, [], |row| row.get(0)).map_err(Error::from);
    let end = end.or_else(|error| lost("events", error, findings).map(|()| i64::MAX))?;
    let table = Table { connection, findings };
    let streams = table.streams()?;
    let wanted = match &scope.stream {
        None => None,
        Some(name) => {
            let found = streams.iter().find(|(_, known)| *known == name);
            Some(*found.ok_or_else(|| ReadError::NoStream(name.clone()))?.0)
        }
    };
    let mut branches = table.branches(&streams)?;
    if wanted.is_none() {
        main_branches(&streams, &branches, findings);
    }
    branches.retain(|_, row| wanted.is_none_or(|wanted| row.stream == wanted));
    let heads = table.heads(&branches, wanted.is_none())?;
    let subjects = subjects(&branches, heads, findings);
    let (keys, snapshots) = match with_keys {
        true => (table.keys(&branches, wanted.is_none())?, table.snapshots(&branches, wanted.is_none())?),
        false => (HashMap::new(), Vec::new()),
    };
    table.attrs(&branches, wanted.is_none())?;
    let counts = Counts {
        blocks: table.count("blocks")?,
        kind_blocks: table.count("kind_blocks")?,
        causes: table.count("causes")?,
        refs: table.count("refs")?,
    };
    let used: HashSet<i64> = branches.values().map(|row| row.stream).collect();
    let kinds = table.kinds()?;
    Ok(Moment { end, streams: used.len() as u64, subjects, kinds, keys, snapshots, counts })
}

/// A table that cannot be read to its end is a finding; other failures are passed on.
fn lost(table: &str, error: Error, findings: &Findings) -> Result<()> {
    let what = damage(error)?;
    findings.note(in_table(table, what));
    Ok(())
}

struct Table<'a> {
    connection: &'a Connection,
    findings: &'a Findings,
}

impl Table<'_> {
    /// Hands each row to `take`; what is wrong with one is a finding, and so is a table that ends early.
    fn each(
        &self,
        table: &str,
        sql: &str,
        mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let Err(error) = take(row) {
                    let name = row.get_ref(0).ok().map_or_else(String::new, |value| match value.as_i64() {
                        Ok(number) => format!("row {number}: "),
                        Err(_) => String::new(),
                    });
                    self.findings.note(in_table(table, format!("{name}{error}")));
                }
            }
            Ok(())
        };
        read().map_err(Error::from).or_else(|error| lost(table, error, self.findings))
    }

    fn count(&self, table: &str) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {table}");
        let counted = self.connection.query_row(&sql, [], |row| unsigned(row, 0)).map_err(Error::from);
        counted.or_else(|error| lost(table, error, self.findings).map(|()| 0))
    }

    /// Rows of these tables are never removed, and their numbers are given out one after another.
    fn without_gaps(&self, table: &str, noun: &str, mut numbers: Vec<i64>) {
        numbers.sort_unstable();
        for (expected, found) in (1..).zip(numbers) {
            if found != expected {
                self.findings.note(in_table(table, format!("{noun} number {expected} is missing")));
                return;
            }
        }
    }

    fn streams(&self) -> Result<HashMap<i64, StreamName>> {
        let (mut found, mut names, mut numbers) = (HashMap::new(), HashMap::new(), Vec::new());
        self.each("streams", "SELECT no, name, owner FROM streams NOT INDEXED", |row| {
            let no: i64 = row.get(0)?;
            numbers.push(no);
            let name: StreamName = parse(row, 1)?;
            let owner: Option<Vec<u8>> = row.get(2)?;
            if owner.is_some_and(|owner| OwnerId::from_slice(&owner).is_none()) {
                let what = "its owner is malformed";
                self.findings.note(Problem { stream: Some(name.clone()), ..in_table("streams", what) });
            }
            if let Some(other) = names.insert(name.clone(), no) {
                let what = format!("streams number {other} and {no} have the same name");
                self.findings.note(Problem { stream: Some(name.clone()), ..in_table("streams", what) });
            }
            found.insert(no, name);
            Ok(())
        })?;
        self.without_gaps("streams", "stream", numbers);
        Ok(found)
    }

    fn branches(&self, streams: &HashMap<i64, StreamName>) -> Result<HashMap<i64, Arc<BranchRow>>> {
        let (mut found, mut names, mut numbers) = (HashMap::new(), HashMap::new(), Vec::new());
        let sql = "SELECT no, stream, name, parent, at, chain FROM branches NOT INDEXED";
        self.each("branches", sql, |row| {
            let (no, stream): (i64, i64) = (row.get(0)?, row.get(1)?);
            numbers.push(no);
            let branch: BranchName = parse(row, 2)?;
            let Some(name) = streams.get(&stream) else {
                let what = format!("branch number {no}, `{branch}`, belongs to no stream");
                self.findings.note(in_table("branches", what));
                return Ok(());
            };
            let id = BranchId { stream: name.clone(), branch };
            if let Some(other) = names.insert((stream, id.branch.clone()), no) {
                let what = format!("branches number {other} and {no} have the same name");
                self.findings.of_branch(no, Problem::at_branch(&id, what).in_place("table `branches`"));
            }
            let (parent, at, chain) = (row.get(3)?, unsigned(row, 4)?, convert(row, 5, Hash::from_slice)?);
            found.insert(no, Arc::new(BranchRow { no, stream, id, parent, at, chain }));
            Ok(())
        })?;
        self.without_gaps("branches", "branch", numbers);
        Ok(found)
    }

    fn heads(
        &self,
        branches: &HashMap<i64, Arc<BranchRow>>,
        is_whole: bool,
    ) -> Result<HashMap<i64, HeadRow>> {
        let mut found = HashMap::new();
        self.each("heads", "SELECT branch, seq, chain, ts, position, open FROM heads", |row| {
            let no: i64 = row.get(0)?;
            let Some(branch) = branches.get(&no) else {
                if is_whole {
                    self.no_branch("heads", no);
                }
                return Ok(());
            };
            let (seq, chain) = (unsigned(row, 1)?, convert(row, 2, Hash::from_slice)?);
            let head =
                HeadRow { seq, chain, ts: timestamp(row, 3)?, position: row.get(4)?, open: row.get(5)? };
            if head.seq < branch.at {
                let what = "the head of its branch lies before its fork";
                self.findings.in_table(branch, head.seq, "heads", what);
                return Ok(());
            }
            found.insert(no, head);
            Ok(())
        })?;
        Ok(found)
    }

    fn no_branch(&self, table: &str, no: i64) {
        self.findings
            .note(in_table(table, format!("it has a row for branch number {no}, which does not exist")));
    }

    fn kinds(&self) -> Result<HashMap<i64, Kind>> {
        let (mut found, mut names, mut numbers) = (HashMap::new(), HashMap::new(), Vec::new());
        self.each("kinds", "SELECT no, name FROM kinds NOT INDEXED", |row| {
            let no: i64 = row.get(0)?;
            numbers.push(no);
            let kind: Kind = parse(row, 1)?;
            if let Some(other) = names.insert(kind.clone(), no) {
                let what = format!("kinds number {other} and {no} have the same name `{kind}`");
                self.findings.note(in_table("kinds", what));
            }
            found.insert(no, kind);
            Ok(())
        })?;
        self.without_gaps("kinds", "kind", numbers);
        Ok(found)
    }

    fn keys(&self, branches: &HashMap<i64, Arc<BranchRow>>, is_whole: bool) -> Result<HashMap<i64, KeyRow>> {
        let mut found = HashMap::new();
        self.each("keys", "SELECT branch, first, last, position, content, key FROM keys", |row| {
            let no: i64 = row.get(0)?;
            let Some(branch) = branches.get(&no) else {
                if is_whole {
                    self.no_branch("keys", no);
                }
                return Ok(());
            };
            let (first, last, position): (u64, u64, i64) =
                (unsigned(row, 1)?, unsigned(row, 2)?, row.get(3)?);
            let is_text = row.get_ref(5)?.as_str().is_ok_and(|key| key.parse::<weir_journal::Key>().is_ok());
            if !is_text {
                self.findings.in_table(branch, first, "keys", "a key is malformed");
            }
            if first <= branch.at || last < first {
                let what = "a key names events that its branch does not have";
                self.findings.in_table(branch, first, "keys", what);
                return Ok(());
            }
            let content = convert(row, 4, Hash::from_slice)?;
            if found.insert(position, KeyRow { branch: no, first, last, content }).is_some() {
                self.findings.in_table(branch, first, "keys", "two keys name the same event");
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn snapshots(&self, branches: &HashMap<i64, Arc<BranchRow>>, is_whole: bool) -> Result<Vec<SnapshotRow>> {
        let mut found = Vec::new();
        self.each(
            "snapshots",
            "SELECT branch, seq, chain, length(state) FROM snapshots NOT INDEXED",
            |row| {
                let no: i64 = row.get(0)?;
                let Some(branch) = branches.get(&no) else {
                    if is_whole {
                        self.no_branch("snapshots", no);
                    }
                    return Ok(());
                };
                let seq = unsigned(row, 1)?;
                let place = if seq > branch.at { Some((no, seq)) } else { ancestor(branches, branch, seq) };
                match place {
                    Some(place) if unsigned(row, 3)? <= SNAPSHOT_MAX as u64 => {
                        let chain = convert(row, 2, Hash::from_slice)?;
                        found.push(SnapshotRow { branch: branch.clone(), place, chain });
                    }
                    Some(_) => self.findings.in_table(branch, seq, "snapshots", "a snapshot is too large"),
                    None => {
                        let what = "a snapshot names an event that its branch does not have";
                        self.findings.in_table(branch, seq, "snapshots", what);
                    }
                }
                Ok(())
            },
        )?;
        Ok(found)
    }

    fn attrs(&self, branches: &HashMap<i64, Arc<BranchRow>>, is_whole: bool) -> Result<()> {
        let sql = "SELECT branch, status, principal, agent, title, due FROM attrs NOT INDEXED";
        self.each("attrs", sql, |row| {
            let no: i64 = row.get(0)?;
            let Some(branch) = branches.get(&no) else {
                if is_whole {
                    self.no_branch("attrs", no);
                }
                return Ok(());
            };
            let wrong = |what: &str| {
                self.findings.of_branch(no, Problem::at_branch(&branch.id, what).in_place("table `attrs`"));
            };
            if parse::<Status>(row, 1).is_err() {
                wrong("the status is not one of the known words");
            }
            let texts: [Option<String>; 3] = [row.get(2)?, row.get(3)?, row.get(4)?];
            if texts.iter().flatten().any(|text| text.len() > Attrs::TEXT_MAX) {
                wrong("a text is too long");
            }
            if row.get::<_, Option<i64>>(5)?.is_some() && timestamp(row, 5).is_err() {
                wrong("the time when something is due is malformed");
            }
            Ok(())
        })
    }
}

/// Every stream has a branch `main`, which has no parent.
fn main_branches(
    streams: &HashMap<i64, StreamName>,
    branches: &HashMap<i64, Arc<BranchRow>>,
    findings: &Findings,
) {
    let roots: HashSet<i64> =
        branches.values().filter(|row| row.id.branch == BranchName::main()).map(|row| row.stream).collect();
    for (no, name) in streams {
        if !roots.contains(no) {
            let problem = in_table("branches", "the stream has no branch `main`");
            findings.note(Problem { stream: Some(name.clone()), ..problem });
        }
    }
}

fn subjects(
    branches: &HashMap<i64, Arc<BranchRow>>,
    mut heads: HashMap<i64, HeadRow>,
    findings: &Findings,
) -> Vec<Subject> {
    let mut subjects = Vec::with_capacity(branches.len());
    for (no, row) in branches {
        let forked_at = fork_point(branches, row, findings);
        let head = heads.remove(no);
        if head.is_none() {
            findings.in_table(row, row.at + 1, "heads", "the head of its branch is missing or malformed");
        }
        subjects.push(Subject { row: row.clone(), head, forked_at });
    }
    subjects.sort_by_key(|subject| subject.row.no);
    subjects
}

/// Where a branch continues another one; what cannot be such a place is a finding.
fn fork_point(
    branches: &HashMap<i64, Arc<BranchRow>>,
    row: &BranchRow,
    findings: &Findings,
) -> Option<Place> {
    let is_main = row.id.branch == BranchName::main();
    let Some(parent) = row.parent else {
        if row.at != 0 || row.chain != Hash::ZERO || !is_main {
            findings.in_table(row, row.at + 1, "branches", "its branch has no parent");
        }
        return None;
    };
    let parent = branches.get(&parent).filter(|parent| parent.stream == row.stream && parent.no < row.no);
    if parent.is_none() || is_main {
        let what = "its fork pointer names a branch that cannot be its parent";
        findings.in_table(row, row.at, "branches", what);
        return None;
    }
    let place = ancestor(branches, row, row.at);
    if place.is_none() {
        findings.in_table(row, row.at, "branches", "its fork pointer names an event that does not exist");
    }
    place
}

/// The branch of the lineage that the event `seq` was appended to, for a `seq` that `row` shares with its parent.
fn ancestor(branches: &HashMap<i64, Arc<BranchRow>>, row: &BranchRow, seq: u64) -> Option<Place> {
    let mut no = row.no;
    let mut next = row.parent?;
    loop {
        // INVARIANT: parents have smaller numbers, so that this ends whatever the table says.
        let parent = branches.get(&next).filter(|parent| parent.no < no)?;
        if seq > parent.at {
            return Some((parent.no, seq));
        }
        (no, next) = (parent.no, parent.parent?);
    }
}
