//! The one writer of a process: the batch it is writing, and what it remembers between batches.
//!
//! A request is first checked as a whole and then applied; applying cannot be refused any more, so a refused request
//! leaves no trace in the batch it travels with.

mod append;
mod branch;

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::params;
use weir_journal::follow::Hub;
use weir_journal::{AppendError, Attrs, ForkError};
use weir_types::{BranchId, Event, EventId, Kind, Position};

use crate::anchor_file::AnchorRecord;
use crate::read::Reader;
use crate::rows::{BranchRow, Error, HeadRow, NEWEST_POSITION, Result, clamp};

pub(crate) use append::Append;

/// A branch that is being written to.
struct Hot {
    row: Arc<BranchRow>,
    head: HeadRow,
    /// The head row in the file is older than this one.
    is_dirty: bool,
    /// The attributes in the file, if this writer has written them.
    attrs: Option<Attrs>,
}

/// The one writer of this process.
pub(crate) struct Writer {
    pub(crate) reader: Reader,
    hub: Arc<Hub>,
    heads: HashMap<BranchId, Hot>,
    kinds: HashMap<Kind, i64>,
    position: i64,
    data_version: i64,
    batch: Written,
}

/// What the batch being written has done so far, for those who follow.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The newest position before it.
    pub(crate) before: Position,
    /// Another process has committed since this one looked last, after this position.
    pub(crate) others_after: Option<Position>,
    /// Somebody followed everything when it began: `events` has all its events.
    pub(crate) is_complete: bool,
    /// Its events, as far as somebody followed them when they were written.
    pub(crate) events: Vec<Arc<Event>>,
    /// Every branch it has changed.
    pub(crate) branches: Vec<BranchId>,
    /// Its newest event.
    newest: Option<AnchorRecord>,
}

/// More remembered heads than this are forgotten and read again.
const HEADS_MAX: usize = 4_096;

impl Writer {
    pub(crate) fn new(reader: Reader, hub: Arc<Hub>) -> Self {
        let (heads, kinds, batch) = (HashMap::new(), HashMap::new(), Written::default());
        Self { reader, hub, heads, kinds, position: 0, data_version: -1, batch }
    }

    fn connection(&self) -> &rusqlite::Connection {
        &self.reader.rows.connection
    }

    /// The position of the newest event that this writer knows of.
    pub(crate) fn position(&self) -> Position {
        Position(self.position as u64)
    }

    /// Begins the transaction of a batch.
    pub(crate) fn begin(&mut self) -> rusqlite::Result<()> {
        self.connection().prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let others_after = self.notice_others()?;
        let (before, is_complete) = (self.position(), self.hub.wants_all());
        self.batch = Written { before, others_after, is_complete, ..Written::default() };
        Ok(())
    }

    /// Looks whether another process has committed since the last look; if so, forgets what may have changed and says
    /// after which position there is something new.
    pub(crate) fn notice_others(&mut self) -> rusqlite::Result<Option<Position>> {
        let version: i64 =
            self.connection().prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version == self.data_version {
            return Ok(None);
        }
        let known = self.position();
        self.heads.clear();
        let position = self.connection().prepare_cached(NEWEST_POSITION)?.query_row([], |row| row.get(0))?;
        self.position = position;
        self.data_version = version;
        Ok((known < self.position()).then_some(known))
    }

    /// The branches that events after `position` were appended to; `None` if there are too many to tell apart.
    pub(crate) fn branches_after(&mut self, position: Position) -> Result<Option<Vec<BranchId>>> {
        const LOOK_MAX: i64 = 1_000;
        let sql = "SELECT branch FROM events WHERE position > ?1 ORDER BY position LIMIT ?2";
        let mut found: Vec<i64> =
            self.reader.rows.many(sql, (clamp(position.0), LOOK_MAX), |row| row.get(0))?;
        if found.len() as i64 == LOOK_MAX {
            return Ok(None);
        }
        found.sort_unstable();
        found.dedup();
        let ids = found.into_iter().map(|no| Ok(self.reader.rows.branch_by_no(no)?.id.clone()));
        ids.collect::<Result<_>>().map(Some)
    }

    /// Writes the heads that changed and commits: the one sync of the batch.
    pub(crate) fn commit(&mut self) -> rusqlite::Result<()> {
        self.flush()?;
        self.connection().prepare_cached("COMMIT")?.execute([])?;
        if self.heads.len() > HEADS_MAX {
            self.heads.clear();
        }
        Ok(())
    }

