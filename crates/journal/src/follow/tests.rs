//! Following, against a store that is only a list.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use proptest::prelude::*;
use weir_types::{EventId, Hash, Meta, Seq, Timestamp};

use super::*;
use crate::error::{ReadError, StorageError, StorageFailure};
use crate::port::Tail;

/// What was committed, in order of position; pages are tiny, so that catching up takes several.
#[derive(Default)]
struct List {
    events: Mutex<Vec<Arc<Event>>>,
    pages: AtomicUsize,
    broken: AtomicBool,
}

const PAGE: usize = 3;

impl List {
    fn append(&self, branch: &BranchId, count: usize) -> (Position, Vec<Arc<Event>>) {
        let mut events = self.events.lock().unwrap();
        let prev = events.last().map_or(Position(0), |event| event.position);
        let seq = events.iter().filter(|event| event.branch_id() == *branch).count() as u64;
        let new: Vec<_> = (1..=count as u64)
            .map(|n| Arc::new(event(branch, Seq(seq + n), Position(prev.0 + 2 * n), Bytes::new())))
            .collect();
        events.extend(new.iter().cloned());
        (prev, new)
    }

    fn read(&self, wanted: impl Fn(&Event) -> bool) -> Result<Vec<Event>, ReadError> {
        self.pages.fetch_add(1, Ordering::Relaxed);
        if self.broken.load(Ordering::Relaxed) {
            return Err(broken());
        }
        let events = self.events.lock().unwrap();
        Ok(events.iter().filter(|event| wanted(event)).take(PAGE).map(|event| (**event).clone()).collect())
    }

    fn all(&self, wanted: impl Fn(&Event) -> bool) -> Vec<Arc<Event>> {
        self.events.lock().unwrap().iter().filter(|event| wanted(event)).cloned().collect()
    }
}

fn broken() -> ReadError {
    let (path, what) = ("list".into(), StorageFailure::Other);
    StorageError { path, what, source: "broken".into() }.into()
}

impl Store for List {
    fn page(&self, branch: &BranchId, after: Seq) -> BoxFuture<'_, Result<Vec<Event>, ReadError>> {
        let branch = branch.clone();
        async move {
            let page = self.read(|event| event.branch_id() == branch && event.seq > after)?;
            if self.all(|event| event.branch_id() == branch).is_empty() {
                return Err(ReadError::NoBranch(branch));
            }
            Ok(page)
        }
        .boxed()
    }

    fn page_all(&self, after: Position) -> BoxFuture<'_, Result<Vec<Event>, ReadError>> {
        async move { self.read(|event| event.position > after) }.boxed()
    }
}

fn event(branch: &BranchId, seq: Seq, position: Position, payload: Bytes) -> Event {
    Event {
        position,
        stream: branch.stream.clone(),
        branch: branch.branch.clone(),
        seq,
        id: EventId::from_u128(u128::from(position.0)),
        ts: Timestamp::default(),
        kind: "test.event".parse().unwrap(),
        payload_hash: Hash::of(&payload),
        payload,
        meta: Meta::default(),
        refs: Vec::new(),
        chain: Hash::ZERO,
    }
}

fn branch(name: &str) -> BranchId {
    BranchId::main(name.parse().unwrap())
}

/// Everything a tail has to say right now.
fn drain(tail: &mut Tail) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while let Some(next) = tail.next().now_or_never() {
        events.push(next.expect("a tail does not end").expect("the list is sound"));
    }
    events
}

#[test]
fn a_follower_replays_and_then_delivers_from_memory() {
    let (list, hub, a) = (Arc::new(List::default()), Hub::new(), branch("a"));
    let (_, old) = list.append(&a, 5);
    let mut tail = tail(list.clone(), hub.clone(), a.clone(), Seq(1));
    assert_eq!(drain(&mut tail), old[1..]);

    let pages = list.pages.load(Ordering::Relaxed);
    let (prev, new) = list.append(&a, 2);
    hub.publish(prev, &new);
    assert_eq!(drain(&mut tail), new);
    assert_eq!(list.pages.load(Ordering::Relaxed), pages, "nothing was read for what was published");
}

#[test]
fn what_was_read_is_not_told_again_when_it_is_published() {
    let (list, hub, a) = (Arc::new(List::default()), Hub::new(), branch("a"));
    let mut one = tail(list.clone(), hub.clone(), a.clone(), Seq(0));
    let mut all = tail_all(list.clone(), hub.clone(), Position(0));
    let (first_prev, first) = list.append(&a, 2);
    assert_eq!((drain(&mut one), drain(&mut all)), (first.clone(), first.clone()));

    let (_, second) = list.append(&a, 2);
    hub.publish(first_prev, &[first, second.clone()].concat());
    assert_eq!((drain(&mut one), drain(&mut all)), (second.clone(), second));
}

