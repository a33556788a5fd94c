//! Appending: order, conditions, atomicity, limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;
use weir_types::{Seq, Timestamp};

use super::Make;
use super::kit::*;
use crate::append::{Appended, EVENTS_MAX, Expected, NewEvent, PAYLOAD_MAX, Part, REFS_MAX};
use crate::error::AppendError;
use crate::listing::{Attrs, Status};
use crate::mint::{mint, now};

/// Seqs start at 1 and have no gaps, within an append and across appends; results say where events went.
pub async fn seqs_have_no_gaps(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let mut last_position = 0;
    for count in [1, 3, 1, 20] {
        let before = journal.head(&a).await.unwrap().map_or(0, |head| head.seq.0);
        let Appended { first, last, position, replayed } = grow(journal, &a, count).await;
        assert_eq!((first, last, replayed), (Seq(before + 1), Seq(before + count as u64), false));
        assert!(position.0 >= last_position + count as u64, "positions increase by at least one an event");
        last_position = position.0;
        let head = journal.head(&a).await.unwrap().unwrap();
        let newest = lineage(journal, &a).await.pop().unwrap();
        assert_eq!((head.seq, head.position), (last, position));
        assert_eq!((head.chain, head.ts), (newest.chain, newest.ts));
    }
    assert_eq!(seqs(&lineage(journal, &a).await), (1..=25).collect::<Vec<_>>());
    assert_sound(journal).await;
}

/// `Any`, `NoStream` and `Exactly`, met and missed; what misses changes nothing.
pub async fn expectations_hold_or_nothing_happens(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let try_append = async |to: &str, expected| {
        let part = Part { expected, ..Part::new(at(to), notes(1, 2)) };
        match journal.append(vec![part]).await {
            Ok(appended) => format!("{}..{}", appended[0].first, appended[0].last),
            Err(error) => error.to_string(),
        }
    };
    let exactly = |seq| Expected::Exactly(Seq(seq));
    #[rustfmt::skip]
    let steps = [
        ("a", exactly(1), "a@main is at seq 0, not at 1"),
        ("a", Expected::NoStream, "1..2"),
        ("a", Expected::NoStream, "a@main is at seq 2, not at 0"),
        ("a", exactly(0), "a@main is at seq 2, not at 0"),
        ("a", exactly(1), "a@main is at seq 2, not at 1"),
        ("a", exactly(3), "a@main is at seq 2, not at 3"),
        ("a", exactly(u64::MAX), "a@main is at seq 2, not at 18446744073709551615"),
        ("a", exactly(2), "3..4"),
        ("a", Expected::Any, "5..6"),
        ("b", exactly(0), "1..2"),
        ("c", Expected::Any, "1..2"),
    ];
    for (to, expected, outcome) in steps {
        assert_eq!(try_append(to, expected).await, outcome, "{to} {expected:?}");
    }
    fork(journal, &at("a"), 3, "side").await;
    for (expected, outcome) in [
        (Expected::NoStream, "a@side is at seq 3, not at 0"),
        (exactly(6), "a@side is at seq 3, not at 6"),
        (exactly(3), "4..5"),
    ] {
        assert_eq!(try_append("a@side", expected).await, outcome, "{expected:?}");
    }
    assert_eq!(everything(journal).await.len(), 12);
}

/// A failing part, wherever it stands, leaves no trace of the others.
pub async fn parts_are_appended_together_or_not_at_all(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    grow(journal, &at("old"), 1).await;
    let before = everything(journal).await;
    let good = |to: &str| Part {
        key: Some(key("k")),
        attrs: Some(Attrs::new(Status::Idle)),
        ..Part::new(at(to), notes(1, 2))
    };
    let bad = || Part { expected: Expected::Exactly(Seq(7)), ..Part::new(at("old"), notes(1, 1)) };
    for place in 0..3 {
        let mut parts = vec![good("new"), good("old")];
        parts.insert(place, bad());
        let seen = if place == 2 { 3 } else { 1 };
        let expected = format!("old@main is at seq {seen}, not at 7");
        assert_eq!(refusal(journal.append(parts).await), expected);
        assert_eq!(everything(journal).await, before);
        assert_eq!(journal.head(&at("new")).await.unwrap(), None);
        assert_eq!(journal.streams(None, 10).await.unwrap().len(), 1);
        assert_eq!(journal.list(crate::ListFilter::default(), None, 10).await.unwrap(), []);
    }
    let appended = journal.append(vec![good("new"), good("old")]).await.unwrap();
    let first = appended[0].position.0 - 1;
    let place = |first, last, position| Appended {
        first: Seq(first),
        last: Seq(last),
        position: weir_types::Position(position),
        replayed: false,
    };
    assert_eq!(appended, [place(1, 2, first + 1), place(2, 3, first + 3)], "positions are contiguous");
    assert_sound(journal).await;
}

