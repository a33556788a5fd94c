//! Tails: replay, then follow, without gap or duplicate.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use weir_types::{BranchId, Event, PAYLOAD_INLINE_MAX, Position, Seq};

use super::Make;
use super::kit::*;
use crate::listing::Fork;
use crate::port::{Journal, Tail};

/// The next `count` events of a tail.
async fn next(tail: &mut Tail, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        let event = within("the next event", tail.next()).await.expect("a tail does not end");
        events.push(Arc::unwrap_or_clone(event.unwrap()));
    }
    events
}

/// A tail that somebody is always waiting on. What it says arrives here.
pub(super) fn watch(mut tail: Tail) -> UnboundedReceiver<Event> {
    let (said, heard) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(event) = tail.next().await {
            if said.send(Arc::unwrap_or_clone(event.unwrap())).is_err() {
                return;
            }
        }
    });
    heard
}

/// The next `count` events that a watched tail says.
pub(super) async fn heard(watched: &mut UnboundedReceiver<Event>, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        events.push(within("the next event", watched.recv()).await.expect("a tail does not end"));
    }
    events
}

/// Gives watched tails the time of some reads to catch up, so that they wait and do not read. A sound engine passes
/// without; a broken one is caught with it.
pub(super) async fn settle(journal: &dyn Journal) {
    for _ in 0..20 {
        journal.head(&at("a")).await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Whoever waits is woken: by an append, by the fork it was waiting for, and by an append to that.
pub async fn a_waiting_tail_is_woken(make: Make) {
    let fixture = make().await;
    let (journal, a, side) = (&*fixture.journal, at("a"), at("a@side"));
    let mut of_main = watch(journal.tail(&a, Seq(0)));
    let mut of_side = watch(journal.tail(&side, Seq(0)));
    let mut of_all = watch(journal.tail_all(Position(0)));
    for n in 0..10 {
        settle(journal).await;
        grow(journal, &a, 1 + n % 2).await;
        let expected = journal.read(&a, Seq(0), 100).await.unwrap().split_off(n + n / 2);
        assert_eq!(heard(&mut of_main, 1 + n % 2).await, expected);
        assert_eq!(heard(&mut of_all, 1 + n % 2).await, expected);
    }
    settle(journal).await;
    fork(journal, &a, 3, "side").await;
    assert_eq!(texts(&heard(&mut of_side, 3).await), ["main:1", "main:2", "main:3"]);
    settle(journal).await;
    grow(journal, &side, 1).await;
    assert_eq!(texts(&heard(&mut of_side, 1).await), ["side:4"]);
    assert_eq!(texts(&heard(&mut of_all, 1).await), ["side:4"]);
}

/// What there is, from any place, then what comes, whole payloads included.
pub async fn a_tail_replays_and_follows(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 5).await;
    let mut tails = [0, 3, 5].map(|after| (after, journal.tail(&a, Seq(after)), Vec::new()));
    for (after, tail, got) in &mut tails {
        got.extend(next(tail, 5 - *after as usize).await);
    }
    grow(journal, &a, 2).await;
    grow(journal, &at("b"), 2).await;
    append(journal, &a, vec![event("n", vec![b'x'; PAYLOAD_INLINE_MAX + 1])]).await;
    let all = lineage(journal, &a).await;
    for (after, tail, got) in &mut tails {
        got.extend(next(tail, 3).await);
        assert_eq!(*got, all[*after as usize..], "after {after}");
    }
}

/// A branch can be followed before its stream exists, and a fork before it is made.
pub async fn a_tail_waits_for_what_is_not_there_yet(make: Make) {
    let fixture = make().await;
    let (journal, a, side) = (&*fixture.journal, at("a"), at("a@side"));
    let (mut of_main, mut of_side) = (journal.tail(&a, Seq(0)), journal.tail(&side, Seq(0)));
    grow(journal, &a, 2).await;
    assert_eq!(next(&mut of_main, 2).await, lineage(journal, &a).await);
    // The fork appends nothing, and yet its follower has something to see.
    fork(journal, &a, 2, "side").await;
    assert_eq!(next(&mut of_side, 2).await, lineage(journal, &a).await);
    append(journal, &side, notes(7, 1)).await;
    append(journal, &a, notes(8, 1)).await;
    assert_eq!(texts(&next(&mut of_side, 1).await), ["side:7"]);
    assert_eq!(texts(&next(&mut of_main, 1).await), ["main:8"]);
}

/// The parent's events up to the fork, then the fork's own, and never what the parent appends later.
pub async fn a_tail_of_a_fork_reads_its_lineage(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 4).await;
    let side = fork(journal, &a, 3, "side").await;
    let deep = fork(journal, &side, 2, "deep").await;
    let mut tails = [journal.tail(&side, Seq(1)), journal.tail(&deep, Seq(0))];
    for n in 0..5 {
        append(journal, &a, notes(100 + n, 1)).await;
        append(journal, &side, notes(200 + n, 1)).await;
        append(journal, &deep, notes(300 + n, 1)).await;
    }
    assert_eq!(next(&mut tails[0], 7).await, lineage(journal, &side).await[1..]);
    assert_eq!(next(&mut tails[1], 7).await, lineage(journal, &deep).await);
}

