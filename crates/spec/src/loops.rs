//! `loops/<name>.yaml`: a scheduled invocation of an agent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::AclEntry;
use crate::diagnostic::Spanned;
use crate::{Principal, Role};

/// One loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSpec {
    /// Its name, which is also its file's.
    pub name: Spanned<String>,
    /// When it fires: a cron expression.
    pub schedule: Spanned<String>,
    /// The time zone of its schedule, as the time-zone database spells it.
    pub timezone: String,
    /// The agent it talks to.
    pub agent: Spanned<String>,
    /// Who it acts as: a service account.
    pub run_as: Spanned<Principal>,
    /// What it says.
    pub instruction: String,
    /// Who may trigger and see it.
    pub acl: Vec<AclEntry<Role>>,
    /// What happens to firings that nobody was there for.
    pub missed: Missed,
    /// How many of its runs go on at once.
    pub concurrency: Concurrency,
    /// How long a run may take.
    pub timeout: Option<Duration>,
    /// How often a failed run is tried again.
    pub retries: u64,
    /// Where its file is.
    pub file: String,
}

/// What happens to firings that nobody was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// All of them are made up for, the newest hundred at most.
    #[default]
    All,
    /// The last of them is.
    Last,
    /// None of them is.
    Skip,
}

/// How many runs of a loop go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// At most so many.
    pub max: u64,
    /// What happens to the next one.
    pub when_full: WhenFull,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { max: 1, when_full: WhenFull::Queue }
    }
}

/// What happens to a firing when enough runs go on already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It waits.
    #[default]
    Queue,
    /// It is left out.
    Skip,
}
