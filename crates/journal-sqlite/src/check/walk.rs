//! Reading the events in order, and folding what their columns say: the places on each branch, its blocks, its head, the
//! events that forks and snapshots name. Records go to threads that decode them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use rusqlite::params;
use weir_journal::VerifyProgress;
use weir_types::{Hash, Timestamp};

use super::content::{self, Batch, Found, Item};
use super::findings::Findings;
use super::moment::{self, Moment, Place, Subject};
use super::{Depth, Scope, Stop, after, damage, in_table, reverse};
use crate::block::{self, BLOCK, Entry};
use crate::pool::Pool;
use crate::read::Reader;
use crate::rows::{BranchRow, EVENT_COLUMNS, Error, EventRow, HeadRow, Result, convert, timestamp, unsigned};

/// Rows of one transaction.
const PAGE_ROWS: usize = 2_048;

/// Bytes of records of one transaction or batch, about.
const PAGE_BYTES: usize = 2 << 20;

/// Rows handed to another thread at once.
const BATCH_ROWS: usize = 256;

/// Batches that wait for a thread.
const BATCHES_MAX: usize = 4;

/// Threads that decode. More would wait for the one that reads.
const DECODERS_MAX: usize = 3;

/// Places at which reading is tried again behind one that cannot be read.
const RETRIES_MAX: u32 = 64;

/// What was checked.
pub(super) struct Counted {
    pub(super) streams: u64,
    pub(super) branches: u64,
    pub(super) events: u64,
    pub(super) keys_not_known: u64,
}

/// The columns of an event that need no decoding.
struct Columns {
    position: i64,
    branch: i64,
    seq: u64,
    ts: Timestamp,
    kind: i64,
    chain: Hash,
}

/// What an event left behind for what names it.
#[derive(Clone, Copy)]
struct Mark {
    chain: Hash,
    ts: Timestamp,
    position: i64,
}

/// A branch as far as it was read.
struct Folded {
    subject: Subject,
    /// The place of the next event.
    next: u64,
    /// The newest event; none before the first own one, or after a gap.
    last: Option<Mark>,
    /// There was a gap: the chain of the event before is not known.
    is_torn: bool,
    /// The block being filled; none if an event of it is not known.
    open: Option<Vec<u8>>,
    /// The last place that a key covers.
    keyed_to: u64,
}

