//! Who may do what: where policy plugs in.

use weir_types::{Effect, Json, Level, Risk, Who, Whose};

use crate::decision::Decision;

/// What decides about a call that the agent lists and whose arguments fit.
pub trait Gate: Send + Sync {
    /// Whether someone may talk to an agent. What says nothing about it lets nobody in.
    fn admit(&self, who: Who<'_>, agent: &str) -> Decision {
        Decision::deny(format!("nothing says that `{}` may talk to agent `{agent}`", who.principal))
    }

    /// Whether `by` may decide about calls that `agent` makes on behalf of `asker`. What says nothing about it lets nobody.
    fn may_approve(&self, by: Who<'_>, asker: &str, agent: &str) -> Decision {
        Decision::deny(format!(
            "nothing says that `{}` may approve what agent `{agent}` does for `{asker}`",
            by.principal
        ))
    }

    /// The groups someone is in, as `group:…`, sorted.
    fn groups_of(&self, _who: Who<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Whether someone holds every role and grant.
    fn is_admin(&self, _who: Who<'_>) -> bool {
        false
    }

    /// Whether someone may look at something that is stored, or change it. What says nothing about it lets nobody.
    fn may(&self, _who: Who<'_>, _level: Level, _stored: Stored<'_>) -> bool {
        false
    }

    /// Whether the call may run. Has no effect, and the same request always gets the same answer. Of what it looked at, it
    /// says what nobody else knows: groups, and what rules that only watch would have done.
    fn decide(&self, request: &Request<'_>) -> Decision;
}

/// Something that is stored, as policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// What it is.
    pub kind: StoredKind,
    /// Its name.
    pub name: &'a str,
    /// Whose it is.
    pub owner: Whose<'a>,
}

/// The kinds of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A stream of the journal; a session is one.
    Stream,
    /// A blob.
    Blob,
}

/// A call, as policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// On whose behalf.
    pub principal: &'a str,
    /// The groups they came with, besides those of the build.
    pub groups: &'a [String],
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
