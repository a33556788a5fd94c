//! The envelope around everything that ever happened.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{BranchId, BranchName, ChainInput, EventId, Hash, Kind, Meta, StreamName, Timestamp};

/// Place on a branch: 1 for the first event, without gaps along a branch's lineage. 0 is "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// Place in the whole journal: increasing, with gaps; the cursor of projections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Seq {
    /// The place after this one.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One recorded event. Its `branch` is where it was appended: a fork reads its parent's events under the parent's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Place in the whole journal.
    pub position: Position,
    /// The stream it belongs to.
    pub stream: StreamName,
    /// The branch it was appended to.
    pub branch: BranchName,
    /// Place on that branch.
    pub seq: Seq,
    /// Identity.
    pub id: EventId,
    /// When it was appended; never before its predecessor.
    pub ts: Timestamp,
    /// What happened.
    pub kind: Kind,
    /// The content, byte for byte.
    pub payload: Bytes,
    /// Actor, run, causation and the like.
    pub meta: Meta,
    /// Every blob this event needs.
    pub refs: Vec<Hash>,
    /// SHA-256 of the payload.
    pub payload_hash: Hash,
    /// SHA-256 over the previous chain, the header and the payload hash.
    pub chain: Hash,
}

impl Event {
    /// The branch it was appended to, with its stream.
    pub fn branch_id(&self) -> BranchId {
        BranchId { stream: self.stream.clone(), branch: self.branch.clone() }
    }

    /// The chain this event must have after an event whose chain is `prev`.
    pub fn chain_after(&self, prev: Hash) -> Hash {
        ChainInput {
            stream: &self.stream,
            branch: &self.branch,
            seq: self.seq,
            id: self.id,
            ts: self.ts,
            kind: &self.kind,
            meta: &self.meta,
            refs: &self.refs,
            payload_hash: self.payload_hash,
        }
        .after(prev)
    }
}
