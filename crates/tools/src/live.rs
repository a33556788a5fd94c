//! Which writes really happen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_types::{CallId, wildcard};

/// Which calls that change something outside of their session really run; the others only pretend, and say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Live {
    /// None.
    #[default]
    Nothing,
    /// All.
    Everything,
    /// Those whose name or source matches one of these patterns, in which `*` stands for anything.
    Matching(Vec<String>),
}

impl Live {
    /// Whether calls of a tool really run.
    pub fn covers(&self, tool: &str, source: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Matching(patterns) => patterns
                .iter()
                .any(|pattern| wildcard::matches(pattern, tool) || wildcard::matches(pattern, source)),
        }
    }
}

/// Calls that really run although others like them would be dry runs: a person said so of each. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CallsForReal(Arc<Mutex<BTreeSet<CallId>>>);

impl CallsForReal {
    /// This one really runs.
    pub fn add(&self, call: CallId) {
        self.calls().insert(call);
    }

    /// It does not, after all.
    pub fn remove(&self, call: CallId) {
        self.calls().remove(&call);
    }

    pub(crate) fn has(&self, call: CallId) -> bool {
        self.calls().contains(&call)
    }

    fn calls(&self) -> MutexGuard<'_, BTreeSet<CallId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_live_by_its_name_or_its_source() {
        let live = Live::Matching(vec!["tools/*".to_owned(), "post".to_owned()]);
        assert!(live.covers("lookup", "tools/lookup") && live.covers("post", "mcp://x"));
        assert!(!live.covers("get", "mcp://x"));
        assert!(!Live::Nothing.covers("get", "x") && Live::Everything.covers("get", "x"));
    }
}
