//! Where things are: the root, its 256 shards, and the locks between writers and the collector.

use std::collections::{BTreeSet, HashMap};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use weir_types::Hash;

use super::sync_dir;
use crate::Lease;

/// How long a collector waits for the leases of a shard to end. A shard that is always leased is swept another time.
const LEASES_MAX: Duration = Duration::from_millis(500);

/// How often it looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The directories of a store.
pub(super) struct Layout {
    root: PathBuf,
    /// Shards whose entry in the root this process has synced: it may have been made by one that crashed before it
    /// did.
    durable: [AtomicBool; 256],
    /// The shards that leases of this process hold, each with one lock, however many leases there are.
    leased: Mutex<HashMap<u8, Weak<Lock>>>,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, durable: [const { AtomicBool::new(false) }; 256], leased: Mutex::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where content is written before it has a name.
    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(super) fn shard(&self, number: u8) -> Shard {
        Shard { number, path: self.root.join(format!("{number:02x}")) }
    }

    pub(super) fn shard_of(&self, hash: Hash) -> Shard {
        self.shard(hash.as_bytes()[0])
    }

    pub(super) fn path(&self, hash: Hash) -> PathBuf {
        self.shard_of(hash).path.join(&hash.to_string()[2..])
    }

    /// Keeps collectors away from the shards of these blobs, and says which blobs are not there.
    pub(super) fn hold(&self, hashes: &[Hash]) -> io::Result<Lease> {
        // In order, and each but shared: nobody waits for another who waits.
        let shards: BTreeSet<u8> = hashes.iter().map(|hash| hash.as_bytes()[0]).collect();
        let mut held: Vec<Box<dyn std::any::Any + Send + Sync>> = Vec::with_capacity(shards.len());
        for number in shards {
            held.push(Box::new(self.lease(number)?));
        }
        let mut missing = Vec::new();
        for hash in hashes {
            if !self.path(*hash).try_exists()? {
                missing.push(*hash);
            }
        }
        Ok(Lease::new(missing, held))
    }

    fn lease(&self, number: u8) -> io::Result<Arc<Lock>> {
        let leased = || self.leased.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = leased().get(&number).and_then(Weak::upgrade) {
            return Ok(lock);
        }
        let shard = self.shard(number);
        self.prepare(&shard)?;
        let lock = Arc::new(shard.lock_shared()?);
        leased().insert(number, Arc::downgrade(&lock));
        Ok(lock)
    }

    /// Creates the shard's directory, durably.
    pub(super) fn prepare(&self, shard: &Shard) -> io::Result<()> {
        let durable = &self.durable[usize::from(shard.number)];
        let created = create_dir(&shard.path)?;
        if created || !durable.load(Ordering::Acquire) {
            sync_dir(&self.root)?;
            durable.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// One of the 256 directories that blobs are spread over, by the first byte of their hash.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    number: u8,
    pub(super) path: PathBuf,
}

/// Held while this value lives, by this process, across threads and awaits.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Shard {
    /// The blob that a directory entry of this shard holds; `None` if it is no file of ours.
    pub(super) fn hash_of(&self, entry: &std::ffi::OsStr) -> Option<Hash> {
        let name = format!("{:02x}{}", self.number, entry.to_str()?);
        let hash: Hash = name.parse().ok()?;
        // Parsing accepts upper case, which we never write.
        (hash.to_string() == name).then_some(hash)
    }

    /// Waits until no collector works on this shard. Many writers hold it at once.
    pub(super) fn lock_shared(&self) -> io::Result<Lock> {
        self.lock(File::lock_shared)
    }

    /// Waits a while until nobody else holds it; nothing, if somebody still does.
    pub(super) fn lock_exclusive(&self) -> io::Result<Option<Lock>> {
        let began = Instant::now();
        let file = self.lock_file()?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Lock { _file: file })),
                Err(TryLockError::WouldBlock) if began.elapsed() < LEASES_MAX => {
                    std::thread::sleep(LOOK_EVERY);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn lock_file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(self.path.join(".lock"))
    }

    fn lock(&self, take: impl Fn(&File) -> io::Result<()>) -> io::Result<Lock> {
        let file = self.lock_file()?;
        loop {
            match take(&file) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Creates a directory for this user alone; says whether it was missing.
pub(super) fn create_dir(path: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates a directory and what is missing above it, durably.
pub(super) fn create_dir_all(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    if !parent.is_dir() {
        create_dir_all(parent)?;
    }
    if !create_dir(path)? && !path.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    sync_dir(parent)
}
