//! Blobs in memory, for tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::AsyncReadExt;
use weir_types::Hash;

use crate::{Blobs, GetError, Lease, Live, PutError, Reader, Source, Stored, Sweep, SweepError, Swept};

/// Blobs that live as long as this value and its clones. Content is kept as it is, not compressed.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs {
    entries: Arc<Mutex<HashMap<Hash, Entry>>>,
    leases: Arc<Mutex<HashMap<Hash, usize>>>,
}

/// One lease of some blobs.
struct Held {
    hashes: Vec<Hash>,
    leases: Arc<Mutex<HashMap<Hash, usize>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in &self.hashes {
            match leases.get_mut(hash) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = leases.remove(hash),
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    content: Bytes,
    put_at: Instant,
    /// How much longer ago it seems to have been put.
    backdated: Duration,
    /// How often it was put: two puts may fall into one tick of the clock.
    puts: u64,
}

impl MemoryBlobs {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a blob look as if it had been put `by` earlier; nothing if it is not there.
    pub fn backdate(&self, hash: Hash, by: Duration) {
        if let Some(entry) = self.entries().get_mut(&hash) {
            entry.backdated += by;
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Hash, Entry>> {
        // No code panics half-way through a change of the map.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<Hash, usize>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, hashes: &[Hash]) -> Lease {
        let mut leases = self.leases();
        hashes.iter().for_each(|hash| *leases.entry(*hash).or_default() += 1);
        let held = Held { hashes: hashes.to_vec(), leases: Arc::clone(&self.leases) };
        let entries = self.entries();
        let missing = hashes.iter().copied().filter(|hash| !entries.contains_key(hash)).collect();
        Lease::new(missing, vec![Box::new(held)])
    }

    fn insert(&self, content: Vec<u8>) -> Stored {
        let hash = Hash::of(&content);
        let stored = stored(hash, &content);
        let fresh =
            Entry { content: content.into(), put_at: Instant::now(), backdated: Duration::ZERO, puts: 1 };
        self.entries()
            .entry(hash)
            .and_modify(|entry| {
                (entry.put_at, entry.backdated, entry.puts) = (fresh.put_at, Duration::ZERO, entry.puts + 1);
            })
            .or_insert(fresh);
        stored
    }

    async fn collect(&self, live: &dyn Live, sweep: Sweep) -> Result<Swept, SweepError> {
        let mut swept = Swept::default();
        let seen: Vec<(Hash, Entry)> =
            self.entries().iter().map(|(hash, entry)| (*hash, entry.clone())).collect();
        for (hash, entry) in seen {
            swept.seen += 1;
            if !is_old(&entry, sweep.grace) {
                swept.young += 1;
            } else if live.is_live(hash).await.map_err(|source| SweepError::Live { hash, source })? {
                swept.live += 1;
            } else if sweep.dry_run || self.remove(hash, entry.puts) {
                swept.removed += 1;
                swept.removed_bytes += entry.content.len() as u64;
            } else {
                swept.young += 1;
            }
        }
        Ok(swept)
    }

    /// Removes a blob unless it was put since it was looked at. That takes the place of the lock a directory needs.
    fn remove(&self, hash: Hash, puts: u64) -> bool {
        // INVARIANT: a lease is counted before its taker looks whether the blob is there.
        let leases = self.leases();
        if leases.contains_key(&hash) {
            return false;
        }
        let mut entries = self.entries();
        let unchanged = entries.get(&hash).is_some_and(|entry| entry.puts == puts);
        unchanged && entries.remove(&hash).is_some()
    }
}

impl Blobs for MemoryBlobs {
    fn put<'a>(&'a self, mut content: Source<'a>) -> BoxFuture<'a, Result<Stored, PutError>> {
        Box::pin(async move {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes).await.map_err(PutError::Source)?;
            Ok(self.insert(bytes))
        })
    }

    fn get(&self, hash: Hash) -> BoxFuture<'_, Result<Reader, GetError>> {
        let found = self.entries().get(&hash).map(|entry| entry.content.clone());
        let reader = |content| Box::new(std::io::Cursor::new(content)) as Reader;
        Box::pin(async move { found.map(reader).ok_or(GetError::Missing(hash)) })
    }

    fn stat(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Stored>, GetError>> {
        let found = self.entries().get(&hash).map(|entry| stored(hash, &entry.content));
        Box::pin(async move { Ok(found) })
    }

    fn lease<'a>(&'a self, hashes: &'a [Hash]) -> BoxFuture<'a, Result<Lease, PutError>> {
        Box::pin(async move { Ok(self.hold(hashes)) })
    }

    fn sweep<'a>(&'a self, live: &'a dyn Live, sweep: Sweep) -> BoxFuture<'a, Result<Swept, SweepError>> {
        Box::pin(self.collect(live, sweep))
    }
}

fn stored(hash: Hash, content: &[u8]) -> Stored {
    let bytes = content.len() as u64;
    Stored { hash, bytes, stored_bytes: bytes }
}

fn is_old(entry: &Entry, grace: Duration) -> bool {
    entry.put_at.elapsed() + entry.backdated >= grace
}
