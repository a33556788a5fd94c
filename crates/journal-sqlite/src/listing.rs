//! Look-ups that read no events: streams, branches, attributes, keys, refs and snapshots.

use rusqlite::{ToSql, params};
use weir_journal::{
    Attrs, Branch, FoldVersion, ForkPoint, Head, Key, KeyedPart, ListAfter, ListFilter, Listed, Looked,
    STORED_SNAPSHOTS_MAX, Snapshot, Status, StreamSummary,
};
use weir_types::{BranchId, Hash, OwnerId, Position, Seq, StreamName, Timestamp};

use crate::read::Reader;
use crate::rows::{BranchRow, HeadRow, Result, clamp, convert, increasing, parse, timestamp, unsigned};

impl Reader {
    /// The head of a branch, in one statement: it is asked for more often than anything else.
    pub(crate) fn head(&mut self, id: &BranchId) -> Result<Option<Head>> {
        let sql = "SELECT seq, heads.chain, ts, position FROM streams \
                   JOIN branches ON branches.stream = streams.no LEFT JOIN heads ON heads.branch = branches.no \
                   WHERE streams.name = ?1 AND branches.name = ?2";
        Ok(self.rows.one(sql, [id.stream.as_str(), id.branch.as_str()], |row| {
            let (seq, position) = (Seq(unsigned(row, 0)?), Position(unsigned(row, 3)?));
            Ok(Head { seq, chain: convert(row, 1, Hash::from_slice)?, ts: timestamp(row, 2)?, position })
        })?)
    }

    pub(crate) fn streams(&mut self, after: Option<&StreamName>, limit: usize) -> Result<Vec<StreamSummary>> {
        let sql = "SELECT no, name, owner FROM streams WHERE name > ?1 ORDER BY name LIMIT ?2";
        let key = (after.map_or("", StreamName::as_str), clamp(limit as u64));
        let found = self.rows.many(sql, key, |row| {
            let owner: Option<Vec<u8>> = row.get(2)?;
            Ok((
                row.get::<_, i64>(0)?,
                parse::<StreamName>(row, 1)?,
                owner.as_deref().and_then(OwnerId::from_slice),
            ))
        })?;
        // An index that is damaged can lead back to where it came from, without end.
        increasing("streams", after.map(StreamName::as_str), found.iter().map(|(_, name, _)| name.as_str()))?;
        let mut summaries = Vec::new();
        for (no, stream, owner) in found {
            summaries.push(match self.summary(no, stream.clone(), owner) {
                Err(error) if error.is_damage() => {
                    let (updated, damage) = (Timestamp::default(), Some(error.to_string()));
                    StreamSummary { stream, branches: 0, events: 0, updated, owner, damage }
                }
                summary => summary?,
            });
        }
        Ok(summaries)
    }

    fn summary(&self, no: i64, stream: StreamName, owner: Option<OwnerId>) -> Result<StreamSummary> {
        let sql = "SELECT count(*), coalesce(sum(seq - at), 0), coalesce(max(ts), 0) \
                   FROM branches JOIN heads ON heads.branch = branches.no WHERE stream = ?1";
        let summary = self.rows.one(sql, [no], |row| {
            let (branches, events, updated) = (unsigned(row, 0)?, unsigned(row, 1)?, timestamp(row, 2)?);
            Ok(StreamSummary { stream, branches, events, updated, owner, damage: None })
        })?;
        Ok(summary.ok_or(rusqlite::Error::QueryReturnedNoRows)?)
    }

    pub(crate) fn branches(&mut self, stream: &StreamName) -> Result<Vec<Branch>> {
        let Some(no) = self.rows.stream_no(stream)? else { return Ok(Vec::new()) };
        let mut made = Vec::new();
        for no in self.branch_numbers(Some(no))? {
            let row = self.rows.branch_by_no(no)?;
            let head = self.rows.head(&row)?;
            let parent = match row.parent {
                None => None,
                Some(parent) => {
                    let branch = self.rows.branch_by_no(parent)?.id.branch.clone();
                    Some(ForkPoint { branch, at: Seq(row.at), chain: row.chain })
                }
            };
            made.push(Branch { name: row.id.branch.clone(), parent, head: head.to_head() });
        }
        Ok(made)
    }

