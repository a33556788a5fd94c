//! Files into a directory, all of them or noticeably not all.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};
use weir_blobs::{Blobs, GetError};
use weir_types::Hasher;

use crate::disk::{self, Directory, blocking};
use crate::{CheckoutError, Entry, Files, Mode, Path};

/// Writes `files` into `directory`, which is made if it is not there and must be empty if it is. Nothing is
/// written outside of it, whatever others do in it at the same time.
///
/// As long as not all files are there, a marker is: [`crate::changes_in`] refuses a directory with one, so that
/// what an interrupted checkout has not written is never taken for deleted. Files are not synced: a checkout is
/// a copy, and after a power cut it is made again.
///
/// # Errors
/// When the directory is not empty or cannot be written, or a content is not there or damaged. What was written
/// stays, with the marker.
///
/// # Cancel safety
/// Dropping the future leaves a part of the files, with the marker.
pub async fn checkout(
    files: &Files,
    directory: &std::path::Path,
    blobs: &dyn Blobs,
) -> Result<(), CheckoutError> {
    let root = prepare(directory.to_owned()).await?;
    for (path, entry) in files.iter() {
        let target =
            Target { root: Arc::clone(&root), path: path.clone(), shown: directory.join(path.as_str()) };
        write(&target, entry, blobs).await?;
    }
    let removed = blocking(move || root.remove_here(Path::MARKER)).await.flatten();
    removed.map_err(|source| CheckoutError::Write { path: directory.join(Path::MARKER), source })
}

/// Opens the directory, empty but for the marker.
async fn prepare(directory: PathBuf) -> Result<Arc<Directory>, CheckoutError> {
    let shown = directory.clone();
    let prepared = blocking(move || {
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let root = Directory::open(&directory)?;
        if root.names()?.next().transpose()?.is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        // Of two checkouts at once, one makes the marker.
        root.create_here(Path::MARKER, Mode::Regular)?;
        Ok(Arc::new(root))
    });
    prepared.await.flatten().map_err(|source| match source.kind() {
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
            CheckoutError::NotEmpty { directory: shown }
        }
        _ => CheckoutError::Write { path: shown, source },
    })
}

/// Where one file goes.
struct Target {
    root: Arc<Directory>,
    path: Path,
    /// The whole path, for messages only.
    shown: PathBuf,
}

impl Target {
    fn failed(&self, source: io::Error) -> CheckoutError {
        if disk::is_replaced(&source) {
            CheckoutError::InTheWay { path: self.shown.clone() }
        } else {
            CheckoutError::Write { path: self.shown.clone(), source }
        }
    }
}

async fn write(target: &Target, entry: &Entry, blobs: &dyn Blobs) -> Result<(), CheckoutError> {
    let lost = |source| CheckoutError::Blob { path: target.path.clone(), source };
    let content = blobs.get(entry.hash).await.map_err(lost)?;
    // One byte more is enough to see that it is not the right content.
    let mut content = content.take(entry.size.saturating_add(1));

    let (root, path, mode) = (Arc::clone(&target.root), target.path.clone(), entry.mode);
    let file = blocking(move || root.create(&path, mode)).await.flatten();
    let mut copy =
        Copy { file: file.map_err(|error| target.failed(error))?, hasher: Hasher::default(), bytes: 0 };
    loop {
        let chunk = next_chunk(&mut content).await;
        let chunk = chunk.map_err(|error| lost(GetError::from_reader(entry.hash, error)))?;
        if chunk.is_empty() {
            break;
        }
        copy = blocking(move || copy.add(&chunk)).await.flatten().map_err(|error| target.failed(error))?;
    }
    if copy.bytes != entry.size || copy.hasher.finish() != entry.hash {
        return Err(CheckoutError::Mismatch { path: target.path.clone(), hash: entry.hash });
    }
    Ok(())
}

/// A content of which a part has been written.
struct Copy {
    file: File,
    hasher: Hasher,
    bytes: u64,
}

impl Copy {
    fn add(mut self, chunk: &[u8]) -> io::Result<Self> {
        self.file.write_all(chunk)?;
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        Ok(self)
    }
}

/// As much as there is, up to the size of a chunk: a small file is one trip to a blocking thread.
async fn next_chunk(content: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut chunk = Vec::new();
    content.take(disk::CHUNK_BYTES as u64).read_to_end(&mut chunk).await?;
    Ok(chunk)
}
