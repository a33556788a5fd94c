//! The disk that tests hold, and the one place where each operation meets the fault that is armed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::{Fault, IoFault, Loss, SyncCounts};
use crate::image::Image;
use crate::locks::{FileLocks, HandleId, Level};
use crate::platter::{Directory, FileId, Platter};
use crate::shm::SharedMemory;
use crate::vfs::Registration;

/// A disk in memory, registered with SQLite as a VFS. Clones are the same disk.
///
/// When the last clone is dropped the name is gone, and no new connection can be opened; connections that are open go
/// on working. The contents are freed when those are closed as well.
#[derive(Clone)]
pub struct Disk {
    registration: Arc<Registration>,
}

impl Disk {
    /// An empty disk.
    ///
    /// # Panics
    ///
    /// When SQLite cannot register another VFS, which takes a lack of memory.
    pub fn new() -> Self {
        Self::from_image(&Image::default())
    }

    /// The disk after power came back.
    ///
    /// # Panics
    ///
    /// As [`Disk::new`].
    pub fn from_image(image: &Image) -> Self {
        let state = State { platter: Platter::from_image(image), ..State::default() };
        Self { registration: Arc::new(Registration::new(Arc::new(Shared { state: Mutex::new(state) }))) }
    }

    /// The name to open connections with: `Connection::open_with_flags_and_vfs(path, flags, disk.vfs_name())`.
    pub fn vfs_name(&self) -> &str {
        self.registration.name()
    }

    /// How many writes, syncs, truncations and deletions there have been: the points at which something can happen.
    /// Those of temporary files are among them, as a full disk is full for them too.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Decides what happens next, in place of any fault that was armed before.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = Some(fault);
        state.fired = false;
    }

    /// Takes the fault back, for instance because somebody made room on the disk. Power that is gone stays gone.
    pub fn disarm(&self) {
        self.state().fault = None;
    }

    /// Whether the fault armed last has happened. What a process acknowledged while this was still `false`,
    /// asked *after* the acknowledgement, it acknowledged before the power went out.
    pub fn fired(&self) -> bool {
        self.state().fired
    }

    /// How many syncs SQLite has asked for.
    pub fn syncs(&self) -> SyncCounts {
        self.state().syncs
    }

    /// What the platter holds: now, or if the power went out, at that moment. The connections may still be open.
    pub fn image(&self, loss: Loss) -> Image {
        self.state().image(loss)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.registration.disk().state()
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Disk").field(&self.vfs_name()).finish()
    }
}

/// What the disk's clones and its open files have in common.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) platter: Platter,
    /// The platter as it was when the power went out.
    cut: Option<Platter>,
    operations: u64,
    fault: Option<Fault>,
    fired: bool,
    syncs: SyncCounts,
    pub(crate) locks: BTreeMap<FileId, FileLocks>,
    pub(crate) shared_memory: BTreeMap<FileId, SharedMemory>,
    handles_made: u64,
}

/// What a file is to SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Database,
    Wal,
    Other,
}

impl State {
    pub(crate) fn open(&mut self, file: FileId) -> HandleId {
        self.platter.open(file);
        self.handles_made += 1;
        HandleId(self.handles_made)
    }

    /// Closes a file, with all that its handle still holds.
    pub(crate) fn close(&mut self, file: FileId, handle: HandleId) {
        self.leave_shared_memory(file, handle);
        if let Some(locks) = self.locks.get_mut(&file) {
            locks.unlock(handle, Level::None);
        }
        self.platter.close(file);
    }

    pub(crate) fn leave_shared_memory(&mut self, file: FileId, handle: HandleId) {
        if self.shared_memory.get_mut(&file).is_some_and(|memory| memory.leave(handle)) {
            self.shared_memory.remove(&file);
        }
    }

    pub(crate) fn write(&mut self, file: FileId, offset: usize, data: &[u8]) -> Result<(), IoFault> {
        let outcome = self.operation();
        let stored = if outcome.is_ok() { data } else { &data[..data.len() / 2] };
        self.platter.write(file, offset, stored);
        outcome
    }

    pub(crate) fn truncate(&mut self, file: FileId, size: usize) -> Result<(), IoFault> {
        self.operation()?;
        self.platter.truncate(file, size);
        Ok(())
    }

