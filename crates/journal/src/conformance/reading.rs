//! Reading: ranges, directions, indexes, and the exact bytes.

use std::collections::BTreeSet;

use bytes::Bytes;
use weir_types::{BranchId, Hash, Kind, Meta, Position, Seq};

use super::Make;
use super::kit::*;
use crate::append::NewEvent;
use crate::listing::Looked;
use crate::port::{Journal, PAGE_MAX};

/// A branch of six events: two of `main`, four of its own.
async fn six(journal: &dyn Journal) -> BranchId {
    grow(journal, &at("a"), 3).await;
    let side = fork(journal, &at("a"), 2, "side").await;
    grow(journal, &side, 4).await;
    side
}

/// Forwards, from any place, as many as asked for.
pub async fn reads_return_ranges(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let side = six(journal).await;
    #[rustfmt::skip]
    let cases: [(u64, usize, &[u64]); 9] = [
        (0, 9, &[1, 2, 3, 4, 5, 6]), (0, 1, &[1]), (0, 2, &[1, 2]), (1, 2, &[2, 3]), (2, 2, &[3, 4]),
        (5, 9, &[6]), (6, 9, &[]), (u64::MAX, 9, &[]), (0, 0, &[]),
    ];
    for (after, limit, expected) in cases {
        let events = journal.read(&side, Seq(after), limit).await.unwrap();
        assert_eq!(seqs(&events), expected, "after {after}, limit {limit}");
    }
}

/// The end is the newest position, over all streams.
pub async fn the_end_is_the_newest_position(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    assert_eq!(journal.end().await.unwrap(), Position(0));
    grow(journal, &at("a"), 3).await;
    grow(journal, &at("b"), 1).await;
    let newest = journal.head(&at("b")).await.unwrap().unwrap().position;
    assert_eq!(journal.end().await.unwrap(), newest);
}

/// Backwards, from any place.
pub async fn reads_go_backwards(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let side = six(journal).await;
    #[rustfmt::skip]
    let cases: [(Option<u64>, usize, &[u64]); 9] = [
        (None, 9, &[6, 5, 4, 3, 2, 1]), (None, 1, &[6]), (Some(4), 2, &[3, 2]), (Some(3), 9, &[2, 1]),
        (Some(2), 9, &[1]), (Some(1), 9, &[]), (Some(0), 9, &[]), (Some(u64::MAX), 1, &[6]), (None, 0, &[]),
    ];
    for (before, limit, expected) in cases {
        let events = journal.read_back(&side, before.map(Seq), limit).await.unwrap();
        assert_eq!(seqs(&events), expected, "before {before:?}, limit {limit}");
    }
    let mut forwards = lineage(journal, &side).await;
    forwards.reverse();
    assert_eq!(journal.read_back(&side, None, 9).await.unwrap(), forwards);
}

/// One kind among others, through the lineage; a kind is its bytes.
pub async fn reads_find_kinds(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    for round in 0..70 {
        let kind = ["job.started", "job.start", "job.started.x"][round % 3];
        append(journal, &a, vec![event(kind, round.to_string()), event("Job.Started", "other case")]).await;
    }
    let side = fork(journal, &a, 100, "side").await;
    append(journal, &side, vec![event("job.started", "side"), event("seldom", "side")]).await;
    let all = lineage(journal, &side).await;
    for name in ["job.started", "job.start", "Job.Started", "seldom", "never"] {
        let kind: Kind = name.parse().unwrap();
        let expected: Vec<_> = all.iter().filter(|event| event.kind == kind).cloned().collect();
        assert_eq!(journal.by_kind(&side, &kind, Seq(0), PAGE_MAX).await.unwrap(), expected, "{name}");
        for (after, limit) in [(0, 1), (1, 3), (63, 5), (64, 5), (99, 9), (101, 9), (900, 9)] {
            let page = journal.by_kind(&side, &kind, Seq(after), limit).await.unwrap();
            let expected: Vec<_> =
                expected.iter().filter(|event| event.seq > Seq(after)).take(limit).cloned().collect();
            assert_eq!(page, expected, "{name} after {after}, limit {limit}");
        }
    }
}

