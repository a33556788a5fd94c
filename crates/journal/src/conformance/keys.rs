//! Idempotency keys.

use std::sync::Arc;

use tokio::task::JoinSet;
use weir_types::Seq;

use super::Make;
use super::kit::*;
use crate::append::{Appended, Expected, KeyedPart, Ownership, Part};
use crate::mint::mint_owner;

fn keyed(to: &str, name: &str, from: usize, count: usize) -> Part {
    Part { key: Some(key(name)), ..Part::new(at(to), notes(from, count)) }
}

fn replayed(appended: &[Appended]) -> Vec<Appended> {
    appended.iter().map(|part| Appended { replayed: true, ..*part }).collect()
}

/// The same key with the same content appends nothing and says where the first append went.
pub async fn a_repeated_key_returns_the_first_result(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let whole =
        || vec![Part::new(at("b"), notes(7, 1)), keyed("a", "k", 1, 3), Part::new(at("a"), notes(9, 2))];
    let first = journal.append(whole()).await.unwrap();
    grow(journal, &at("a"), 2).await;
    let before = everything(journal).await;
    for _ in 0..2 {
        assert_eq!(journal.append(whole()).await.unwrap(), replayed(&first));
        // The keyed part alone is a repetition too.
        let alone = journal.append(vec![keyed("a", "k", 1, 3)]).await.unwrap();
        assert_eq!(alone, replayed(&first[1..2]));
    }
    assert_eq!(everything(journal).await, before);
    assert_sound(journal).await;
}

/// A repetition is recognised before its owner and its expectation are looked at.
pub async fn a_key_is_asked_before_anything_else(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let owner = mint_owner();
    let part = || Part {
        expected: Expected::NoStream,
        owner: Ownership::Claim { by: owner, replacing: None },
        ..keyed("a", "k", 1, 1)
    };
    let first = journal.append(vec![part()]).await.unwrap();
    let thief = Ownership::Claim { by: mint_owner(), replacing: Some(owner) };
    append(journal, &at("a"), notes(2, 1)).await;
    journal.append(vec![Part { owner: thief, ..Part::new(at("a"), notes(3, 1)) }]).await.unwrap();
    assert_eq!(journal.append(vec![part()]).await.unwrap(), replayed(&first));
}

/// Other kinds, payloads, refs or counts under a known key are refused; other ids, times and meta are not.
pub async fn a_key_names_one_content(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let part = |event| vec![Part { key: Some(key("k")), ..Part::new(at("a"), vec![event]) }];
    let first = journal.append(part(event("note.made", "1"))).await.unwrap();
    let reused = "key `k` was already used on a@main for other content";
    let hash = fixture.blobs.put_bytes("x".into()).await.unwrap().hash;
    for other in
        [event("note.made", "2"), event("note.lost", "1"), event("note.made", "1").with_refs(vec![hash])]
    {
        assert_eq!(refusal(journal.append(part(other)).await), reused);
    }
    assert_eq!(refusal(journal.append(vec![keyed("a", "k", 1, 2)]).await), reused);
    let meta = weir_types::Meta::new("{\"trace\":\"another attempt\"}").unwrap();
    let again = journal.append(part(event("note.made", "1").with_meta(meta))).await.unwrap();
    assert_eq!(again, replayed(&first));
    let twice = vec![keyed("a", "n", 1, 1), keyed("a", "n", 1, 1)];
    assert_eq!(refusal(journal.append(twice).await), "key `n` was already used on a@main for other content");
    assert_eq!(everything(journal).await.len(), 1);
}

/// A known key in an append of another shape is refused, and nothing is appended.
pub async fn a_repetition_must_line_up(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    grow(journal, &at("c"), 1).await;
    journal.append(vec![keyed("a", "k", 1, 2), Part::new(at("b"), notes(5, 2))]).await.unwrap();
    grow(journal, &at("c"), 1).await;
    journal.append(vec![keyed("d", "other", 1, 1)]).await.unwrap();
    for to in ["c", "d", "c"] {
        grow(journal, &at(to), 1).await;
    }
    let before = everything(journal).await;
    let reused = "key `k` was already used on a@main for other content";
    let cases = [
        vec![keyed("a", "k", 1, 2), keyed("d", "other", 1, 1)],
        vec![keyed("a", "k", 1, 2), Part::new(at("c"), notes(5, 2))],
        vec![keyed("a", "k", 1, 2), Part::new(at("b"), notes(5, 3))],
        vec![Part::new(at("b"), notes(5, 2)), keyed("a", "k", 1, 2)],
        vec![keyed("a", "k", 1, 2), keyed("b", "new", 5, 2)],
        vec![keyed("b", "new", 5, 2), keyed("a", "k", 1, 2)],
        vec![Part::new(at("x"), notes(1, 9)), keyed("a", "k", 1, 2)],
    ];
    for (n, parts) in cases.into_iter().enumerate() {
        assert_eq!(refusal(journal.append(parts).await), reused, "case {n}");
        assert_eq!(everything(journal).await, before, "case {n}");
    }
    // Both ends of the sibling would be in place, but not what is between them.
    let parts = vec![keyed("d", "other", 1, 1), Part::new(at("c"), notes(1, 3))];
    let reused = "key `other` was already used on d@main for other content";
    assert_eq!(refusal(journal.append(parts).await), reused);
}