    /// Gives the whole batch up.
    pub(crate) fn rollback(&mut self) {
        // After some failures SQLite has rolled back by itself; then there is nothing to do.
        let _ = self.connection().execute_batch("ROLLBACK");
        self.heads.clear();
        self.kinds.clear();
        self.reader.rows.forget();
        self.position = clamp(self.batch.before.0);
        self.batch = Written { before: self.batch.before, ..Written::default() };
        self.data_version = -1;
    }

    /// The newest event of the batch that was just committed.
    pub(crate) fn newest_written(&self) -> Option<&AnchorRecord> {
        self.batch.newest.as_ref()
    }

    /// What the batch that was just committed has done.
    pub(crate) fn take_written(&mut self) -> Written {
        let before = self.position();
        std::mem::replace(&mut self.batch, Written { before, ..Written::default() })
    }

    /// Whether an event with this id exists.
    pub(crate) fn knows(&self, id: EventId) -> bool {
        let sql = "SELECT 1 FROM events WHERE id = ?1";
        self.reader.rows.one(sql, [id.to_bytes()], |_| Ok(())).is_ok_and(|found| found.is_some())
    }

    /// Copies what is left of the log into the file. Best effort: a reader or another process may be in the way.
    pub(crate) fn finish_checkpoint(&mut self) {
        let _ = self.connection().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }

    fn find(&mut self, branch: &BranchId) -> Result<Option<i64>> {
        if let Some(hot) = self.heads.get(branch) {
            return Ok(Some(hot.row.no));
        }
        Ok(self.reader.rows.branch(branch)?.map(|row| row.no))
    }

    /// Brings a branch into memory; false if it does not exist.
    fn load(&mut self, id: &BranchId) -> Result<bool> {
        if self.heads.contains_key(id) {
            return Ok(true);
        }
        let Some(row) = self.reader.rows.branch(id)? else { return Ok(false) };
        let head = self.reader.rows.head(&row)?;
        self.reader.rows.check_head(&row, &head)?;
        self.heads.insert(id.clone(), Hot { row, head, is_dirty: false, attrs: None });
        Ok(true)
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.connection().prepare_cached(sql)?.execute(params)
    }

    /// Writes the heads that changed, so that reads in this transaction see them.
    fn flush(&mut self) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO heads (branch, seq, chain, ts, position, open) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut statement = self.reader.rows.connection.prepare_cached(sql)?;
        for hot in self.heads.values_mut().filter(|hot| hot.is_dirty) {
            let HeadRow { seq, chain, ts, position, open } = &hot.head;
            statement.execute(params![
                hot.row.no,
                clamp(*seq),
                chain.as_bytes(),
                ts.as_micros(),
                position,
                open
            ])?;
            hot.is_dirty = false;
            let position = position.unsigned_abs();
            if self.batch.newest.as_ref().is_none_or(|newest| newest.position < position) {
                self.batch.newest = Some(AnchorRecord::new(position, *seq, *chain, &hot.row.id));
            }
            self.batch.branches.push(hot.row.id.clone());
        }
        Ok(())
    }
}

/// Why a request is not applied: it may not be, or the storage failed.
enum Refusal<E> {
    No(E),
    Storage(rusqlite::Error),
}

impl<E> From<E> for Refusal<E>
where
    E: weir_types::Explain,
{
    fn from(error: E) -> Self {
        Self::No(error)
    }
}

impl From<Error> for Refusal<AppendError> {
    fn from(error: Error) -> Self {
        match error {
            Error::Sqlite(error) => Self::Storage(error),
            Error::Read(error) => Self::No(AppendError::Damaged(error)),
        }
    }
}

impl From<Error> for Refusal<ForkError> {
    fn from(error: Error) -> Self {
        match error {
            Error::Sqlite(error) => Self::Storage(error),
            Error::Read(error) => Self::No(ForkError::Read(error)),
        }
    }
}

fn refused<T, E>(result: std::result::Result<T, Refusal<E>>) -> rusqlite::Result<std::result::Result<T, E>> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(Refusal::No(error)) => Ok(Err(error)),
        Err(Refusal::Storage(error)) => Err(error),
    }
}
