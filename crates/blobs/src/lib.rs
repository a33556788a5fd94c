//! Content-addressed blobs, behind a port: content in, name out; name in, the same content out or an error.
//!
//! [`Blobs`] is the port. [`DirBlobs`] keeps blobs in a local directory, for any number of processes at once;
//! [`MemoryBlobs`] keeps them for the life of a test. Both run all of the suite in `conformance`, and so does any
//! store that joins them.
//!
//! What this crate leaves to others: who may read a blob, and which blobs are in use. The second is asked through
//! [`Live`] when garbage is collected.
//!
//! ```
//! use weir_blobs::{Blobs, DirBlobs, GetError};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let blobs: &dyn Blobs = &DirBlobs::open(directory.path().join("blobs"))?;
//!
//! let stored = blobs.put_bytes("a low dam".into()).await?;
//! assert_eq!(stored.hash, weir_types::Hash::of(b"a low dam"));
//! assert_eq!(blobs.get_bytes(stored.hash, 1024).await?, "a low dam");
//! assert_eq!(blobs.stat(stored.hash).await?, Some(stored));
//!
//! let absent = weir_types::Hash::of(b"never stored");
//! assert!(matches!(blobs.get_bytes(absent, 1024).await, Err(GetError::Missing(_))));
//! # Ok(())
//! # }
//! ```

mod port;

mod dir;
mod error;
mod memory;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use dir::DirBlobs;
pub use error::{GetError, PutError, SweepError};
pub use memory::MemoryBlobs;
pub use port::{Blobs, Lease, Live, Reader, Source, Stored, Sweep, Swept};

/// Content moves in pieces of this size: large enough to make a hop to a blocking thread cheap, small enough that
/// hundreds of transfers at once are no burden.
const CHUNK_BYTES: usize = 256 * 1024;