    pub(crate) fn sync(&mut self, file: FileId, role: Role) -> Result<(), IoFault> {
        match role {
            Role::Database => self.syncs.database += 1,
            Role::Wal => self.syncs.wal += 1,
            Role::Other => self.syncs.other += 1,
        }
        let outcome = self.operation();
        match outcome {
            Ok(()) => self.platter.sync(file),
            Err(_) => self.platter.drop_pending(file),
        }
        outcome
    }

    pub(crate) fn delete(&mut self, name: &str, directory: Directory) -> Result<(), IoFault> {
        self.operation()?;
        self.platter.delete(name, directory);
        Ok(())
    }

    fn image(&self, loss: Loss) -> Image {
        self.cut.as_ref().unwrap_or(&self.platter).image(loss)
    }

    /// Counts an operation, before it takes place, and lets the fault happen if this is its moment.
    fn operation(&mut self) -> Result<(), IoFault> {
        let number = self.operations;
        self.operations += 1;
        let Some(fault) = self.fault.filter(|fault| fault.at() <= number) else { return Ok(()) };
        let first = !std::mem::replace(&mut self.fired, true);
        match fault {
            Fault::FailFrom { error, .. } => Err(error),
            Fault::FailOnce { error, .. } => {
                if first {
                    Err(error)
                } else {
                    Ok(())
                }
            }
            Fault::StopPersisting { .. } => {
                self.cut.get_or_insert_with(|| self.platter.clone());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_with_file(name: &str) -> (State, FileId) {
        let mut state = State::default();
        let file = state.platter.create(Some(name));
        (state, file)
    }

    fn files(state: &State, loss: Loss) -> Vec<(String, Vec<u8>)> {
        let image = state.image(loss);
        image.files().map(|(name, content)| (name.to_owned(), content.to_owned())).collect()
    }

    #[test]
    fn the_platter_stops_right_before_the_operation_of_the_cut() {
        let cut = |at| {
            let (mut state, file) = state_with_file("a");
            state.fault = Some(Fault::StopPersisting { at });
            state.write(file, 0, b"1").unwrap();
            state.sync(file, Role::Wal).unwrap();
            state.write(file, 1, b"2").unwrap();
            state.truncate(file, 1).unwrap();
            state.sync(file, Role::Wal).unwrap();
            state.delete("a", Directory::Synced).unwrap();
            let content = |loss| files(&state, loss).pop().map(|(_, content)| content);
            (content(Loss::Everything), content(Loss::Nothing), state.fired)
        };
        let some = |content: &[u8]| Some(content.to_vec());
        assert_eq!(cut(0), (None, some(b""), true));
        assert_eq!(cut(1), (None, some(b"1"), true));
        assert_eq!(cut(2), (some(b"1"), some(b"1"), true));
        assert_eq!(cut(3), (some(b"1"), some(b"12"), true));
        assert_eq!(cut(4), (some(b"1"), some(b"1"), true));
        assert_eq!(cut(5), (some(b"1"), some(b"1"), true));
        assert_eq!(cut(6), (None, None, false));
    }

    #[test]
    fn a_failed_sync_loses_what_it_was_called_for() {
        let (mut state, file) = state_with_file("a");
        state.sync(file, Role::Database).unwrap();
        state.write(file, 0, b"lost").unwrap();
        state.fault = Some(Fault::FailOnce { at: 0, error: IoFault::IoErr });
        assert_eq!(state.sync(file, Role::Database), Err(IoFault::IoErr));
        state.write(file, 4, b"kept").unwrap();
        assert_eq!(state.sync(file, Role::Database), Ok(()));
        assert_eq!(files(&state, Loss::Nothing), [("a".to_owned(), b"lostkept".to_vec())]);
        assert_eq!(files(&state, Loss::Everything), [("a".to_owned(), b"\0\0\0\0kept".to_vec())]);
        assert_eq!(state.syncs, SyncCounts { database: 3, wal: 0, other: 0 });
    }

    #[test]
    fn a_failed_write_leaves_its_first_half() {
        let (mut state, file) = state_with_file("a");
        state.fault = Some(Fault::FailFrom { at: 1, error: IoFault::Full });
        state.write(file, 0, b"good").unwrap();
        assert_eq!(state.write(file, 4, b"bad!"), Err(IoFault::Full));
        assert_eq!(state.truncate(file, 0), Err(IoFault::Full));
        assert_eq!(state.delete("a", Directory::Synced), Err(IoFault::Full));
        assert_eq!(files(&state, Loss::Nothing), [("a".to_owned(), b"goodba".to_vec())]);
        assert_eq!(state.operations, 4);
    }
}
