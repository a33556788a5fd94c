//! A journal in memory: the whole port, simple enough to be seen to be right. For tests, and as the reading of the
//! contract that other engines are compared with.

mod check;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use weir_blobs::Blobs;
use weir_types::{BranchId, Event, EventId, Hash, Kind, Position, Seq, StreamName};

use crate::append::{Appended, Key, KeyedPart, PAYLOAD_MAX, Part};
use crate::error::{AppendError, ForkError, ReadError};
use crate::follow::{self, Hub, Store};
use crate::listing::{Branch, Fork, Head, ListAfter, ListFilter, Listed, Looked, StreamSummary};
use crate::mint::now;
use crate::payloads;
use crate::port::{Answer, Journal, PAGE_MAX, Tail};
use crate::rules;
use crate::snapshot::{FoldVersion, Snapshot};
use crate::verify::{Report, VerifyProgress};

use state::{Record, State};

/// A journal that lives as long as this value and its clones, which are handles on the same events. Large payloads
/// are in the blob store it was given, like those of every engine.
#[derive(Clone)]
pub struct MemoryJournal {
    shared: Arc<Shared>,
}

struct Shared {
    blobs: Arc<dyn Blobs>,
    hub: Arc<Hub>,
    state: Mutex<State>,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self { shared: Arc::new(Shared { blobs, hub: Hub::new(), state: Mutex::default() }) }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A change is made only after everything about it has been checked; no panic can leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn append(&self, parts: Vec<Part>) -> Result<Vec<Appended>, AppendError> {
        rules::check_limits(&parts)?;
        // Held until the events are there.
        let _lease = payloads::lease(&*self.blobs, &parts).await?;
        let mut state = self.state();
        if let Some(first) = state.replay(&parts)? {
            return Ok(first);
        }
        let staged = state.stage(&parts, now())?;
        let prev = state.last_position();
        let (appended, events) = state.commit(staged);
        // Still under the lock, so that batches are published in the order of their positions. It never blocks.
        if self.hub.has_followers() {
            self.hub.publish(prev, &events);
        }
        Ok(appended)
    }

    fn fork(&self, fork: &Fork) -> Result<Branch, ForkError> {
        let branch = self.state().fork(fork)?;
        // The new branch has its parent's events, which nobody has told its followers.
        self.hub.nudge(&BranchId { stream: fork.from.stream.clone(), branch: fork.name.clone() });
        Ok(branch)
    }

    /// Fetches the payloads that are not in memory.
    async fn fetch(&self, records: Vec<Record>) -> Result<Vec<Event>, ReadError> {
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            events.push(self.fetch_one(record).await?);
        }
        Ok(events)
    }

    async fn fetch_one(&self, record: Record) -> Result<Event, ReadError> {
        let Record { mut event, large } = record;
        if large {
            let payload = self.blobs.get_bytes(event.payload_hash, PAYLOAD_MAX as u64).await;
            let failed = |source| ReadError::Blob { branch: event.branch_id(), seq: event.seq, source };
            event.payload = payload.map_err(failed)?;
        }
        Ok(event)
    }
}

impl Store for Shared {
    fn page(&self, branch: &BranchId, after: Seq) -> BoxFuture<'_, Result<Vec<Event>, ReadError>> {
        let records = self.state().read(branch, after, PAGE_MAX);
        async move { self.fetch(records?).await }.boxed()
    }

    fn page_all(&self, after: Position) -> BoxFuture<'_, Result<Vec<Event>, ReadError>> {
        let records = self.state().read_all(after, PAGE_MAX);
        self.fetch(records).boxed()
    }
}

