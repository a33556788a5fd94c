//! What the journal in memory holds. Everything here is synchronous and happens under one lock.

mod write;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use weir_types::{BranchId, BranchName, Event, EventId, Hash, Kind, OwnerId, Position, Seq, StreamName};

use crate::append::{Key, KeyedPart};
use crate::error::ReadError;
use crate::listing::{Attrs, Branch, ForkPoint, Head, ListAfter, ListFilter, Listed, Looked, StreamSummary};
use crate::rules::KnownPart;
use crate::snapshot::{FoldVersion, SNAPSHOT_MAX, SNAPSHOTS_KEPT, Snapshot};

#[derive(Default)]
pub(super) struct State {
    pub(super) streams: BTreeMap<StreamName, StreamState>,
    pub(super) events: BTreeMap<Position, Record>,
    ids: HashMap<EventId, Position>,
    causes: HashMap<EventId, Vec<Position>>,
    refs: HashMap<Hash, Vec<Position>>,
    keys: HashMap<BranchId, BTreeMap<Key, KnownPart>>,
    snapshots: HashMap<(BranchId, FoldVersion), BTreeMap<Seq, Snapshot>>,
    branches_made: u64,
}

#[derive(Default)]
pub(super) struct StreamState {
    owner: Option<OwnerId>,
    pub(super) branches: BTreeMap<BranchName, BranchState>,
}

pub(super) struct BranchState {
    /// The order in which branches came to be.
    made: u64,
    pub(super) parent: Option<ForkPoint>,
    pub(super) head: Head,
    /// Positions of its own events: the first of them has seq `base + 1`.
    own: Vec<Position>,
    attrs: Option<Attrs>,
}

/// An event as it is kept; a large payload is in the blob store instead.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) event: Event,
    pub(super) large: bool,
}

impl BranchState {
    /// The last event it shares with its parent.
    pub(super) fn base(&self) -> Seq {
        self.parent.as_ref().map_or(Seq(0), |parent| parent.at)
    }
}

impl State {
    pub(super) fn last_position(&self) -> Position {
        self.events.last_key_value().map_or(Position(0), |(position, _)| *position)
    }

    fn find(&self, branch: &BranchId) -> Option<&BranchState> {
        self.streams.get(&branch.stream)?.branches.get(&branch.branch)
    }

    /// The branch, or the error that says which of its names is unknown.
    fn get(&self, branch: &BranchId) -> Result<&BranchState, ReadError> {
        let stream =
            self.streams.get(&branch.stream).ok_or_else(|| ReadError::NoStream(branch.stream.clone()))?;
        stream.branches.get(&branch.branch).ok_or_else(|| ReadError::NoBranch(branch.clone()))
    }

    /// The event at `seq` on the branch or in its lineage.
    fn at(&self, branch: &BranchId, seq: Seq) -> Option<&Record> {
        let branches = &self.streams.get(&branch.stream)?.branches;
        let mut holder = branches.get(&branch.branch)?;
        while seq <= holder.base() {
            holder = branches.get(&holder.parent.as_ref()?.branch)?;
        }
        let index = usize::try_from(seq.0 - holder.base().0 - 1).ok()?;
        self.events.get(holder.own.get(index)?)
    }

    pub(super) fn head(&self, branch: &BranchId) -> Option<Head> {
        self.find(branch).map(|found| found.head)
    }

    pub(super) fn read(&self, branch: &BranchId, after: Seq, limit: usize) -> Result<Vec<Record>, ReadError> {
        let head = self.get(branch)?.head.seq;
        let seqs = after.next().0..=head.0;
        Ok(seqs.take(limit).filter_map(|seq| self.at(branch, Seq(seq))).cloned().collect())
    }

