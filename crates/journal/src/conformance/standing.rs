//! What holds for the whole journal: its chains, its memory, its other handles.

use std::sync::{Arc, Mutex};

use weir_types::{Position, Seq};

use super::Make;
use super::following::{heard, settle, watch};
use super::kit::*;
use crate::append::{Appended, Ownership, Part};
use crate::listing::{Attrs, ListFilter, Status};
use crate::mint::mint_owner;
use crate::verify::Report;

/// Every chain follows from the events as they are read; `verify` counts them all and reports its progress.
pub async fn every_chain_can_be_recomputed(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let blob = fixture.blobs.put_bytes("content".into()).await.unwrap().hash;
    for round in 0..20 {
        grow(journal, &at(["a", "b"][round % 2]), 1 + round % 5).await;
    }
    let side = fork(journal, &at("a"), 7, "side").await;
    append(journal, &side, vec![event("n", "1").with_refs(vec![blob])]).await;
    assert_sound(journal).await;

    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = {
        let seen = Arc::clone(&seen);
        Arc::new(move |done, total| seen.lock().unwrap().push((done, total)))
    };
    let report = journal.verify(None, progress).await.unwrap();
    let expected = Report { streams: 2, branches: 3, events: 61, blobs: 1, ..Report::default() };
    assert_eq!(report, expected);
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.last(), Some(&(61, 61)));
    assert!(seen.is_sorted(), "{seen:?}");
    let of_b = journal.verify(Some(at("b").stream), crate::silent()).await.unwrap();
    let events = lineage(journal, &at("b")).await.len() as u64;
    assert_eq!(of_b, Report { streams: 1, branches: 1, events, ..Report::default() });
}

/// A durable engine has everything after it is opened again; an engine in memory has it in every handle.
pub async fn everything_is_there_after_reopening(make: Make) {
    let fixture = make().await;
    let owner = mint_owner();
    let part = || Part {
        key: Some(key("k")),
        owner: Ownership::Claim { by: owner, replacing: None },
        attrs: Some(Attrs { title: Some("t".into()), ..Attrs::new(Status::Waiting) }),
        ..Part::new(at("a"), notes(1, 70))
    };
    let first = fixture.journal.append(vec![part()]).await.unwrap();
    fork(&*fixture.journal, &at("a"), 65, "side").await;
    grow(&*fixture.journal, &at("a@side"), 3).await;
    fork(&*fixture.journal, &at("a@side"), 66, "empty").await;
    let before = (
        everything(&*fixture.journal).await,
        fixture.journal.branches(&at("a").stream).await.unwrap(),
        fixture.journal.streams(None, 9).await.unwrap(),
        fixture.journal.list(ListFilter::default(), None, 9).await.unwrap(),
        fixture.journal.keys(&at("a"), Seq(0), Seq(99)).await.unwrap(),
    );
    let super::Fixture { journal, reopen, keep, .. } = fixture;
    drop(journal);
    let journal = reopen().await;
    let after = (
        everything(&*journal).await,
        journal.branches(&at("a").stream).await.unwrap(),
        journal.streams(None, 9).await.unwrap(),
        journal.list(ListFilter::default(), None, 9).await.unwrap(),
        journal.keys(&at("a"), Seq(0), Seq(99)).await.unwrap(),
    );
    assert_eq!(after, before);
    let again = journal.append(vec![part()]).await.unwrap();
    assert_eq!(again, [Appended { replayed: true, ..first[0] }]);
    grow(&*journal, &at("a@side"), 2).await;
    assert_sound(&*journal).await;
    drop(keep);
}

/// What one handle appends, another reads, continues and follows.
pub async fn two_handles_see_each_other(make: Make) {
    let fixture = make().await;
    let (one, two) = (&*fixture.journal, (fixture.reopen)().await);
    let a = at("a");
    let mut watched = [one, &*two].map(|handle| watch(handle.tail(&a, Seq(0))));
    let mut watched_all = [one, &*two].map(|handle| watch(handle.tail_all(Position(0))));
    for n in 0..6 {
        settle(one).await;
        grow(if n % 2 == 0 { one } else { &*two }, &a, 2).await;
        assert_eq!(one.head(&a).await.unwrap(), two.head(&a).await.unwrap());
        let expected = lineage(one, &a).await.split_off(2 * n);
        for tail in watched.iter_mut().chain(&mut watched_all) {
            assert_eq!(heard(tail, 2).await, expected, "round {n}");
        }
    }
    let mut side = [one, &*two].map(|handle| watch(handle.tail(&at("a@side"), Seq(0))));
    settle(one).await;
    fork(one, &a, 12, "side").await;
    grow(&*two, &at("a@side"), 1).await;
    let expected = everything(one).await;
    assert_eq!((expected.len(), everything(&*two).await == expected), (13, true));
    for tail in &mut side {
        assert_eq!(heard(tail, 13).await, expected);
    }
    for tail in &mut watched_all {
        assert_eq!(heard(tail, 1).await, expected[12..]);
    }
    assert_sound(&*two).await;
}