/// Checks everything but the pages of the file and the blobs. Blocks.
pub(super) fn run(
    pool: &Arc<Pool>,
    scope: &Scope,
    findings: &Findings,
    progress: &VerifyProgress,
    stop: &Stop,
) -> Result<Counted> {
    let mut reader = pool.private_reader()?;
    // What this connection remembers was true once; the question is what the file says now.
    reader.rows.forget();
    let with_content = scope.depth == Depth::Full;
    let moment =
        reader.transaction(|reader| moment::read(&reader.rows.connection, scope, with_content, findings))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(DECODERS_MAX);
    let (sender, inbox) = sync_channel::<Batch>(BATCHES_MAX);
    let (inbox, kinds) = (Arc::new(Mutex::new(inbox)), Arc::new(moment.kinds.clone()));
    let mut decoders = Vec::new();
    for _ in 0..if with_content { threads } else { 0 } {
        let mut decoder = pool.private_reader()?;
        decoder.rows.remember_kinds(&kinds);
        decoders.push(decoder);
    }
    let is_whole = scope.stream.is_none();
    let (walk, found) = std::thread::scope(|threads| {
        let decoders: Vec<_> = decoders
            .into_iter()
            .map(|mut decoder| {
                let inbox = inbox.clone();
                threads.spawn(move || content::run(&mut decoder, &inbox, findings, !is_whole))
            })
            .collect();
        // If every decoder has ended, sending fails instead of waiting.
        drop(inbox);
        let sender = with_content.then_some(sender);
        let mut walk = Walk::new(moment, sender, findings, progress, stop);
        let walked = if is_whole { walk.whole(&mut reader) } else { walk.branches(&mut reader) };
        walk.sender = None;
        let mut found = Found::default();
        for decoder in decoders {
            match decoder.join() {
                Ok(part) => found.add(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        walked.map(|()| (walk, found))
    })?;
    reader.transaction(|reader| walk.finish(reader, &found, is_whole && with_content))
}

struct Walk<'a> {
    moment: Moment,
    branches: HashMap<i64, Folded>,
    /// What forks and snapshots name.
    marks: HashMap<Place, Option<Mark>>,
    kinds_used: HashSet<i64>,
    sender: Option<SyncSender<Batch>>,
    batch: Batch,
    batch_bytes: usize,
    /// The batch is not handed on before this position: a keyed part stays together.
    batch_to: i64,
    /// The newest position that was read.
    read_to: i64,
    /// Events were missing or could not be read.
    is_partial: bool,
    events: u64,
    blocks: u64,
    kind_blocks: u64,
    findings: &'a Findings,
    progress: &'a VerifyProgress,
    stop: &'a Stop,
}

impl<'a> Walk<'a> {
    fn new(
        mut moment: Moment,
        sender: Option<SyncSender<Batch>>,
        findings: &'a Findings,
        progress: &'a VerifyProgress,
        stop: &'a Stop,
    ) -> Self {
        let subjects = std::mem::take(&mut moment.subjects);
        let places = subjects.iter().filter_map(|subject| subject.forked_at);
        let places = places.chain(moment.snapshots.iter().map(|snapshot| snapshot.place));
        let marks = places.map(|place| (place, None)).collect();
        let folded = |subject: Subject| Folded {
            next: subject.row.at + 1,
            last: None,
            is_torn: false,
            open: Some(Vec::new()),
            keyed_to: 0,
            subject,
        };
        let branches = subjects.into_iter().map(|subject| (subject.row.no, folded(subject))).collect();
        let (kinds_used, batch) = (HashSet::new(), Batch::new());
        let (batch_bytes, batch_to, events, blocks, kind_blocks) = (0, 0, 0, 0, 0);
        Self {
            moment,
            branches,
            marks,
            kinds_used,
            sender,
            batch,
            batch_bytes,
            batch_to,
            read_to: 0,
            is_partial: false,
            events,
            blocks,
            kind_blocks,
            findings,
            progress,
            stop,
        }
    }

    /// Every event there is, in order of position.
    fn whole(&mut self, reader: &mut Reader) -> Result<()> {
        let end = self.moment.end;
        let mut at = 0;
        let mut retries = 0;
        while at < end && !self.stop.load(Ordering::Relaxed) {
            match reader.transaction(|reader| self.page(reader, at)) {
                Ok(Some(last)) if last > at => at = last,
                Ok(Some(_)) => {
                    self.findings.note(in_table("events", format!("positions do not increase after {at}")));
                    break;
                }
                Ok(None) => {
                    self.gap(at, end.saturating_add(1));
                    break;
                }
                Err(error) => {
                    let what = damage(error)?;
                    self.findings.note(in_table("events", format!("after position {at}: {what}")));
                    retries += 1;
                    if retries > RETRIES_MAX {
                        break;
                    }
                    // What lies behind it may be readable; the events in between are missed by their branches.
                    at = at.max(self.read_to).saturating_add(1 << retries.min(40));
                    self.is_partial = true;
                }
            }
            (self.progress)(self.events, end.unsigned_abs());
        }
        self.hand_on();
        Ok(())
    }

    /// One page of events; returns its last position, or `None` if there are no more.
    fn page(&mut self, reader: &mut Reader, at: i64) -> Result<Option<i64>> {
        let columns =
            if self.sender.is_some() { EVENT_COLUMNS } else { "position, branch, seq, ts, kind, chain" };
        let sql =
            format!("SELECT {columns} FROM events WHERE position > ?1 AND position <= ?2 ORDER BY position");
        let mut statement = reader.rows.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![at, self.moment.end])?;
        let (mut last, mut taken, mut bytes) = (None, 0, 0);
        let mut closed = Vec::new();
        while let Some(row) = rows.next()? {
            let position: i64 = row.get(0)?;
            self.gap(last.unwrap_or(at), position);
            last = Some(position);
            self.read_to = self.read_to.max(position);
            let read = if self.sender.is_some() {
                EventRow::from_row(row).map(|row| (Columns::of(&row), Some(row)))
            } else {
                Columns::from_row(row).map(|columns| (columns, None))
            };
            match read {
                Ok((columns, row)) => {
                    bytes += row.as_ref().map_or(0, |row| row.record.len());
                    closed.extend(self.event(&columns, row));
                }
                Err(error) => self.malformed(row, position, &error),
            }
            taken += 1;
            if taken >= PAGE_ROWS || bytes >= PAGE_BYTES {
                break;
            }
        }
        drop(rows);
        drop(statement);
        for block in closed {
            self.block(reader, &block)?;
        }
        Ok(last)
    }

    fn gap(&mut self, last: i64, position: i64) {
        if position > last + 1 && position < i64::MAX && !self.is_partial {
            let missing = position - last - 1;
            let what = format!("{missing} missing after position {last}: positions have no gaps");
            self.findings.note(in_table("events", what));
        }
    }

    /// An event that cannot be read at all; its branch will miss it.
    fn malformed(&mut self, row: &rusqlite::Row<'_>, position: i64, error: &rusqlite::Error) {
        self.is_partial = true;
        let branch = row.get::<_, i64>(1).ok().and_then(|no| self.branches.get(&no));
        match (branch, unsigned(row, 2)) {
            (Some(branch), Ok(seq)) => {
                self.findings.at_event(&branch.subject.row, seq, format!("a field is malformed ({error})"));
            }
            _ => self.findings.note(in_table("events", format!("position {position}: {error}"))),
        }
    }

    /// The events of some branches, found by their blocks.
    fn branches(&mut self, reader: &mut Reader) -> Result<()> {
        let mut numbers: Vec<i64> = self.branches.keys().copied().collect();
        numbers.sort_unstable();
        let own =
            |folded: &Folded| folded.subject.head.as_ref().map_or(0, |head| head.seq - folded.subject.row.at);
        let total: u64 = self.branches.values().map(own).sum();
        for no in numbers {
            let Some(folded) = self.branches.get(&no) else { continue };
            let (row, head) = (folded.subject.row.clone(), folded.subject.head.clone());
            let Some(head) = head else { continue };
            for n in 0..(head.seq - row.at).div_ceil(BLOCK) {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let read = reader.transaction(|reader| self.own_block(reader, &row, &head, n));
                if let Err(error) = read {
                    self.findings.at_event(&row, row.at + 1 + n * BLOCK, damage(error)?);
                }
                (self.progress)(self.events, total);
            }
        }
        self.hand_on();
        Ok(())
    }

    fn own_block(&mut self, reader: &mut Reader, row: &BranchRow, head: &HeadRow, n: u64) -> Result<()> {
        let from = row.at + 1 + n * BLOCK;
        let to = head.seq.min(from + BLOCK - 1);
        let entries = reader.rows.entries(row, head, from, to)?;
        for (entry, seq) in entries.into_iter().zip(from..) {
            let found = match reader.rows.event(entry.position) {
                Ok(found) => found.ok_or_else(|| "it is missing".to_owned()),
                Err(error) => Err(damage(error)?),
            };
            match found {
                Ok(found) if (found.branch, found.seq) == (row.no, seq) => {
                    let closed = self.event(&Columns::of(&found), Some(found));
                    if let Some(block) = closed {
                        self.block(reader, &block)?;
                    }
                }
                Ok(_) => self.findings.at_event(row, seq, "another event is in its place"),
                Err(what) => self.findings.at_event(row, seq, what),
            }
        }
        Ok(())
    }

    /// Takes up one event; returns the block that it fills.
    fn event(&mut self, columns: &Columns, row: Option<EventRow>) -> Option<Closed> {
        self.kinds_used.insert(columns.kind);
        self.events += 1;
        let Some(folded) = self.branches.get_mut(&columns.branch) else {
            let what = format!("events of branch number {}, which does not exist", columns.branch);
            self.findings.note(in_table("events", what));
            self.is_partial = true;
            return None;
        };
        let before = folded.take_up(columns, self.findings);
        self.is_partial |= folded.is_torn;
        let closed = folded.fill_block(columns);
        let mark = Mark { chain: columns.chain, ts: columns.ts, position: columns.position };
        folded.last = Some(mark);
        if let Some(named) = self.marks.get_mut(&(columns.branch, columns.seq)) {
            *named = Some(mark);
        }
        let branch = folded.subject.row.clone();
        if let Some(row) = row {
            self.decode(branch, row, before);
        }
        closed
    }

    /// Hands an event to the threads that decode, with the key that names it as its first event.
    fn decode(&mut self, branch: Arc<BranchRow>, row: EventRow, before: Option<Hash>) {
        let key = match self.moment.keys.get(&row.position) {
            Some(key) if (key.branch, key.first) == (row.branch, row.seq) => {
                self.moment.keys.remove(&row.position)
            }
            _ => None,
        };
        if let (Some(key), Some(folded)) = (&key, self.branches.get_mut(&row.branch)) {
            if key.first <= folded.keyed_to {
                self.findings.in_table(&branch, key.first, "keys", "two keys name the same event");
            }
            folded.keyed_to = folded.keyed_to.max(key.last);
            let length =
                i64::try_from(key.last - key.first).unwrap_or(0).min(weir_journal::EVENTS_MAX as i64);
            self.batch_to = self.batch_to.max(row.position + length);
        }
        self.batch_bytes += row.record.len();
        let position = row.position;
        self.batch.push(Item { branch, row, before, key });
        let is_full = self.batch.len() >= BATCH_ROWS || self.batch_bytes >= PAGE_BYTES;
        if is_full && position >= self.batch_to {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if let Some(sender) = &self.sender
            && !batch.is_empty()
        {
            // Nobody takes it only if all of them have failed, and then the check fails with their error.
            let _ = sender.send(batch);
        }
    }

    /// Compares a full block with what the tables have.
    fn block(&mut self, reader: &Reader, block: &Closed) -> Result<()> {
        self.blocks += 1;
        let Some(branch) = self.branches.get(&block.branch).map(|folded| folded.subject.row.clone()) else {
            return Ok(());
        };
        let first = branch.at + 1 + block.n * BLOCK;
        let sql = "SELECT entries FROM blocks WHERE branch = ?1 AND n = ?2";
        let stored =
            reader.rows.one(sql, params![block.branch, block.n as i64], |row| row.get::<_, Vec<u8>>(0));
        match stored.map_err(Error::from) {
            Ok(Some(stored)) if stored == block.entries => {}
            Ok(Some(stored)) => {
                let seq = first + first_difference(&stored, &block.entries);
                self.findings.in_table(
                    &branch,
                    seq,
                    "blocks",
                    "the index of its branch is not that of its events",
                );
            }
            Ok(None) => {
                self.findings.in_table(&branch, first, "blocks", "the index of its branch has no row for it");
            }
            Err(error) => self.findings.in_table(&branch, first, "blocks", damage(error)?),
        }
        let entries = block::decode(&block.entries).unwrap_or_default();
        let kinds: HashSet<i64> = entries.iter().map(|entry| entry.kind).collect();
        for kind in kinds {
            self.kind_blocks += 1;
            let sql = "SELECT 1 FROM kind_blocks WHERE branch = ?1 AND kind = ?2 AND n = ?3";
            let key = params![block.branch, kind, block.n as i64];
            let found = reader.rows.one(sql, key, |_| Ok(())).map_err(Error::from).or_else(|error| {
                self.findings.in_table(&branch, first, "kind_blocks", damage(error)?);
                Ok::<_, Error>(Some(()))
            })?;
            if found.is_none() {
                let what = "the index by kind does not have its block";
                self.findings.in_table(&branch, first + BLOCK - 1, "kind_blocks", what);
            }
        }
        Ok(())
    }

    /// Compares what was folded with heads, forks and snapshots, and looks for rows that nothing explains.
    fn finish(mut self, reader: &mut Reader, found: &Found, is_whole: bool) -> Result<Counted> {
        for folded in self.branches.values() {
            self.fork(folded);
            self.head(folded);
        }
        for snapshot in &self.moment.snapshots {
            let mark = self.marks.get(&snapshot.place).copied().flatten();
            if mark.is_none_or(|mark| mark.chain != snapshot.chain) {
                let what = "a snapshot was not made of the events of its branch";
                self.findings.in_table(&snapshot.branch, snapshot.place.1, "snapshots", what);
            }
        }
        for key in std::mem::take(&mut self.moment.keys).into_values() {
            if let Some(folded) = self.branches.get(&key.branch) {
                let what = "a key names events that are not there";
                self.findings.in_table(&folded.subject.row, key.first, "keys", what);
            }
        }
        if is_whole {
            self.reverse(reader, found)?;
        }
        let streams: HashSet<i64> = self.branches.values().map(|folded| folded.subject.row.stream).collect();
        Ok(Counted {
            streams: (streams.len() as u64).max(self.moment.streams),
            branches: self.branches.len() as u64,
            events: self.events,
            keys_not_known: found.keys_not_known,
        })
    }

    fn reverse(&self, reader: &mut Reader, found: &Found) -> Result<()> {
        for (no, kind) in &self.moment.kinds {
            if !self.kinds_used.contains(no) {
                let what = format!("kind number {no}, `{kind}`, is the kind of no event");
                self.findings.note(in_table("kinds", what));
            }
        }
        let counts = &self.moment.counts;
        for (table, expected, stored) in [
            ("blocks", self.blocks, counts.blocks),
            ("kind_blocks", self.kind_blocks, counts.kind_blocks),
            ("causes", found.causes, counts.causes),
            ("refs", found.refs, counts.refs),
        ] {
            if stored > expected {
                let is_complete = !self.is_partial && found.failed == 0;
                let more = reverse::More { table, number: stored - expected, is_complete };
                reverse::rows_too_many(reader, &more, self.findings)?;
            }
        }
        Ok(())
    }

    /// A fork continues the chain of its parent at the event it names.
    fn fork(&self, folded: &Folded) {
        let Subject { row, forked_at: Some(place), .. } = &folded.subject else { return };
        let what = match self.marks.get(place).copied().flatten() {
            None => "its fork pointer lies beyond the end of its parent",
            Some(mark) if mark.chain != row.chain => "its fork pointer does not fit the chain of its parent",
            Some(_) => return,
        };
        self.findings.in_table(row, row.at, "branches", what);
    }

    fn head(&self, folded: &Folded) {
        let Subject { row, head: Some(head), forked_at } = &folded.subject else { return };
        let last = folded.next - 1;
        if last < head.seq {
            self.findings.at_event(row, after(last).0, "it is missing");
            return;
        }
        let wrong = |what: &str| self.findings.in_table(row, head.seq, "heads", what);
        if last > head.seq {
            wrong("there are events after the head of its branch");
            return;
        }
        let mark =
            folded.last.or_else(|| forked_at.and_then(|place| self.marks.get(&place).copied().flatten()));
        if let Some(mark) = mark {
            if mark.chain != head.chain {
                wrong("the head of its branch has another chain");
            }
            if (mark.ts, mark.position) != (head.ts, head.position) {
                wrong("the head of its branch has another time or position");
            }
        }
        if let Some(open) = folded.open.as_ref().filter(|open| **open != head.open) {
            let first = row.at + 1 + (head.seq - row.at) / BLOCK * BLOCK;
            let seq = first + first_difference(&head.open, open);
            self.findings.in_table(
                row,
                seq,
                "heads",
                "the open block of its branch is not that of its events",
            );
        }
    }
}

/// How many entries at the beginning of two blocks are the same.
fn first_difference(stored: &[u8], expected: &[u8]) -> u64 {
    let (stored, expected) =
        (block::decode(stored).unwrap_or_default(), block::decode(expected).unwrap_or_default());
    stored.iter().zip(&expected).take_while(|(stored, expected)| stored == expected).count() as u64
}

/// A block that is full.
struct Closed {
    branch: i64,
    n: u64,
    entries: Vec<u8>,
}

impl Folded {
    /// Puts an event in its place; returns the chain that it continues, if that is known.
    fn take_up(&mut self, columns: &Columns, findings: &Findings) -> Option<Hash> {
        let row = &self.subject.row;
        self.is_torn = columns.seq != self.next;
        if columns.seq > self.next {
            findings.at_event(row, self.next, "it is missing");
        } else if columns.seq < self.next {
            findings.at_event(row, columns.seq, "a second event has its place");
        }
        if self.is_torn {
            self.open = None;
        }
        if self.last.is_some_and(|last| columns.ts < last.ts) {
            findings.at_event(row, columns.seq, "it is older than the event before it");
        }
        self.next = columns.seq.saturating_add(1);
        match self.last {
            _ if self.is_torn => None,
            Some(last) => Some(last.chain),
            None => Some(row.chain),
        }
    }

    /// Adds an event to the block being filled; returns the block if it is full.
    fn fill_block(&mut self, columns: &Columns) -> Option<Closed> {
        let at = self.subject.row.at;
        if columns.seq <= at {
            self.open = None;
            return None;
        }
        let own = columns.seq - at - 1;
        if own.is_multiple_of(BLOCK) {
            self.open = Some(Vec::new());
        }
        if let Some(open) = &mut self.open {
            let previous = match self.last {
                Some(last) if !open.is_empty() => last.position,
                _ => 0,
            };
            let entry = Entry { position: columns.position, kind: columns.kind };
            if entry.position <= previous || entry.kind < 0 {
                self.open = None;
            } else {
                block::push(open, entry, previous);
            }
        }
        if (own + 1).is_multiple_of(BLOCK) {
            let entries = self.open.replace(Vec::new())?;
            return Some(Closed { branch: columns.branch, n: own / BLOCK, entries });
        }
        None
    }
}

impl Columns {
    fn of(row: &EventRow) -> Self {
        let EventRow { position, branch, seq, ts, kind, chain, .. } = *row;
        Self { position, branch, seq, ts, kind, chain }
    }

    fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            position: row.get(0)?,
            branch: row.get(1)?,
            seq: unsigned(row, 2)?,
            ts: timestamp(row, 3)?,
            kind: row.get(4)?,
            chain: convert(row, 5, Hash::from_slice)?,
        })
    }
}