/// Of several appends with one key at once, one happens; the others are told its result.
pub async fn racing_repetitions_have_one_winner(make: Make) {
    let fixture = make().await;
    for round in 0..10 {
        let name = format!("round {round}");
        let mut writers = JoinSet::new();
        for _ in 0..6 {
            let (journal, name) = (Arc::clone(&fixture.journal), name.clone());
            writers.spawn(async move { journal.append(vec![keyed("a", &name, 1, 2)]).await.unwrap()[0] });
        }
        let outcomes = within("every append", writers.join_all()).await;
        let winners: Vec<_> = outcomes.iter().filter(|appended| !appended.replayed).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        assert!(outcomes.iter().all(|appended| Appended { replayed: false, ..*appended } == *winners[0]));
    }
    assert_eq!(lineage(&*fixture.journal, &at("a")).await.len(), 20);
    assert_sound(&*fixture.journal).await;
}

/// The same key on another branch is another key; forks do not inherit keys.
pub async fn keys_belong_to_one_branch(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    journal.append(vec![keyed("a", "k", 1, 1)]).await.unwrap();
    fork(journal, &at("a"), 1, "side").await;
    for to in ["b", "a@side"] {
        let appended = journal.append(vec![keyed(to, "k", 2, 1)]).await.unwrap();
        assert!(!appended[0].replayed, "{to}");
    }
    assert_eq!(texts(&lineage(journal, &at("a@side")).await), ["main:1", "side:2"]);
    assert_sound(journal).await;
}

/// A keyed part is found by its key, on the branch itself.
pub async fn a_part_is_found_by_its_key(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    journal.append(vec![Part::new(at("a"), notes(1, 1)), keyed("a", "k", 2, 2)]).await.unwrap();
    let side = fork(journal, &at("a"), 3, "side").await;
    journal.append(vec![keyed("a@side", "l", 4, 1)]).await.unwrap();
    let part =
        |name: &str, first, last| Some(KeyedPart { key: key(name), first: Seq(first), last: Seq(last) });
    for (branch, name, expected) in [
        (at("a"), "k", part("k", 2, 3)),
        (at("a"), "K", None),
        (at("a"), "l", None),
        (side.clone(), "l", part("l", 4, 4)),
        (side, "k", None),
        (at("a@x"), "k", None),
        (at("b"), "k", None),
    ] {
        assert_eq!(journal.keyed(&branch, &key(name)).await.unwrap(), expected, "{branch} {name}");
    }
}

/// Keyed parts are listed by the place of their last event, on the branch itself.
pub async fn keys_are_listed(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let long = "k".repeat(255);
    journal.append(vec![keyed("a", &long, 1, 2), Part::new(at("a"), notes(3, 1))]).await.unwrap();
    journal.append(vec![keyed("a", "a second: \"é\"", 4, 1)]).await.unwrap();
    let side = fork(journal, &at("a"), 4, "side").await;
    journal.append(vec![keyed("a@side", "k", 5, 1)]).await.unwrap();
    let part = |name: &str, first, last| KeyedPart { key: key(name), first: Seq(first), last: Seq(last) };
    let a = at("a");
    let listed = async |branch, from, to| journal.keys(branch, Seq(from), Seq(to)).await.unwrap();
    let (one, two) = (part(&long, 1, 2), part("a second: \"é\"", 4, 4));
    assert_eq!(listed(&a, 0, 99).await, [one.clone(), two.clone()]);
    assert_eq!(listed(&a, 2, 3).await, [one]);
    assert_eq!(listed(&a, 1, 1).await, []);
    assert_eq!(listed(&a, 3, 4).await, [two]);
    assert_eq!(listed(&side, 0, u64::MAX).await, [part("k", 5, 5)]);
    assert_sound(journal).await;
}
