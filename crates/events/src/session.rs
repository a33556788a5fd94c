//! A session, its branches and its lane.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{BranchName, CallId, Hash, OwnerId, Seq, SessionId};

use crate::budget::{Allowance, Share};
use crate::skip::is_false;

/// A session begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The agent, by name.
    pub agent: String,
    /// The build it runs.
    pub manifest: Hash,
    /// On whose behalf.
    pub principal: String,
    /// The groups they came with, as `group:…`: what a token or a trusted proxy said of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// For people and filters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The call that started it, if another session did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Where its turns run.
    pub lane: String,
}

impl SessionCreated {
    /// The same without what the journal that it was imported from said its principal may do and spend.
    #[must_use]
    pub fn without_authority(mut self) -> Self {
        self.groups.clear();
        if let Some(parent) = &mut self.parent {
            parent.purses.clear();
        }
        self
    }
}

/// Its title or labels change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUpdated {
    /// The new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Labels to set; an empty value removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A process takes it up. What was under way when this is appended was interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionResumed {
    /// Why.
    pub reason: ResumeReason,
    /// The process.
    pub owner: OwnerId,
    /// What it may use beyond the limit that had stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Allowance>,
    /// Whether the run's limits stay as they are, but for what `budget` gives and for its iterations. Before this was
    /// recorded, all of them began anew.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_limits: bool,
}

/// The process that has it stops in good order, and lets go of it. What is under way is cut off, and goes on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReleased {
    /// Why.
    pub reason: String,
}

/// Someone stops it; it can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHalted {
    /// Why.
    pub reason: String,
    /// It was imported: what the file says about groups, approvers and purses does not count here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

/// Someone ends it for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// Why.
    pub reason: String,
}

/// A branch begins. What was open at the fork point is closed here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchForked {
    /// The parent.
    pub from: BranchName,
    /// The last shared event.
    pub at: Seq,
    /// This branch.
    pub name: BranchName,
}

/// Another branch's files come in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchMerged {
    /// The other branch.
    pub from: BranchName,
    /// Its event.
    pub at: Seq,
    /// The resulting tree.
    pub tree: Hash,
    /// Paths that need a decision.
    pub conflicts: Vec<String>,
}

/// Where turns run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneChosen {
    /// The lane.
    pub lane: String,
    /// Why.
    pub why: String,
}

/// Where they no longer run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRolledBack {
    /// The lane.
    pub lane: String,
    /// Why.
    pub why: String,
}

/// The call that started a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session that made the call.
    pub session: SessionId,
    /// On which branch.
    #[serde(default = "BranchName::main", skip_serializing_if = "is_main")]
    pub branch: BranchName,
    /// The call.
    pub call: CallId,
    /// How many sessions wait for it, one within the other: 1 for the child of one that a person began.
    #[serde(default = "one")]
    pub depth: u32,
    /// What its parent draws from: it does, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purses: Vec<Share>,
}

/// Why a process takes a session up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeReason {
    /// There is something new to do.
    Input,
    /// The process that had it is gone.
    Recovery,
    /// Someone asked for it, knowing why it had stopped.
    Asked,
}

fn is_main(branch: &BranchName) -> bool {
    *branch == BranchName::main()
}

/// A parent without a depth is from before there were any below it.
fn one() -> u32 {
    1
}