#[test]
fn a_gap_a_lag_and_a_nudge_are_filled_from_the_store() {
    let (list, hub, a) = (Arc::new(List::default()), Hub::new(), branch("a"));
    let mut one = tail(list.clone(), hub.clone(), a.clone(), Seq(0));
    let mut all = tail_all(list.clone(), hub.clone(), Position(0));
    assert_eq!((drain(&mut one), drain(&mut all)), (vec![], vec![]));

    let (_, mut expected) = list.append(&a, 1);
    let (prev, published) = list.append(&a, 1);
    hub.publish(prev, &published);
    expected.extend(published);
    assert_eq!((drain(&mut one), drain(&mut all)), (expected.clone(), expected));

    let mut expected = Vec::new();
    for _ in 0..3 * BATCHES_MAX {
        let (prev, published) = list.append(&a, 1);
        hub.publish(prev, &published);
        expected.extend(published);
    }
    assert_eq!((drain(&mut one), drain(&mut all)), (expected.clone(), expected));

    let (_, expected) = list.append(&a, 4);
    hub.nudge(&branch("b"));
    assert_eq!((drain(&mut one), drain(&mut all)), (vec![], expected.clone()), "b concerns b and all");
    hub.nudge_all();
    assert_eq!((drain(&mut one), drain(&mut all)), (expected, vec![]));
}

#[test]
fn a_cursor_beyond_the_head_waits_for_what_comes_after_it() {
    let (list, hub, a) = (Arc::new(List::default()), Hub::new(), branch("a"));
    let mut one = tail(list.clone(), hub.clone(), a.clone(), Seq(3));
    let mut all = tail_all(list.clone(), hub.clone(), Position(6));
    for count in [2, 3] {
        assert_eq!((drain(&mut one), drain(&mut all)), (vec![], vec![]));
        let (prev, published) = list.append(&a, count);
        hub.publish(prev, &published);
    }
    let expected = list.all(|event| event.seq > Seq(3));
    assert_eq!((drain(&mut one), drain(&mut all)), (expected.clone(), expected));
}

#[test]
fn an_error_is_told_once_and_ends_the_tail() {
    let (list, hub) = (Arc::new(List::default()), Hub::new());
    let mut tail = tail(list.clone(), hub.clone(), branch("a"), Seq(0));
    assert_eq!(drain(&mut tail), vec![]);
    list.broken.store(true, Ordering::Relaxed);
    hub.nudge_all();
    let said = tail.next().now_or_never().flatten().expect("an item").expect_err("the list is broken");
    assert_eq!(said.to_string(), broken().to_string());
    assert!(tail.next().now_or_never().expect("the end").is_none());
}

#[test]
fn the_hub_knows_who_follows_and_forgets_who_left() {
    let (list, hub, a, b) = (Arc::new(List::default()), Hub::new(), branch("a"), branch("b"));
    let wanted = || (hub.has_followers(), hub.wants_all(), hub.wants(&a), hub.wants(&b));
    assert_eq!(wanted(), (false, false, false, false));
    let first = tail(list.clone(), hub.clone(), a.clone(), Seq(0));
    let second = tail(list.clone(), hub.clone(), a.clone(), Seq(0));
    assert_eq!(wanted(), (true, false, true, false));
    let all = tail_all(list, hub.clone(), Position(0));
    assert_eq!(wanted(), (true, true, true, true));
    drop((first, all));
    assert_eq!(wanted(), (true, false, true, false));
    drop(second);
    assert_eq!(wanted(), (false, false, false, false));
    assert!(hub.channels().branches.is_empty() && hub.channels().all.is_none());
}

#[test]
fn a_slow_follower_holds_no_more_than_the_channel() {
    let (hub, a) = (Hub::new(), branch("a"));
    let _slow = tail(Arc::new(List::default()), hub.clone(), a.clone(), Seq(0));
    let published: Vec<_> = (1..=200)
        .map(|n| {
            // Every other batch is too large to be carried at all.
            let payload = Bytes::from(vec![0; if n % 2 == 0 { BATCH_BYTES_MAX + 1 } else { 1 }]);
            let event = Arc::new(event(&a, Seq(n), Position(n), payload));
            hub.publish(Position(n - 1), std::slice::from_ref(&event));
            Arc::downgrade(&event)
        })
        .collect();
    let held = published.iter().filter(|event| event.strong_count() > 0).count();
    assert_eq!(held, BATCHES_MAX / 2);
}

/// What can happen between a writer and its followers.
#[derive(Clone, Debug)]
enum Step {
    Append {
        branch: usize,
        count: usize,
        told: Told,
    },
    /// Several commits whose news arrives late and together.
    PublishBacklog,
    Follow {
        branch: Option<usize>,
        after: u64,
    },
    Poll {
        follower: usize,
        events: usize,
    },
    Leave {
        follower: usize,
    },
    NudgeAll,
}

#[derive(Clone, Copy, Debug)]
enum Told {
    Published,
    Nudged,
    Later,
    Never,
}

