//! The locks that connections take on a database file, and on the eight slots of its shared memory.
//!
//! Both are tables of who holds what; asking never waits. A refused caller gets [`Busy`] and lets SQLite retry.

use std::collections::BTreeMap;

/// Identifies an open file, so a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HandleId(pub(crate) u64);

/// Someone else holds a lock that does not go together with the one asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// SQLite's lock levels, weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    /// An exclusive lock is wanted: readers may finish, new ones are refused.
    Pending,
    Exclusive,
}

/// Who holds which lock on one database file.
#[derive(Default)]
pub(crate) struct FileLocks {
    held: BTreeMap<HandleId, Level>,
}

impl FileLocks {
    pub(crate) fn lock(&mut self, handle: HandleId, wanted: Level) -> Result<(), Busy> {
        if self.held.get(&handle).copied().unwrap_or_default() >= wanted {
            return Ok(());
        }
        let others = self.strongest_of_others(handle);
        let refused = match wanted {
            Level::None => false,
            Level::Shared => others >= Level::Pending,
            Level::Reserved | Level::Pending | Level::Exclusive => others >= Level::Reserved,
        };
        if refused {
            return Err(Busy);
        }
        if wanted == Level::Exclusive && others == Level::Shared {
            self.held.insert(handle, Level::Pending);
            return Err(Busy);
        }
        self.held.insert(handle, wanted);
        Ok(())
    }

    pub(crate) fn unlock(&mut self, handle: HandleId, down_to: Level) {
        if down_to == Level::None {
            self.held.remove(&handle);
        } else {
            self.held.insert(handle, down_to);
        }
    }

    pub(crate) fn reserved(&self) -> bool {
        self.held.values().any(|level| *level >= Level::Reserved)
    }

    fn strongest_of_others(&self, handle: HandleId) -> Level {
        let others = self.held.iter().filter(|(holder, _)| **holder != handle);
        others.map(|(_, level)| *level).max().unwrap_or_default()
    }
}

/// How a slot of the shared memory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// Who holds which of the eight slots of one database's shared memory, as bit masks.
#[derive(Default)]
pub(crate) struct SlotLocks {
    held: BTreeMap<HandleId, Slots>,
}

#[derive(Clone, Copy, Default)]
struct Slots {
    shared: u8,
    exclusive: u8,
}

impl SlotLocks {
    pub(crate) fn lock(&mut self, handle: HandleId, slots: u8, mode: Mode) -> Result<(), Busy> {
        let conflicts = |held: &Slots| match mode {
            Mode::Shared => held.exclusive & slots != 0,
            Mode::Exclusive => (held.shared | held.exclusive) & slots != 0,
        };
        if self.held.iter().any(|(holder, held)| *holder != handle && conflicts(held)) {
            return Err(Busy);
        }
        let own = self.held.entry(handle).or_default();
        match mode {
            Mode::Shared => own.shared |= slots,
            Mode::Exclusive => own.exclusive |= slots,
        }
        Ok(())
    }

    pub(crate) fn unlock(&mut self, handle: HandleId, slots: u8) {
        if let Some(own) = self.held.get_mut(&handle) {
            own.shared &= !slots;
            own.exclusive &= !slots;
        }
    }

    pub(crate) fn leave(&mut self, handle: HandleId) {
        self.held.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HandleId = HandleId(1);
    const B: HandleId = HandleId(2);

    #[test]
    fn levels_go_together_as_sqlite_defines() {
        use Level::{Exclusive, Reserved, Shared};
        let compatible = |first, second| {
            let mut locks = FileLocks::default();
            locks.lock(A, first).unwrap();
            locks.lock(B, second).is_ok()
        };
        let table =
            [Shared, Reserved, Exclusive].map(|a| [Shared, Reserved, Exclusive].map(|b| compatible(a, b)));
        assert_eq!(table, [[true, true, false], [true, false, false], [false, false, false]]);
    }

    #[test]
    fn a_waiting_writer_keeps_new_readers_out() {
        let mut locks = FileLocks::default();
        locks.lock(A, Level::Shared).unwrap();
        assert_eq!(locks.lock(B, Level::Exclusive), Err(Busy));
        assert!(locks.reserved());
        assert_eq!(locks.lock(HandleId(3), Level::Shared), Err(Busy));
        locks.unlock(A, Level::None);
        assert_eq!(locks.lock(B, Level::Exclusive), Ok(()));
        locks.unlock(B, Level::Shared);
        assert!(!locks.reserved());
        assert_eq!(locks.lock(HandleId(3), Level::Shared), Ok(()));
    }

    #[test]
    fn slots_are_shared_or_exclusive_one_by_one() {
        let mut slots = SlotLocks::default();
        slots.lock(A, 0b0000_1000, Mode::Shared).unwrap();
        assert_eq!(slots.lock(B, 0b0000_1000, Mode::Shared), Ok(()));
        assert_eq!(slots.lock(B, 0b1111_1000, Mode::Exclusive), Err(Busy));
        assert_eq!(slots.lock(B, 0b1111_0000, Mode::Exclusive), Ok(()));
        assert_eq!(slots.lock(A, 0b1000_0000, Mode::Shared), Err(Busy));
        slots.unlock(B, 0b1000_0000);
        assert_eq!(slots.lock(A, 0b1000_0000, Mode::Shared), Ok(()));
        assert_eq!(slots.lock(A, 0b0001_0000, Mode::Shared), Err(Busy));
        slots.leave(B);
        assert_eq!(slots.lock(A, 0b1111_1111, Mode::Exclusive), Ok(()));
    }
}
