//! The directory of one job: all that its command may write, removed when it is over.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::tree;

/// How rooms are recognised.
const PREFIX: &str = "weir-room-";

/// Whoever holds its lock owns the room; it is let go when a process dies, however it dies.
const LOCK: &str = "lock";

const FILES: &str = "files";
const HOME: &str = "home";
const TEMPORARY: &str = "tmp";
const SHARED: &str = "shm";

/// Most rooms of the dead that are removed at once. The rest is for the next start.
const SWEPT_MAX: usize = 1000;

/// The directory of one job. Dropped, it is removed.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
    _owned: File,
}

impl Room {
    pub(super) fn make(directory: &Path) -> io::Result<Self> {
        // It keeps other users out, whatever modes a command gives to what is in it.
        let owner_only = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix(PREFIX).permissions(owner_only).tempdir_in(directory)?;
        let owned = File::create(made.path().join(LOCK))?;
        owned.lock()?;
        for inner in [FILES, HOME, TEMPORARY, SHARED] {
            std::fs::create_dir(made.path().join(inner))?;
        }
        Ok(Self { path: made.keep().canonicalize()?, _owned: owned })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where commands run.
    pub fn files(&self) -> PathBuf {
        self.path.join(FILES)
    }

    /// What commands have for a home.
    pub fn home(&self) -> PathBuf {
        self.path.join(HOME)
    }

    /// Where commands put temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.path.join(TEMPORARY)
    }

    /// What commands have for shared memory.
    pub fn shared(&self) -> PathBuf {
        self.path.join(SHARED)
    }

    /// Removes it through the directory that it is in, which was opened before everything became read-only for this process. Blocks.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing becomes read-only"))]
    pub(super) fn remove_through(mut self, directory: &File) {
        let path = std::mem::take(&mut self.path);
        if let Some(name) = path.file_name() {
            let opened = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(directory));
            remove(&Path::new(&opened).join(name));
        }
    }

    /// Removes it, and waits until it is gone.
    pub async fn remove(mut self) {
        let path = std::mem::take(&mut self.path);
        // What cannot be removed now is swept later; a call does not fail for it.
        let _ = tokio::task::spawn_blocking(move || remove(&path)).await;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        if path.as_os_str().is_empty() {
            return;
        }
        // A runtime must not wait for the disk. One that is about to end may not get to it: then it is swept later.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || remove(&path))),
            Err(_) => remove(&path),
        }
    }
}

fn remove(path: &Path) {
    let _ = tree::empty(path);
    let _ = std::fs::remove_dir(path);
}

/// Removes rooms whose owners are dead. Others' rooms are left alone.
pub(super) fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let rooms = entries.filter_map(Result::ok).map(|entry| entry.path());
    let rooms = rooms.filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    });
    for path in rooms.take(SWEPT_MAX) {
        if is_ours(&path) && is_abandoned(&path) {
            remove(&path);
        }
    }
}

/// A directory of this user, and not a link to one.
fn is_ours(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user)
}

fn is_abandoned(path: &Path) -> bool {
    match File::open(path.join(LOCK)) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        // Without a lock, it is being made or being removed: by nobody any more, if it is old.
        Err(_) => is_old(path),
    }
}

fn is_old(path: &Path) -> bool {
    const OLD: std::time::Duration = std::time::Duration::from_secs(600);
    let changed = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > OLD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_of_the_living_stay_and_those_of_the_dead_go() {
        let directory = tempfile::tempdir().unwrap();
        let rooms = || std::fs::read_dir(directory.path()).unwrap().count();
        let living = Room::make(directory.path()).unwrap();
        let dead = directory.path().join(format!("{PREFIX}dead"));
        std::fs::create_dir_all(dead.join("files/a")).unwrap();
        File::create(dead.join(LOCK)).unwrap();
        std::fs::create_dir(directory.path().join(format!("{PREFIX}being-made"))).unwrap();
        std::fs::create_dir(directory.path().join("other")).unwrap();
        std::os::unix::fs::symlink("other", directory.path().join(format!("{PREFIX}link"))).unwrap();
        assert_eq!(rooms(), 5);
        sweep(directory.path());
        assert!(living.files().exists() && !dead.exists());
        assert_eq!(rooms(), 4);
        drop(living);
        assert_eq!(rooms(), 3);
    }
}
