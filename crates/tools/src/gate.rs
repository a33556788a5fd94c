//! Who may do what: where policy plugs in.

use weir_types::{Effect, Json, Level, Risk};

use crate::decision::Decision;

/// What decides about a call that the agent lists and whose arguments fit.
pub trait Gate: Send + Sync {
    /// Whether someone may talk to an agent. What says nothing about it lets nobody in.
    fn admit(&self, principal: &str, agent: &str) -> Decision {
        Decision::deny(format!("nothing says that `{principal}` may talk to agent `{agent}`"))
    }

    /// Whether `by` may decide about calls that `agent` makes on behalf of `asker`. What says nothing about it lets nobody.
    fn may_approve(&self, by: &str, asker: &str, agent: &str) -> Decision {
        Decision::deny(format!(
            "nothing says that `{by}` may approve what agent `{agent}` does for `{asker}`"
        ))
    }

    /// The groups someone is in, as `group:…`, sorted.
    fn groups_of(&self, _principal: &str) -> Vec<String> {
        Vec::new()
    }

    /// Whether someone holds every role and grant.
    fn is_admin(&self, _principal: &str) -> bool {
        false
    }

    /// Whether the call may run. Has no effect, and the same request always gets the same answer. Of what it looked at, it
    /// says what nobody else knows: groups, and what rules that only watch would have done.
    fn decide(&self, request: &Request<'_>) -> Decision;
}

/// A call, as policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// On whose behalf.
    pub principal: &'a str,
    /// The agent that makes it.
    pub agent: &'a str,
    /// The tool, by the name the model knows.
    pub tool: &'a str,
    /// Where the tool comes from.
    pub source: &'a str,
    /// The agent behind it, if there is one.
    pub callee: Option<&'a str>,
    /// The arguments.
    pub input: &'a Json,
    /// What repeating this call does.
    pub effect: Effect,
    /// How bad a wrong call can be.
    pub risk: Risk,
    /// The highest level its entry offers.
    pub access: Level,
    /// Who approved it, if someone did, with exactly these arguments.
    pub approved_by: Option<&'a str>,
}
