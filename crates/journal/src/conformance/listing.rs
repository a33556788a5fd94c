//! Attributes, streams and branches.

use weir_types::{Seq, Timestamp};

use super::Make;
use super::kit::*;
use crate::append::{Ownership, Part};
use crate::listing::{Attrs, Branch, ForkPoint, ListFilter, Listed, Status, StreamSummary};
use crate::mint::mint_owner;
use crate::port::Journal;

async fn set(journal: &dyn Journal, to: &str, attrs: Attrs) {
    let part = Part { attrs: Some(attrs), ..Part::new(at(to), notes(1, 1)) };
    journal.append(vec![part]).await.unwrap();
}

fn due(micros: i64) -> Option<Timestamp> {
    Some(Timestamp::from_micros(micros).unwrap())
}

/// The branches a filter finds, one page after another.
async fn found(journal: &dyn Journal, filter: &ListFilter, limit: usize) -> Vec<String> {
    let (mut rows, mut after) = (Vec::new(), None);
    for _ in 0..1_000 {
        let page = journal.list(filter.clone(), after.take(), limit).await.unwrap();
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return rows };
        after = Some(last.after());
        rows.extend(page.iter().map(|row| row.branch.to_string()));
    }
    panic!("the pages of a listing come to an end");
}

/// Each filter, alone and together; a branch without attributes is in no listing; an append replaces them whole.
pub async fn attributes_are_found_by_every_filter(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let attrs = |status, principal: &str, agent: &str, due| Attrs {
        principal: Some(principal.to_owned()),
        agent: Some(agent.to_owned()),
        due,
        ..Attrs::new(status)
    };
    grow(journal, &at("none"), 1).await;
    set(journal, "a", attrs(Status::Running, "user:ann", "helper", None)).await;
    set(journal, "b", attrs(Status::Waiting, "user:ann", "writer", due(50))).await;
    set(journal, "c", attrs(Status::Waiting, "user:bob", "helper", due(20))).await;
    set(journal, "d", Attrs::new(Status::Halted)).await;
    fork(journal, &at("c"), 1, "side").await;
    set(journal, "c@side", attrs(Status::Closed, "user:bob", "writer", due(20))).await;

    let all = ListFilter::default();
    let ann = || Some("user:ann".to_owned());
    let helper = || Some("helper".to_owned());
    #[rustfmt::skip]
    let cases = [
        (all.clone(), vec!["a@main", "b@main", "c@main", "d@main", "c@side"]),
        (ListFilter { status: Some(Status::Waiting), ..all.clone() }, vec!["b@main", "c@main"]),
        (ListFilter { status: Some(Status::Idle), ..all.clone() }, vec![]),
        (ListFilter { principal: ann(), ..all.clone() }, vec!["a@main", "b@main"]),
        (ListFilter { principal: Some("user:an".into()), ..all.clone() }, vec![]),
        (ListFilter { agent: helper(), ..all.clone() }, vec!["a@main", "c@main"]),
        (ListFilter { due_before: due(50), ..all.clone() }, vec!["c@main", "c@side", "b@main"]),
        (ListFilter { due_before: due(49), ..all.clone() }, vec!["c@main", "c@side"]),
        (ListFilter { due_before: due(19), ..all.clone() }, vec![]),
        (ListFilter { principal: ann(), agent: helper(), ..all.clone() }, vec!["a@main"]),
        (ListFilter { status: Some(Status::Waiting), principal: ann(), agent: helper(), due_before: due(99) }, vec![]),
        (ListFilter { status: Some(Status::Waiting), due_before: due(99), ..all.clone() }, vec!["c@main", "b@main"]),
    ];
    for (filter, expected) in cases {
        assert_eq!(found(journal, &filter, 2).await, expected, "{filter:?}");
    }

    let owner = mint_owner();
    let replaced = Attrs { title: Some("a title".into()), ..Attrs::new(Status::Idle) };
    let part = Part {
        attrs: Some(replaced.clone()),
        owner: Ownership::Claim { by: owner, replacing: None },
        ..Part::new(at("b"), notes(2, 1))
    };
    journal.append(vec![part]).await.unwrap();
    append(journal, &at("b"), notes(3, 1)).await;
    let rows = journal.list(ListFilter { status: Some(Status::Idle), ..all }, None, 10).await.unwrap();
    let head = journal.head(&at("b")).await.unwrap().unwrap();
    assert_eq!(rows, [Listed { branch: at("b"), attrs: replaced, owner: Some(owner), head, damage: None }]);

    // One branch by its name is what the listing says of it.
    for name in ["a", "b", "c", "d", "c@side"] {
        let listed = journal.listed(&at(name)).await.unwrap().unwrap();
        let all = journal.list(ListFilter::default(), None, 10).await.unwrap();
        assert_eq!(Some(&listed), all.iter().find(|row| row.branch == at(name)), "{name}");
    }
    for name in ["none", "absent", "a@absent"] {
        assert_eq!(journal.listed(&at(name)).await.unwrap(), None, "{name}");
    }
}

