//! Reading events: found through the lineage, decoded, and checked against their chains before anyone sees them.

use std::sync::Arc;

use bytes::Bytes;
use weir_types::{BranchId, Event, EventId, Hash, Kind, Position, Seq};

use crate::block::{BLOCK, Entry};
use crate::record::{Decoder, KeyNote, Payload};
use crate::rows::{
    BranchRow, EVENT_COLUMNS, EventRow, HeadRow, NEWEST_POSITION, Result, Rows, clamp, contradicts,
    increasing,
};

/// An event whose chain has been checked; a large payload is still in the blob store.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) event: Event,
    pub(crate) in_blob: bool,
    pub(crate) key: KeyNote,
}

/// The own events `from..=to` of one branch: a stretch of somebody's lineage.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) branch: Arc<BranchRow>,
    pub(crate) head: HeadRow,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// One connection of the reading pool.
pub(crate) struct Reader {
    pub(crate) rows: Rows,
    decoder: Decoder,
}

impl Reader {
    pub(crate) fn new(rows: Rows, decoder: Decoder) -> Self {
        Self { rows, decoder }
    }

    /// Runs `read` in one read transaction, so that all it sees belongs together.
    pub(crate) fn transaction<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.rows.connection.execute_batch("BEGIN")?;
        let result = read(self);
        // Nothing was written, so there is nothing to lose if this fails. After some failures SQLite has rolled back by
        // itself; that must not hide the failure.
        let ended = self.rows.connection.execute_batch("COMMIT");
        if ended.is_err() && !self.rows.connection.is_autocommit() {
            let rolled_back = self.rows.connection.execute_batch("ROLLBACK");
            if result.is_ok() {
                rolled_back?;
            }
        }
        result
    }

    /// Events with `seq > after`, oldest first.
    pub(crate) fn read(&mut self, id: &BranchId, after: Seq, limit: usize) -> Result<Vec<Loaded>> {
        let mut found = Vec::new();
        for segment in self.lineage(id, after.0)? {
            let room = (limit - found.len()) as u64;
            let to = segment.to.min(segment.from.saturating_add(room) - 1);
            if room == 0 {
                break;
            }
            self.read_own(&segment.branch, &segment.head, segment.from, to, &mut found)?;
        }
        Ok(found)
    }

    /// Events with `seq < before`, newest first.
    pub(crate) fn read_back(
        &mut self,
        id: &BranchId,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Loaded>> {
        let branch = self.rows.existing(id)?;
        let head = self.rows.head(&branch)?;
        let last = before.map_or(head.seq, |before| before.0.saturating_sub(1).min(head.seq));
        let first = last.saturating_sub(limit as u64);
        let mut found = self.read(id, Seq(first), (last - first) as usize)?;
        found.reverse();
        Ok(found)
    }

    /// Events of one kind with `seq > after`, oldest first.
    pub(crate) fn by_kind(
        &mut self,
        id: &BranchId,
        kind: &Kind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Loaded>> {
        let segments = self.lineage(id, after.0)?;
        let Some(kind) = self.rows.kind_no(kind)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for segment in segments {
            self.by_kind_own(&segment, kind, limit, &mut found)?;
        }
        Ok(found)
    }

    fn by_kind_own(
        &mut self,
        segment: &Segment,
        kind: i64,
        limit: usize,
        found: &mut Vec<Loaded>,
    ) -> Result<()> {
        let Segment { branch, head, from, to } = segment;
        let closed = (head.seq - branch.at) / BLOCK;
        let mut n = (from - branch.at - 1) / BLOCK;
        while found.len() < limit && branch.at + n * BLOCK < *to {
            let block = self.rows.block(branch, head, n)?;
            for (entry, seq) in block.iter().zip(branch.at + 1 + n * BLOCK..) {
                if entry.kind == kind && (*from..=*to).contains(&seq) && found.len() < limit {
                    self.read_own(branch, head, seq, seq, found)?;
                }
            }
            let sql =
                "SELECT n FROM kind_blocks WHERE branch = ?1 AND kind = ?2 AND n > ?3 ORDER BY n LIMIT 1";
            let next = self.rows.one(sql, (branch.no, kind, clamp(n)), |row| row.get::<_, i64>(0))?;
            increasing("kind_blocks", Some(clamp(n)), next)?;
            n = next.map_or(closed.max(n + 1), |next| next as u64);
        }
        Ok(())
    }

    pub(crate) fn by_id(&mut self, id: EventId) -> Result<Option<Loaded>> {
        let sql = "SELECT position FROM events WHERE id = ?1";
        let position = self.rows.one(sql, [id.to_bytes()], |row| row.get(0))?;
        let found = position.map(|position| self.at_position(position)).transpose()?;
        if let Some(other) = found.as_ref().filter(|found| found.event.id != id) {
            return Err(contradicts("events_id", &format!("it names event {} for {id}", other.event.id)));
        }
        Ok(found)
    }

    pub(crate) fn children(&mut self, of: EventId, after: Position, limit: usize) -> Result<Vec<Loaded>> {
        let sql = "SELECT position FROM causes WHERE cause = ?1 AND position > ?2 ORDER BY position LIMIT ?3";
        let key = (of.to_bytes(), clamp(after.0), clamp(limit as u64));
        let positions: Vec<i64> = self.rows.many(sql, key, |row| row.get(0))?;
        increasing("causes", Some(clamp(after.0)), positions.iter().copied())?;
        let mut found = Vec::with_capacity(positions.len());
        for position in positions {
            let loaded = self.at_position(position)?;
            if loaded.event.meta.causation() != Some(of) {
                return Err(contradicts(
                    "causes",
                    &format!("event {} was not caused by {of}", loaded.event.id),
                ));
            }
            found.push(loaded);
        }
        Ok(found)
    }

    /// Events of all branches in order of position.
    pub(crate) fn read_all(&mut self, after: Position, limit: usize) -> Result<Vec<Loaded>> {
        let sql =
            format!("SELECT {EVENT_COLUMNS} FROM events WHERE position > ?1 ORDER BY position LIMIT ?2");
        let rows = self.rows.many(&sql, (clamp(after.0), clamp(limit as u64)), EventRow::from_row)?;
        increasing("events", Some(clamp(after.0)), rows.iter().map(|row| row.position))?;
        let mut chains = std::collections::HashMap::new();
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let branch = self.rows.branch_by_no(row.branch)?;
            let before = match chains.get(&row.branch) {
                Some((seq, chain)) if *seq + 1 == row.seq => *chain,
                _ => self.chain_before(&branch, row.seq)?,
            };
            chains.insert(row.branch, (row.seq, row.chain));
            found.push(self.finish(&branch, &row, before)?);
        }
        Ok(found)
    }

    pub(crate) fn end(&mut self) -> Result<Position> {
        let newest = self.rows.one(NEWEST_POSITION, (), |row| row.get::<_, i64>(0))?;
        Ok(Position(newest.unwrap_or_default().unsigned_abs()))
    }

    /// The stretches of a branch's lineage that hold events after `after`, oldest first.
    pub(crate) fn lineage(&mut self, id: &BranchId, after: u64) -> Result<Vec<Segment>> {
        let mut branch = self.rows.existing(id)?;
        let mut to = u64::MAX;
        let mut segments = Vec::new();
        loop {
            let head = self.rows.head(&branch)?;
            to = to.min(head.seq);
            let at = branch.at;
            let parent = if after < at { self.rows.parent(&branch)? } else { None };
            let from = after.max(at).saturating_add(1);
            if from <= to {
                segments.push(Segment { branch, head, from, to });
            }
            match parent {
                Some(parent) => {
                    to = to.min(at);
                    branch = parent;
                }
                None => break,
            }
        }
        segments.reverse();
        Ok(segments)
    }

    /// The event at a position, checked like any other.
    pub(crate) fn at_position(&mut self, position: i64) -> Result<Loaded> {
        let row = self.rows.event(position)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let branch = self.rows.branch_by_no(row.branch)?;
        let before = self.chain_before(&branch, row.seq)?;
        self.finish(&branch, &row, before)
    }

    fn chain_before(&mut self, branch: &BranchRow, seq: u64) -> Result<Hash> {
        let head = self.rows.head(branch)?;
        if seq <= branch.at || seq > head.seq {
            return Err(branch.damaged(seq, "it lies outside its branch"));
        }
        self.rows.chain_before(branch, &head, seq)
    }

    /// Reads the own events `from..=to` of a branch.
    fn read_own(
        &mut self,
        branch: &BranchRow,
        head: &HeadRow,
        from: u64,
        to: u64,
        found: &mut Vec<Loaded>,
    ) -> Result<()> {
        let entries = self.rows.entries(branch, head, from, to)?;
        let mut before = self.rows.chain_before(branch, head, from)?;
        for (row, seq) in self.fetch(&entries)?.into_iter().zip(from..) {
            let row = row.ok_or_else(|| branch.damaged(seq, "it is missing"))?;
            if (row.branch, row.seq) != (branch.no, seq) {
                return Err(branch.damaged(seq, "another event is in its place"));
            }
            let chain = row.chain;
            found.push(self.finish(branch, &row, before)?);
            before = chain;
        }
        if to == head.seq && before != head.chain {
            return Err(branch.damaged(to, "the head of its branch has another chain"));
        }
        Ok(())
    }

    /// The rows of `entries`. Events appended without others in between lie side by side: one range finds them all.
    fn fetch(&mut self, entries: &[Entry]) -> Result<Vec<Option<EventRow>>> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(Vec::new()) };
        if entries.len() > 1 && last.position - first.position + 1 == entries.len() as i64 {
            let sql = format!(
                "SELECT {EVENT_COLUMNS} FROM events WHERE position BETWEEN ?1 AND ?2 ORDER BY position"
            );
            let rows = self.rows.many(&sql, [first.position, last.position], EventRow::from_row)?;
            if rows.len() == entries.len() {
                return Ok(rows.into_iter().map(Some).collect());
            }
        }
        entries.iter().map(|entry| self.rows.event(entry.position)).collect()
    }

    /// What a row's record says of the key of its append.
    pub(crate) fn key_of(&mut self, row: &EventRow) -> Result<KeyNote> {
        let decoded = self.decoder.decode(row.form, &row.record);
        let content =
            decoded.map_err(|what| contradicts("events", &format!("position {}: {what}", row.position)))?;
        Ok(content.key)
    }

    /// Decodes a row and checks its chain: only then is it an event.
    pub(crate) fn finish(&mut self, branch: &BranchRow, row: &EventRow, before: Hash) -> Result<Loaded> {
        let damaged = |what: &str| branch.damaged(row.seq, what);
        let content = self.decoder.decode(row.form, &row.record).map_err(|what| damaged(&what))?;
        let kind = self.rows.kind(row.kind)?.ok_or_else(|| damaged("its kind is unknown to the file"))?;
        let (payload, payload_hash, in_blob) = match content.payload {
            Payload::Inline(payload) => (payload.clone(), Hash::of(&payload), false),
            Payload::Blob(hash) => (Bytes::new(), hash, true),
        };
        let event = Event {
            position: Position(row.position as u64),
            stream: branch.id.stream.clone(),
            branch: branch.id.branch.clone(),
            seq: Seq(row.seq),
            id: row.id,
            ts: row.ts,
            kind,
            payload,
            meta: content.meta,
            refs: content.refs,
            payload_hash,
            chain: row.chain,
        };
        if event.chain_after(before) != event.chain {
            return Err(damaged("its hash chain does not fit"));
        }
        Ok(Loaded { event, in_blob, key: content.key })
    }
}
