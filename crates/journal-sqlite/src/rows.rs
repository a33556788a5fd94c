//! Rows as they are stored, and the look-ups by which they are found. Everything here runs on a blocking thread,
//! inside a transaction that the caller has begun.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OptionalExtension, Params, Row};
use weir_journal::{Head, ReadError, StorageFailure};
use weir_types::{BranchId, BranchName, EventId, Hash, Kind, Position, Seq, StreamName, Timestamp};

use crate::block::{self, BLOCK, Entry};
use crate::connection::failure;

/// What a look-up fails with: SQLite's error is explained at the edge, where the path is known.
#[derive(Debug)]
pub(crate) enum Error {
    Sqlite(rusqlite::Error),
    Read(ReadError),
}

impl Error {
    /// Whether what is stored makes no sense, so that reading something else may succeed.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => failure(error) == StorageFailure::Corrupt,
            Self::Read(error) => matches!(error, ReadError::Damaged { .. }),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
        }
    }
}

/// What is stored makes no sense.
pub(crate) fn corrupt(what: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(what.to_owned()))
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// What never changes about a branch.
#[derive(Debug)]
pub(crate) struct BranchRow {
    pub(crate) no: i64,
    pub(crate) stream: i64,
    pub(crate) id: BranchId,
    pub(crate) parent: Option<i64>,
    /// The last seq shared with the parent; 0 for `main`. The branch's own events follow it.
    pub(crate) at: u64,
    /// The chain its first own event continues.
    pub(crate) chain: Hash,
}

impl BranchRow {
    /// The error for an event of this branch.
    pub(crate) fn damaged(&self, seq: u64, what: impl Into<String>) -> Error {
        Error::Read(ReadError::Damaged { branch: self.id.clone(), seq: Seq(seq), what: what.into() })
    }
}

/// What changes about a branch with every append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadRow {
    pub(crate) seq: u64,
    pub(crate) chain: Hash,
    pub(crate) ts: Timestamp,
    pub(crate) position: i64,
    /// The block being filled.
    pub(crate) open: Vec<u8>,
}

impl HeadRow {
    pub(crate) fn new(head: &Head, open: Vec<u8>) -> Self {
        let Head { seq, chain, ts, position } = *head;
        Self { seq: seq.0, chain, ts, position: clamp(position.0), open }
    }

    pub(crate) fn to_head(&self) -> Head {
        Head { seq: Seq(self.seq), chain: self.chain, ts: self.ts, position: Position(self.position as u64) }
    }
}

/// An event's row, not yet checked against anything.
#[derive(Debug)]
pub(crate) struct EventRow {
    pub(crate) position: i64,
    pub(crate) branch: i64,
    pub(crate) seq: u64,
    pub(crate) id: EventId,
    pub(crate) ts: Timestamp,
    pub(crate) kind: i64,
    pub(crate) chain: Hash,
    pub(crate) form: i64,
    pub(crate) record: Vec<u8>,
}

/// The newest position there is; 0 if there is none.
pub(crate) const NEWEST_POSITION: &str = "SELECT coalesce(max(position), 0) FROM events";

pub(crate) const EVENT_COLUMNS: &str = "position, branch, seq, id, ts, kind, chain, form, record";

impl EventRow {
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            position: row.get(0)?,
            branch: row.get(1)?,
            seq: unsigned(row, 2)?,
            id: convert(row, 3, EventId::from_slice)?,
            ts: timestamp(row, 4)?,
            kind: row.get(5)?,
            chain: convert(row, 6, Hash::from_slice)?,
            form: row.get(7)?,
            record: row.get(8)?,
        })
    }
}

/// A stored number that is never negative.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// A stored time.
pub(crate) fn timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let micros: i64 = row.get(column)?;
    Timestamp::from_micros(micros).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, micros))
}

