//! Fold snapshots: a cache of `fold(events)` at one event, so that a long session resumes from its tail.

use bytes::Bytes;
use weir_types::{BranchId, Hash, Seq};

/// Largest snapshot kept; a fold that needs more should hold ranges and hashes instead of content.
pub const SNAPSHOT_MAX: usize = 4 * 1024 * 1024;

/// How many snapshots of one branch and fold are kept: the newest ones by `seq`.
pub const SNAPSHOTS_KEPT: usize = 4;

/// Most snapshots of one branch, over all folds, that a check looks at.
pub const STORED_SNAPSHOTS_MAX: usize = 32;

/// Which fold made a snapshot. Another version's snapshots are never returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FoldVersion {
    /// The fold's name.
    pub fold: String,
    /// Raised whenever the fold or its encoding changes.
    pub version: u32,
}

/// A fold of everything up to and including `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The branch folded.
    pub branch: BranchId,
    /// The last event folded.
    pub seq: Seq,
    /// That event's chain: a snapshot of other events is never returned.
    pub chain: Hash,
    /// What made it.
    pub fold: FoldVersion,
    /// The encoded state.
    pub state: Bytes,
}
