//! Collecting garbage while writers write.
//!
//! INVARIANT: a blob is unlinked only under its shard's exclusive lock, after its age and its references were checked
//! under that same lock. A writer of the same content holds the lock shared while it refreshes or replaces the file,
//! so it comes either before (the file is young, and kept) or after (it finds no file, and moves its own there). Who
//! appends an event holds the same lock shared, as a lease, from before it looks for the blob until the event is durable.
//!
//! How old a blob is, the file system says: its time of modification against that of a file made when the sweep begins. The
//! clock of this process, or of the one that put the blob, may be days off.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use weir_types::Hash;

use super::blocking;
use super::shard::{Layout, Lock, Shard};
use super::upload::Temporary;
use crate::{Live, Sweep, SweepError, Swept};

pub(super) async fn sweep(layout: &Arc<Layout>, live: &dyn Live, sweep: Sweep) -> Result<Swept, SweepError> {
    let mut swept = Swept::default();
    let layout_of_probe = Arc::clone(layout);
    let Some(now) = run(layout.root(), move || Temporary::time(&layout_of_probe)).await? else {
        return Ok(swept);
    };
    let sweep = Timed { now, sweep };
    for number in 0..=u8::MAX {
        let shard = layout.shard(number);
        let (candidates, young) = run(&shard.path, {
            let shard = shard.clone();
            move || scan(&shard, sweep)
        })
        .await?;
        swept.young += young;
        for hash in candidates {
            let outcome = consider(&shard, layout.path(hash), hash, live, sweep).await?;
            swept.count(outcome);
        }
    }
    swept.seen = swept.live + swept.young + swept.removed;
    let directory = layout.temporary();
    swept.temporary = run(&directory, {
        let directory = directory.clone();
        move || sweep_temporary(&directory, sweep)
    })
    .await?;
    Ok(swept)
}

/// A sweep, and what time it was by the file system's clock when it began.
#[derive(Clone, Copy, Debug)]
struct Timed {
    now: SystemTime,
    sweep: Sweep,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Live,
    Young,
    Removed {
        stored_bytes: u64,
    },
    /// Another collector was faster.
    Gone,
}

impl Swept {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Live => self.live += 1,
            Outcome::Young => self.young += 1,
            Outcome::Removed { stored_bytes } => {
                self.removed += 1;
                self.removed_bytes += stored_bytes;
            }
            Outcome::Gone => {}
        }
    }
}

/// The blobs of a shard that are old enough to be garbage, and the number of those that are not. Taken without a
/// lock, so that writers wait only for what is likely to go.
fn scan(shard: &Shard, sweep: Timed) -> io::Result<(Vec<Hash>, u64)> {
    let (mut candidates, mut young) = (Vec::new(), 0);
    for entry in entries(&shard.path)? {
        let entry = entry?;
        let Some(hash) = shard.hash_of(&entry.file_name()) else { continue };
        if !entry.file_type()?.is_file() {
            continue;
        }
        match age(&entry.path(), sweep)? {
            Age::Old { .. } => candidates.push(hash),
            Age::Young => young += 1,
            Age::Gone => {}
        }
    }
    Ok((candidates, young))
}

/// Decides about one candidate, and removes it if nothing speaks for it.
async fn consider(
    shard: &Shard,
    path: PathBuf,
    hash: Hash,
    live: &dyn Live,
    sweep: Timed,
) -> Result<Outcome, SweepError> {
    let examined = run(&shard.path, {
        let (shard, path) = (shard.clone(), path.clone());
        move || examine(&shard, &path, sweep)
    });
    let (lock, stored_bytes) = match examined.await? {
        (lock, Age::Old { stored_bytes }) => (lock, stored_bytes),
        (_, Age::Young) => return Ok(Outcome::Young),
        (_, Age::Gone) => return Ok(Outcome::Gone),
    };
    if live.is_live(hash).await.map_err(|source| SweepError::Live { hash, source })? {
        return Ok(Outcome::Live);
    }
    if let Some(lock) = lock {
        // The lock goes along: were this future dropped now, the file would still go before the lock does.
        run(&path.clone(), move || remove(&path, lock)).await?;
    }
    Ok(Outcome::Removed { stored_bytes })
}

