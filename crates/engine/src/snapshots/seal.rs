//! The key that seals snapshots, and the file it is kept in.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use weir_journal::{Snapshot, mint};

/// The length of a key, and of a seal.
const KEY_BYTES: usize = 32;

/// What a sealed state begins with. No state of an older version does: those are JSON.
const PREFIX: &[u8; 8] = b"\0seal:1\0";

/// Seals snapshots with HMAC-SHA256, so that the engine only believes its own. The key belongs to a data directory and is not
/// part of its backups and exports: there, snapshots count as unsealed and are made anew.
#[derive(Clone)]
pub struct SnapshotSeal(Arc<[u8; KEY_BYTES]>);

/// What the seal of a stored snapshot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsealed {
    /// The snapshot is ours: its state.
    Fits(Bytes),
    /// An older version stored it, without a seal.
    Absent,
    /// The seal is not one of this key over this snapshot.
    Differs,
}

impl SnapshotSeal {
    /// A seal with a new key that is kept nowhere: snapshots last as long as this value and its clones.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn in_memory() -> io::Result<Self> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(Arc::new(key)))
    }

    /// Reads the key at `path`. A missing or damaged file is replaced by one with a new key, readable by this user alone.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(seal) = Self::read(path)? {
            return Ok(seal);
        }
        let fresh = Self::in_memory()?;
        fresh.write(path)?;
        // Another process may have written its key at the same moment: the one that has the name counts for both.
        Ok(Self::read(path)?.unwrap_or(fresh))
    }

    /// The key in a file; nothing, if there is none or it is none of ours.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let mut file = match OpenOptions::new().read(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let mut key = [0; KEY_BYTES];
        if !metadata.is_file() || metadata.len() != KEY_BYTES as u64 {
            fs::remove_file(path)?;
            return Ok(None);
        }
        file.read_exact(&mut key)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        Ok(Some(Self(Arc::new(key))))
    }

    /// Gives the key its name, unless another process was faster.
    fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        if !directory.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let unnamed = path.with_extension(format!("{}.part", mint()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed)?;
        let linked = file
            .write_all(&*self.0)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::hard_link(&unnamed, path))
            .and_then(|()| File::open(directory)?.sync_all());
        fs::remove_file(&unnamed)?;
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    }

    /// The snapshot with its seal in front of its state, as it is stored.
    pub fn sealed(&self, snapshot: Snapshot) -> Snapshot {
        let tag = self.tag(&snapshot, &snapshot.state).finalize().into_bytes();
        let state = [PREFIX.as_slice(), tag.as_slice(), &snapshot.state].concat();
        Snapshot { state: state.into(), ..snapshot }
    }

    /// The state of a stored snapshot, if its seal fits.
    pub(crate) fn open_snapshot(&self, stored: &Snapshot) -> Unsealed {
        let Some(sealed) = stored.state.strip_prefix(PREFIX) else { return Unsealed::Absent };
        let Some((tag, state)) = sealed.split_at_checked(KEY_BYTES) else { return Unsealed::Differs };
        match self.tag(stored, state).verify_slice(tag) {
            Ok(()) => Unsealed::Fits(stored.state.slice(PREFIX.len() + KEY_BYTES..)),
            Err(_) => Unsealed::Differs,
        }
    }

    /// The code over everything that says what a state is the state of. Each part is preceded by its length.
    fn tag(&self, snapshot: &Snapshot, state: &[u8]) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("any key will do");
        let Snapshot { branch, seq, chain, fold, .. } = snapshot;
        let parts: [&[u8]; 7] = [
            branch.stream.as_str().as_bytes(),
            branch.branch.as_str().as_bytes(),
            &seq.0.to_be_bytes(),
            chain.as_bytes(),
            fold.fold.as_bytes(),
            &fold.version.to_be_bytes(),
            state,
        ];
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for SnapshotSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnapshotSeal(…)")
    }
}

#[cfg(test)]
mod tests {
    use weir_journal::FoldVersion;
    use weir_types::{BranchId, Hash, Seq};

    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            branch: BranchId::main("notes".parse().unwrap()),
            seq: Seq(7),
            chain: Hash::of(b"chain"),
            fold: FoldVersion { fold: "session".to_owned(), version: 4 },
            state: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn a_seal_fits_its_snapshot_and_no_other() {
        let seal = SnapshotSeal::in_memory().unwrap();
        let stored = seal.sealed(snapshot());
        assert_eq!(seal.open_snapshot(&stored), Unsealed::Fits(Bytes::from_static(b"{}")));
        assert_eq!(seal.open_snapshot(&snapshot()), Unsealed::Absent);
        assert_eq!(SnapshotSeal::in_memory().unwrap().open_snapshot(&stored), Unsealed::Differs);
        let fold = |fold: &str, version| FoldVersion { fold: fold.to_owned(), version };
        let others = [
            Snapshot { branch: BranchId::main("other".parse().unwrap()), ..stored.clone() },
            Snapshot { seq: Seq(8), ..stored.clone() },
            Snapshot { chain: Hash::ZERO, ..stored.clone() },
            Snapshot { fold: fold("purse", 4), ..stored.clone() },
            Snapshot { fold: fold("session", 5), ..stored.clone() },
        ];
        for other in others {
            assert_eq!(seal.open_snapshot(&other), Unsealed::Differs, "{other:?}");
        }
        for at in PREFIX.len()..stored.state.len() {
            let mut state = stored.state.to_vec();
            state[at] ^= 1;
            let flipped = Snapshot { state: state.into(), ..stored.clone() };
            assert_eq!(seal.open_snapshot(&flipped), Unsealed::Differs, "byte {at}");
        }
        for length in PREFIX.len()..stored.state.len() {
            let cut = Snapshot { state: stored.state.slice(..length), ..stored.clone() };
            assert_eq!(seal.open_snapshot(&cut), Unsealed::Differs, "cut at {length}");
        }
    }

    #[test]
    fn the_key_is_made_once_kept_private_and_replaced_when_it_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data/key");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let stored = SnapshotSeal::open(&path).unwrap().sealed(snapshot());
        let fits = || SnapshotSeal::open(&path).unwrap().open_snapshot(&stored) != Unsealed::Differs;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(fits());
        assert_eq!(mode(&path), 0o600, "a key that others could read is narrowed");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        fs::write(&path, "short").unwrap();
        assert!(!fits());
        assert_eq!(fs::metadata(&path).unwrap().len(), 32);
        fs::remove_file(&path).unwrap();
        assert!(!fits());
    }

    #[test]
    fn processes_that_make_the_key_at_the_same_moment_agree() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let open = || SnapshotSeal::open(&path).unwrap();
        let seals: Vec<SnapshotSeal> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seals.iter().all(|seal| seal.0 == seals[0].0));
    }
}
