//! What an engine is made of.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use weir_blobs::Blobs;
use weir_journal::Journal;
use weir_kernel::Agent;
use weir_models::Model;
use weir_types::{Hash, Timestamp};

use crate::budgets::Budgets;
use crate::error::Explained;
use crate::hooks::Hooks;
use crate::owners::Owners;
use crate::snapshots::SnapshotSeal;
use crate::tools::Tools;

/// What an engine is made of.
#[derive(Clone)]
pub struct Setup {
    /// The truth.
    pub journal: Arc<dyn Journal>,
    /// Large content.
    pub blobs: Arc<dyn Blobs>,
    /// The agents.
    pub agents: Arc<dyn Agents>,
    /// Which processes live.
    pub owners: Arc<dyn Owners>,
    /// What snapshots in the journal are sealed with.
    pub seal: SnapshotSeal,
    /// How it behaves.
    pub options: Options,
}

/// Where agents come from.
pub trait Agents: Send + Sync + 'static {
    /// The agent of that name, as it is to run now. Asked for at the start of every run. `build` is what the session began
    /// with; nothing, for one that is about to begin.
    fn agent<'a>(
        &'a self,
        name: &'a str,
        build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>>;

    /// What knows who is asked before something from outside is written down; nothing, where nobody ever is.
    fn asks_first(&self) -> Option<&dyn AsksFirst> {
        None
    }
}

/// What knows who is asked before something from outside is written down.
pub trait AsksFirst: Send + Sync {
    /// Who is asked, as it is now; nobody, if nobody is. `build` is what the session began with. If it cannot be said, nothing
    /// is written down.
    fn hooks(&self, build: Option<Hash>) -> BoxFuture<'_, Result<Option<Arc<dyn Hooks>>, Explained>>;
}

/// An agent with its model and its tools.
#[derive(Clone)]
pub struct Runnable {
    /// The agent.
    pub agent: Agent,
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// What stands between its calls and the world.
    pub tools: Arc<dyn Tools>,
    /// What identifies the build it comes from.
    pub manifest: Hash,
    /// What its project allows in all.
    pub budgets: Budgets,
}

/// How an engine behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether sessions that nobody runs are taken up: the mode of a server.
    pub adopt: Adopt,
    /// How long an idle session stays in memory.
    pub idle_after: Duration,
    /// How long one model call may take.
    pub model_deadline: Duration,
    /// How often the pieces of an answer are written down while it is streamed.
    pub delta_every: Duration,
    /// How long a result that cannot be written down is held.
    pub storage_patience: Duration,
    /// How many events may follow a snapshot before the next one.
    pub snapshot_every: u64,
    /// How many events of a purse there are from one `budget.carried` to the next.
    pub carry_every: u64,
    /// The first delay before a failed model call is repeated; it doubles with each attempt.
    pub retry_delay: Duration,
    /// How many sessions the engine takes up by itself at once; the others wait for their turn.
    pub adopt_max: usize,
    /// How long a call waits for others to give back what they have set aside and not used.
    pub budget_patience: Duration,
    /// What time it is, for budgets of a day.
    pub clock: fn() -> Timestamp,
}

/// Which sessions an engine takes up by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopt {
    /// Those it is asked to.
    Asked,
    /// All that have something to do and that no living process runs.
    All,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            adopt: Adopt::Asked,
            idle_after: Duration::from_secs(30),
            model_deadline: Duration::from_secs(600),
            delta_every: Duration::from_secs(1),
            storage_patience: Duration::from_secs(60),
            snapshot_every: 256,
            carry_every: 256,
            retry_delay: Duration::from_millis(500),
            adopt_max: 64,
            budget_patience: Duration::from_secs(60),
            clock: weir_journal::now,
        }
    }
}
