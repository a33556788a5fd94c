//! What writers were promised, and whether a journal has kept it.
//!
//! A [`Session`] appends groups of events. Every event says in its payload which group it belongs to and how many
//! there are, so that half an append is noticed even when nobody was told anything about it.

use std::collections::{BTreeMap, HashMap};

use weir_journal::{AppendError, Appended, Fork, ForkError, Journal, Key, NewEvent, Part, silent};
use weir_journal_sqlite::SqliteJournal;
use weir_types::{BranchId, Event, EventId, Hash, Position, Seq};

use crate::support::{Chance, branch_of};

/// Something that a writer was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    Event { branch: BranchId, seq: Seq, id: EventId, payload: Hash },
    Fork { branch: BranchId, at: Seq, chain: Hash },
    Key { branch: BranchId, key: Key, first: Seq, last: Seq },
}

impl Promise {
    /// As one line, for a process to tell another.
    pub(crate) fn to_line(&self) -> String {
        match self {
            Self::Event { branch, seq, id, payload } => {
                format!("event {} {seq} {id} {payload}", flat(branch))
            }
            Self::Fork { branch, at, chain } => format!("fork {} {at} {chain}", flat(branch)),
            Self::Key { branch, key, first, last } => format!("key {} {key} {first} {last}", flat(branch)),
        }
    }

    pub(crate) fn from_line(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let branch = branch_of(words[1], words[2]);
        let seq = |word: &str| Seq(word.parse().unwrap());
        match (words[0], &words[3..]) {
            ("event", [at, id, payload]) => {
                let (id, payload) = (id.parse().unwrap(), payload.parse().unwrap());
                Self::Event { branch, seq: seq(at), id, payload }
            }
            ("fork", [at, chain]) => Self::Fork { branch, at: seq(at), chain: chain.parse().unwrap() },
            ("key", [key, first, last]) => {
                Self::Key { branch, key: key.parse().unwrap(), first: seq(first), last: seq(last) }
            }
            _ => panic!("not a promise: {line}"),
        }
    }
}

fn flat(branch: &BranchId) -> String {
    format!("{} {}", branch.stream, branch.branch)
}

/// One writer. Its name, and so the names of its groups, must be unique in the journal.
pub(crate) struct Session {
    pub(crate) name: String,
    groups: u64,
}

/// How the events of a group look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of each payload, at least; they do not compress.
    pub(crate) bytes: usize,
    pub(crate) keyed: bool,
}

impl Shape {
    pub(crate) const SMALL: Self = Self { bytes: 60, keyed: false };
    pub(crate) const KEYED: Self = Self { bytes: 60, keyed: true };

    pub(crate) fn of_bytes(bytes: usize) -> Self {
        Self { bytes, keyed: false }
    }
}

impl Session {
    pub(crate) fn new(name: String) -> Self {
        Self { name, groups: 0 }
    }

    /// The name of the next group; nothing else will have it.
    pub(crate) fn next_group(&mut self) -> String {
        self.groups += 1;
        format!("{}.{}", self.name, self.groups)
    }

    /// Appends one group: so many events to each of the branches.
    pub(crate) async fn append(
        &mut self,
        journal: &SqliteJournal,
        counts: &[(&BranchId, usize)],
        shape: Shape,
    ) -> Result<Vec<Promise>, (String, AppendError)> {
        let group = self.next_group();
        let parts = parts(&group, counts, shape);
        match journal.append(parts.clone()).await {
            Ok(appended) => Ok(promised(&parts, &appended)),
            Err(error) => Err((group, error)),
        }
    }

    /// Forks, under a name of its own.
    pub(crate) async fn fork(
        &mut self,
        journal: &SqliteJournal,
        from: &BranchId,
        at: Seq,
    ) -> Result<(BranchId, Promise), ForkError> {
        let fork = Fork { from: from.clone(), at, name: self.next_group().parse().unwrap() };
        let branch = BranchId { stream: from.stream.clone(), branch: fork.name.clone() };
        let made = journal.fork(fork).await?;
        Ok((branch.clone(), Promise::Fork { branch, at, chain: made.head.chain }))
    }
}

fn parts(group: &str, counts: &[(&BranchId, usize)], shape: Shape) -> Vec<Part> {
    let of: usize = counts.iter().map(|(_, count)| count).sum();
    let mut numbers = 1..=of;
    let part = |(branch, count): &(&BranchId, usize)| {
        let events = numbers.by_ref().take(*count).map(|i| group_event(group, i, of, shape.bytes)).collect();
        let key = shape.keyed.then(|| group.parse().unwrap());
        Part { key, ..Part::new((*branch).clone(), events) }
    };
    counts.iter().map(part).collect()
}

/// Event `i` of `of`; the same one, apart from its id, every time.
fn group_event(group: &str, i: usize, of: usize, bytes: usize) -> NewEvent {
    let mut payload = format!("{group} {i} {of} ").into_bytes();
    let mut chance =
        Chance::new(payload.iter().fold(0_u64, |seed, byte| seed.wrapping_mul(31) ^ u64::from(*byte)));
    payload.extend(std::iter::repeat_with(|| chance.next().to_le_bytes()).take(bytes / 8 + 1).flatten());
    NewEvent::new(format!("group.{}", i % 3).parse().unwrap(), payload)
}

