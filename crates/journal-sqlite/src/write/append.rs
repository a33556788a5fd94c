//! Appending: what one request's parts change.

use std::sync::Arc;

use rusqlite::params;
use weir_blobs::Lease;
use weir_journal::rules::{self, KnownPart};
use weir_journal::{AppendError, Appended, Attrs, Key, NewEvent, Ownership, Part, now};
use weir_types::{BranchId, Hash, OwnerId, Position, Seq, StreamName, Timestamp};

use super::{HEADS_MAX, Hot, Refusal, Writer, refused};
use crate::block::{self, BLOCK, Entry};
use crate::record::{KeyNote, Record};
use crate::rows::{HeadRow, Result, clamp, contradicts, convert, unsigned};

/// An append on its way to the commit thread, with its events' records already encoded.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) parts: Vec<Part>,
    /// One per event, through all parts.
    pub(crate) records: Vec<Record>,
    /// Keeps collectors away from the blobs that the events name, until they are durable.
    pub(crate) _lease: Option<Lease>,
}

impl Writer {
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
        let known = self.reader.rows.one(sql, params![no, key.as_str()], |row| {
            let (first, last, position) =
                (Seq(unsigned(row, 0)?), Seq(unsigned(row, 1)?), Position(unsigned(row, 2)?));
            Ok(KnownPart { content: convert(row, 3, Hash::from_slice)?, first, last, position })
        })?;
        if let Some(known) = &known {
            self.check_key(no, key, known)?;
        }
        Ok(known)
    }

    /// A row of `keys` says that an append was done before; the first event of that append has to say so, too.
    fn check_key(&mut self, branch: i64, key: &Key, known: &KnownPart) -> Result<()> {
        let row = self.reader.rows.event(clamp(known.position.0))?;
        let row = row.filter(|row| (row.branch, row.seq) == (branch, known.first.0));
        let is_its_own = match row.map(|row| self.reader.key_of(&row)).transpose()? {
            None | Some(KeyNote::None) => false,
            Some(KeyNote::Unknown) => true,
            Some(KeyNote::First { key: own, events }) => {
                own == *key && known.first.0.saturating_add(events) == known.last.0.saturating_add(1)
            }
        };
        if is_its_own {
            return Ok(());
        }
        Err(contradicts("keys", &format!("the key `{key}` names an append that it was not used for")))
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
        let (no, stream) = (hot.row.no, hot.row.stream);
        if let Some(attrs) = part.attrs.as_ref().filter(|attrs| hot.attrs.as_ref() != Some(*attrs)) {
            self.write_attrs(no, attrs, hot.attrs.as_ref())?;
            if let Some(hot) = self.heads.get_mut(&part.branch) {
                hot.attrs = Some(attrs.clone());
            }
        }
        self.write_owner(stream, part.owner)?;
        Ok(Appended { first: Seq(first), last: Seq(last), position: self.position(), replayed: false })
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
        self.heads.insert(id, Hot { row, head, is_dirty: true, attrs: None });
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

    /// Writes attributes that are not `known` to be in the file. A run changes little but the status: then only the
    /// pages of its index are written again, and not those of all the others.
    fn write_attrs(&self, branch: i64, attrs: &Attrs, known: Option<&Attrs>) -> Result<()> {
        let Attrs { status, principal, agent, title, due } = attrs;
        if known.is_some_and(|known| Attrs { status: *status, ..known.clone() } == *attrs) {
            self.execute("UPDATE attrs SET status = ?2 WHERE branch = ?1", params![branch, status.as_str()])?;
            return Ok(());
        }
        let sql =
            "INSERT INTO attrs (branch, status, principal, agent, title, due) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (branch) DO UPDATE SET status = excluded.status, principal = excluded.principal,
                agent = excluded.agent, title = excluded.title, due = excluded.due
            WHERE (status, principal, agent, title, due)
                IS NOT (excluded.status, excluded.principal, excluded.agent, excluded.title, excluded.due)";
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
}