    pub(super) fn read_back(
        &self,
        branch: &BranchId,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Record>, ReadError> {
        let end = self.get(branch)?.head.seq.next();
        let seqs = 1..before.map_or(end, |before| before.min(end)).0;
        Ok(seqs.rev().take(limit).filter_map(|seq| self.at(branch, Seq(seq))).cloned().collect())
    }

    pub(super) fn by_kind(
        &self,
        branch: &BranchId,
        kind: &Kind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Record>, ReadError> {
        let head = self.get(branch)?.head.seq;
        let records = (after.next().0..=head.0).filter_map(|seq| self.at(branch, Seq(seq)));
        Ok(records.filter(|record| record.event.kind == *kind).take(limit).cloned().collect())
    }

    pub(super) fn by_id(&self, id: EventId) -> Option<Record> {
        self.events.get(self.ids.get(&id)?).cloned()
    }

    pub(super) fn children(&self, of: EventId, after: Position, limit: usize) -> Vec<Record> {
        let positions = self.causes.get(&of).into_iter().flatten().filter(|position| **position > after);
        positions.take(limit).filter_map(|position| self.events.get(position)).cloned().collect()
    }

    pub(super) fn read_all(&self, after: Position, limit: usize) -> Vec<Record> {
        let records = self.events.range((Excluded(after), Unbounded));
        records.take(limit).map(|(_, record)| record.clone()).collect()
    }

    pub(super) fn end(&self) -> Position {
        self.events.keys().next_back().copied().unwrap_or_default()
    }

    pub(super) fn streams(&self, after: Option<StreamName>, limit: usize) -> Vec<StreamSummary> {
        let from = after.map_or(Unbounded, Excluded);
        let summary = |(stream, state): (&StreamName, &StreamState)| StreamSummary {
            stream: stream.clone(),
            branches: state.branches.len() as u64,
            events: state.branches.values().map(|branch| branch.own.len() as u64).sum(),
            updated: state.branches.values().map(|branch| branch.head.ts).max().unwrap_or_default(),
            owner: state.owner,
            damage: None,
        };
        self.streams.range((from, Unbounded)).take(limit).map(summary).collect()
    }

    pub(super) fn branches(&self, stream: &StreamName) -> Vec<Branch> {
        let Some(stream) = self.streams.get(stream) else { return Vec::new() };
        let mut branches: Vec<_> = stream.branches.iter().collect();
        branches.sort_by_key(|(_, branch)| branch.made);
        let show = |(name, branch): (&BranchName, &BranchState)| Branch {
            name: name.clone(),
            parent: branch.parent.clone(),
            head: branch.head,
        };
        branches.into_iter().map(show).collect()
    }

    pub(super) fn list(
        &self,
        filter: &ListFilter,
        after: Option<&ListAfter>,
        limit: usize,
    ) -> Result<Vec<Listed>, ReadError> {
        // Rows are in order of `made`; a listing by due time puts that first.
        let place = |due, made| (filter.due_before.and(due), made);
        let after = match after {
            Some(after) => Some(place(after.due, self.get(&after.branch)?.made)),
            None => None,
        };
        let mut rows = Vec::new();
        for (stream, state) in &self.streams {
            for (name, branch) in &state.branches {
                let Some(attrs) = branch.attrs.as_ref().filter(|attrs| matches(filter, attrs)) else {
                    continue;
                };
                let branch_id = BranchId { stream: stream.clone(), branch: name.clone() };
                let (owner, head) = (state.owner, branch.head);
                let row = Listed { branch: branch_id, attrs: attrs.clone(), owner, head, damage: None };
                rows.push((place(attrs.due, branch.made), row));
            }
        }
        rows.retain(|(place, _)| after.is_none_or(|after| *place > after));
        rows.sort_by_key(|(place, _)| *place);
        Ok(rows.into_iter().take(limit).map(|(_, row)| row).collect())
    }

    pub(super) fn listed(&self, id: &BranchId) -> Option<Listed> {
        let stream = self.streams.get(&id.stream)?;
        let branch = stream.branches.get(&id.branch)?;
        let attrs = branch.attrs.clone()?;
        Some(Listed { branch: id.clone(), attrs, owner: stream.owner, head: branch.head, damage: None })
    }

    pub(super) fn keys(&self, branch: &BranchId, from: Seq, to: Seq) -> Result<Vec<KeyedPart>, ReadError> {
        self.get(branch)?;
        let known = self.keys.get(branch).into_iter().flatten();
        let mut parts: Vec<KeyedPart> = known
            .filter(|(_, part)| from <= part.last && part.last <= to)
            .map(|(key, part)| KeyedPart { key: key.clone(), first: part.first, last: part.last })
            .collect();
        parts.sort_by_key(|part| part.first);
        Ok(parts)
    }

    pub(super) fn keyed(&self, branch: &BranchId, key: &Key) -> Option<KeyedPart> {
        let part = self.keys.get(branch)?.get(key)?;
        Some(KeyedPart { key: key.clone(), first: part.first, last: part.last })
    }

    pub(super) fn refers_to(&self, hash: Hash) -> bool {
        self.refs.contains_key(&hash)
    }

    pub(super) fn referring(&self, hash: Hash, after: Position, limit: usize) -> Vec<(Position, StreamName)> {
        let places = self.refs.get(&hash).into_iter().flatten().filter(|position| **position > after);
        let streams =
            places.filter_map(|position| Some((*position, self.events.get(position)?.event.stream.clone())));
        streams.take(limit).collect()
    }

    pub(super) fn referring_on(
        &self,
        branch: &BranchId,
        hash: Hash,
        after: Seq,
        limit: usize,
    ) -> Result<Looked, ReadError> {
        let branch = self.get(branch)?;
        let places = self.refs.get(&hash).map_or(&[][..], Vec::as_slice);
        let own = (branch.base().0 + 1..).zip(&branch.own).filter(|(seq, _)| *seq > after.0);
        for (looked_at, (seq, position)) in own.enumerate() {
            if looked_at == limit {
                return Ok(Looked::NotUntil(Seq(seq - 1)));
            }
            if places.binary_search(position).is_ok() {
                return Ok(Looked::Found(Seq(seq)));
            }
        }
        Ok(Looked::Nowhere)
    }

    /// Keeps a snapshot, unless it is too large or of events that are not there.
    pub(super) fn put_snapshot(&mut self, snapshot: Snapshot) {
        if snapshot.state.len() > SNAPSHOT_MAX || !self.is_of_this_journal(&snapshot, &snapshot.branch) {
            return;
        }
        let kept = self.snapshots.entry((snapshot.branch.clone(), snapshot.fold.clone())).or_default();
        kept.insert(snapshot.seq, snapshot);
        if kept.len() > SNAPSHOTS_KEPT {
            kept.pop_first();
        }
    }

    /// Every snapshot of a branch itself.
    pub(super) fn stored_snapshots(&self, branch: &BranchId) -> Vec<Snapshot> {
        let of_branch = self.snapshots.iter().filter(|((of, _), _)| of == branch);
        of_branch.flat_map(|(_, kept)| kept.values().cloned()).collect()
    }

    pub(super) fn snapshot(
        &self,
        branch: &BranchId,
        fold: &FoldVersion,
    ) -> Result<Option<Snapshot>, ReadError> {
        let mut holder = self.get(branch)?;
        let mut name = branch.clone();
        let mut newest = holder.head.seq;
        let mut found: Option<&Snapshot> = None;
        loop {
            let kept = self.snapshots.get(&(name.clone(), fold.clone())).into_iter().flatten();
            let fitting = kept
                .map(|(_, snapshot)| snapshot)
                .filter(|snapshot| snapshot.seq <= newest && self.is_of_this_journal(snapshot, branch));
            found = found.into_iter().chain(fitting).max_by_key(|snapshot| snapshot.seq);
            let Some(parent) = &holder.parent else { return Ok(found.cloned()) };
            name.branch = parent.branch.clone();
            newest = newest.min(parent.at);
            holder = self.get(&name)?;
        }
    }

    fn is_of_this_journal(&self, snapshot: &Snapshot, branch: &BranchId) -> bool {
        let within = self.find(branch).is_some_and(|found| snapshot.seq <= found.head.seq);
        within && self.at(branch, snapshot.seq).is_some_and(|record| record.event.chain == snapshot.chain)
    }
}

fn matches(filter: &ListFilter, attrs: &Attrs) -> bool {
    filter.status.is_none_or(|status| attrs.status == status)
        && filter.principal.as_ref().is_none_or(|principal| attrs.principal.as_ref() == Some(principal))
        && filter.agent.as_ref().is_none_or(|agent| attrs.agent.as_ref() == Some(agent))
        && filter.due_before.is_none_or(|before| attrs.due.is_some_and(|due| due <= before))
}