    /// The numbers of all branches, of one stream or of all, in the order they were made.
    pub(crate) fn branch_numbers(&self, stream: Option<i64>) -> Result<Vec<i64>> {
        let all = "SELECT no FROM branches ORDER BY no";
        let own = "SELECT no FROM branches WHERE stream = ?1 ORDER BY no";
        Ok(match stream {
            Some(stream) => self.rows.many(own, [stream], |row| row.get(0))?,
            None => self.rows.many(all, [], |row| row.get(0))?,
        })
    }

    pub(crate) fn list(
        &mut self,
        filter: &ListFilter,
        after: Option<&ListAfter>,
        limit: usize,
    ) -> Result<Vec<Listed>> {
        let after_branch = match after {
            Some(after) => self.rows.existing(&after.branch)?.no,
            None => 0,
        };
        let after_due = after.and_then(|after| after.due).map_or(i64::MIN, Timestamp::as_micros);
        let mut place = (after_due, after_branch);
        let mut listed = Vec::new();
        loop {
            let wanted = limit - listed.len();
            let rows = self.list_rows(filter, place, wanted)?;
            let is_last = rows.len() < wanted;
            for row in rows {
                place = (row.attrs.due.map_or(i64::MIN, Timestamp::as_micros), row.no);
                match self.with_head(row) {
                    // A branch without a name cannot be listed; `verify` finds it. The page is filled up, since a short one is the last.
                    Err(error) if error.is_damage() => {}
                    row => listed.push(row?),
                }
            }
            if is_last || listed.len() == limit {
                return Ok(listed);
            }
        }
    }

    fn list_rows(
        &mut self,
        filter: &ListFilter,
        (after_due, after_branch): (i64, i64),
        limit: usize,
    ) -> Result<Vec<Row>> {
        let status = filter.status.map(weir_journal::Status::as_str);
        let due_before = filter.due_before.map(Timestamp::as_micros);
        let limit = clamp(limit as u64);
        let mut conditions: Vec<&str> = Vec::new();
        let mut values: Vec<(&str, &dyn ToSql)> = vec![(":limit", &limit), (":after", &after_branch)];
        for (condition, name, value, given) in [
            ("status = :status", ":status", &status as &dyn ToSql, status.is_some()),
            ("principal = :principal", ":principal", &filter.principal, filter.principal.is_some()),
            ("agent = :agent", ":agent", &filter.agent, filter.agent.is_some()),
            ("due <= :due", ":due", &due_before, due_before.is_some()),
        ] {
            if given {
                conditions.push(condition);
                values.push((name, value));
            }
        }
        let order = if due_before.is_some() {
            conditions.push("(due, branch) > (:after_due, :after)");
            values.push((":after_due", &after_due));
            "due, branch"
        } else {
            conditions.push("branch > :after");
            "branch"
        };
        let sql = format!(
            "SELECT branch, status, principal, agent, title, due FROM attrs WHERE {} ORDER BY {order} LIMIT :limit",
            conditions.join(" AND ")
        );
        let found = self.rows.many(&sql, values.as_slice(), Row::read)?;
        if due_before.is_some() {
            let places =
                found.iter().map(|row| (row.attrs.due.map_or(i64::MIN, Timestamp::as_micros), row.no));
            increasing("attrs", Some((after_due, after_branch)), places)?;
        } else {
            increasing("attrs", Some(after_branch), found.iter().map(|row| row.no))?;
        }
        Ok(found)
    }

    pub(crate) fn listed(&mut self, id: &BranchId) -> Result<Option<Listed>> {
        let sql = "SELECT attrs.branch, status, principal, agent, title, due FROM streams \
                   JOIN branches ON branches.stream = streams.no JOIN attrs ON attrs.branch = branches.no \
                   WHERE streams.name = ?1 AND branches.name = ?2";
        let found = self.rows.one(sql, [id.stream.as_str(), id.branch.as_str()], Row::read)?;
        found.map(|row| self.with_head(row)).transpose()
    }