/// Two parts may go to one branch; the later is checked against the result of the earlier.
pub async fn later_parts_see_earlier_ones(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let part = |expected, from, count| Part { expected, ..Part::new(a.clone(), notes(from, count)) };
    let exactly = |seq| Expected::Exactly(Seq(seq));
    let parts = vec![part(Expected::NoStream, 1, 2), part(exactly(2), 3, 1), part(exactly(3), 4, 1)];
    let appended = journal.append(parts).await.unwrap();
    let places: Vec<_> = appended.iter().map(|part| (part.first.0, part.last.0)).collect();
    assert_eq!(places, [(1, 2), (3, 3), (4, 4)]);
    let stale = vec![part(exactly(4), 5, 1), part(exactly(4), 6, 1)];
    assert_eq!(refusal(journal.append(stale).await), "a@main is at seq 5, not at 4");
    assert_eq!(texts(&lineage(journal, &a).await), ["main:1", "main:2", "main:3", "main:4"]);
    assert_sound(journal).await;
}

/// Many writers on few streams: every seq once, no event in a foreign stream.
pub async fn racing_writers_never_share_a_seq(make: Make) {
    const WRITERS: usize = 8;
    const APPENDS: usize = 20;
    let fixture = make().await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let journal = Arc::clone(&fixture.journal);
        writers.spawn(async move {
            let mut places = Vec::new();
            for n in 0..APPENDS {
                let to = at(["a", "ab", "abc"][(writer + n) % 3]);
                let events = vec![event("note.made", to.to_string()), event("note.made", to.to_string())];
                let Appended { first, last, .. } = append(&*journal, &to, events).await;
                assert_eq!(last, first.next());
                places.push((to, first));
            }
            places
        });
    }
    let places: Vec<_> = within("every append", writers.join_all()).await.into_iter().flatten().collect();
    let distinct: BTreeSet<_> = places.iter().cloned().collect();
    assert_eq!(distinct.len(), WRITERS * APPENDS);
    for name in ["a", "ab", "abc"] {
        let events = lineage(&*fixture.journal, &at(name)).await;
        let appends = places.iter().filter(|(to, _)| *to == at(name)).count();
        assert_eq!(events.len(), 2 * appends);
        assert!(events.iter().all(|event| event.payload == format!("{name}@main")));
    }
    assert_sound(&*fixture.journal).await;
}

/// Of several appends that expect the same head, one happens.
pub async fn racing_expectations_have_one_winner(make: Make) {
    let fixture = make().await;
    for round in 0..10_u64 {
        let mut writers = JoinSet::new();
        for writer in 0..6 {
            let journal = Arc::clone(&fixture.journal);
            writers.spawn(async move {
                let expected = Expected::Exactly(Seq(round));
                let part = Part { expected, ..Part::new(at("a"), notes(writer, 1)) };
                match journal.append(vec![part]).await {
                    Ok(appended) => Some(appended[0].first.0),
                    Err(AppendError::Conflict { actual, .. }) => {
                        assert_eq!(actual, Seq(round + 1));
                        None
                    }
                    Err(error) => panic!("{error}"),
                }
            });
        }
        let mut outcomes = within("every append", writers.join_all()).await;
        outcomes.sort();
        assert_eq!(outcomes, [None, None, None, None, None, Some(round + 1)]);
    }
}

