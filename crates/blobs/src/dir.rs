//! Blobs in a local directory, shared by any number of processes.
//!
//! ```text
//! root/ab/cdef…   the blob whose hash is abcdef…: see `format`
//! root/ab/.lock   shared by writers and leases of shard ab, exclusive to a collector; never removed
//! root/tmp/…      content on its way in, locked by its writer
//! ```
//!
//! A file appears under its name only when it is complete and synced, and is never changed afterwards. So readers
//! need no lock, and a crash leaves at worst a temporary file, which a later sweep removes.

mod format;
mod read;
mod shard;
mod stream;
mod sweep;
mod upload;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BufMut;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use weir_types::Hash;

use crate::{
    Blobs, CHUNK_BYTES, GetError, Lease, Live, PutError, Reader, Source, Stored, Sweep, SweepError, Swept,
};
use shard::Layout;
use upload::Upload;

/// Most puts of one store that may wait for a shard's lock on a thread of the runtime's blocking pool (512 by
/// default). A collector needs a thread of that pool to get on and release the lock they wait for.
const COMMITS_MAX: usize = 32;

/// Blobs in a local directory. Needs a tokio runtime; nothing it does blocks that runtime.
#[derive(Clone)]
pub struct DirBlobs {
    layout: Arc<Layout>,
    commits: Arc<Semaphore>,
}

impl DirBlobs {
    /// Opens the store at `root`, and creates the directory if there is none, readable by this user alone.
    ///
    /// # Errors
    /// When the directory cannot be created, or is something else.
    pub fn open(root: PathBuf) -> Result<Self, PutError> {
        if !root.is_dir() {
            shard::create_dir_all(&root)
                .map_err(|source| PutError::Storage { path: root.clone(), source })?;
        }
        let commits = Arc::new(Semaphore::new(COMMITS_MAX));
        Ok(Self { layout: Arc::new(Layout::new(root)), commits })
    }

    /// The store at `root`, whether or not the directory is there: without it there are no blobs. Makes nothing.
    pub fn existing(root: PathBuf) -> Self {
        let commits = Arc::new(Semaphore::new(COMMITS_MAX));
        Self { layout: Arc::new(Layout::new(root)), commits }
    }

    /// Where the blob `hash` is, or would be.
    pub fn path(&self, hash: Hash) -> PathBuf {
        self.layout.path(hash)
    }

    async fn upload(&self, mut content: Source<'_>) -> Result<Stored, PutError> {
        let layout = Arc::clone(&self.layout);
        let mut upload = self.blocking(move || Upload::create(&layout)).await??;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        loop {
            fill(&mut chunk, &mut content).await.map_err(PutError::Source)?;
            if chunk.is_empty() {
                break;
            }
            // Both travel to the blocking thread and back. If this future is dropped meanwhile, they are dropped
            // there, and the temporary file goes with them.
            let write = move || upload.write(&chunk).map(|()| (upload, chunk));
            (upload, chunk) = self.blocking(write).await??;
            chunk.clear();
        }
        // Held to the end of the commit, even if nobody waits for that any more. The semaphore is never closed.
        let permit = Arc::clone(&self.commits).acquire_owned().await;
        let layout = Arc::clone(&self.layout);
        let commit = move || {
            let _permit = permit;
            upload.commit(&layout)
        };
        self.blocking(commit).await?
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PutError> {
        blocking(work)
            .await
            .map_err(|source| PutError::Storage { path: self.layout.root().to_owned(), source })
    }

    async fn hold(&self, hashes: &[Hash]) -> Result<Lease, PutError> {
        let (layout, hashes) = (Arc::clone(&self.layout), hashes.to_vec());
        let permit = Arc::clone(&self.commits).acquire_owned().await;
        let hold = move || {
            let _permit = permit;
            layout.hold(&hashes)
        };
        let held = self.blocking(hold).await?;
        held.map_err(|source| PutError::Storage { path: self.layout.root().to_owned(), source })
    }

    async fn open_blob(&self, hash: Hash) -> Result<Reader, GetError> {
        let path = self.layout.path(hash);
        let opened = blocking({
            let path = path.clone();
            move || read::open(hash, path)
        });
        opened.await.map_err(|source| GetError::Storage { hash, path, source })?
    }

    async fn stat_blob(&self, hash: Hash) -> Result<Option<Stored>, GetError> {
        let path = self.layout.path(hash);
        let found = blocking({
            let path = path.clone();
            move || read::stat(hash, path)
        });
        match found.await.map_err(|source| GetError::Storage { hash, path, source })? {
            Ok(stored) => Ok(Some(stored)),
            Err(GetError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for DirBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirBlobs").field(&self.layout.root()).finish()
    }
}

impl Blobs for DirBlobs {
    fn put<'a>(&'a self, content: Source<'a>) -> BoxFuture<'a, Result<Stored, PutError>> {
        Box::pin(self.upload(content))
    }

    fn get(&self, hash: Hash) -> BoxFuture<'_, Result<Reader, GetError>> {
        Box::pin(self.open_blob(hash))
    }

    fn stat(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Stored>, GetError>> {
        Box::pin(self.stat_blob(hash))
    }

    fn lease<'a>(&'a self, hashes: &'a [Hash]) -> BoxFuture<'a, Result<Lease, PutError>> {
        Box::pin(self.hold(hashes))
    }

    fn sweep<'a>(&'a self, live: &'a dyn Live, sweep: Sweep) -> BoxFuture<'a, Result<Swept, SweepError>> {
        Box::pin(sweep::sweep(&self.layout, live, sweep))
    }
}

/// Reads until `chunk` holds [`CHUNK_BYTES`] or the content ends.
async fn fill(chunk: &mut Vec<u8>, content: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    while chunk.len() < CHUNK_BYTES {
        let room = CHUNK_BYTES - chunk.len();
        if content.read_buf(&mut (&mut *chunk).limit(room)).await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Runs `work` where it may block. Fails only if it panics or the runtime is shutting down.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

/// Makes the entries of a directory durable.
fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
