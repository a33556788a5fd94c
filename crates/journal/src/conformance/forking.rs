//! Branches that share events by reference.

use weir_types::Seq;

use super::Make;
use super::kit::*;
use crate::listing::{Branch, Fork, ForkPoint, Head};

/// A fork has its parent's events up to the fork point; after that the two never see one another.
pub async fn a_fork_shares_and_never_touches_its_parent(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 3).await;
    let before = everything(journal).await;
    let name: weir_types::BranchName = "side".parse().unwrap();
    let made = journal.fork(Fork { from: a.clone(), at: Seq(2), name: name.clone() }).await.unwrap();
    let shared = &before[1];
    let head = Head { seq: Seq(2), chain: shared.chain, ts: shared.ts, position: shared.position };
    let parent = Some(ForkPoint { branch: a.branch.clone(), at: Seq(2), chain: shared.chain });
    assert_eq!(made, Branch { name, parent, head });
    assert_eq!(everything(journal).await, before, "a fork appends nothing");
    let side = at("a@side");
    assert_eq!(journal.head(&side).await.unwrap(), Some(head));
    assert_eq!(lineage(journal, &side).await, before[..2]);

    append(journal, &side, vec![event("note.made", "x"), event("note.made", "y")]).await;
    append(journal, &a, vec![event("note.made", "4")]).await;
    assert_eq!(texts(&lineage(journal, &side).await), ["main:1", "main:2", "side:x", "side:y"]);
    assert_eq!(texts(&lineage(journal, &a).await), ["main:1", "main:2", "main:3", "main:4"]);
    assert_sound(journal).await;
}

/// Sixty-four levels, each with an event of its own: every read goes through all of them.
pub async fn a_fork_of_a_fork_reads_its_lineage(make: Make) {
    const LEVELS: usize = 64;
    let fixture = make().await;
    let (journal, root) = (&*fixture.journal, at("deep"));
    grow(journal, &root, 2).await;
    let mut deepest = root.clone();
    let mut expected = vec!["main:1".to_owned()];
    for level in 1..=LEVELS {
        let from = deepest.clone();
        deepest = fork(journal, &from, level as u64, &format!("level {level}")).await;
        grow(journal, &deepest, 2).await;
        expected.push(format!("level {level}:{}", level + 1));
    }
    expected.push(format!("level {LEVELS}:{}", LEVELS + 2));
    let events = lineage(journal, &deepest).await;
    assert_eq!(texts(&events), expected);
    let mut back = journal.read_back(&deepest, None, 1_000).await.unwrap();
    back.reverse();
    assert_eq!(back, events);
    let made = journal.by_kind(&deepest, &"note.made".parse().unwrap(), Seq(0), 1_000).await.unwrap();
    assert_eq!(made, events);
    assert_eq!(journal.branches(&root.stream).await.unwrap().len(), LEVELS + 1);
    assert_sound(journal).await;
}

/// A fork at an event that its parent has itself inherited.
pub async fn forks_below_the_base_skip_the_parent(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 5).await;
    let side = fork(journal, &a, 4, "side").await;
    grow(journal, &side, 2).await;
    let low = fork(journal, &side, 2, "low").await;
    let empty = fork(journal, &low, 1, "empty").await;
    append(journal, &low, vec![event("note.made", "x")]).await;
    assert_eq!(texts(&lineage(journal, &low).await), ["main:1", "main:2", "low:x"]);
    assert_eq!(texts(&lineage(journal, &empty).await), ["main:1"]);
    assert_eq!(texts(&journal.read_back(&low, Some(Seq(3)), 9).await.unwrap()), ["main:2", "main:1"]);
    assert_eq!(journal.head(&empty).await.unwrap().unwrap().seq, Seq(1));
    assert_sound(journal).await;
}

/// No stream, no parent, a name that is taken, no such event.
pub async fn forks_that_cannot_be_are_refused(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    grow(journal, &at("a"), 3).await;
    fork(journal, &at("a"), 2, "side").await;
    #[rustfmt::skip]
    let cases = [
        ("b", 1, "x", "there is no stream `b`"),
        ("a@nowhere", 1, "x", "stream `a` has no branch `nowhere`"),
        ("a", 1, "side", "stream `a` already has a branch `side`"),
        ("a", 1, "main", "stream `a` already has a branch `main`"),
        ("a@side", 1, "side", "stream `a` already has a branch `side`"),
        ("a", 0, "x", "a@main has no event 0; its newest is 3"),
        ("a", 4, "x", "a@main has no event 4; its newest is 3"),
        ("a@side", 3, "x", "a@side has no event 3; its newest is 2"),
        ("a", u64::MAX, "x", "a@main has no event 18446744073709551615; its newest is 3"),
    ];
    for (from, seq, name, expected) in cases {
        let fork = Fork { from: at(from), at: Seq(seq), name: name.parse().unwrap() };
        assert_eq!(refusal(journal.fork(fork).await), expected);
    }
    assert_eq!(journal.branches(&at("a").stream).await.unwrap().len(), 2);
}