/// No read returns more than a page, whatever is asked for.
pub async fn pages_are_limited(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let cause = event("note.made", "cause");
    let meta = Meta::new(&format!("{{\"causation\":\"{}\"}}", cause.id())).unwrap();
    let effects = (0..PAGE_MAX + 1).map(|n| event("note.made", n.to_string()).with_meta(meta.clone()));
    let id = cause.id();
    append(journal, &a, [cause].into_iter().chain(effects).collect()).await;
    let kind = "note.made".parse().unwrap();
    let lengths = [
        journal.read(&a, Seq(0), usize::MAX).await.unwrap().len(),
        journal.read_back(&a, None, usize::MAX).await.unwrap().len(),
        journal.by_kind(&a, &kind, Seq(0), usize::MAX).await.unwrap().len(),
        journal.children(id, Position(0), usize::MAX).await.unwrap().len(),
        journal.read_all(Position(0), usize::MAX).await.unwrap().len(),
    ];
    assert_eq!(lengths, [PAGE_MAX; 5]);
    assert_eq!(journal.read(&a, Seq(PAGE_MAX as u64), usize::MAX).await.unwrap().len(), 2);
}

/// By id, wherever the event is.
pub async fn events_are_found_by_id(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let side = six(journal).await;
    grow(journal, &at("b"), 2).await;
    for expected in everything(journal).await {
        assert_eq!(journal.by_id(expected.id).await.unwrap(), Some(expected));
    }
    assert_eq!(journal.by_id(crate::mint::mint()).await.unwrap(), None);
    assert_eq!(lineage(journal, &side).await.len(), 6);
}

/// By the event that led to them, across streams, in order of position.
pub async fn events_are_found_by_their_cause(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let caused = |by: &NewEvent, n: usize| {
        let meta = format!("{{\"actor\":\"x\",\"causation\":\"{}\"}}", by.id());
        event("note.made", n.to_string()).with_meta(Meta::new(&meta).unwrap())
    };
    let (cause, other) = (event("note.made", "cause"), event("note.made", "other"));
    append(journal, &at("a"), vec![cause.clone(), caused(&cause, 1), other.clone()]).await;
    append(journal, &at("b"), vec![caused(&cause, 2), caused(&other, 3)]).await;
    append(journal, &at("a"), vec![caused(&cause, 4)]).await;
    let children = journal.children(cause.id(), Position(0), 10).await.unwrap();
    let expected: Vec<_> =
        everything(journal).await.into_iter().filter(|e| e.meta.causation() == Some(cause.id())).collect();
    assert_eq!(
        (texts(&children), &children),
        (["1", "2", "4"].map(|n| format!("main:{n}")).to_vec(), &expected)
    );
    let page = journal.children(cause.id(), children[0].position, 1).await.unwrap();
    assert_eq!(page, children[1..2]);
    let none = journal.children(crate::mint::mint(), Position(0), 10).await.unwrap();
    assert_eq!(none, []);
}

/// Everything, in the order it was appended, from any position.
pub async fn all_events_are_read_in_order_of_position(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let mut expected = Vec::new();
    for round in 0..20 {
        let to = at(["a", "b", "c"][round % 3]);
        let appended = grow(journal, &to, 1 + round % 4).await;
        expected.extend((appended.first.0..=appended.last.0).map(|seq| (to.stream.clone(), seq)));
    }
    let all = everything(journal).await;
    let places: Vec<_> = all.iter().map(|event| (event.stream.clone(), event.seq.0)).collect();
    assert_eq!(places, expected);
    assert!(all.is_sorted_by(|one, next| one.position < next.position));
    for index in [0, 1, 17, all.len() - 1] {
        let rest = journal.read_all(all[index].position, PAGE_MAX).await.unwrap();
        assert_eq!(rest, all[index + 1..]);
    }
    assert_eq!(journal.read_all(Position(u64::MAX), 10).await.unwrap(), []);
}

