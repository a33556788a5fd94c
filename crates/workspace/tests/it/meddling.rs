//! A blob store that lets a test act at an exact moment, count, and lie.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::AsyncReadExt;
use weir_blobs::{
    Blobs, GetError, Lease, Live, MemoryBlobs, PutError, Reader, Source, Stored, Sweep, SweepError, Swept,
};
use weir_types::Hash;

type Act = Box<dyn Fn(usize) + Send + Sync>;

pub(crate) struct Meddling {
    pub(crate) inner: MemoryBlobs,
    pub(crate) puts: AtomicUsize,
    gets: AtomicUsize,
    /// Called in each put, with its number, when four bytes have been read.
    in_put: Act,
    /// Called in each get, with its number.
    in_get: Act,
    /// What every get yields instead of the truth.
    lie: Option<Bytes>,
    /// The number of the get that never ends.
    stuck: Option<usize>,
}

impl Meddling {
    pub(crate) fn new() -> Self {
        let (inner, puts, gets) = (MemoryBlobs::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { inner, puts, gets, in_put: Box::new(|_| {}), in_get: Box::new(|_| {}), lie: None, stuck: None }
    }

    pub(crate) fn in_put(act: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self { in_put: Box::new(act), ..Self::new() }
    }

    pub(crate) fn in_get(act: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self { in_get: Box::new(act), ..Self::new() }
    }

    /// Gets end until the one with number `stuck`, which does not.
    pub(crate) fn stuck_in_get(stuck: usize, act: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self { stuck: Some(stuck), ..Self::in_get(act) }
    }

    pub(crate) fn lying(content: &'static str) -> Self {
        Self { lie: Some(content.into()), ..Self::new() }
    }
}

impl Blobs for Meddling {
    fn put<'a>(&'a self, mut content: Source<'a>) -> BoxFuture<'a, Result<Stored, PutError>> {
        Box::pin(async move {
            let mut bytes = Vec::new();
            (&mut content).take(4).read_to_end(&mut bytes).await.map_err(PutError::Source)?;
            (self.in_put)(self.puts.fetch_add(1, Ordering::Relaxed));
            content.read_to_end(&mut bytes).await.map_err(PutError::Source)?;
            (&self.inner as &dyn Blobs).put_bytes(bytes.into()).await
        })
    }

    fn get(&self, hash: Hash) -> BoxFuture<'_, Result<Reader, GetError>> {
        let number = self.gets.fetch_add(1, Ordering::Relaxed);
        (self.in_get)(number);
        if self.stuck == Some(number) {
            return Box::pin(std::future::pending());
        }
        match &self.lie {
            Some(lie) => {
                let reader: Reader = Box::new(std::io::Cursor::new(lie.clone()));
                Box::pin(async move { Ok(reader) })
            }
            None => self.inner.get(hash),
        }
    }

    fn stat(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Stored>, GetError>> {
        self.inner.stat(hash)
    }

    fn lease<'a>(&'a self, hashes: &'a [Hash]) -> BoxFuture<'a, Result<Lease, PutError>> {
        self.inner.lease(hashes)
    }

    fn sweep<'a>(&'a self, live: &'a dyn Live, sweep: Sweep) -> BoxFuture<'a, Result<Swept, SweepError>> {
        self.inner.sweep(live, sweep)
    }
}
