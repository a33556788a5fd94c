//! What is on the platter when the power is gone, and how the unsynced part of it is chosen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The bytes of one file. Disks and images share them until one of them writes.
pub(crate) type Content = Arc<Vec<u8>>;

/// The files that a disk holds without power. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Image {
    pub(crate) files: BTreeMap<String, Content>,
}

impl Image {
    /// The names and contents of all files, in the order of their names.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, content)| (name.as_str(), content.as_slice()))
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.files().map(|(name, content)| (name, content.len()))).finish()
    }
}

/// Decides what a power cut keeps. SplitMix64: short, and the same everywhere.
pub(crate) struct Chance {
    state: u64,
    /// Out of 256. It differs from seed to seed, because at even odds the two interesting ends, *all but one sector*
    /// and *hardly anything*, would almost never come up.
    kept_of_256: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Self { state: seed, kept_of_256: 0 };
        chance.kept_of_256 = chance.next() % 257;
        chance
    }

    pub(crate) fn keeps(&mut self) -> bool {
        self.next() % 256 < self.kept_of_256
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