/// Rows come in the order their branches were made, whatever the size of the page or later appends.
pub async fn listings_are_paged_in_a_stable_order(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let names: Vec<String> = (0..25).map(|n| format!("{}", (n * 7) % 25)).collect();
    for name in &names {
        set(journal, name, Attrs::new(Status::Idle)).await;
    }
    for name in names.iter().rev().take(5) {
        set(journal, name, Attrs::new(Status::Running)).await;
    }
    let expected: Vec<String> = names.iter().map(|name| format!("{name}@main")).collect();
    for limit in [1, 2, 7, 25, 100] {
        assert_eq!(found(journal, &ListFilter::default(), limit).await, expected, "{limit}");
    }
    assert_eq!(journal.list(ListFilter::default(), None, 0).await.unwrap(), []);
}

/// What is due comes by time and then by age of the branch, also across pages that end between equals.
pub async fn what_is_due_comes_in_order(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let times = [30, 10, 20, 10, 30, 10, -5, 20];
    for (n, time) in times.into_iter().enumerate() {
        set(journal, &format!("s{n}"), Attrs { due: due(time), ..Attrs::new(Status::Waiting) }).await;
    }
    set(journal, "never", Attrs::new(Status::Waiting)).await;
    let filter = ListFilter { due_before: due(29), ..ListFilter::default() };
    let expected = ["s6@main", "s1@main", "s3@main", "s5@main", "s2@main", "s7@main"];
    for limit in [1, 2, 3, 10] {
        assert_eq!(found(journal, &filter, limit).await, expected, "{limit}");
    }
    // What was served is no longer due, and what was late comes first.
    set(journal, "s6", Attrs::new(Status::Running)).await;
    set(journal, "s0", Attrs { due: due(1), ..Attrs::new(Status::Waiting) }).await;
    let expected = ["s0@main", "s1@main", "s3@main", "s5@main", "s2@main", "s7@main"];
    assert_eq!(found(journal, &filter, 2).await, expected);
}

/// Streams come by name, in pages, with their counts.
pub async fn streams_are_summed_up(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    assert_eq!(journal.streams(None, 10).await.unwrap(), []);
    grow(journal, &at("b"), 3).await;
    grow(journal, &at("a"), 1).await;
    let side = fork(journal, &at("b"), 2, "side").await;
    fork(journal, &side, 1, "other").await;
    let last = grow(journal, &side, 4).await;
    grow(journal, &at("Z"), 1).await;
    let updated = journal.head(&side).await.unwrap().unwrap();
    assert_eq!(updated.seq, last.last);
    let all = journal.streams(None, 10).await.unwrap();
    let names: Vec<_> = all.iter().map(|summary| summary.stream.as_str().to_owned()).collect();
    assert_eq!(names, ["Z", "a", "b"]);
    let expected = StreamSummary {
        stream: at("b").stream,
        branches: 3,
        events: 7,
        updated: updated.ts,
        owner: None,
        damage: None,
    };
    assert_eq!(all[2], expected);
    let mut paged = Vec::new();
    for _ in 0..4 {
        let after = paged.last().map(|summary: &StreamSummary| summary.stream.clone());
        paged.extend(journal.streams(after, 1).await.unwrap());
    }
    assert_eq!(paged, all);
    let between = journal.streams(Some("aa".parse().unwrap()), 10).await.unwrap();
    assert_eq!(between, all[2..]);
}

/// Branches come in the order they were made, with where they come from and where they are.
pub async fn branches_are_listed_parents_first(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    assert_eq!(journal.branches(&a.stream).await.unwrap(), []);
    grow(journal, &a, 3).await;
    let z = fork(journal, &a, 2, "z").await;
    grow(journal, &z, 1).await;
    let b = fork(journal, &z, 3, "b").await;
    let events = lineage(journal, &b).await;
    let head = async |branch| journal.head(branch).await.unwrap().unwrap();
    let point = |branch: &str, seq: usize| {
        let chain = events[seq - 1].chain;
        Some(ForkPoint { branch: branch.parse().unwrap(), at: Seq(seq as u64), chain })
    };
    let expected = [
        Branch { name: a.branch.clone(), parent: None, head: head(&a).await },
        Branch { name: z.branch.clone(), parent: point("main", 2), head: head(&z).await },
        Branch { name: b.branch.clone(), parent: point("z", 3), head: head(&b).await },
    ];
    assert_eq!(journal.branches(&a.stream).await.unwrap(), expected);
    assert_eq!(expected[2].head, expected[1].head, "a fresh fork's head is its fork point");
    let own: Vec<_> = expected.iter().map(Branch::own_events).collect();
    assert_eq!(own, [3, 1, 0]);
}
