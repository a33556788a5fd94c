//! The shared memory of a WAL database: regions on the heap that all its connections see.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeSet;
use std::ptr::NonNull;

use crate::locks::{HandleId, SlotLocks};

/// One database's shared memory. It exists while at least one connection has mapped it.
#[derive(Default)]
pub(crate) struct SharedMemory {
    pub(crate) locks: SlotLocks,
    regions: Vec<Region>,
    users: BTreeSet<HandleId>,
}

/// What a connection that wants to map a region gets.
pub(crate) enum Mapped {
    At(NonNull<u8>),
    /// The region does not exist, and the connection did not ask for it to be made.
    Absent,
    OutOfMemory,
}

impl SharedMemory {
    /// Maps a region for a connection. Its address stays valid until the last connection leaves.
    pub(crate) fn map(&mut self, handle: HandleId, index: usize, bytes: usize, extend: bool) -> Mapped {
        self.users.insert(handle);
        while extend && self.regions.len() <= index {
            let Some(region) = Region::new(bytes) else { return Mapped::OutOfMemory };
            self.regions.push(region);
        }
        self.regions.get(index).map_or(Mapped::Absent, |region| Mapped::At(region.start))
    }

    /// Ends a connection's use. Says whether it was the last, so that the memory can go.
    pub(crate) fn leave(&mut self, handle: HandleId) -> bool {
        self.locks.leave(handle);
        self.users.remove(&handle);
        self.users.is_empty()
    }
}

/// Zeroed memory at a fixed address. It is never turned into a Rust reference: SQLite writes to it from any thread,
/// under its own rules.
struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a region is plain memory that no thread owns in particular; this type only hands out its address.
unsafe impl Send for Region {}

impl Region {
    fn new(bytes: usize) -> Option<Self> {
        // SQLite keeps 64-bit counters in there, and pages of memory are what it gets from other VFSs.
        let layout = Layout::from_size_align(bytes.max(1), 4096).ok()?;
        // SAFETY: the layout has a size of at least one byte.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout and is freed only here. No connection uses it any
        // more: the regions go when the last one has left.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