/// Stored bytes of a fixed length.
pub(crate) fn convert<T>(
    row: &Row<'_>,
    column: usize,
    from: impl Fn(&[u8]) -> Option<T>,
) -> rusqlite::Result<T> {
    let value = row.get_ref(column)?;
    let kind = value.data_type();
    value.as_bytes().ok().and_then(from).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(column, kind, "a field has the wrong length".into())
    })
}

/// A stored name.
pub(crate) fn parse<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let value = row.get_ref(column)?;
    let kind = value.data_type();
    value
        .as_str()
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(column, kind, "a name is malformed".into()))
}

/// A table or index that contradicts the rows it leads to.
pub(crate) fn contradicts(table: &str, what: &str) -> Error {
    Error::Sqlite(corrupt(&format!("`{table}`: {what}")))
}

/// Rows of a page increase, and follow the cursor of the page before. Otherwise a damaged index could send whoever reads
/// page by page round in circles.
pub(crate) fn increasing<T: PartialOrd>(
    table: &str,
    after: Option<T>,
    rows: impl IntoIterator<Item = T>,
) -> Result<()> {
    let mut last = after;
    for row in rows {
        if last.is_some_and(|last| row <= last) {
            return Err(contradicts(table, "its rows are not in order"));
        }
        last = Some(row);
    }
    Ok(())
}

/// Numbers above what SQLite can hold mean "beyond everything".
pub(crate) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A connection with the facts that never change kept in memory.
pub(crate) struct Rows {
    pub(crate) connection: Connection,
    branches: HashMap<i64, Arc<BranchRow>>,
    kinds: HashMap<i64, Kind>,
    /// The closed block used last: neighbours are usually asked for next.
    block: Option<(i64, u64, Vec<Entry>)>,
    /// Look-ups so far, to show that their number does not grow with history.
    reads: Arc<AtomicU64>,
}

/// More than this many remembered branches are forgotten and looked up again.
const BRANCHES_MAX: usize = 10_000;

impl Rows {
    pub(crate) fn new(connection: Connection, reads: Arc<AtomicU64>) -> Self {
        Self { connection, branches: HashMap::new(), kinds: HashMap::new(), block: None, reads }
    }

