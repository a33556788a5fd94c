//! What can be asked about streams and branches without reading their events.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_types::{BranchId, BranchName, Hash, OwnerId, Position, Seq, StreamName, Timestamp};

/// The newest event of a branch, or the fork point of one that has none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its place.
    pub seq: Seq,
    /// Its chain, which commits to the whole lineage.
    pub chain: Hash,
    /// Its time.
    pub ts: Timestamp,
    /// Its position.
    pub position: Position,
}

/// A branch to be made.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The branch to share events with.
    pub from: BranchId,
    /// The last event to share; any event of the lineage.
    pub at: Seq,
    /// The new branch's name, unused in the stream.
    pub name: BranchName,
}

/// A branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its name.
    pub name: BranchName,
    /// Where it comes from; `None` for `main`.
    pub parent: Option<ForkPoint>,
    /// Its newest event.
    pub head: Head,
}

impl Branch {
    /// Events appended to this branch itself.
    pub fn own_events(&self) -> u64 {
        self.head.seq.0 - self.parent.as_ref().map_or(0, |parent| parent.at.0)
    }
}

/// What came of looking for something along a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It is at this place.
    Found(Seq),
    /// It is at none up to this one; there are more.
    NotUntil(Seq),
    /// It is not there.
    Nowhere,
}

/// Where a branch left its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkPoint {
    /// The parent's name.
    pub branch: BranchName,
    /// The last shared event.
    pub at: Seq,
    /// That event's chain.
    pub chain: Hash,
}

/// A stream at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    /// Its name.
    pub stream: StreamName,
    /// How many branches it has.
    pub branches: u64,
    /// How many events, over all branches, each counted once.
    pub events: u64,
    /// When the newest was appended.
    pub updated: Timestamp,
    /// The process that runs it, if any.
    pub owner: Option<OwnerId>,
    /// What is wrong with what is stored about it; then the numbers above may be zero.
    pub damage: Option<String>,
}

/// What a session's branch is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing to do until the next message.
    Idle,
    /// A run is in progress.
    Running,
    /// A run waits for an approval, a signal or a time.
    Waiting,
    /// Stopped by someone; goes on when resumed.
    Halted,
    /// Finished for good.
    Closed,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Running, Self::Waiting, Self::Halted, Self::Closed];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Halted => "halted",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a status (idle, running, waiting, halted or closed)")]
pub struct StatusError(String);

impl FromStr for Status {
    type Err = StatusError;

    fn from_str(word: &str) -> Result<Self, StatusError> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == word);
        found.ok_or_else(|| StatusError(word.chars().take(40).collect()))
    }
}

/// One small row per branch, derived from the fold and set with an append, so that sessions are found without
/// folding them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attrs {
    /// What it is doing.
    pub status: Status,
    /// On whose behalf.
    pub principal: Option<String>,
    /// Which agent.
    pub agent: Option<String>,
    /// What to call it.
    pub title: Option<String>,
    /// When something must happen next.
    pub due: Option<Timestamp>,
}

impl Attrs {
    /// Attributes with a status and nothing else.
    pub fn new(status: Status) -> Self {
        Self { status, principal: None, agent: None, title: None, due: None }
    }

    /// Longest principal, agent or title, in bytes.
    pub const TEXT_MAX: usize = 1_024;
}

/// Which branches to list: those that match everything given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// With this status.
    pub status: Option<Status>,
    /// Of this principal.
    pub principal: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// With something due at or before this time; these come in order of `due`.
    pub due_before: Option<Timestamp>,
}

/// Where the next page of a listing starts: the last row of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListAfter {
    /// That row's branch.
    pub branch: BranchId,
    /// That row's due time.
    pub due: Option<Timestamp>,
}

/// A branch that has attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The branch.
    pub branch: BranchId,
    /// Its attributes.
    pub attrs: Attrs,
    /// The owner of its stream.
    pub owner: Option<OwnerId>,
    /// Its newest event.
    pub head: Head,
    /// What is wrong with what is stored about it. Attributes that cannot be read are left out; without a status it counts as halted.
    pub damage: Option<String>,
}

impl Listed {
    /// The cursor to go on after this row.
    pub fn after(&self) -> ListAfter {
        ListAfter { branch: self.branch.clone(), due: self.attrs.due }
    }
}
