//! Payloads that are too large for the journal.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use weir_blobs::{Live, Sweep};
use weir_types::{Hash, PAYLOAD_INLINE_MAX, Position, Seq};

use super::Make;
use super::kit::*;
use super::sweeping::Named;
use crate::append::Part;
use crate::verify::{Problem, silent};

fn large(fill: u8) -> Vec<u8> {
    (0..PAYLOAD_INLINE_MAX + 1).map(|n| fill ^ (n % 251) as u8).collect()
}

/// Above the limit a payload is a blob that the event refers to; at the limit it is not. Reads do not show a difference.
pub async fn large_payloads_are_in_the_blob_store(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let other = fixture.blobs.put_bytes("other".into()).await.unwrap().hash;
    let (inline, blob) = (vec![1; PAYLOAD_INLINE_MAX], large(2));
    let events = vec![
        event("n", inline.clone()),
        event("n", blob.clone()),
        event("n", blob.clone()).with_refs(vec![other]),
    ];
    append(journal, &a, events).await;
    let read = lineage(journal, &a).await;
    let payloads: Vec<_> = read.iter().map(|event| event.payload.clone()).collect();
    assert_eq!(payloads, [inline.clone(), blob.clone(), blob.clone()]);
    let refs: Vec<_> = read.iter().map(|event| event.refs.clone()).collect();
    assert_eq!(refs, [vec![], vec![Hash::of(&blob)], vec![other, Hash::of(&blob)]]);
    assert_eq!(fixture.blobs.get_bytes(Hash::of(&blob), 1 << 20).await.unwrap(), blob);
    assert_eq!(fixture.blobs.stat(Hash::of(&inline)).await.unwrap(), None);
    assert!(journal.refers_to(Hash::of(&blob)).await.unwrap());
    assert_eq!(everything(journal).await, read);
    assert_eq!(journal.by_id(read[1].id).await.unwrap().as_ref(), Some(&read[1]));
    assert_eq!(journal.read_back(&a, None, 1).await.unwrap(), read[2..]);
}

/// Nothing is in use.
struct Nothing;

impl Live for Nothing {
    fn is_live(&self, _: Hash) -> BoxFuture<'_, Result<bool, Box<dyn std::error::Error + Send + Sync>>> {
        async { Ok(false) }.boxed()
    }
}

/// When the blob is lost, reading its event is an error that says so, reading others is not, and `verify` names it.
pub async fn a_lost_payload_is_an_error(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let blob = large(3);
    append(journal, &a, vec![event("n", "1"), event("n", blob.clone()), event("n", "3")]).await;
    let sweep = Sweep { grace: Duration::ZERO, dry_run: false };
    let swept = fixture.blobs.sweep(&Nothing, sweep).await.unwrap();
    assert_eq!(swept.removed, 1);

    let lost = "the payload of event 2 of a@main cannot be read";
    assert_eq!(refusal(journal.read(&a, Seq(0), 3).await), lost);
    assert_eq!(refusal(journal.read_all(Position(0), 3).await), lost);
    assert_eq!(seqs(&journal.read(&a, Seq(2), 3).await.unwrap()), [3]);
    assert_eq!(seqs(&journal.read_back(&a, Some(Seq(2)), 3).await.unwrap()), [1]);
    let report = journal.verify(None, silent()).await.unwrap();
    let places: Vec<_> = report
        .problems
        .iter()
        .map(|Problem { stream, branch, seq, .. }| (stream.clone(), branch.clone(), *seq))
        .collect();
    assert_eq!(places, [(Some(a.stream.clone()), Some(a.branch.clone()), Some(Seq(2)))]);

    fixture.blobs.put_bytes(blob.clone().into()).await.unwrap();
    assert_eq!(journal.read(&a, Seq(1), 1).await.unwrap()[0].payload, blob);
    assert_sound(journal).await;
}

/// An event that names a blob which is not there is refused, and nothing of its append is done; its own payload is put again.
pub async fn an_event_needs_its_blobs(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let absent = Hash::of(b"absent");
    let needs = || vec![event("n", "1"), event("n", "2").with_refs(vec![absent])];
    let refused = format!("an event names blob {absent}, which is not in the blob store");
    assert_eq!(refusal(journal.append(vec![Part::new(a.clone(), needs())]).await), refused);
    assert_eq!(everything(journal).await, []);
    fixture.blobs.put_bytes("absent".into()).await.unwrap();
    append(journal, &a, needs()).await;
    let blob = large(4);
    fixture.blobs.put_bytes(blob.clone().into()).await.unwrap();
    let sweep = Sweep { grace: Duration::ZERO, dry_run: false };
    fixture.blobs.sweep(&Nothing, sweep).await.unwrap();
    append(journal, &a, vec![event("n", blob.clone())]).await;
    assert_eq!(journal.read(&a, Seq(2), 1).await.unwrap()[0].payload, blob);
}

/// Writers append large payloads, each of which is old garbage at first, while a collector without any grace never rests.
pub async fn a_collector_never_takes_what_was_acknowledged(make: Make) {
    const WRITERS: u8 = 4;
    const EVENTS: u64 = 12;
    let fixture = make().await;
    let writer = |writer: u8| {
        let (journal, blobs) = (fixture.journal.clone(), fixture.blobs.clone());
        tokio::spawn(async move {
            for n in 0..EVENTS {
                let payload = [large(writer), n.to_be_bytes().to_vec()].concat();
                blobs.put_bytes(payload.clone().into()).await.unwrap();
                append(&*journal, &at(&format!("of {writer}")), vec![event("n", payload)]).await;
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let at_once = Sweep { grace: Duration::ZERO, dry_run: false };
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        fixture.blobs.sweep(&Named(fixture.journal.clone()), at_once).await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // Reading them all is the proof: a lost payload is an error.
    assert_eq!(everything(&*fixture.journal).await.len() as u64, u64::from(WRITERS) * EVENTS);
    assert_sound(&*fixture.journal).await;
}
