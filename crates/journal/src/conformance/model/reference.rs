//! The model: a fork copies its parent's list, an append works on a copy of everything. None of the engines' code.

use std::collections::BTreeMap;

use bytes::Bytes;
use weir_types::{BranchId, BranchName, EventId, Hash, Kind, OwnerId, Position, Seq, StreamName};

use crate::append::{Appended, Expected, Key, KeyedPart, Ownership, Part};
use crate::error::{AppendError, ForkError};
use crate::listing::{Attrs, Fork};

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    streams: BTreeMap<StreamName, Stream>,
    places: BTreeMap<u64, (BranchId, Seq)>,
    keys: Vec<Keyed>,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    owner: Option<OwnerId>,
    /// In the order they were made.
    branches: Vec<Branch>,
}

/// A branch and the last event shared with it.
type Parent = Option<(BranchName, Seq)>;

#[derive(Clone, Debug)]
struct Branch {
    name: BranchName,
    parent: Parent,
    /// The whole lineage.
    events: Vec<Entry>,
    attrs: Option<Attrs>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) branch: BranchName,
    pub(super) id: EventId,
    pub(super) kind: Kind,
    pub(super) payload: Bytes,
}

#[derive(Clone, Debug)]
struct Keyed {
    branch: BranchId,
    key: Key,
    content: Vec<(Kind, Bytes, Vec<Hash>)>,
    first: Seq,
    last: Seq,
    position: u64,
}

impl Model {
    fn branch(&self, id: &BranchId) -> Option<&Branch> {
        self.streams.get(&id.stream)?.branches.iter().find(|branch| branch.name == id.branch)
    }

    pub(super) fn lineage(&self, id: &BranchId) -> Option<&[Entry]> {
        self.branch(id).map(|branch| branch.events.as_slice())
    }

    /// The newest seq, 0 if there is none.
    pub(super) fn head(&self, id: &BranchId) -> u64 {
        self.lineage(id).map_or(0, |events| events.len() as u64)
    }

    pub(super) fn newest_position(&self) -> u64 {
        self.places.last_key_value().map_or(0, |(position, _)| *position)
    }

    pub(super) fn append(&mut self, parts: &[Part], start: u64) -> Result<Vec<Appended>, AppendError> {
        if let Some(key) = parts.iter().enumerate().find_map(|(n, part)| {
            let twin = parts[..n].iter().any(|other| other.branch == part.branch && other.key == part.key);
            part.key.as_ref().filter(|_| twin).map(|key| reused(&part.branch, key))
        }) {
            return Err(key);
        }
        if let Some(first) = self.repetition(parts)? {
            return Ok(first);
        }
        let mut copy = self.clone();
        let mut position = start;
        let mut appended = Vec::new();
        for part in parts {
            appended.push(copy.append_part(part, position)?);
            position += part.events.len() as u64;
        }
        *self = copy;
        Ok(appended)
    }

    fn known(&self, part: &Part) -> Option<&Keyed> {
        self.keys.iter().find(|known| known.branch == part.branch && Some(&known.key) == part.key.as_ref())
    }

    fn repetition(&self, parts: &[Part]) -> Result<Option<Vec<Appended>>, AppendError> {
        let Some(index) = parts.iter().position(|part| self.known(part).is_some()) else { return Ok(None) };
        let lengths: Vec<u64> = parts.iter().map(|part| part.events.len() as u64).collect();
        let known = self.known(&parts[index]).unwrap();
        let wrong = reused(&known.branch, &known.key);
        let mut position = known.position.wrapping_sub(lengths[..index].iter().sum());
        let mut appended = Vec::new();
        for (part, length) in parts.iter().zip(lengths) {
            match (&part.key, self.known(part)) {
                (Some(key), Some(known)) if known.content != content(part) => {
                    return Err(reused(&part.branch, key));
                }
                (Some(_), Some(known)) if known.position == position => {}
                (None, _) => {}
                _ => return Err(wrong),
            }
            // Every event of the part must be where the first append would have put it.
            let places: Vec<_> =
                (0..length).filter_map(|n| self.places.get(&position.wrapping_add(n))).collect();
            let first = places.first().map_or(Seq(0), |(_, seq)| *seq);
            let is_there = places.len() as u64 == length
                && (0..)
                    .zip(&places)
                    .all(|(n, (branch, seq))| *branch == part.branch && seq.0 == first.0 + n);
            if !is_there {
                return Err(wrong);
            }
            position = position.wrapping_add(length);
            let (last, position) = (Seq(first.0 + length - 1), Position(position - 1));
            appended.push(Appended { first, last, position, replayed: true });
        }
        Ok(Some(appended))
    }

