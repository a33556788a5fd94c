//! What a blob store is: content in, name out; name in, the same content out or an error.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt};
use weir_types::Hash;

use crate::{GetError, PutError, SweepError};

/// Content on its way in, read once from start to end.
pub type Source<'a> = Box<dyn AsyncRead + Send + Unpin + 'a>;

/// Content on its way out. Every byte it yields has already been checked against the hash, and it ends only where the
/// content ends; [`GetError::from_reader`] says what its errors mean.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Content-addressed storage. Object-safe, so that a local directory and an object store are swapped at run time.
pub trait Blobs: Send + Sync + 'static {
    /// Stores `content`, durably, and names it. Storing what is already there refreshes its age and repairs it if it
    /// was damaged; the answer does not tell the difference.
    ///
    /// # Errors
    /// When the content cannot be read to its end or the store cannot be written; then nothing was stored.
    ///
    /// # Cancel safety
    /// Dropping the future stores nothing or everything.
    fn put<'a>(&'a self, content: Source<'a>) -> BoxFuture<'a, Result<Stored, PutError>>;

    /// Opens a blob for reading, in constant memory. Damage is found before the first byte is handed out.
    ///
    /// # Errors
    /// When it is not there, is damaged or cannot be read.
    fn get(&self, hash: Hash) -> BoxFuture<'_, Result<Reader, GetError>>;

    /// Sizes of a blob, without reading its content; `None` if it is not there.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged in a way that leaves its size in doubt.
    fn stat(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Stored>, GetError>>;

    /// Keeps collectors away from these blobs, whether they are there yet or not, and says which are not. Who appends an
    /// event that names blobs takes a lease first and keeps it until the event is durable: then they are referred to.
    ///
    /// # Errors
    /// When the store cannot be used.
    ///
    /// # Cancel safety
    /// Dropping the future lets go of what was leased.
    fn lease<'a>(&'a self, hashes: &'a [Hash]) -> BoxFuture<'a, Result<Lease, PutError>>;

    /// Removes blobs that nothing refers to, that were put longer than `grace` ago by the clock of the store, and of which
    /// there is no lease. Writers may put the very same content meanwhile: what `put` has acknowledged within the grace
    /// period, or under a lease, is there afterwards.
    ///
    /// # Errors
    /// When the store cannot be changed, or `live` does not know; what was removed until then was garbage.
    ///
    /// # Cancel safety
    /// Dropping the future ends the sweep after the blob it is at.
    fn sweep<'a>(&'a self, live: &'a dyn Live, sweep: Sweep) -> BoxFuture<'a, Result<Swept, SweepError>>;
}

impl dyn Blobs {
    /// [`Blobs::put`] for content that is already in memory.
    ///
    /// # Errors
    /// Those of [`Blobs::put`].
    pub async fn put_bytes(&self, content: Bytes) -> Result<Stored, PutError> {
        self.put(Box::new(std::io::Cursor::new(content))).await
    }

    /// [`Blobs::get`] into memory, for content known to be at most `bytes_max` long.
    ///
    /// # Errors
    /// Those of [`Blobs::get`], and [`GetError::TooLarge`] for one byte more.
    pub async fn get_bytes(&self, hash: Hash, bytes_max: u64) -> Result<Bytes, GetError> {
        let mut content = Vec::new();
        let reader = self.get(hash).await?;
        let read = reader.take(bytes_max.saturating_add(1)).read_to_end(&mut content).await;
        read.map_err(|source| GetError::from_reader(hash, source))?;
        if content.len() as u64 > bytes_max {
            return Err(GetError::TooLarge { hash, bytes_max });
        }
        Ok(content.into())
    }
}

/// Keeps collectors away from blobs while it lives. It ends with its process.
#[derive(Default)]
pub struct Lease {
    missing: Vec<Hash>,
    _held: Vec<Box<dyn Any + Send + Sync>>,
}

impl Lease {
    /// A lease that lasts as long as what is `held`.
    pub fn new(missing: Vec<Hash>, held: Vec<Box<dyn Any + Send + Sync>>) -> Self {
        Self { missing, _held: held }
    }

    /// The blobs that were not there when the lease was taken.
    pub fn missing(&self) -> &[Hash] {
        &self.missing
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("missing", &self.missing).finish_non_exhaustive()
    }
}

/// A stored blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name: the SHA-256 of the content.
    pub hash: Hash,
    /// Length of the content.
    pub bytes: u64,
    /// Length as stored.
    pub stored_bytes: u64,
}

/// Says which blobs are in use. Asked for each candidate at the last moment, under the lock that keeps writers of the
/// same content out.
pub trait Live: Send + Sync {
    /// Whether anything refers to `hash`. An error keeps the blob and ends the sweep.
    fn is_live(&self, hash: Hash) -> BoxFuture<'_, Result<bool, Box<dyn std::error::Error + Send + Sync>>>;
}

/// How a sweep is done.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// A blob put more recently than this is kept, referred to or not: its event may be on the way.
    pub grace: Duration,
    /// Count, but remove nothing.
    pub dry_run: bool,
}

impl Sweep {
    /// Long enough for any writer to append the event that refers to what it has put.
    pub const GRACE: Duration = Duration::from_secs(24 * 60 * 60);

    /// The least that leaves a writer the time between its put and its append, while others may be writing: longer than any
    /// call of a model or a tool takes by default, together with the wait for a full disk.
    pub const GRACE_MIN: Duration = Duration::from_secs(60 * 60);
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs looked at: the live, the young and the removed.
    pub seen: u64,
    /// Blobs kept because something refers to them.
    pub live: u64,
    /// Blobs kept because they are younger than the grace period.
    pub young: u64,
    /// Blobs removed (or, in a dry run, that would be).
    pub removed: u64,
    /// Stored bytes they took.
    pub removed_bytes: u64,
    /// Temporary files of crashed writers that were removed (or would be).
    pub temporary: u64,
}