/// All streams and branches, in order of position, from any position.
pub async fn a_tail_of_everything_is_in_order(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let mut from_start = journal.tail_all(Position(0));
    grow(journal, &at("a"), 2).await;
    let middle = grow(journal, &at("b"), 2).await.position;
    let mut from_middle = journal.tail_all(middle);
    let mut got = next(&mut from_start, 3).await;
    fork(journal, &at("a"), 1, "side").await;
    for n in 0..10 {
        grow(journal, &at(["a", "b", "a@side"][n % 3]), 1 + n % 2).await;
    }
    let all = everything(journal).await;
    got.extend(next(&mut from_start, all.len() - 3).await);
    assert_eq!(got, all);
    assert_eq!(next(&mut from_middle, all.len() - 4).await, all[4..]);
}

/// A cursor beyond the head sees nothing until events come after it.
pub async fn a_tail_beyond_the_head_waits(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 1).await;
    let mut tail = journal.tail(&a, Seq(4));
    for _ in 0..5 {
        grow(journal, &a, 1).await;
    }
    assert_eq!(next(&mut tail, 2).await, lineage(journal, &a).await[4..]);
}

/// A reader that stops reading costs writers nothing and finds everything when it goes on.
pub async fn a_slow_reader_misses_nothing(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 1).await;
    let (mut slow, mut slow_all) = (journal.tail(&a, Seq(0)), journal.tail_all(Position(0)));
    next(&mut slow, 1).await;
    next(&mut slow_all, 1).await;
    // More commits than any channel keeps.
    for n in 0..300 {
        within("an append beside a slow reader", grow(journal, &a, 1 + n % 3)).await;
    }
    let all = everything(journal).await;
    assert_eq!(next(&mut slow, all.len() - 1).await, all[1..]);
    assert_eq!(next(&mut slow_all, all.len() - 1).await, all[1..]);
    grow(journal, &a, 1).await;
    assert_eq!(next(&mut slow, 1).await, next(&mut slow_all, 1).await);
}

/// Readers of one branch and of everything that join while many writers append; some leave early.
pub async fn readers_that_join_at_any_moment_see_everything_once(make: Make) {
    const WRITERS: usize = 6;
    const APPENDS: usize = 25;
    const READERS: usize = 30;
    let fixture = make().await;
    let branches: Vec<BranchId> = ["a", "b", "a@side"].map(at).to_vec();
    grow(&*fixture.journal, &branches[0], 2).await;
    let side = Fork { from: branches[0].clone(), at: Seq(1), name: branches[2].branch.clone() };
    fixture.journal.fork(side).await.unwrap();

    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (journal, branches) = (Arc::clone(&fixture.journal), branches.clone());
        writers.spawn(async move {
            for n in 0..APPENDS {
                append(&*journal, &branches[(writer + n) % 3], notes(n, 1 + n % 3)).await;
            }
        });
    }
    let (done, finished) = tokio::sync::watch::channel(None);
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        let (journal, branch) = (Arc::clone(&fixture.journal), branches.get(reader % 4).cloned());
        let mut finished = finished.clone();
        readers.spawn(async move {
            let after = (reader % 3) as u64;
            let mut tail = match &branch {
                Some(branch) => journal.tail(branch, Seq(after)),
                None => journal.tail_all(Position(after)),
            };
            if reader % 7 == 6 {
                next(&mut tail, 3).await;
                return None;
            }
            let mut got = next(&mut tail, 5).await;
            let finished = finished.wait_for(Option::is_some).await.unwrap().clone();
            let finished: Vec<Event> = finished.unwrap_or_default();
            let expected = match &branch {
                Some(branch) => lineage(&*journal, branch).await.split_off(after as usize),
                None => finished.into_iter().filter(|event| event.position.0 > after).collect(),
            };
            got.extend(next(&mut tail, expected.len() - 5).await);
            Some(got == expected)
        });
        for _ in 0..reader {
            tokio::task::yield_now().await;
        }
    }
    within("every append", writers.join_all()).await;
    done.send(Some(everything(&*fixture.journal).await)).unwrap();
    let outcomes = within("every reader", readers.join_all()).await;
    let count = |outcome| outcomes.iter().filter(|found| **found == outcome).count();
    assert_eq!((count(Some(true)), count(Some(false)), count(None)), (26, 0, 4));
    assert_sound(&*fixture.journal).await;
}
