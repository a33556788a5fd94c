//! Changes of the state: first staged, where everything can still fail, then committed, where nothing can.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use weir_types::{BranchId, Event, OwnerId, PAYLOAD_INLINE_MAX, Position, Seq, StreamName, Timestamp};

use super::{BranchState, Record, State};
use crate::append::{Appended, Key, Part};
use crate::error::{AppendError, ForkError};
use crate::listing::{Attrs, Branch, Fork, ForkPoint, Head};
use crate::rules::{self, ForkGround, KnownPart};

/// An append that has passed all checks.
#[derive(Default)]
pub(in crate::memory) struct Staged {
    heads: BTreeMap<BranchId, Head>,
    owners: BTreeMap<StreamName, Option<OwnerId>>,
    attrs: Vec<(BranchId, Attrs)>,
    keys: Vec<(BranchId, Key, KnownPart)>,
    events: Vec<Event>,
    appended: Vec<Appended>,
}

impl State {
    /// The first result, if this append is a repetition.
    pub(in crate::memory) fn replay(&self, parts: &[Part]) -> Result<Option<Vec<Appended>>, AppendError> {
        let known = |part: &Part| self.keys.get(&part.branch)?.get(part.key.as_ref()?).copied();
        let known: Vec<_> = parts.iter().map(known).collect();
        rules::replay(parts, &known, |position| {
            Ok(self.events.get(&position).map(|record| (record.event.branch_id(), record.event.seq)))
        })
    }

    /// Checks everything about an append and works out its result. Later parts see what earlier ones did.
    pub(in crate::memory) fn stage(&self, parts: &[Part], now: Timestamp) -> Result<Staged, AppendError> {
        let mut staged = Staged::default();
        for part in parts {
            let Part { branch, expected, owner, .. } = part;
            let current = match staged.owners.get(&branch.stream) {
                Some(owner) => *owner,
                None => self.streams.get(&branch.stream).and_then(|stream| stream.owner),
            };
            let next = rules::next_owner(current, *owner, &branch.stream)?;
            staged.owners.insert(branch.stream.clone(), next);
            let head = staged.heads.get(branch).copied().or_else(|| self.head(branch));
            rules::check_expected(*expected, head.map(|head| head.seq), branch)?;
            self.stage_events(&mut staged, part, head, now)?;
        }
        Ok(staged)
    }

    fn stage_events(
        &self,
        staged: &mut Staged,
        part: &Part,
        mut head: Option<Head>,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let first = head.map_or(Seq(0), |head| head.seq).next();
        let first_position = Position(self.last_position().0 + staged.events.len() as u64 + 1);
        let (mut last, mut position) = (first, first_position);
        for event in &part.events {
            if self.ids.contains_key(&event.id()) {
                return Err(AppendError::DuplicateId { id: event.id() });
            }
            position = Position(self.last_position().0 + staged.events.len() as u64 + 1);
            let linked = rules::link(&part.branch, head.as_ref(), event, now, position);
            staged.events.push(rules::placed(&part.branch, event, &linked));
            staged.heads.insert(part.branch.clone(), linked);
            (last, head) = (linked.seq, Some(linked));
        }
        if let Some(key) = &part.key {
            let known = KnownPart { content: part.content(), first, last, position: first_position };
            staged.keys.push((part.branch.clone(), key.clone(), known));
        }
        staged.attrs.extend(part.attrs.clone().map(|attrs| (part.branch.clone(), attrs)));
        staged.appended.push(Appended { first, last, position, replayed: false });
        Ok(())
    }

    /// Makes a staged append part of the journal, and returns its events as they are published.
    pub(in crate::memory) fn commit(&mut self, staged: Staged) -> (Vec<Appended>, Vec<Arc<Event>>) {
        for (stream, owner) in staged.owners {
            self.streams.entry(stream).or_default().owner = owner;
        }
        let mut events = Vec::with_capacity(staged.events.len());
        for event in staged.events {
            events.push(Arc::new(event.clone()));
            self.insert(event);
        }
        for (branch, key, known) in staged.keys {
            self.keys.entry(branch).or_default().insert(key, known);
        }
        for (branch, attrs) in staged.attrs {
            if let Some(found) = self.find_mut(&branch) {
                found.attrs = Some(attrs);
            }
        }
        (staged.appended, events)
    }

    fn insert(&mut self, mut event: Event) {
        self.ids.insert(event.id, event.position);
        for hash in &event.refs {
            let places = self.refs.entry(*hash).or_default();
            if places.last() != Some(&event.position) {
                places.push(event.position);
            }
        }
        if let Some(cause) = event.meta.causation() {
            self.causes.entry(cause).or_default().push(event.position);
        }
        let head = Head { seq: event.seq, chain: event.chain, ts: event.ts, position: event.position };
        let branch = self.find_or_make(&event.branch_id(), head);
        branch.own.push(event.position);
        branch.head = head;
        let large = event.payload.len() > PAYLOAD_INLINE_MAX;
        if large {
            event.payload = Bytes::new();
        }
        self.events.insert(event.position, Record { event, large });
    }

    fn find_mut(&mut self, branch: &BranchId) -> Option<&mut BranchState> {
        self.streams.get_mut(&branch.stream)?.branches.get_mut(&branch.branch)
    }

    fn find_or_make(&mut self, branch: &BranchId, head: Head) -> &mut BranchState {
        let stream = self.streams.entry(branch.stream.clone()).or_default();
        stream.branches.entry(branch.branch.clone()).or_insert_with(|| {
            self.branches_made += 1;
            BranchState { made: self.branches_made, parent: None, head, own: Vec::new(), attrs: None }
        })
    }

    pub(in crate::memory) fn fork(&mut self, fork: &Fork) -> Result<Branch, ForkError> {
        let stream = self.streams.get(&fork.from.stream);
        let ground = ForkGround {
            stream_exists: stream.is_some(),
            parent_head: self.head(&fork.from).map(|head| head.seq),
            name_taken: stream.is_some_and(|stream| stream.branches.contains_key(&fork.name)),
        };
        rules::check_fork(fork, ground)?;
        let missing = || ForkError::NoEvent { from: fork.from.clone(), at: fork.at, head: fork.at };
        let Event { chain, ts, position, .. } = self.at(&fork.from, fork.at).ok_or_else(missing)?.event;
        let head = Head { seq: fork.at, chain, ts, position };
        let parent = Some(ForkPoint { branch: fork.from.branch.clone(), at: fork.at, chain });
        let name = BranchId { stream: fork.from.stream.clone(), branch: fork.name.clone() };
        self.find_or_make(&name, head).parent.clone_from(&parent);
        Ok(Branch { name: name.branch, parent, head })
    }
}