/// Locks the shard, then looks at the age again: the blob may have been put since the scan. A dry run takes no lock,
/// because it has nothing to do under it.
///
/// A shard that writers lease all the time is left alone: what is in it counts as young.
fn examine(shard: &Shard, path: &Path, sweep: Timed) -> io::Result<(Option<Lock>, Age)> {
    if sweep.sweep.dry_run {
        return Ok((None, age(path, sweep)?));
    }
    match shard.lock_exclusive()? {
        Some(lock) => Ok((Some(lock), age(path, sweep)?)),
        None => Ok((None, Age::Young)),
    }
}

fn remove(path: &Path, lock: Lock) -> io::Result<()> {
    fs::remove_file(path)?;
    // A blob that comes back after a power cut is garbage again; its directory needs no sync.
    drop(lock);
    Ok(())
}

/// How long ago a file was put, as far as a sweep cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Old { stored_bytes: u64 },
    Young,
    Gone,
}

fn age(path: &Path, Timed { now, sweep }: Timed) -> io::Result<Age> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Age::Gone),
        Err(error) => return Err(error),
    };
    // A time in the future: put since the sweep began, or copied here with a time of its own. We cannot tell how old the file is, so it is young.
    match now.duration_since(metadata.modified()?) {
        Ok(age) if age >= sweep.grace => Ok(Age::Old { stored_bytes: metadata.len() }),
        Ok(_) | Err(_) => Ok(Age::Young),
    }
}

/// Removes what crashed writers left; answers with the number of files.
fn sweep_temporary(directory: &Path, sweep: Timed) -> io::Result<u64> {
    let mut removed = 0;
    for entry in entries(directory)? {
        let entry = entry?;
        if !Temporary::is_name(&entry.file_name()) || !entry.file_type()?.is_file() {
            continue;
        }
        let is_old = matches!(age(&entry.path(), sweep)?, Age::Old { .. });
        if is_old && is_abandoned(&entry.path())? {
            removed += 1;
            if !sweep.sweep.dry_run {
                ignore_missing(fs::remove_file(entry.path()))?;
            }
        }
    }
    Ok(removed)
}

/// Whether the writer of a temporary file is gone: it would hold the lock on it.
fn is_abandoned(path: &Path) -> io::Result<bool> {
    match fs::File::open(path) {
        Ok(file) => Ok(file.try_lock().is_ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The entries of a directory; none if it is not there or is no directory of ours.
fn entries(path: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(path) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None.into_iter().flatten())
        }
        Err(error) => Err(error),
    }
}

async fn run<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SweepError> {
    let done = blocking(work).await.and_then(|done| done);
    done.map_err(|source| SweepError::Storage { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::{Blobs, DirBlobs};

    struct NothingIsLive;

    impl Live for NothingIsLive {
        fn is_live(&self, _: Hash) -> BoxFuture<'_, Result<bool, Box<dyn std::error::Error + Send + Sync>>> {
            Box::pin(async { Ok(false) })
        }
    }

    #[tokio::test]
    async fn a_blob_put_again_after_the_scan_is_kept() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = DirBlobs::open(root.path().to_owned()).expect("a store");
        let blobs: &dyn Blobs = &dir;
        let stored = blobs.put_bytes("again".into()).await.expect("stored");
        let path = dir.path(stored.hash);
        let old = SystemTime::now() - 2 * Sweep::GRACE;
        fs::File::open(&path).expect("a file").set_modified(old).expect("backdated");

        let sweep = Timed { now: SystemTime::now(), sweep: Sweep { grace: Sweep::GRACE, dry_run: false } };
        let shard = dir.layout.shard_of(stored.hash);
        let consider = || consider(&shard, path.clone(), stored.hash, &NothingIsLive, sweep);
        assert_eq!(scan(&shard, sweep).expect("scanned"), (vec![stored.hash], 0));
        blobs.put_bytes("again".into()).await.expect("stored");
        assert_eq!(consider().await.expect("considered"), Outcome::Young);
        assert!(path.exists());

        fs::remove_file(&path).expect("removed by another collector");
        assert_eq!(consider().await.expect("considered"), Outcome::Gone);
    }
}