impl Journal for MemoryJournal {
    fn append(&self, parts: Vec<Part>) -> Answer<'_, Vec<Appended>, AppendError> {
        self.shared.append(parts).boxed()
    }

    fn fork(&self, fork: Fork) -> Answer<'_, Branch, ForkError> {
        async move { self.shared.fork(&fork) }.boxed()
    }

    fn head<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Head>, ReadError> {
        async move { Ok(self.shared.state().head(branch)) }.boxed()
    }

    fn read<'a>(
        &'a self,
        branch: &'a BranchId,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        async move {
            let records = self.shared.state().read(branch, after, limit.min(PAGE_MAX))?;
            self.shared.fetch(records).await
        }
        .boxed()
    }

    fn read_back<'a>(
        &'a self,
        branch: &'a BranchId,
        before: Option<Seq>,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        async move {
            let records = self.shared.state().read_back(branch, before, limit.min(PAGE_MAX))?;
            self.shared.fetch(records).await
        }
        .boxed()
    }

    fn by_kind<'a>(
        &'a self,
        branch: &'a BranchId,
        kind: &'a Kind,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        async move {
            let records = self.shared.state().by_kind(branch, kind, after, limit.min(PAGE_MAX))?;
            self.shared.fetch(records).await
        }
        .boxed()
    }

    fn by_id(&self, id: EventId) -> Answer<'_, Option<Event>, ReadError> {
        async move {
            let record = self.shared.state().by_id(id);
            match record {
                Some(record) => self.shared.fetch_one(record).await.map(Some),
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn children(&self, of: EventId, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError> {
        async move {
            let records = self.shared.state().children(of, after, limit.min(PAGE_MAX));
            self.shared.fetch(records).await
        }
        .boxed()
    }

    fn read_all(&self, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError> {
        async move {
            let records = self.shared.state().read_all(after, limit.min(PAGE_MAX));
            self.shared.fetch(records).await
        }
        .boxed()
    }

    fn end(&self) -> Answer<'_, Position, ReadError> {
        async move { Ok(self.shared.state().end()) }.boxed()
    }

    fn tail(&self, branch: &BranchId, after: Seq) -> Tail {
        follow::tail(Arc::clone(&self.shared), Arc::clone(&self.shared.hub), branch.clone(), after)
    }

    fn tail_all(&self, after: Position) -> Tail {
        follow::tail_all(Arc::clone(&self.shared), Arc::clone(&self.shared.hub), after)
    }

    fn streams(&self, after: Option<StreamName>, limit: usize) -> Answer<'_, Vec<StreamSummary>, ReadError> {
        async move { Ok(self.shared.state().streams(after, limit.min(PAGE_MAX))) }.boxed()
    }

    fn branches<'a>(&'a self, stream: &'a StreamName) -> Answer<'a, Vec<Branch>, ReadError> {
        async move { Ok(self.shared.state().branches(stream)) }.boxed()
    }

    fn list(
        &self,
        filter: ListFilter,
        after: Option<ListAfter>,
        limit: usize,
    ) -> Answer<'_, Vec<Listed>, ReadError> {
        async move { self.shared.state().list(&filter, after.as_ref(), limit.min(PAGE_MAX)) }.boxed()
    }

    fn listed<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Listed>, ReadError> {
        async move { Ok(self.shared.state().listed(branch)) }.boxed()
    }

    fn keys<'a>(&'a self, branch: &'a BranchId, from: Seq, to: Seq) -> Answer<'a, Vec<KeyedPart>, ReadError> {
        async move { self.shared.state().keys(branch, from, to) }.boxed()
    }

    fn keyed<'a>(&'a self, branch: &'a BranchId, key: &'a Key) -> Answer<'a, Option<KeyedPart>, ReadError> {
        async move { Ok(self.shared.state().keyed(branch, key)) }.boxed()
    }

    fn refers_to(&self, hash: Hash) -> Answer<'_, bool, ReadError> {
        async move { Ok(self.shared.state().refers_to(hash)) }.boxed()
    }

    fn referring(
        &self,
        hash: Hash,
        after: Position,
        limit: usize,
    ) -> Answer<'_, Vec<(Position, StreamName)>, ReadError> {
        async move { Ok(self.shared.state().referring(hash, after, limit.min(PAGE_MAX))) }.boxed()
    }

    fn referring_on<'a>(
        &'a self,
        branch: &'a BranchId,
        hash: Hash,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Looked, ReadError> {
        async move { self.shared.state().referring_on(branch, hash, after, limit.clamp(1, PAGE_MAX)) }.boxed()
    }

    fn put_snapshot(&self, snapshot: Snapshot) -> Answer<'_, (), AppendError> {
        async move {
            self.shared.state().put_snapshot(snapshot);
            Ok(())
        }
        .boxed()
    }

    fn stored_snapshots<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Vec<Snapshot>, ReadError> {
        std::future::ready(Ok(self.shared.state().stored_snapshots(branch))).boxed()
    }

    fn snapshot<'a>(
        &'a self,
        branch: &'a BranchId,
        fold: &'a FoldVersion,
    ) -> Answer<'a, Option<Snapshot>, ReadError> {
        async move { self.shared.state().snapshot(branch, fold) }.boxed()
    }

    fn verify(&self, stream: Option<StreamName>, progress: VerifyProgress) -> Answer<'_, Report, ReadError> {
        async move { check::verify(&self.shared, stream, &progress).await }.boxed()
    }
}
