//! The seam to the tools: `authorize` has no effect, `execute` is the only door to the world, and a [`Permit`] is only
//! made once the event that says the call starts is durable.

mod functions;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_tools::{Asked, Decision, Done, NoResult, Permit, Toolbox};
use weir_types::{Effect, Json, Risk, Who};

pub use functions::{Function, Functions, get_time};

/// What stands between the calls of an agent and the world.
pub trait Tools: Send + Sync + 'static {
    /// How strict to be with this very call, where its arguments matter; else what the agent's list says counts.
    fn strictness(&self, _tool: &str, _input: &Json) -> Option<(Effect, Risk)> {
        None
    }

    /// Whether calls of a tool change files. Such calls take turns, in the order in which they were made.
    fn changes_files(&self, _tool: &str) -> bool {
        false
    }

    /// Whether a cancelled call of a tool ends by itself and says what it came to. It is waited for; all others are dropped.
    fn reports_its_end(&self, _tool: &str) -> bool {
        false
    }

    /// Whether someone may talk to the agent at all. Has no effect.
    fn admit(&self, who: Who<'_>, agent: &str) -> Decision;

    /// Whether `by` may decide about calls that `agent` makes on behalf of `asker`. Has no effect. What says nothing
    /// about it lets nobody.
    fn may_approve(&self, by: Who<'_>, asker: &str, agent: &str) -> Decision {
        Decision::deny(format!(
            "nothing says that `{}` may approve what agent `{agent}` does for `{asker}`",
            by.principal
        ))
    }

    /// Whether someone is in a group, `group:…`. Has no effect.
    fn is_member(&self, _who: Who<'_>, _group: &str) -> bool {
        false
    }

    /// Whether a call may run. Has no effect.
    fn authorize(&self, asked: &Asked<'_>) -> Decision;

    /// Runs a call that may.
    fn execute(&self, permit: Permit) -> BoxFuture<'static, Result<Done, NoResult>>;
}

impl Tools for Toolbox {
    fn strictness(&self, tool: &str, input: &Json) -> Option<(Effect, Risk)> {
        Self::strictness(self, tool, input)
    }

    fn changes_files(&self, tool: &str) -> bool {
        Self::changes_files(self, tool)
    }

    fn reports_its_end(&self, tool: &str) -> bool {
        Self::reports_its_end(self, tool)
    }

    fn admit(&self, who: Who<'_>, agent: &str) -> Decision {
        Self::admit(self, who, agent)
    }

    fn may_approve(&self, by: Who<'_>, asker: &str, agent: &str) -> Decision {
        Self::may_approve(self, by, asker, agent)
    }

    fn is_member(&self, who: Who<'_>, group: &str) -> bool {
        Self::is_member(self, who, group)
    }

    fn authorize(&self, asked: &Asked<'_>) -> Decision {
        Self::authorize(self, asked)
    }

    fn execute(&self, permit: Permit) -> BoxFuture<'static, Result<Done, NoResult>> {
        Self::execute(self, permit).boxed()
    }
}