fn promised(parts: &[Part], appended: &[Appended]) -> Vec<Promise> {
    let mut promises = Vec::new();
    for (part, appended) in parts.iter().zip(appended) {
        let (branch, Appended { first, last, .. }) = (&part.branch, *appended);
        assert_eq!(last.0 - first.0 + 1, part.events.len() as u64);
        for (event, seq) in part.events.iter().zip(first.0..) {
            let (id, payload) = (event.id(), event.payload_hash());
            promises.push(Promise::Event { branch: branch.clone(), seq: Seq(seq), id, payload });
        }
        if let Some(key) = &part.key {
            promises.push(Promise::Key { branch: branch.clone(), key: key.clone(), first, last });
        }
    }
    promises
}

/// The group that an event says it belongs to, its number there, and how many there are.
fn group_of(event: &Event) -> (String, usize, usize) {
    let mut words = event.payload.split(|byte| *byte == b' ').map(String::from_utf8_lossy);
    let mut word = || words.next().unwrap();
    (word().into_owned(), word().parse().unwrap(), word().parse().unwrap())
}

/// Everything in the journal, in order of position.
pub(crate) async fn everything(journal: &SqliteJournal) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(Position(0), |event| event.position);
        let page = journal.read_all(after, 1_000).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

/// Whether any event belongs to this group.
pub(crate) fn has_group(events: &[Event], group: &str) -> bool {
    events.iter().any(|event| group_of(event).0 == group)
}

/// What is wrong with the journal, in sentences; nothing, if every promise is kept, no branch has a gap, every append
/// is there as a whole or not at all, and `verify` finds nothing.
pub(crate) async fn broken(journal: &SqliteJournal, promises: &[Promise]) -> Vec<String> {
    let mut wrong = Vec::new();
    let events = everything(journal).await;
    wrong.extend(gaps(journal, &events).await);
    wrong.extend(halves(&events));
    let places: HashMap<(BranchId, Seq), &Event> =
        events.iter().map(|event| ((event.branch_id(), event.seq), event)).collect();
    for promise in promises {
        let kept = match promise {
            Promise::Event { branch, seq, id, payload } => places
                .get(&(branch.clone(), *seq))
                .is_some_and(|event| (event.id, event.payload_hash) == (*id, *payload)),
            Promise::Fork { branch, at, chain } => has_fork(journal, branch, *at, *chain).await,
            Promise::Key { branch, key, first, last } => {
                let keys = journal.keys(branch, *first, *last).await.unwrap_or_default();
                keys.iter().any(|part| (&part.key, part.first, part.last) == (key, *first, *last))
            }
        };
        if !kept {
            wrong.push(format!("not kept: {promise:?}"));
        }
    }
    let report = journal.verify(None, silent()).await.unwrap();
    wrong.extend(report.problems.iter().map(ToString::to_string));
    if report.events != events.len() as u64 {
        wrong.push(format!("{} events verified, {} read", report.events, events.len()));
    }
    wrong
}

async fn has_fork(journal: &SqliteJournal, branch: &BranchId, at: Seq, chain: Hash) -> bool {
    let branches = journal.branches(&branch.stream).await.unwrap();
    let found = branches.into_iter().find(|found| found.name == branch.branch);
    found.and_then(|found| found.parent).is_some_and(|parent| (parent.at, parent.chain) == (at, chain))
}

/// Branches whose own events are not numbered from the fork point to the head.
async fn gaps(journal: &SqliteJournal, events: &[Event]) -> Vec<String> {
    let mut own: BTreeMap<BranchId, Vec<u64>> = BTreeMap::new();
    for event in events {
        own.entry(event.branch_id()).or_default().push(event.seq.0);
    }
    let mut wrong = Vec::new();
    for (id, seqs) in own {
        let branches = journal.branches(&id.stream).await.unwrap();
        let branch = branches.iter().find(|branch| branch.name == id.branch).unwrap();
        let first = branch.parent.as_ref().map_or(0, |parent| parent.at.0) + 1;
        if !seqs.iter().copied().eq(first..=branch.head.seq.0) {
            wrong.push(format!("{id} has {seqs:?} instead of {first} to {}", branch.head.seq));
        }
    }
    wrong
}

/// Appends of which a part is there and a part is not.
fn halves(events: &[Event]) -> Vec<String> {
    let mut groups: BTreeMap<String, (Vec<usize>, usize)> = BTreeMap::new();
    for event in events {
        let (group, i, of) = group_of(event);
        let entry = groups.entry(group).or_default();
        entry.0.push(i);
        entry.1 = of;
    }
    let half = |(group, (found, of)): (String, (Vec<usize>, usize))| {
        let whole = found.iter().copied().eq(1..=of);
        (!whole).then(|| format!("group {group} has events {found:?} of {of}"))
    };
    groups.into_iter().filter_map(half).collect()
}

/// Repeats a keyed append of one part: the answer must be the first one's.
pub(crate) async fn repeat(journal: &SqliteJournal, promise: &Promise) {
    let Promise::Key { branch, key, first, last } = promise else { panic!("{promise:?} has no key") };
    let count = (last.0 - first.0 + 1) as usize;
    let parts = parts(key.as_str(), &[(branch, count)], Shape::KEYED);
    let answer = journal.append(parts).await.unwrap()[0];
    assert_eq!((answer.first, answer.last, answer.replayed), (*first, *last, true), "{promise:?}");
}