    fn with_head(&mut self, row: Row) -> Result<Listed> {
        let Row { no, attrs, mut damage } = row;
        let branch = self.rows.branch_by_no(no)?;
        let head = match self.rows.head(&branch) {
            Err(error) if error.is_damage() => {
                damage = Some(error.to_string());
                Head { seq: Seq(0), chain: Hash::ZERO, ts: Timestamp::default(), position: Position(0) }
            }
            head => head?.to_head(),
        };
        let owner = self.rows.one("SELECT owner FROM streams WHERE no = ?1", [branch.stream], |row| {
            Ok(row.get::<_, Option<Vec<u8>>>(0)?.as_deref().and_then(OwnerId::from_slice))
        })?;
        Ok(Listed { branch: branch.id.clone(), attrs, owner: owner.flatten(), head, damage })
    }

    pub(crate) fn keys(&mut self, branch: &BranchId, from: Seq, to: Seq) -> Result<Vec<KeyedPart>> {
        let branch = self.rows.existing(branch)?;
        let sql =
            "SELECT key, first, last FROM keys WHERE branch = ?1 AND last BETWEEN ?2 AND ?3 ORDER BY last";
        Ok(self.rows.many(sql, params![branch.no, clamp(from.0), clamp(to.0)], |row| {
            Ok(KeyedPart { key: parse(row, 0)?, first: Seq(unsigned(row, 1)?), last: Seq(unsigned(row, 2)?) })
        })?)
    }

    pub(crate) fn keyed(&mut self, branch: &BranchId, key: &Key) -> Result<Option<KeyedPart>> {
        let sql = "SELECT first, last FROM streams JOIN branches ON branches.stream = streams.no \
                   JOIN keys ON keys.branch = branches.no \
                   WHERE streams.name = ?1 AND branches.name = ?2 AND keys.key = ?3";
        Ok(self.rows.one(sql, [branch.stream.as_str(), branch.branch.as_str(), key.as_str()], |row| {
            let (first, last) = (Seq(unsigned(row, 0)?), Seq(unsigned(row, 1)?));
            Ok(KeyedPart { key: key.clone(), first, last })
        })?)
    }

    pub(crate) fn refers_to(&mut self, hash: Hash) -> Result<bool> {
        let sql = "SELECT 1 FROM refs WHERE hash = ?1 LIMIT 1";
        Ok(self.rows.one(sql, [hash.as_bytes()], |_| Ok(()))?.is_some())
    }

    pub(crate) fn referring(
        &mut self,
        hash: Hash,
        after: Position,
        limit: usize,
    ) -> Result<Vec<(Position, StreamName)>> {
        let sql = "SELECT refs.position, streams.name FROM refs JOIN events ON events.position = refs.position \
                   JOIN branches ON branches.no = events.branch JOIN streams ON streams.no = branches.stream \
                   WHERE refs.hash = ?1 AND refs.position > ?2 ORDER BY refs.position LIMIT ?3";
        let key = params![hash.as_bytes(), clamp(after.0), clamp(limit as u64)];
        let found: Vec<(Position, StreamName)> =
            self.rows.many(sql, key, |row| Ok((Position(unsigned(row, 0)?), parse(row, 1)?)))?;
        increasing("refs", Some(after), found.iter().map(|(position, _)| *position))?;
        Ok(found)
    }

    /// Every event is asked about by itself: how many others refer to the blob, and where, makes no difference.
    pub(crate) fn referring_on(
        &mut self,
        id: &BranchId,
        hash: Hash,
        after: Seq,
        limit: usize,
    ) -> Result<Looked> {
        let branch = self.rows.existing(id)?;
        let head = self.rows.head(&branch)?;
        let from = after.0.max(branch.at).saturating_add(1);
        if from > head.seq {
            return Ok(Looked::Nowhere);
        }
        let to = head.seq.min(from.saturating_add(limit as u64) - 1);
        let sql = "SELECT 1 FROM refs WHERE hash = ?1 AND position = ?2";
        for (entry, seq) in self.rows.entries(&branch, &head, from, to)?.iter().zip(from..) {
            if self.rows.one(sql, params![hash.as_bytes(), entry.position], |_| Ok(()))?.is_some() {
                return Ok(Looked::Found(Seq(seq)));
            }
        }
        Ok(if to == head.seq { Looked::Nowhere } else { Looked::NotUntil(Seq(to)) })
    }

