//! Payloads that are too large for the journal.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use weir_blobs::{Live, Sweep};
use weir_types::{Hash, PAYLOAD_INLINE_MAX, Position, Seq};

use super::Make;
use super::kit::*;
use crate::verify::{Problem, silent};

fn large(fill: u8) -> Vec<u8> {
    (0..PAYLOAD_INLINE_MAX + 1).map(|n| fill ^ (n % 251) as u8).collect()
}

/// Above the limit a payload is a blob that the event refers to; at the limit it is not. Reads do not show a difference.
pub async fn large_payloads_are_in_the_blob_store(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let other = Hash::of(b"other");
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
