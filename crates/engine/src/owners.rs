//! Which processes are alive. A session belongs to the process that runs it; when that process is gone, anybody may
//! take the session over, and nobody before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use rustix::fs::FlockOperation;
use weir_journal::mint_owner;
use weir_types::OwnerId;

/// What the file of a process is called before it is locked, in front of its id.
const UNNAMED: &str = "new-";

/// Most files that one process looks at when it begins.
const LOOKED_AT_MAX: usize = 1_000;

/// Tells the living from the dead.
pub trait Owners: Send + Sync + 'static {
    /// This process.
    fn me(&self) -> OwnerId;

    /// Whether that process lives.
    ///
    /// # Errors
    /// When it cannot be found out; then it must be taken for alive.
    fn standing(&self, owner: OwnerId) -> BoxFuture<'_, io::Result<Standing>>;
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Alive {
        /// Its number, if it is on this machine.
        pid: Option<u32>,
    },
    /// It does not, and never will again.
    Dead,
}

/// Every process holds an exclusive lock on `owners/<id>` for its life; the kernel lets go of it in any kind of death.
#[derive(Debug)]
pub struct LockFiles {
    directory: PathBuf,
    me: OwnerId,
    /// Closed with the process, and with it the lock.
    _lock: File,
}

impl LockFiles {
    /// Registers this process, and clears away what dead ones have left. Makes the directory if need be.
    ///
    /// # Errors
    /// When the file cannot be made or locked.
    pub fn register(directory: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        clear_away(directory);
        let me = mint_owner();
        // It has its name only once it is locked: nobody can take it for a dead one's in between.
        let unnamed = directory.join(format!("{UNNAMED}{me}"));
        // The standard library opens files close-on-exec: a child does not keep its parent alive.
        let mut lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        write!(lock, "{}", std::process::id())?;
        fs::rename(&unnamed, directory.join(me.to_string()))?;
        Ok(Self { directory: directory.to_owned(), me, _lock: lock })
    }
}

impl Owners for LockFiles {
    fn me(&self) -> OwnerId {
        self.me
    }

    fn standing(&self, owner: OwnerId) -> BoxFuture<'_, io::Result<Standing>> {
        let (path, me) = (self.directory.join(owner.to_string()), self.me);
        Box::pin(async move {
            if owner == me {
                return Ok(Standing::Alive { pid: Some(std::process::id()) });
            }
            tokio::task::spawn_blocking(move || look(&path)).await.map_err(io::Error::other)?
        })
    }
}

/// Removes the files of dead processes. Whoever cannot be looked at is left alone.
fn clear_away(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(LOOKED_AT_MAX);
    for entry in entries {
        if entry.file_name().to_str().is_some_and(|name| name.parse::<OwnerId>().is_ok()) {
            let _ = look(&entry.path());
        }
    }
}

fn look(path: &Path) -> io::Result<Standing> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        // Removed by its owner on the way out, or by whoever found it dead. Ids are never used again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Dead),
        Err(error) => return Err(error),
    };
    // Shared, so that two who look at the same moment do not take one another for the owner.
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = fs::remove_file(path);
            Ok(Standing::Dead)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            Ok(Standing::Alive { pid: pid.parse().ok() })
        }
        Err(error) => Err(error.into()),
    }
}

impl Drop for LockFiles {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.directory.join(self.me.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_lives_as_long_as_it_holds_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) =
            (LockFiles::register(directory.path()).unwrap(), LockFiles::register(directory.path()).unwrap());
        let alive = Standing::Alive { pid: Some(std::process::id()) };
        assert_eq!(one.standing(two.me()).await.unwrap(), alive);
        assert_eq!(two.standing(two.me()).await.unwrap(), alive);
        let gone = two.me();
        drop(two);
        assert_eq!(one.standing(gone).await.unwrap(), Standing::Dead);
        // A killed process leaves its file behind, unlocked.
        let killed = mint_owner();
        fs::write(directory.path().join(killed.to_string()), "4194304").unwrap();
        assert_eq!(one.standing(killed).await.unwrap(), Standing::Dead);
        assert!(!directory.path().join(killed.to_string()).exists());
        assert_eq!(one.standing(mint_owner()).await.unwrap(), Standing::Dead);
        // Whoever comes next clears away what the dead have left, and nothing else.
        fs::write(directory.path().join(killed.to_string()), "4194304").unwrap();
        fs::write(directory.path().join("notes.txt"), "mine").unwrap();
        let three = LockFiles::register(directory.path()).unwrap();
        let mut left: Vec<String> = (fs::read_dir(directory.path()).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [one.me().to_string(), three.me().to_string(), "notes.txt".to_owned()]);
    }
}