    /// At most one row.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.connection.prepare_cached(sql)?.query_row(params, read).optional()
    }

    /// All rows of a query that is bounded by its own limit.
    pub(crate) fn many<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        self.reads.fetch_add(1 + found.len() as u64, Ordering::Relaxed);
        Ok(found)
    }

    /// Forgets everything; after a rollback, numbers given out may be given out again.
    pub(crate) fn forget(&mut self) {
        self.branches.clear();
        self.kinds.clear();
        self.block = None;
    }

    /// Takes over kinds that were read elsewhere.
    pub(crate) fn remember_kinds(&mut self, kinds: &HashMap<i64, Kind>) {
        self.kinds.clone_from(kinds);
    }

    pub(crate) fn stream_no(&self, name: &StreamName) -> Result<Option<i64>> {
        Ok(self.one("SELECT no FROM streams WHERE name = ?1", [name.as_str()], |row| row.get(0))?)
    }

    /// A branch by name.
    pub(crate) fn branch(&mut self, id: &BranchId) -> Result<Option<Arc<BranchRow>>> {
        let sql = "SELECT branches.no FROM streams JOIN branches ON branches.stream = streams.no \
                   WHERE streams.name = ?1 AND branches.name = ?2";
        let found = self.one(sql, [id.stream.as_str(), id.branch.as_str()], |row| row.get(0))?;
        let found = found.map(|no| self.branch_by_no(no)).transpose()?;
        if let Some(other) = found.as_ref().filter(|found| found.id != *id) {
            return Err(contradicts("branches", &format!("the index names {} for {id}", other.id)));
        }
        Ok(found)
    }

    /// The branch that a branch was forked from; `None` for `main`.
    pub(crate) fn parent(&mut self, branch: &BranchRow) -> Result<Option<Arc<BranchRow>>> {
        match branch.parent {
            None => Ok(None),
            // A parent is older than its forks. Otherwise a lineage could be a circle.
            Some(parent) if parent < branch.no => self.branch_by_no(parent).map(Some),
            Some(_) => {
                Err(branch.damaged(branch.at, "its fork pointer names a branch that cannot be its parent"))
            }
        }
    }

    /// A branch by name, which must exist.
    pub(crate) fn existing(&mut self, id: &BranchId) -> Result<Arc<BranchRow>> {
        match self.branch(id)? {
            Some(branch) => Ok(branch),
            None if self.stream_no(&id.stream)?.is_none() => {
                Err(ReadError::NoStream(id.stream.clone()).into())
            }
            None => Err(ReadError::NoBranch(id.clone()).into()),
        }
    }

    /// A branch by number.
    pub(crate) fn branch_by_no(&mut self, no: i64) -> Result<Arc<BranchRow>> {
        if let Some(branch) = self.branches.get(&no) {
            return Ok(branch.clone());
        }
        let sql = "SELECT branches.stream, streams.name, branches.name, parent, at, chain FROM branches \
                   JOIN streams ON streams.no = branches.stream WHERE branches.no = ?1";
        let branch = self.one(sql, [no], |row| {
            let (stream, branch): (StreamName, BranchName) = (parse(row, 1)?, parse(row, 2)?);
            Ok(BranchRow {
                no,
                stream: row.get(0)?,
                id: BranchId { stream, branch },
                parent: row.get(3)?,
                at: unsigned(row, 4)?,
                chain: convert(row, 5, Hash::from_slice)?,
            })
        })?;
        let branch = Arc::new(branch.ok_or(rusqlite::Error::QueryReturnedNoRows)?);
        if self.branches.len() >= BRANCHES_MAX {
            self.branches.clear();
        }
        self.branches.insert(no, branch.clone());
        Ok(branch)
    }

    pub(crate) fn head(&self, branch: &BranchRow) -> Result<HeadRow> {
        let sql = "SELECT seq, chain, ts, position, open FROM heads WHERE branch = ?1";
        let head = self.one(sql, [branch.no], |row| {
            Ok(HeadRow {
                seq: unsigned(row, 0)?,
                chain: convert(row, 1, Hash::from_slice)?,
                ts: timestamp(row, 2)?,
                position: row.get(3)?,
                open: row.get(4)?,
            })
        })?;
        let head = head.ok_or_else(|| branch.damaged(branch.at + 1, "the head of its branch is missing"))?;
        if head.seq < branch.at {
            return Err(branch.damaged(head.seq, "the head of its branch lies before its fork"));
        }
        if head.seq == branch.at && (head.chain != branch.chain || !head.open.is_empty()) {
            return Err(branch.damaged(head.seq, "the head of its branch lies before its events"));
        }
        Ok(head)
    }

    /// The head is the newest event, or the one that the branch was forked at. A head that was set back would hide what
    /// came after it: a halt, a revoked token.
    pub(crate) fn check_head(&mut self, branch: &BranchRow, head: &HeadRow) -> Result<()> {
        self.block(branch, head, (head.seq - branch.at) / BLOCK)?;
        let sql = "SELECT branch, seq, chain FROM events WHERE position = ?1";
        let named = self.one(sql, [head.position], |row| {
            Ok((row.get::<_, i64>(0)?, unsigned(row, 1)?, convert(row, 2, Hash::from_slice)?))
        })?;
        let fits = match named {
            Some((no, seq, chain)) if head.seq > branch.at => {
                (no, seq, chain) == (branch.no, head.seq, head.chain)
            }
            Some((_, seq, chain)) => (seq, chain) == (head.seq, branch.chain) && chain == head.chain,
            None => false,
        };
        if fits {
            Ok(())
        } else {
            Err(branch.damaged(head.seq, "the head of its branch is not its newest event"))
        }
    }

    pub(crate) fn kind(&mut self, no: i64) -> Result<Option<Kind>> {
        if let Some(kind) = self.kinds.get(&no) {
            return Ok(Some(kind.clone()));
        }
        let kind: Option<Kind> =
            self.one("SELECT name FROM kinds WHERE no = ?1", [no], |row| parse(row, 0))?;
        if let Some(kind) = &kind {
            self.kinds.insert(no, kind.clone());
        }
        Ok(kind)
    }

    pub(crate) fn kind_no(&self, kind: &Kind) -> Result<Option<i64>> {
        Ok(self.one("SELECT no FROM kinds WHERE name = ?1", [kind.as_str()], |row| row.get(0))?)
    }

    /// Where the branch's own events `from..=to` are. `head` is the branch's head in the same transaction.
    pub(crate) fn entries(
        &mut self,
        branch: &BranchRow,
        head: &HeadRow,
        from: u64,
        to: u64,
    ) -> Result<Vec<Entry>> {
        let (first, last) = (from - branch.at - 1, to - branch.at - 1);
        let mut found = Vec::with_capacity((to + 1 - from) as usize);
        for n in first / BLOCK..=last / BLOCK {
            let start = first.max(n * BLOCK) - n * BLOCK;
            let end = last.min(n * BLOCK + BLOCK - 1) - n * BLOCK;
            let block = self.block(branch, head, n)?;
            let wanted = block.get(start as usize..=end as usize);
            let seq = branch.at + 1 + n * BLOCK + start;
            found.extend_from_slice(
                wanted.ok_or_else(|| branch.damaged(seq, "the index of its branch is cut"))?,
            );
        }
        Ok(found)
    }

    /// The entries of one block, closed or open.
    pub(crate) fn block(&mut self, branch: &BranchRow, head: &HeadRow, n: u64) -> Result<Vec<Entry>> {
        let seq = branch.at + 1 + n * BLOCK;
        let damaged = || branch.damaged(seq, "the index of its branch is damaged");
        if n >= (head.seq - branch.at) / BLOCK {
            let entries = block::decode(&head.open);
            let is_complete = |entries: &Vec<Entry>| entries.len() as u64 == (head.seq - branch.at) % BLOCK;
            return entries.filter(is_complete).ok_or_else(damaged);
        }
        if let Some((no, number, entries)) = &self.block
            && (*no, *number) == (branch.no, n)
        {
            return Ok(entries.clone());
        }
        let sql = "SELECT entries FROM blocks WHERE branch = ?1 AND n = ?2";
        let stored: Option<Option<Vec<Entry>>> = self.one(sql, (branch.no, clamp(n)), |row| {
            Ok(row.get_ref(0)?.as_bytes().ok().and_then(block::decode))
        })?;
        let entries = stored.flatten().filter(|entries| entries.len() as u64 == BLOCK).ok_or_else(damaged)?;
        self.block = Some((branch.no, n, entries.clone()));
        Ok(entries)
    }

    /// The row at a position.
    pub(crate) fn event(&self, position: i64) -> Result<Option<EventRow>> {
        let sql =
            "SELECT position, branch, seq, id, ts, kind, chain, form, record FROM events WHERE position = ?1";
        Ok(self.one(sql, [position], EventRow::from_row)?)
    }

    /// The chain that the branch's own event `seq` continues.
    pub(crate) fn chain_before(&mut self, branch: &BranchRow, head: &HeadRow, seq: u64) -> Result<Hash> {
        if seq == branch.at + 1 {
            return Ok(branch.chain);
        }
        let entry = self.entries(branch, head, seq - 1, seq - 1)?[0];
        let sql = "SELECT chain FROM events WHERE position = ?1 AND branch = ?2 AND seq = ?3";
        let key = (entry.position, branch.no, clamp(seq - 1));
        let chain = self.one(sql, key, |row| convert(row, 0, Hash::from_slice))?;
        chain.ok_or_else(|| branch.damaged(seq - 1, "it is missing"))
    }
}
