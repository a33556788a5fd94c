//! Writing: what one request changes, inside the commit thread's transaction.
//!
//! A request is first checked as a whole and then applied; applying cannot be refused any more, so a refused request
//! leaves no trace in the batch it travels with.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::params;
use weir_journal::follow::Hub;
use weir_journal::rules::{self, ForkGround, KnownPart};
use weir_journal::{
    AppendError, Appended, Attrs, Branch, Fork, ForkError, ForkPoint, Head, NewEvent, Ownership, Part,
    Snapshot, now,
};
use weir_types::{BranchId, Event, EventId, Hash, OwnerId, Position, Seq, StreamName, Timestamp};

use crate::block::{self, BLOCK, Entry};
use crate::read::Reader;
use crate::record::Record;
use crate::rows::{BranchRow, Error, HeadRow, Result, clamp, convert, unsigned};

/// An append on its way to the commit thread, with its events' records already encoded.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) parts: Vec<Part>,
    /// One per event, through all parts.
    pub(crate) records: Vec<Record>,
}

/// A branch that is being written to.
struct Hot {
    row: Arc<BranchRow>,
    head: HeadRow,
    /// The head row in the file is older than this one.
    is_dirty: bool,
}

/// The one writer of this process.
pub(crate) struct Writer {
    pub(crate) reader: Reader,
    hub: Arc<Hub>,
    heads: HashMap<BranchId, Hot>,
    kinds: HashMap<weir_types::Kind, i64>,
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
}

/// More remembered heads than this are forgotten and read again.
const HEADS_MAX: usize = 4_096;

