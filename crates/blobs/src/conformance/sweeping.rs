//! Garbage goes, everything else stays.
#![expect(clippy::expect_used, reason = "a suite of tests: a broken promise is a panic")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use weir_types::Hash;

use super::Fixture;
use crate::{Blobs, Live, PutError, Stored, Sweep, SweepError, Swept};

const HOUR: Duration = Duration::from_secs(60 * 60);
const SWEEP: Sweep = Sweep { grace: HOUR, dry_run: false };

/// What the tests say is in use, or the word that nobody knows.
struct Uses(Result<HashSet<Hash>, &'static str>);

impl Uses {
    fn none() -> Self {
        Self(Ok(HashSet::new()))
    }
}

type Answer<'a> = BoxFuture<'a, Result<bool, Box<dyn std::error::Error + Send + Sync>>>;

impl Live for Uses {
    fn is_live(&self, hash: Hash) -> Answer<'_> {
        let answer = match &self.0 {
            Ok(live) => Ok(live.contains(&hash)),
            Err(why) => Err((*why).into()),
        };
        Box::pin(async { answer })
    }
}

async fn put_aged(fixture: &impl Fixture, content: &'static str, age: Duration) -> Stored {
    let stored = fixture.blobs().put_bytes(content.into()).await.expect("stored");
    fixture.age(stored.hash, age).await;
    stored
}

async fn is_there(blobs: &Arc<dyn Blobs>, stored: Stored) -> bool {
    let found = blobs.stat(stored.hash).await.expect("an answer");
    assert!(found.is_none_or(|found| found == stored), "{found:?} is neither {stored:?} nor nothing");
    found.is_some()
}

/// Old, but something refers to it.
pub async fn a_sweep_keeps_what_is_live(fixture: impl Fixture) {
    let (blobs, stored) = (fixture.blobs(), put_aged(&fixture, "live", 2 * HOUR).await);
    let swept = blobs.sweep(&Uses(Ok([stored.hash].into())), SWEEP).await.expect("swept");
    assert_eq!(swept, Swept { seen: 1, live: 1, ..Swept::default() });
    assert_eq!(blobs.get_bytes(stored.hash, 100).await.expect("read"), "live");
}

/// Nothing refers to it yet.
pub async fn a_sweep_keeps_what_is_young(fixture: impl Fixture) {
    let (blobs, stored) = (fixture.blobs(), put_aged(&fixture, "young", HOUR / 2).await);
    let swept = blobs.sweep(&Uses::none(), SWEEP).await.expect("swept");
    assert_eq!(swept, Swept { seen: 1, young: 1, ..Swept::default() });
    assert_eq!(blobs.get_bytes(stored.hash, 100).await.expect("read"), "young");
}

/// Old, and nothing refers to it; its neighbours stay. What was removed can be put again.
pub async fn a_sweep_removes_what_is_old_and_unreferenced(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    let live = put_aged(&fixture, "live", 2 * HOUR).await;
    let young = put_aged(&fixture, "young", HOUR / 2).await;
    let garbage = [put_aged(&fixture, "garbage", 2 * HOUR).await, put_aged(&fixture, "", 9 * HOUR).await];

    let swept = blobs.sweep(&Uses(Ok([live.hash].into())), SWEEP).await.expect("swept");
    let removed_bytes = garbage.iter().map(|stored| stored.stored_bytes).sum();
    assert_eq!(swept, Swept { seen: 4, live: 1, young: 1, removed: 2, removed_bytes, temporary: 0 });
    assert!(is_there(&blobs, live).await && is_there(&blobs, young).await);
    assert!(!is_there(&blobs, garbage[0]).await && !is_there(&blobs, garbage[1]).await);

    assert_eq!(blobs.put_bytes("garbage".into()).await.expect("stored"), garbage[0]);
    assert_eq!(blobs.get_bytes(garbage[0].hash, 100).await.expect("read"), "garbage");
}

/// Counts like the real thing.
pub async fn a_dry_run_removes_nothing(fixture: impl Fixture) {
    let (blobs, stored) = (fixture.blobs(), put_aged(&fixture, "garbage", 2 * HOUR).await);
    let removed_bytes = stored.stored_bytes;
    let would = Swept { seen: 1, removed: 1, removed_bytes, ..Swept::default() };
    for _ in 0..2 {
        let dry = Sweep { dry_run: true, ..SWEEP };
        assert_eq!(blobs.sweep(&Uses::none(), dry).await.expect("swept"), would);
        assert!(is_there(&blobs, stored).await);
    }
    assert_eq!(blobs.sweep(&Uses::none(), SWEEP).await.expect("swept"), would);
    assert!(!is_there(&blobs, stored).await);
}

/// The grace period starts with the last put, not the first.
pub async fn a_put_makes_an_old_blob_young(fixture: impl Fixture) {
    let (blobs, stored) = (fixture.blobs(), put_aged(&fixture, "again", 2 * HOUR).await);
    assert_eq!(blobs.put_bytes("again".into()).await.expect("stored"), stored);
    let swept = blobs.sweep(&Uses::none(), SWEEP).await.expect("swept");
    assert_eq!(swept, Swept { seen: 1, young: 1, ..Swept::default() });
    assert!(is_there(&blobs, stored).await);
}