    /// The newest snapshot along the lineage that still fits the events.
    pub(crate) fn snapshot(&mut self, id: &BranchId, fold: &FoldVersion) -> Result<Option<Snapshot>> {
        let mut branch = self.rows.existing(id)?;
        let mut to = u64::MAX;
        loop {
            let head = self.rows.head(&branch)?;
            to = to.min(head.seq);
            if let Some(found) = self.own_snapshot(&branch, &head, to, fold)? {
                return Ok(Some(found));
            }
            to = to.min(branch.at);
            let Some(parent) = self.rows.parent(&branch)? else { return Ok(None) };
            branch = parent;
        }
    }

    /// Every snapshot of a branch itself, whatever it says.
    pub(crate) fn stored_snapshots(&mut self, id: &BranchId) -> Result<Vec<Snapshot>> {
        let branch = self.rows.existing(id)?;
        let sql = "SELECT fold, version, seq, chain, state FROM snapshots WHERE branch = ?1 \
                   ORDER BY fold, version, seq LIMIT ?2";
        let key = params![branch.no, clamp(STORED_SNAPSHOTS_MAX as u64)];
        Ok(self.rows.many(sql, key, |row| {
            let fold = FoldVersion { fold: row.get(0)?, version: row.get(1)? };
            let (seq, chain) = (Seq(unsigned(row, 2)?), convert(row, 3, Hash::from_slice)?);
            let state = row.get::<_, Vec<u8>>(4)?.into();
            Ok(Snapshot { branch: branch.id.clone(), seq, chain, fold, state })
        })?)
    }

    fn own_snapshot(
        &mut self,
        branch: &BranchRow,
        head: &HeadRow,
        to: u64,
        fold: &FoldVersion,
    ) -> Result<Option<Snapshot>> {
        let sql = "SELECT seq, chain, state FROM snapshots \
                   WHERE branch = ?1 AND fold = ?2 AND version = ?3 AND seq BETWEEN ?4 AND ?5 ORDER BY seq DESC";
        let key = params![branch.no, fold.fold, fold.version, clamp(branch.at.max(1)), clamp(to)];
        let found = self.rows.many(sql, key, |row| {
            Ok((unsigned(row, 0)?, convert(row, 1, Hash::from_slice)?, row.get::<_, Vec<u8>>(2)?))
        })?;
        for (seq, chain, state) in found {
            if self.rows.chain_before(branch, head, seq + 1)? == chain {
                let (branch, fold) = (branch.id.clone(), fold.clone());
                return Ok(Some(Snapshot { branch, seq: Seq(seq), chain, fold, state: state.into() }));
            }
        }
        Ok(None)
    }
}

/// A row of attributes.
struct Row {
    /// The number of its branch.
    no: i64,
    attrs: Attrs,
    /// What of it cannot be read.
    damage: Option<String>,
}

impl Row {
    /// A field that cannot be read is left out, and costs no other row anything.
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let mut unreadable = Vec::new();
        let mut text = |column: usize, name: &'static str| -> Option<String> {
            row.get(column).unwrap_or_else(|_| {
                unreadable.push(name);
                None
            })
        };
        let (principal, agent, title) = (text(2, "principal"), text(3, "agent"), text(4, "title"));
        let status: Option<Status> = parse(row, 1).ok();
        if status.is_none() {
            unreadable.push("status");
        }
        let due = match row.get::<_, Option<i64>>(5) {
            Ok(None) => None,
            _ => timestamp(row, 5).inspect_err(|_| unreadable.push("due")).ok(),
        };
        let damage = (!unreadable.is_empty())
            .then(|| format!("its row in the list of sessions is damaged: {}", unreadable.join(", ")));
        // What may run by itself is not to be guessed.
        let status = status.unwrap_or(Status::Halted);
        Ok(Self { no: row.get(0)?, attrs: Attrs { status, principal, agent, title, due }, damage })
    }
}