/// A blob is referred to from the moment an event names it.
pub async fn blobs_know_whether_they_are_referred_to(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let hashes: Vec<Hash> = ["one", "two", "three"].map(|text| Hash::of(text.as_bytes())).to_vec();
    for text in ["one", "two"] {
        fixture.blobs.put_bytes(text.into()).await.unwrap();
    }
    for hash in &hashes {
        assert!(!journal.refers_to(*hash).await.unwrap());
    }
    append(journal, &at("a"), vec![event("n", "1"), event("n", "2").with_refs(hashes[..2].to_vec())]).await;
    let referred = [
        journal.refers_to(hashes[0]).await,
        journal.refers_to(hashes[1]).await,
        journal.refers_to(hashes[2]).await,
    ];
    assert_eq!(referred.map(Result::unwrap), [true, true, false]);
    assert_eq!(lineage(journal, &at("a")).await[1].refs, hashes[..2]);
    append(journal, &at("b"), vec![event("n", "3").with_refs(hashes[1..2].to_vec())]).await;
    let streams = async |hash, after, limit| {
        let found = journal.referring(hash, after, limit).await.unwrap();
        found.into_iter().map(|(position, stream)| (position, stream.to_string())).collect::<Vec<_>>()
    };
    let all = everything(journal).await;
    let [first, second] = [(all[1].position, "a".to_owned()), (all[2].position, "b".to_owned())];
    assert_eq!(streams(hashes[1], Position(0), 10).await, [first.clone(), second.clone()]);
    assert_eq!(streams(hashes[1], Position(0), 1).await, std::slice::from_ref(&first));
    assert_eq!(streams(hashes[1], first.0, 10).await, [second]);
    assert_eq!(streams(hashes[0], Position(0), 10).await, [first]);
    assert_eq!(streams(hashes[2], Position(0), 10).await, []);
}

/// Along a branch itself, in steps of any length, whatever others refer to.
pub async fn a_branch_is_searched_for_a_blob(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let [blob, other] = [Hash::of(b"blob"), Hash::of(b"other")];
    for text in ["blob", "other"] {
        fixture.blobs.put_bytes(text.into()).await.unwrap();
    }
    let naming = |hash| event("n", "{}").with_refs(vec![hash]);
    // Blocks of the index are passed, and others refer to the same blob in between.
    for n in 0..100 {
        append(journal, &at("a"), vec![event("n", "1"), naming(other)]).await;
        append(journal, &at("theirs"), vec![naming(blob)]).await;
        if n == 70 {
            append(journal, &at("a"), vec![naming(blob)]).await;
        }
    }
    let side = fork(journal, &at("a"), 150, "side").await;
    append(journal, &side, vec![event("n", "1"), naming(blob), event("n", "2")]).await;
    let empty = fork(journal, &at("a"), 150, "empty").await;
    for (branch, after, expected) in [
        (&at("a"), 0, Looked::Found(Seq(143))),
        (&at("a"), 142, Looked::Found(Seq(143))),
        (&at("a"), 143, Looked::Nowhere),
        (&at("a"), u64::MAX, Looked::Nowhere),
        (&side, 0, Looked::Found(Seq(152))),
        (&side, 152, Looked::Nowhere),
        (&empty, 0, Looked::Nowhere),
        (&at("theirs"), 0, Looked::Found(Seq(1))),
        (&at("theirs"), 99, Looked::Found(Seq(100))),
    ] {
        for limit in [0, 1, 7, 64, PAGE_MAX, usize::MAX] {
            let (mut after, mut steps) = (Seq(after), 0);
            let found = loop {
                match journal.referring_on(branch, blob, after, limit).await.unwrap() {
                    Looked::NotUntil(seq) => {
                        assert!(seq > after, "{branch}: it goes on");
                        (after, steps) = (seq, steps + 1);
                    }
                    looked => break looked,
                }
            };
            assert_eq!(found, expected, "{branch} after {after}, by {limit}");
            assert!(limit < 64 || steps < 4, "{branch}: {steps} steps of {limit}");
        }
        let nothing = journal.referring_on(branch, Hash::of(b"nothing"), Seq(0), PAGE_MAX).await.unwrap();
        assert_eq!(nothing, Looked::Nowhere);
    }
    let missing = journal.referring_on(&at("b"), blob, Seq(0), 1).await;
    assert_eq!(refusal(missing), "there is no stream `b`");
}