/// When nobody can say whether it is in use, it stays, and the sweep ends.
pub async fn doubt_keeps_a_blob(fixture: impl Fixture) {
    let (blobs, stored) = (fixture.blobs(), put_aged(&fixture, "doubtful", 2 * HOUR).await);
    match blobs.sweep(&Uses(Err("the journal is gone")), SWEEP).await {
        Err(SweepError::Live { hash, source }) => {
            assert_eq!((hash, source.to_string()), (stored.hash, "the journal is gone".to_owned()));
        }
        other => panic!("expected the doubt, got {other:?}"),
    }
    assert!(is_there(&blobs, stored).await);
}

/// The worst moment: a writer puts the content again while the collector is being told that nothing refers to it.
pub async fn a_blob_put_during_a_sweep_is_there_after_it(fixture: impl Fixture) {
    let (blobs, stored) = (fixture.blobs(), put_aged(&fixture, "contested", 2 * HOUR).await);
    let late = LatePut { blobs: Arc::clone(&blobs), writer: Mutex::default() };
    blobs.sweep(&late, SWEEP).await.expect("swept");
    let writer = late.writer.into_inner().expect("not poisoned").expect("the collector asked");
    assert_eq!(writer.await.expect("no panic").expect("stored"), stored);
    assert_eq!(blobs.get_bytes(stored.hash, 100).await.expect("still there"), "contested");
}

struct LatePut {
    blobs: Arc<dyn Blobs>,
    writer: Mutex<Option<JoinHandle<Result<Stored, PutError>>>>,
}

impl Live for LatePut {
    fn is_live(&self, _hash: Hash) -> Answer<'_> {
        Box::pin(async {
            let blobs = Arc::clone(&self.blobs);
            let mut writer = tokio::spawn(async move { blobs.put_bytes("contested".into()).await });
            // A store that makes writers wait for the collector does not finish here, and one that lets them pass
            // must notice. The time only gives a faulty one the chance to fail.
            let finished = tokio::time::timeout(Duration::from_millis(200), &mut writer).await;
            let writer = match finished {
                Ok(done) => tokio::spawn(async { done.expect("no panic") }),
                Err(_) => writer,
            };
            *self.writer.lock().expect("not poisoned") = Some(writer);
            Ok(false)
        })
    }
}

/// However old it is, and though nothing refers to it; and no longer than the lease lives.
pub async fn a_lease_keeps_what_it_was_taken_for(fixture: impl Fixture) {
    let (blobs, stored) = (fixture.blobs(), put_aged(&fixture, "leased", 2 * HOUR).await);
    let absent = Hash::of(b"never put");
    let one = blobs.lease(&[stored.hash, absent]).await.expect("leased");
    let two = blobs.lease(&[stored.hash]).await.expect("leased");
    assert_eq!((one.missing(), two.missing()), (&[absent][..], &[][..]));
    for lease in [one, two] {
        let swept = blobs.sweep(&Uses::none(), SWEEP).await.expect("swept");
        assert_eq!(swept, Swept { seen: 1, young: 1, ..Swept::default() });
        assert!(is_there(&blobs, stored).await);
        drop(lease);
    }
    let swept = blobs.sweep(&Uses::none(), SWEEP).await.expect("swept");
    assert_eq!(swept.removed, 1);
}

/// What every append does: lease, put, refer to it, let go; while a collector without any grace sweeps all the time.
pub async fn what_is_put_under_a_lease_outlives_every_sweep(fixture: impl Fixture) {
    const WRITERS: usize = 4;
    const CONTENTS: usize = 50;
    let (blobs, live) = (fixture.blobs(), Arc::new(Mutex::new(HashSet::new())));
    let writer = |writer: usize| {
        let (blobs, live) = (Arc::clone(&blobs), Arc::clone(&live));
        tokio::spawn(async move {
            for content in 0..CONTENTS {
                let content = bytes::Bytes::from(format!("content {content} of writer {writer}"));
                let hash = Hash::of(&content);
                let lease = blobs.lease(&[hash]).await.expect("leased");
                blobs.put_bytes(content.clone()).await.expect("stored");
                tokio::task::yield_now().await;
                assert_eq!(blobs.get_bytes(hash, 100).await.expect("leased"), content);
                live.lock().expect("not poisoned").insert(hash);
                drop(lease);
            }
        })
    };
    let writers: Vec<JoinHandle<()>> = (0..WRITERS).map(writer).collect();
    let referred = Shared(Arc::clone(&live));
    let at_once = Sweep { grace: Duration::ZERO, dry_run: false };
    while !writers.iter().all(JoinHandle::is_finished) {
        blobs.sweep(&referred, at_once).await.expect("swept");
    }
    for writer in writers {
        writer.await.expect("no panic");
    }
    let live = live.lock().expect("not poisoned").clone();
    assert_eq!(live.len(), WRITERS * CONTENTS);
    for hash in live {
        assert!(blobs.stat(hash).await.expect("an answer").is_some(), "{hash} was removed");
    }
}

/// What several tasks say is in use.
struct Shared(Arc<Mutex<HashSet<Hash>>>);

impl Live for Shared {
    fn is_live(&self, hash: Hash) -> Answer<'_> {
        let is_live = self.0.lock().expect("not poisoned").contains(&hash);
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(is_live)
        })
    }
}