/// Snapshots kept per branch and fold: the newest may belong to events that a reader does not know yet.
const SNAPSHOTS_KEPT: i64 = 2;

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
        let newest = "SELECT coalesce(max(position), 0) FROM events";
        let position = self.connection().prepare_cached(newest)?.query_row([], |row| row.get(0))?;
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

    /// Appends all parts, or says why none. Only a failing storage is an outer error.
    pub(crate) fn append(
        &mut self,
        append: &Append,
    ) -> rusqlite::Result<std::result::Result<Vec<Appended>, AppendError>> {
        refused(self.try_append(append))
    }

    fn try_append(&mut self, append: &Append) -> std::result::Result<Vec<Appended>, Refusal<AppendError>> {
        if let Some(replayed) = self.replay(&append.parts)? {
            return Ok(replayed);
        }
        self.check(&append.parts)?;
        let mut records = append.records.iter();
        let mut results = Vec::with_capacity(append.parts.len());
        for part in &append.parts {
            results.push(self.apply(part, &mut records)?);
        }
        Ok(results)
    }

    /// The results of the first append, if any part's key says that this is a repetition.
    fn replay(&mut self, parts: &[Part]) -> std::result::Result<Option<Vec<Appended>>, Refusal<AppendError>> {
        if parts.iter().all(|part| part.key.is_none()) {
            return Ok(None);
        }
        let known = parts.iter().map(|part| self.known(part)).collect::<Result<Vec<_>>>()?;
        rules::replay(parts, &known, |position| {
            let Some(row) = self.reader.rows.event(clamp(position.0))? else { return Ok(None) };
            let branch = self.reader.rows.branch_by_no(row.branch)?;
            Ok(Some((branch.id.clone(), Seq(row.seq))))
        })
    }

    /// What is remembered of a part's key.
    fn known(&mut self, part: &Part) -> Result<Option<KnownPart>> {
        let Some(key) = &part.key else { return Ok(None) };
        let Some(no) = self.find(&part.branch)? else { return Ok(None) };
        let sql = "SELECT first, last, position, content FROM keys WHERE branch = ?1 AND key = ?2";
        Ok(self.reader.rows.one(sql, params![no, key.as_str()], |row| {
            let (first, last, position) =
                (Seq(unsigned(row, 0)?), Seq(unsigned(row, 1)?), Position(unsigned(row, 2)?));
            Ok(KnownPart { content: convert(row, 3, Hash::from_slice)?, first, last, position })
        })?)
    }

    fn find(&mut self, branch: &BranchId) -> Result<Option<i64>> {
        if let Some(hot) = self.heads.get(branch) {
            return Ok(Some(hot.row.no));
        }
        Ok(self.reader.rows.branch(branch)?.map(|row| row.no))
    }

    /// Whether every part may be applied after the ones before it.
    fn check(&mut self, parts: &[Part]) -> std::result::Result<(), Refusal<AppendError>> {
        let mut heads: Vec<(&BranchId, Seq)> = Vec::with_capacity(parts.len());
        let mut owners: Vec<(&StreamName, Option<OwnerId>)> = Vec::new();
        for part in parts {
            let id = &part.branch;
            if part.owner != Ownership::Unchecked {
                let known =
                    owners.iter().rev().find(|(stream, _)| *stream == &id.stream).map(|(_, owner)| *owner);
                let current = match known {
                    Some(owner) => owner,
                    None => self.owner(&id.stream)?,
                };
                owners.push((&id.stream, rules::next_owner(current, part.owner, &id.stream)?));
            }
            let ahead = heads.iter().rev().find(|(branch, _)| *branch == id).map(|(_, seq)| *seq);
            let head = match ahead {
                Some(seq) => Some(seq),
                None if self.load(id)? => self.heads.get(id).map(|hot| Seq(hot.head.seq)),
                None => None,
            };
            rules::check_expected(part.expected, head, id)?;
            heads.push((id, Seq(head.unwrap_or_default().0 + part.events.len() as u64)));
        }
        Ok(())
    }

    fn owner(&self, stream: &StreamName) -> Result<Option<OwnerId>> {
        let sql = "SELECT owner FROM streams WHERE name = ?1";
        let owner = self.reader.rows.one(sql, [stream.as_str()], |row| {
            Ok(row.get::<_, Option<Vec<u8>>>(0)?.as_deref().and_then(OwnerId::from_slice))
        })?;
        Ok(owner.flatten())
    }

    /// Brings a branch into memory; false if it does not exist.
    fn load(&mut self, id: &BranchId) -> Result<bool> {
        if self.heads.contains_key(id) {
            return Ok(true);
        }
        let Some(row) = self.reader.rows.branch(id)? else { return Ok(false) };
        let head = self.reader.rows.head(&row)?;
        self.heads.insert(id.clone(), Hot { row, head, is_dirty: false });
        Ok(true)
    }

    /// Writes a part that has been checked.
    fn apply<'a>(&mut self, part: &Part, records: &mut impl Iterator<Item = &'a Record>) -> Result<Appended> {
        if !self.load(&part.branch)? {
            self.create_stream(&part.branch.stream)?;
        }
        let now = now();
        let wanted = self.batch.is_complete || self.hub.wants(&part.branch);
        let first_position = self.position + 1;
        let mut first = None;
        for (event, record) in part.events.iter().zip(records) {
            let seq = self.write_event(part, event, record, now, wanted)?;
            first.get_or_insert(seq);
        }
        let hot = &self.heads[&part.branch];
        let (first, last) = (first.unwrap_or_default(), hot.head.seq);
        if let Some(key) = &part.key {
            let sql = "INSERT INTO keys (branch, key, first, last, position, content) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let content = part.content();
            self.execute(
                sql,
                params![
                    hot.row.no,
                    key.as_str(),
                    clamp(first),
                    clamp(last),
                    first_position,
                    content.as_bytes()
                ],
            )?;
        }
        if let Some(attrs) = &part.attrs {
            self.write_attrs(hot.row.no, attrs)?;
        }
        self.write_owner(hot.row.stream, part.owner)?;
        Ok(Appended { first: Seq(first), last: Seq(last), position: self.position(), replayed: false })
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.connection().prepare_cached(sql)?.execute(params)
    }

    fn create_stream(&mut self, stream: &StreamName) -> Result<()> {
        self.execute("INSERT INTO streams (name) VALUES (?1)", [stream.as_str()])?;
        let stream_no = self.connection().last_insert_rowid();
        let sql = "INSERT INTO branches (stream, name, parent, at, chain) VALUES (?1, ?2, NULL, 0, ?3)";
        let id = BranchId::main(stream.clone());
        self.execute(sql, params![stream_no, id.branch.as_str(), Hash::ZERO.as_bytes()])?;
        let row = self.reader.rows.branch_by_no(self.connection().last_insert_rowid())?;
        let ts = Timestamp::default();
        let head = HeadRow { seq: 0, chain: Hash::ZERO, ts, position: 0, open: Vec::new() };
        self.heads.insert(id, Hot { row, head, is_dirty: true });
        Ok(())
    }

    fn write_event(
        &mut self,
        part: &Part,
        event: &NewEvent,
        record: &Record,
        now: Timestamp,
        wanted: bool,
    ) -> Result<u64> {
        let kind = self.kind_no(event)?;
        let position = self.position + 1;
        let Some(hot) = self.heads.get_mut(&part.branch) else {
            return Err(rusqlite::Error::QueryReturnedNoRows.into());
        };
        let previous = (hot.head.seq > 0).then(|| hot.head.to_head());
        let head = rules::link(&part.branch, previous.as_ref(), event, now, Position(position as u64));
        let last = if hot.head.open.is_empty() { 0 } else { hot.head.position };
        block::push(&mut hot.head.open, Entry { position, kind }, last);
        let (branch_no, at) = (hot.row.no, hot.row.at);
        let full = (head.seq.0 - at).is_multiple_of(BLOCK).then(|| std::mem::take(&mut hot.head.open));
        hot.head = HeadRow::new(&head, std::mem::take(&mut hot.head.open));
        hot.is_dirty = true;
        self.position = position;

        let sql = "INSERT INTO events (position, branch, seq, id, ts, kind, chain, form, record) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let (id, seq, ts) = (event.id().to_bytes(), clamp(head.seq.0), head.ts.as_micros());
        self.execute(
            sql,
            params![position, branch_no, seq, id, ts, kind, head.chain.as_bytes(), record.form, record.bytes],
        )?;
        if let Some(entries) = full {
            self.write_block(branch_no, (head.seq.0 - at) / BLOCK - 1, &entries)?;
        }
        self.write_links(event, position)?;
        if wanted {
            self.batch.events.push(Arc::new(rules::placed(&part.branch, event, &head)));
        }
        Ok(head.seq.0)
    }

    fn kind_no(&mut self, event: &NewEvent) -> Result<i64> {
        if let Some(no) = self.kinds.get(event.kind()) {
            return Ok(*no);
        }
        let no = match self.reader.rows.kind_no(event.kind())? {
            Some(no) => no,
            None => {
                self.execute("INSERT INTO kinds (name) VALUES (?1)", [event.kind().as_str()])?;
                self.connection().last_insert_rowid()
            }
        };
        if self.kinds.len() >= HEADS_MAX {
            self.kinds.clear();
        }
        self.kinds.insert(event.kind().clone(), no);
        Ok(no)
    }

    fn write_block(&self, branch: i64, n: u64, entries: &[u8]) -> Result<()> {
        self.execute(
            "INSERT INTO blocks (branch, n, entries) VALUES (?1, ?2, ?3)",
            params![branch, clamp(n), entries],
        )?;
        let mut kinds: Vec<i64> =
            block::decode(entries).unwrap_or_default().iter().map(|entry| entry.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let sql = "INSERT INTO kind_blocks (branch, kind, n) VALUES (?1, ?2, ?3)";
            self.execute(sql, params![branch, kind, clamp(n)])?;
        }
        Ok(())
    }

    /// What else an event can be found by: its cause and its blobs.
    fn write_links(&self, event: &NewEvent, position: i64) -> Result<()> {
        if let Some(cause) = event.meta().causation() {
            self.execute(
                "INSERT INTO causes (cause, position) VALUES (?1, ?2)",
                params![cause.to_bytes(), position],
            )?;
        }
        for hash in event.refs() {
            let sql = "INSERT OR IGNORE INTO refs (hash, position) VALUES (?1, ?2)";
            self.execute(sql, params![hash.as_bytes(), position])?;
        }
        Ok(())
    }

    fn write_attrs(&self, branch: i64, attrs: &Attrs) -> Result<()> {
        let Attrs { status, principal, agent, title, due } = attrs;
        let sql = "INSERT OR REPLACE INTO attrs (branch, status, principal, agent, title, due) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.execute(
            sql,
            params![branch, status.as_str(), principal, agent, title, due.map(Timestamp::as_micros)],
        )?;
        Ok(())
    }

    fn write_owner(&self, stream: i64, ownership: Ownership) -> Result<()> {
        let owner = match ownership {
            Ownership::Unchecked | Ownership::Held(_) => return Ok(()),
            Ownership::Claim { by, .. } => Some(by.to_bytes()),
            Ownership::Release(_) => None,
        };
        self.execute("UPDATE streams SET owner = ?2 WHERE no = ?1", params![stream, owner])?;
        Ok(())
    }

    /// Makes a branch: a pointer to an event of its parent's lineage.
    pub(crate) fn fork(&mut self, fork: &Fork) -> rusqlite::Result<std::result::Result<Branch, ForkError>> {
        refused(self.try_fork(fork))
    }

    fn try_fork(&mut self, fork: &Fork) -> std::result::Result<Branch, Refusal<ForkError>> {
        let Fork { from, at, name } = fork;
        let id = BranchId { stream: from.stream.clone(), branch: name.clone() };
        let parent_head =
            if self.load(from)? { self.heads.get(from).map(|hot| Seq(hot.head.seq)) } else { None };
        let stream_exists = parent_head.is_some() || self.reader.rows.stream_no(&from.stream)?.is_some();
        let name_taken = self.find(&id)?.is_some();
        rules::check_fork(fork, ForkGround { stream_exists, parent_head, name_taken })?;
        // The heads of this batch are not in the file yet, and the event may be among the newest of any ancestor.
        self.flush().map_err(Error::from)?;
        let damaged =
            || ForkError::NoEvent { from: from.clone(), at: *at, head: parent_head.unwrap_or_default() };
        let event = self.reader.read(from, Seq(at.0 - 1), 1)?.pop().ok_or_else(damaged)?.event;
        let parent = self.heads[from].row.clone();
        let sql = "INSERT INTO branches (stream, name, parent, at, chain) VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![parent.stream, name.as_str(), parent.no, clamp(at.0), event.chain.as_bytes()];
        self.execute(sql, row).map_err(Error::from)?;
        let row = self.reader.rows.branch_by_no(self.connection().last_insert_rowid())?;
        let Event { seq, chain, ts, position, .. } = event;
        let head = Head { seq, chain, ts, position };
        self.heads.insert(id, Hot { row, head: HeadRow::new(&head, Vec::new()), is_dirty: true });
        Ok(Branch {
            name: name.clone(),
            parent: Some(ForkPoint { branch: from.branch.clone(), at: *at, chain }),
            head,
        })
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
            self.batch.branches.push(hot.row.id.clone());
        }
        Ok(())
    }

    /// Remembers a fold and forgets older ones.
    pub(crate) fn put_snapshot(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let Snapshot { branch, seq, chain, fold, state } = snapshot;
        let no = match self.find(branch) {
            Ok(Some(no)) => no,
            Ok(None) | Err(Error::Read(_)) => return Ok(()),
            Err(Error::Sqlite(error)) => return Err(error),
        };
        let key = params![no, fold.fold, fold.version];
        let sql = "INSERT OR REPLACE INTO snapshots (branch, fold, version, seq, chain, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.execute(sql, params![no, fold.fold, fold.version, clamp(seq.0), chain.as_bytes(), &**state])?;
        let sql = format!(
            "DELETE FROM snapshots WHERE branch = ?1 AND fold = ?2 AND version = ?3 AND seq NOT IN \
             (SELECT seq FROM snapshots WHERE branch = ?1 AND fold = ?2 AND version = ?3 ORDER BY seq DESC LIMIT {SNAPSHOTS_KEPT})"
        );
        self.execute(&sql, key)?;
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
            Error::Read(error) => Self::No(AppendError::Invalid { what: format!("cannot append: {error}") }),
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
