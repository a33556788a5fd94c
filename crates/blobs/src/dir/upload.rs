//! Content on its way in: hashed and compressed into a temporary file, then moved to the name its hash gives it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use weir_types::Hasher;
use zstd::stream::write::Encoder;

use super::format::{LEVEL, Trailer, WINDOW_LOG};
use super::shard::{Layout, create_dir};
use super::sync_dir;
use crate::{CHUNK_BYTES, PutError, Stored};

/// Content of which a part has arrived. Dropped before it is committed, it leaves nothing behind.
pub(super) struct Upload {
    encoder: Encoder<'static, Frame>,
    content: Hasher,
    bytes: u64,
    temporary: Temporary,
}

impl Upload {
    pub(super) fn create(layout: &Layout) -> Result<Self, PutError> {
        let directory = layout.temporary();
        create_dir(&directory).map_err(at(&directory))?;
        let (temporary, file) = Temporary::create(&directory).map_err(at(&directory))?;
        let frame = Frame { file, digest: Hasher::default(), bytes: 0 };
        let encoder = new_encoder(frame).map_err(at(&temporary.path))?;
        Ok(Self { encoder, content: Hasher::default(), bytes: 0, temporary })
    }

    pub(super) fn write(&mut self, chunk: &[u8]) -> Result<(), PutError> {
        self.content.update(chunk);
        self.bytes += chunk.len() as u64;
        self.encoder.write_all(chunk).map_err(at(&self.temporary.path))
    }

    /// Gives the content its name, durably.
    pub(super) fn commit(self, layout: &Layout) -> Result<Stored, PutError> {
        let Self { encoder, content, bytes, temporary } = self;
        let hash = content.finish();
        let (file, stored_bytes) =
            finish(encoder, |frame| Trailer::new(bytes, frame).encode(hash)).map_err(at(&temporary.path))?;

        let shard = layout.shard_of(hash);
        layout.prepare(&shard).map_err(at(&shard.path))?;
        let target = layout.path(hash);
        let lock = shard.lock_shared().map_err(at(&shard.path))?;
        if !refresh(&target, &file) {
            replace(&target, &file, &temporary.path).map_err(at(&target))?;
        }
        // Also when the file was there already: who put it may not have got here yet.
        sync_dir(&shard.path).map_err(at(&shard.path))?;
        drop(lock);
        Ok(Stored { hash, bytes, stored_bytes })
    }
}

fn new_encoder(frame: Frame) -> io::Result<Encoder<'static, Frame>> {
    let mut encoder = Encoder::new(frame, LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    Ok(encoder)
}

/// Ends the frame and adds the trailer; answers with the file and its length.
fn finish(
    encoder: Encoder<'static, Frame>,
    trailer: impl FnOnce(Hasher) -> [u8; Trailer::BYTES],
) -> io::Result<(File, u64)> {
    let Frame { mut file, digest, bytes } = encoder.finish()?;
    file.write_all(&trailer(digest))?;
    Ok((file, bytes + Trailer::BYTES as u64))
}

/// Whether `target` is the same as the `fresh` file, byte for byte, and could be marked as put now. Anything that
/// stands in the way (no such file, damage, not ours to touch) is a reason to put the fresh file in its place.
fn refresh(target: &Path, fresh: &File) -> bool {
    let refreshed = || -> io::Result<bool> {
        let existing = File::open(target)?;
        if !same_content(&existing, fresh)? {
            return Ok(false);
        }
        mark_as_new(&existing)?;
        // It may have been copied here by a tool that does not sync.
        existing.sync_all()?;
        Ok(true)
    };
    refreshed().unwrap_or(false)
}

/// Sets the time of modification to what the file system's clock says, which is what a sweep compares it with.
fn mark_as_new(file: &File) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now, last_modification: now })?)
}

fn same_content(one: &File, other: &File) -> io::Result<bool> {
    let (metadata, bytes) = (one.metadata()?, other.metadata()?.len());
    if !metadata.is_file() || metadata.len() != bytes {
        return Ok(false);
    }
    let mut buffers = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut offset = 0;
    while offset < bytes {
        let length = (CHUNK_BYTES as u64).min(bytes - offset) as usize;
        let (left, right) = (&mut buffers.0[..length], &mut buffers.1[..length]);
        one.read_exact_at(left, offset)?;
        other.read_exact_at(right, offset)?;
        if left != right {
            return Ok(false);
        }
        offset += length as u64;
    }
    Ok(true)
}

/// Moves the fresh file to its name, complete and synced. Its age starts now, under the lock, however long the content
/// took to arrive. Syncing under the lock keeps only a collector waiting, and spares the copy of what is there already.
fn replace(target: &Path, fresh: &File, from: &Path) -> io::Result<()> {
    mark_as_new(fresh)?;
    fresh.sync_all()?;
    fs::rename(from, target)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PutError {
    move |source| PutError::Storage { path: path.to_owned(), source }
}

/// The compressed bytes, digested on their way into the file.
struct Frame {
    file: File,
    digest: Hasher,
    bytes: u64,
}

impl Write for Frame {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The name of a temporary file, removed when this is dropped. After the file has moved to its place there is
/// nothing of that name any more: names are never used twice.
pub(super) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// A new file in `directory`, locked by us for as long as it is open: that tells the collector that its writer
    /// lives.
    fn create(directory: &Path) -> io::Result<(Self, File)> {
        loop {
            let path = directory.join(Self::name());
            let mut options = OpenOptions::new();
            let file = match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            let temporary = Self { path };
            file.lock()?;
            // A collector without a grace period may have removed it between the two steps.
            if file.metadata()?.nlink() > 0 {
                return Ok((temporary, file));
            }
        }
    }

    /// What time it is by the clock of the store's file system; nothing, if there is no store yet.
    pub(super) fn time(layout: &Layout) -> io::Result<Option<SystemTime>> {
        let directory = layout.temporary();
        match create_dir(&directory) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let (_probe, file) = Self::create(&directory)?;
        // A file system that keeps times lazily is asked to write one.
        mark_as_new(&file)?;
        Ok(Some(file.metadata()?.modified()?))
    }

    /// Unique among processes, even those that see themselves under the same id in two containers: time differs, and
    /// where it does not, creating the file fails and the counter moves on.
    fn name() -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{next}.part", std::process::id(), now.as_nanos())
    }

    /// Whether `name` is one of ours.
    pub(super) fn is_name(name: &std::ffi::OsStr) -> bool {
        let Some(numbers) = name.to_str().and_then(|name| name.strip_suffix(".part")) else { return false };
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        numbers.split('-').count() == 3 && numbers.split('-').all(is_number)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If this fails, a sweep removes the file when its grace is over.
        let _ = fs::remove_file(&self.path);
    }
}