fn step() -> impl Strategy<Value = Step> {
    let told = prop_oneof![
        4 => Just(Told::Published), 1 => Just(Told::Nudged), 1 => Just(Told::Later), 1 => Just(Told::Never)
    ];
    prop_oneof![
        8 => (0..3_usize, 1..8_usize, told).prop_map(|(branch, count, told)| Step::Append { branch, count, told }),
        1 => Just(Step::PublishBacklog),
        2 => (proptest::option::of(0..3_usize), 0..30_u64).prop_map(|(branch, after)| Step::Follow { branch, after }),
        6 => (0..8_usize, 0..60_usize).prop_map(|(follower, events)| Step::Poll { follower, events }),
        1 => (0..8_usize).prop_map(|follower| Step::Leave { follower }),
        1 => Just(Step::NudgeAll),
    ]
}

struct Watched {
    tail: Tail,
    branch: Option<BranchId>,
    after: u64,
    got: Vec<Arc<Event>>,
}

proptest! {
    #[test]
    fn every_event_is_told_exactly_once(steps in proptest::collection::vec(step(), 1..200)) {
        let (list, hub) = (Arc::new(List::default()), Hub::new());
        let branches = ["a", "b", "c"].map(branch);
        let mut followers: Vec<Watched> = Vec::new();
        let mut backlog: Vec<(Position, Vec<Arc<Event>>)> = Vec::new();
        for step in steps {
            match step {
                Step::Append { branch, count, told } => {
                    let (prev, events) = list.append(&branches[branch], count);
                    match told {
                        Told::Published => hub.publish(prev, &events),
                        Told::Nudged => hub.nudge(&branches[branch]),
                        Told::Later => backlog.push((prev, events)),
                        Told::Never => {}
                    }
                }
                Step::PublishBacklog => backlog.drain(..).for_each(|(prev, events)| hub.publish(prev, &events)),
                Step::Follow { branch, after } => {
                    let branch = branch.map(|n| branches[n].clone());
                    let tail = match &branch {
                        Some(branch) => tail(list.clone(), hub.clone(), branch.clone(), Seq(after)),
                        None => tail_all(list.clone(), hub.clone(), Position(after)),
                    };
                    followers.push(Watched { tail, branch, after, got: Vec::new() });
                }
                Step::Poll { follower, events } => {
                    if let Some(follower) = followers.get_mut(follower) {
                        for _ in 0..events {
                            let Some(next) = follower.tail.next().now_or_never() else { break };
                            follower.got.push(next.unwrap().unwrap());
                        }
                    }
                }
                Step::Leave { follower } if follower < followers.len() => drop(followers.swap_remove(follower)),
                Step::Leave { .. } => {}
                Step::NudgeAll => hub.nudge_all(),
            }
        }
        hub.nudge_all();
        for mut follower in followers {
            follower.got.extend(drain(&mut follower.tail));
            let expected = list.all(|event| match &follower.branch {
                Some(branch) => event.branch_id() == *branch && event.seq.0 > follower.after,
                None => event.position.0 > follower.after,
            });
            prop_assert_eq!(follower.got, expected);
        }
        prop_assert!(!hub.has_followers());
    }
}

/// The race that matters: followers that join while writers commit and publish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_that_join_at_any_moment_miss_nothing() {
    const EVENTS: usize = 2_000;
    let (list, hub) = (Arc::new(List::default()), Hub::new());
    let branches = ["a", "b"].map(branch);
    let writer = {
        let (list, hub, branches) = (list.clone(), hub.clone(), branches.clone());
        tokio::spawn(async move {
            for n in 0..EVENTS {
                let (prev, events) = list.append(&branches[n % 2], 1);
                if hub.wants(&branches[n % 2]) {
                    hub.publish(prev, &events);
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let mut readers = tokio::task::JoinSet::new();
    for n in 0..24 {
        let branch = (n % 3 < 2).then(|| branches[n % 3].clone());
        let (list, hub) = (list.clone(), hub.clone());
        readers.spawn(async move {
            let (tail, count) = match &branch {
                Some(branch) => (tail(list, hub, branch.clone(), Seq(0)), EVENTS / 2),
                None => (tail_all(list, hub, Position(0)), EVENTS),
            };
            let got: Vec<_> = tail.take(count).map(|event| event.unwrap().position).collect().await;
            (branch, got)
        });
        for _ in 0..n {
            tokio::task::yield_now().await;
        }
    }
    let read = async {
        let mut results = HashMap::new();
        while let Some(result) = readers.join_next().await {
            let (branch, got) = result.unwrap();
            results.entry(branch).or_insert_with(Vec::new).push(got);
        }
        results
    };
    let results =
        tokio::time::timeout(std::time::Duration::from_secs(60), read).await.expect("no event is missed");
    writer.await.unwrap();
    for (branch, all) in results {
        let expected = list.all(|event| branch.as_ref().is_none_or(|branch| event.branch_id() == *branch));
        let expected: Vec<_> = expected.iter().map(|event| event.position).collect();
        assert!(all.iter().all(|got| *got == expected), "{branch:?}");
    }
}
