//! Words the cases are written in.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use weir_types::{BranchId, Event, Hash, Position, Seq};

use crate::append::{Appended, Key, NewEvent, Part};
use crate::listing::Fork;
use crate::port::Journal;
use crate::verify::silent;

/// How long anything may take before it counts as never happening.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {DEADLINE:?}"),
    }
}

/// `stream@branch`, split at the last `@`; `main` if there is none.
pub(super) fn at(name: &str) -> BranchId {
    let (stream, branch) = name.rsplit_once('@').unwrap_or((name, "main"));
    BranchId { stream: stream.parse().unwrap(), branch: branch.parse().unwrap() }
}

pub(super) fn key(text: &str) -> Key {
    text.parse().unwrap()
}

pub(super) fn event(kind: &str, payload: impl Into<bytes::Bytes>) -> NewEvent {
    NewEvent::new(kind.parse().unwrap(), payload)
}

/// Events with the payloads `from`, `from + 1` and so on.
pub(super) fn notes(from: usize, count: usize) -> Vec<NewEvent> {
    (from..from + count).map(|n| event("note.made", n.to_string())).collect()
}

pub(super) async fn append(journal: &dyn Journal, to: &BranchId, events: Vec<NewEvent>) -> Appended {
    let appended = journal.append(vec![Part::new(to.clone(), events)]).await.unwrap();
    assert_eq!(appended.len(), 1);
    appended[0]
}

/// Appends `count` notes, whose payloads are their seqs.
pub(super) async fn grow(journal: &dyn Journal, to: &BranchId, count: usize) -> Appended {
    let head = journal.head(to).await.unwrap().map_or(0, |head| head.seq.0);
    append(journal, to, notes(head as usize + 1, count)).await
}

pub(super) async fn fork(journal: &dyn Journal, from: &BranchId, seq: u64, name: &str) -> BranchId {
    let name: weir_types::BranchName = name.parse().unwrap();
    journal.fork(Fork { from: from.clone(), at: Seq(seq), name: name.clone() }).await.unwrap();
    BranchId { stream: from.stream.clone(), branch: name }
}

/// The whole lineage of a branch, read in small pages.
pub(super) async fn lineage(journal: &dyn Journal, branch: &BranchId) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(Seq(0), |event| event.seq);
        let page = journal.read(branch, after, 7).await.unwrap();
        assert!(page.iter().all(|event| event.seq > after), "a page starts after its cursor");
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

/// Every event of the journal, read in small pages.
pub(super) async fn everything(journal: &dyn Journal) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(Position(0), |event| event.position);
        let page = journal.read_all(after, 100).await.unwrap();
        assert!(page.iter().all(|event| event.position > after), "a page starts after its cursor");
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

pub(super) fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq.0).collect()
}

/// Where each event was appended, and its payload: `main:1`.
pub(super) fn texts(events: &[Event]) -> Vec<String> {
    let text = |event: &Event| format!("{}:{}", event.branch, String::from_utf8_lossy(&event.payload));
    events.iter().map(text).collect()
}

/// The message of an error that must be there.
pub(super) fn refusal<T, E: Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => panic!("this must be refused"),
        Err(error) => error.to_string(),
    }
}

/// Everything `verify` looks at is sound, and every chain can be recomputed from what is read.
pub(super) async fn assert_sound(journal: &dyn Journal) {
    let report = journal.verify(None, silent()).await.unwrap();
    assert_eq!((report.problems, report.keys_not_known), (vec![], 0));
    let mut events = 0;
    for summary in journal.streams(None, 1_000).await.unwrap() {
        for branch in journal.branches(&summary.stream).await.unwrap() {
            let id = BranchId { stream: summary.stream.clone(), branch: branch.name.clone() };
            let mut previous = Hash::ZERO;
            for (index, event) in lineage(journal, &id).await.into_iter().enumerate() {
                assert_eq!(event.seq, Seq(index as u64 + 1), "{id}");
                assert_eq!(event.payload_hash, Hash::of(&event.payload), "{id} {}", event.seq);
                assert_eq!(event.chain, event.chain_after(previous), "{id} {}", event.seq);
                events += u64::from(event.branch == branch.name);
                previous = event.chain;
            }
            assert_eq!(branch.head.chain, previous, "{id}");
        }
    }
    assert_eq!(report.events, events);
}
