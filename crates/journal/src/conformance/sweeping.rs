//! A collector at every moment of an append.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::Notify;
use weir_blobs::{Blobs, GetError, Lease, Live, PutError, Reader, Source, Stored, Sweep, SweepError, Swept};
use weir_types::{Hash, PAYLOAD_INLINE_MAX};

use super::Make;
use super::kit::*;
use crate::Journal;
use crate::append::Part;
use crate::error::AppendError;

/// A step of an append at which a collector may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the lease is taken.
    Unleased,
    /// When it was just taken.
    Leased,
    /// Before a payload is stored.
    Unstored,
    /// When it was just stored.
    Stored,
    /// When the lease has just ended.
    LetGo,
}

const MOMENTS: [Moment; 5] =
    [Moment::Unleased, Moment::Leased, Moment::Unstored, Moment::Stored, Moment::LetGo];

/// A blob store in which a collector without any grace sweeps at the moment that a test has chosen. The journal under test
/// uses it; until a moment is chosen it only passes everything on.
pub struct Sweeping {
    blobs: Arc<dyn Blobs>,
    chosen: Mutex<Option<(Moment, Weak<dyn Journal>)>>,
    swept: Notify,
}

impl Sweeping {
    /// A collector for these blobs.
    pub fn new(blobs: Arc<dyn Blobs>) -> Arc<Self> {
        Arc::new(Self { blobs, chosen: Mutex::default(), swept: Notify::new() })
    }

    /// Sweeps once, the next time that `moment` comes. The journal says what is in use.
    fn choose(&self, moment: Moment, journal: &Arc<dyn Journal>) {
        let chosen = Some((moment, Arc::downgrade(journal)));
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = chosen;
    }

    fn take(&self, moment: Moment) -> Option<Arc<dyn Journal>> {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, journal) = chosen.take_if(|(at, _)| *at == moment)?;
        journal.upgrade()
    }

    async fn at(&self, moment: Moment) {
        if let Some(journal) = self.take(moment) {
            self.sweep_for(journal).await;
        }
    }

    async fn sweep_for(&self, journal: Arc<dyn Journal>) {
        let at_once = Sweep { grace: Duration::ZERO, dry_run: false };
        self.blobs.sweep(&Named(journal), at_once).await.unwrap();
        self.swept.notify_one();
    }
}

/// The lease of a journal under test.
struct Guard {
    lease: Option<Lease>,
    sweeping: Arc<Sweeping>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.lease.take());
        let Some(journal) = self.sweeping.take(Moment::LetGo) else { return };
        let sweeping = Arc::clone(&self.sweeping);
        // On a runtime of its own: a drop cannot wait, and whoever let go too early must not get any further meanwhile.
        let sweep = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(sweeping.sweep_for(journal));
        };
        std::thread::spawn(sweep).join().unwrap();
    }
}

/// The store that a journal is given.
pub struct SweptBlobs(pub Arc<Sweeping>);

impl Blobs for SweptBlobs {
    fn put<'a>(&'a self, content: Source<'a>) -> BoxFuture<'a, Result<Stored, PutError>> {
        async move {
            self.0.at(Moment::Unstored).await;
            let stored = self.0.blobs.put(content).await;
            self.0.at(Moment::Stored).await;
            stored
        }
        .boxed()
    }

    fn get(&self, hash: Hash) -> BoxFuture<'_, Result<Reader, GetError>> {
        self.0.blobs.get(hash)
    }

    fn stat(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Stored>, GetError>> {
        self.0.blobs.stat(hash)
    }

    fn lease<'a>(&'a self, hashes: &'a [Hash]) -> BoxFuture<'a, Result<Lease, PutError>> {
        async move {
            self.0.at(Moment::Unleased).await;
            let lease = self.0.blobs.lease(hashes).await?;
            let missing = lease.missing().to_vec();
            let guard = Guard { lease: Some(lease), sweeping: Arc::clone(&self.0) };
            self.0.at(Moment::Leased).await;
            Ok(Lease::new(missing, vec![Box::new(guard)]))
        }
        .boxed()
    }

    fn sweep<'a>(&'a self, live: &'a dyn Live, sweep: Sweep) -> BoxFuture<'a, Result<Swept, SweepError>> {
        self.0.blobs.sweep(live, sweep)
    }
}

/// What is in use, as the journal says.
pub(super) struct Named(pub(super) Arc<dyn Journal>);

impl Live for Named {
    fn is_live(&self, hash: Hash) -> BoxFuture<'_, Result<bool, Box<dyn std::error::Error + Send + Sync>>> {
        async move { Ok(self.0.refers_to(hash).await?) }.boxed()
    }
}

/// How an event comes by its blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Its payload, which is stored with it.
    NewPayload,
    /// Its payload, which is there already, and old garbage.
    OldPayload,
    /// It names a blob that was put before.
    Named,
}

/// A sweep at every moment of an append: what is acknowledged can be read, and what was taken before is refused. A payload is
/// stored again.
pub async fn a_sweep_at_any_moment_takes_nothing_acknowledged(make: Make) {
    let fixture = make().await;
    let (journal, blobs) = (&fixture.journal, &fixture.blobs);
    for moment in MOMENTS {
        for needs in [Needs::NewPayload, Needs::OldPayload, Needs::Named] {
            if needs == Needs::Named && matches!(moment, Moment::Unstored | Moment::Stored) {
                continue;
            }
            let name = format!("{moment:?} {needs:?}");
            let (at, content) = (at(&name.replace(' ', ".").to_lowercase()), large(&name));
            let hash = Hash::of(&content);
            if needs != Needs::NewPayload {
                blobs.put_bytes(content.clone().into()).await.unwrap();
            }
            let event = match needs {
                Needs::NewPayload | Needs::OldPayload => event("n", content.clone()),
                Needs::Named => event("n", "1").with_refs(vec![hash]),
            };
            fixture.sweeping.choose(moment, journal);
            let appended = journal.append(vec![Part::new(at.clone(), vec![event])]).await;
            within(&format!("the sweep ({name})"), fixture.sweeping.swept.notified()).await;
            if (moment, needs) == (Moment::Unleased, Needs::Named) {
                assert!(
                    matches!(appended, Err(AppendError::NoBlob { hash: named }) if named == hash),
                    "{name}"
                );
                assert_eq!(journal.head(&at).await.unwrap(), None, "{name}");
                continue;
            }
            appended.unwrap_or_else(|error| panic!("{name}: {error}"));
            let kept = blobs.get_bytes(hash, 1 << 20).await;
            assert_eq!(kept.unwrap_or_else(|error| panic!("{name}: {error}")), content, "{name}");
        }
    }
    assert_sound(&**journal).await;
}

fn large(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(PAYLOAD_INLINE_MAX + 1).collect()
}