/// An id that any event has is refused, in the journal or in the append itself.
pub async fn an_id_names_one_event(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let twice = event("note.made", "1");
    append(journal, &at("a"), vec![twice.clone()]).await;
    let expected = format!("an event with id {} already exists", twice.id());
    let parts = vec![Part::new(at("c"), notes(1, 1)), Part::new(at("b"), vec![twice])];
    assert_eq!(refusal(journal.append(parts).await), expected);
    let new = event("note.made", "1");
    let expected = format!("an event with id {} already exists", new.id());
    let parts = vec![Part::new(at("c"), vec![new.clone()]), Part::new(at("b"), vec![new])];
    assert_eq!(refusal(journal.append(parts).await), expected);
    assert_eq!(everything(journal).await.len(), 1);
}

/// Only `main` of a new stream comes to be by an append.
pub async fn branches_are_not_appended_into_being(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let missing = "stream `a` has no branch `side`";
    for expected in [Expected::Any, Expected::NoStream, Expected::Exactly(Seq(0))] {
        let part = || vec![Part { expected, ..Part::new(at("a@side"), notes(1, 1)) }];
        assert_eq!(refusal(journal.append(part()).await), missing);
    }
    grow(journal, &at("a"), 1).await;
    assert_eq!(refusal(journal.append(vec![Part::new(at("a@side"), notes(1, 1))]).await), missing);
    assert_eq!(everything(journal).await.len(), 1);
}

/// What is empty or too large is refused; what just fits is not.
pub async fn requests_beyond_the_limits_are_refused(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let one = |event: NewEvent| vec![Part::new(at("a"), vec![event])];
    let blob = fixture.blobs.put_bytes("blob".into()).await.unwrap().hash;
    let refs = |count| event("n", "1").with_refs(vec![blob; count]);
    let agent = Some("x".repeat(Attrs::TEXT_MAX + 1));
    let attrs = Some(Attrs { agent, ..Attrs::new(Status::Idle) });
    #[rustfmt::skip]
    let cases = [
        (vec![], "an append needs at least one part"),
        (vec![Part::new(at("a"), vec![])], "the part for a@main has no events"),
        (vec![Part::new(at("a"), notes(0, EVENTS_MAX + 1))], "an append has at most 10000 events, this one 10001"),
        (one(event("n", vec![0; PAYLOAD_MAX + 1])), "a payload has at most 16777216 bytes, this one 16777217"),
        (one(refs(REFS_MAX + 1)), "an event names at most 1024 blobs, this one 1025"),
        (vec![Part { attrs, ..Part::new(at("a"), notes(1, 1)) }], "the agent has at most 1024 bytes, this one 1025"),
    ];
    for (parts, expected) in cases {
        assert_eq!(refusal(journal.append(parts).await), expected);
    }
    assert_eq!(everything(journal).await, []);
    let most = append(journal, &at("a"), notes(0, EVENTS_MAX)).await;
    assert_eq!((most.first, most.last), (Seq(1), Seq(EVENTS_MAX as u64)));
    append(journal, &at("a"), vec![refs(REFS_MAX)]).await;
    let page = journal.read(&at("a"), Seq(EVENTS_MAX as u64), 2).await.unwrap();
    assert_eq!(page[0].refs.len(), REFS_MAX);
}

/// Events are stamped with now or the time given, but never before their predecessor, also across a fork.
pub async fn time_never_runs_backwards(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let stamp = |micros| Timestamp::from_micros(micros).unwrap();
    let stamped = |micros: Option<i64>| match micros {
        Some(micros) => event("note.made", "1").with_identity(mint(), stamp(micros)),
        None => event("note.made", "1"),
    };
    let future = now().as_micros() + 3_600_000_000;
    append(journal, &a, vec![stamped(Some(10)), stamped(Some(5)), stamped(Some(12))]).await;
    let before = now();
    append(journal, &a, vec![stamped(None)]).await;
    let after = now();
    append(journal, &a, vec![stamped(Some(future)), stamped(None), stamped(Some(1))]).await;
    let side = fork(journal, &a, 6, "side").await;
    append(journal, &side, vec![stamped(None)]).await;
    let times: Vec<_> = lineage(journal, &side).await.iter().map(|event| event.ts).collect();
    assert_eq!(times[..3], [10, 10, 12].map(stamp));
    assert!(before <= times[3] && times[3] <= after);
    assert_eq!(times[4..], [future, future, future].map(stamp));
    assert_sound(journal).await;
}