    fn append_part(&mut self, part: &Part, position: u64) -> Result<Appended, AppendError> {
        let Part { branch: id, owner, expected, .. } = part;
        let existed = self.branch(id).is_some();
        let head = self.head(id);
        let current = self.streams.get(&id.stream).and_then(|stream| stream.owner);
        let (may, next) = match *owner {
            Ownership::Unchecked => (true, current),
            Ownership::Held(by) => (current == Some(by), current),
            Ownership::Claim { by, replacing } => {
                (current.is_none_or(|current| Some(current) == replacing || current == by), Some(by))
            }
            Ownership::Release(by) => (current == Some(by), None),
        };
        if !may {
            return Err(AppendError::Fenced { stream: id.stream.clone(), owner: current });
        }
        if !existed && id.branch.as_str() != "main" {
            return Err(AppendError::NoBranch(id.clone()));
        }
        let wanted = match expected {
            Expected::Any => head,
            Expected::NoStream => 0,
            Expected::Exactly(seq) => seq.0,
        };
        if wanted != head {
            let (expected, actual) = (Seq(wanted), Seq(head));
            return Err(AppendError::Conflict { branch: id.clone(), expected, actual });
        }
        let count = part.events.len() as u64;
        let (first, last) = (Seq(head + 1), Seq(head + count));
        self.places.extend((0..count).map(|n| (position + n, (id.clone(), Seq(head + 1 + n)))));
        if let Some(key) = part.key.clone() {
            self.keys.push(Keyed { branch: id.clone(), key, content: content(part), first, last, position });
        }
        let stream = self.streams.entry(id.stream.clone()).or_default();
        stream.owner = next;
        if !existed {
            let (name, events) = (id.branch.clone(), Vec::new());
            stream.branches.push(Branch { name, parent: None, events, attrs: None });
        }
        let branch = stream.branches.iter_mut().find(|branch| branch.name == id.branch).unwrap();
        branch.attrs = part.attrs.clone().or(branch.attrs.take());
        branch.events.extend(part.events.iter().map(|event| Entry {
            branch: id.branch.clone(),
            id: event.id(),
            kind: event.kind().clone(),
            payload: event.payload().clone(),
        }));
        Ok(Appended { first, last, position: Position(position + count - 1), replayed: false })
    }

    pub(super) fn fork(&mut self, fork: &Fork) -> Result<Seq, ForkError> {
        let Fork { from, at, name } = fork;
        let Some(stream) = self.streams.get_mut(&from.stream) else {
            return Err(ForkError::NoStream(from.stream.clone()));
        };
        let Some(parent) = stream.branches.iter().find(|branch| branch.name == from.branch) else {
            return Err(ForkError::NoBranch(from.clone()));
        };
        if stream.branches.iter().any(|branch| branch.name == *name) {
            return Err(ForkError::Exists { stream: from.stream.clone(), name: name.clone() });
        }
        let head = parent.events.len() as u64;
        if at.0 < 1 || at.0 > head {
            return Err(ForkError::NoEvent { from: from.clone(), at: *at, head: Seq(head) });
        }
        let events = parent.events[..at.0 as usize].to_vec();
        let parent = Some((from.branch.clone(), *at));
        stream.branches.push(Branch { name: name.clone(), parent, events, attrs: None });
        Ok(*at)
    }

    pub(super) fn places(&self) -> Vec<(u64, BranchId, Seq)> {
        self.places.iter().map(|(position, (branch, seq))| (*position, branch.clone(), *seq)).collect()
    }

    pub(super) fn summaries(&self) -> Vec<(StreamName, u64, u64, Option<OwnerId>)> {
        let own =
            |branch: &Branch| branch.events.len() as u64 - branch.parent.as_ref().map_or(0, |(_, at)| at.0);
        let summary = |(name, stream): (&StreamName, &Stream)| {
            let events = stream.branches.iter().map(own).sum();
            (name.clone(), stream.branches.len() as u64, events, stream.owner)
        };
        self.streams.iter().map(summary).collect()
    }

    /// Name, parent and head of each.
    pub(super) fn branches(&self, stream: &StreamName) -> Vec<(BranchName, Parent, Seq)> {
        let branches = self.streams.get(stream).into_iter().flat_map(|stream| &stream.branches);
        branches
            .map(|branch| (branch.name.clone(), branch.parent.clone(), Seq(branch.events.len() as u64)))
            .collect()
    }

    pub(super) fn keys(&self, branch: &BranchId) -> Vec<KeyedPart> {
        let keyed = self.keys.iter().filter(|known| known.branch == *branch);
        keyed
            .map(|known| KeyedPart { key: known.key.clone(), first: known.first, last: known.last })
            .collect()
    }

    /// By name, since order of making is not kept across streams here.
    pub(super) fn listed(&self) -> Vec<(BranchId, Attrs, Option<OwnerId>)> {
        let mut rows = Vec::new();
        for (name, stream) in &self.streams {
            for branch in &stream.branches {
                let id = BranchId { stream: name.clone(), branch: branch.name.clone() };
                rows.extend(branch.attrs.clone().map(|attrs| (id, attrs, stream.owner)));
            }
        }
        rows.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        rows
    }
}

fn content(part: &Part) -> Vec<(Kind, Bytes, Vec<Hash>)> {
    let events = part.events.iter();
    events.map(|event| (event.kind().clone(), event.payload().clone(), event.refs().to_vec())).collect()
}

fn reused(branch: &BranchId, key: &Key) -> AppendError {
    AppendError::KeyReused { branch: branch.clone(), key: key.clone() }
}