/// A stream or branch that does not exist is named.
pub async fn reading_what_is_not_there_is_an_error(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    grow(journal, &at("a"), 1).await;
    let kind: Kind = "n".parse().unwrap();
    for (name, expected) in [("b", "there is no stream `b`"), ("a@x", "stream `a` has no branch `x`")] {
        let branch = at(name);
        assert_eq!(refusal(journal.read(&branch, Seq(0), 1).await), expected);
        assert_eq!(refusal(journal.read_back(&branch, None, 1).await), expected);
        assert_eq!(refusal(journal.by_kind(&branch, &kind, Seq(0), 1).await), expected);
        assert_eq!(refusal(journal.keys(&branch, Seq(0), Seq(9)).await), expected);
        assert_eq!(journal.head(&branch).await.unwrap(), None);
    }
    let missing = journal.verify(Some("b".parse().unwrap()), crate::silent()).await;
    assert_eq!(refusal(missing), "there is no stream `b`");
}

/// Names that are prefixes of one another, look like branches, paths or keys, or differ in one byte.
pub async fn names_are_never_confused(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let long = "é".repeat(127);
    let (longer, sibling) = (format!("{long}x"), format!("{long}y"));
    #[rustfmt::skip]
    let names = [
        "a", "A", "a@main", "a@main@main", "aa", "a/b", "a/../b", "../../etc/passwd", "a:b", "a b", "a%00b", "main", "%", "_", "'", "\"",
        "session:", "日本 語", "é", "e\u{301}", "\u{10FFFF}", "a\u{AD}", "-1", "1", "01", "NULL", "*", &long, &longer, &sibling,
    ];
    assert_eq!(longer.len(), 255);
    for name in names {
        let main = BranchId::main(name.parse().unwrap());
        append(journal, &main, vec![event("note.made", format!("{name}@main"))]).await;
        let branches: BTreeSet<&str> = names.into_iter().take(6).chain([name]).collect();
        for branch in branches.into_iter().filter(|branch| *branch != "main") {
            let to = fork(journal, &main, 1, branch).await;
            append(journal, &to, vec![event("note.made", format!("{name}@{branch}"))]).await;
        }
    }
    let mut seen = 0;
    for summary in journal.streams(None, PAGE_MAX).await.unwrap() {
        for branch in journal.branches(&summary.stream).await.unwrap() {
            let id = BranchId { stream: summary.stream.clone(), branch: branch.name };
            for event in lineage(journal, &id).await {
                assert_eq!(event.stream, id.stream);
                assert_eq!(event.payload, format!("{}@{}", event.stream, event.branch));
                seen += usize::from(event.branch == id.branch);
            }
        }
    }
    assert_eq!(seen, everything(journal).await.len());
    assert_eq!(journal.streams(None, PAGE_MAX).await.unwrap().len(), names.len());
}

/// Foreign kinds, payloads that are not JSON, meta as it was written: what is read is what was appended.
pub async fn kinds_and_payloads_survive_byte_for_byte(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let every_byte: Vec<u8> = (0..=255).collect();
    let long_kind = "k".repeat(255);
    #[rustfmt::skip]
    let cases: [(&str, &[u8]); 10] = [
        ("finance.invoice", b"{\"total\": 1.10}"), ("autonomic.x", b""), ("日本", b"not json"), ("Session.Created", b"null"),
        ("k", &every_byte), ("';drop-table-events;--", b"{}\n"), ("k", b"\0"), ("k", "\u{FEFF}{}".as_bytes()),
        (&long_kind, &[0x28, 0xB5, 0x2F, 0xFD]), ("k", &[0xFF; 1000]),
    ];
    let meta = "{ \"actor\" :\t\"user:ann\", \"n\": 1.0e2, \"n\": 2 }";
    let events: Vec<NewEvent> = cases
        .iter()
        .map(|(kind, payload)| {
            event(kind, Bytes::copy_from_slice(payload)).with_meta(Meta::new(meta).unwrap())
        })
        .collect();
    append(journal, &a, events.clone()).await;
    for (read, new) in lineage(journal, &a).await.iter().zip(&events) {
        let read = (&read.kind, &read.payload, read.meta.as_str(), read.id, read.payload_hash);
        assert_eq!(read, (new.kind(), new.payload(), meta, new.id(), Hash::of(new.payload())));
    }
    assert_sound(journal).await;
}
