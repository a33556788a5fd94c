//! Whose session is whose. A session of MCP is a convenience of the protocol: it lives in memory, and whoever finds theirs gone
//! begins another. It is nobody else's, and there is never more than a bounded number of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Most sessions of one owner: their oldest one goes when they begin another.
const OF_ONE_MAX: usize = 64;

/// Most sessions of all together.
pub(crate) const OF_ALL_MAX: usize = 1024;

/// Who has which session.
#[derive(Default)]
pub(crate) struct Owners(Mutex<HashMap<String, Owned>>);

struct Owned {
    by: String,
    used: Instant,
}

impl Owners {
    /// Whether a session is theirs. Looking is using.
    pub(crate) fn is_of(&self, session: &str, owner: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(owned) = all.get_mut(session).filter(|owned| owned.by == owner) else { return false };
        owned.used = Instant::now();
        true
    }

    /// Forgets those that have ended.
    pub(crate) fn keep(&self, lives: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|session, _| lives(session));
    }

    /// A session begins. Returns those of the same owner that have to go for it.
    pub(crate) fn begun(&self, session: &str, owner: &str) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(session.to_owned(), Owned { by: owner.to_owned(), used: Instant::now() });
        let mut theirs: Vec<(Instant, String)> = all
            .iter()
            .filter(|(_, owned)| owned.by == owner)
            .map(|(session, owned)| (owned.used, session.clone()))
            .collect();
        theirs.sort_unstable();
        let surplus = theirs.len().saturating_sub(OF_ONE_MAX);
        let gone: Vec<String> = theirs.into_iter().take(surplus).map(|(_, session)| session).collect();
        for session in &gone {
            all.remove(session);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_its_owners_alone() {
        let owners = Owners::default();
        assert_eq!(owners.begun("a", "ann"), Vec::<String>::new());
        assert!(owners.is_of("a", "ann"));
        assert!(!owners.is_of("a", "bob"));
        assert!(!owners.is_of("b", "ann"));
        owners.keep(|session| session != "a");
        assert!(!owners.is_of("a", "ann"));
    }

    #[test]
    fn the_least_used_of_too_many_goes() {
        let owners = Owners::default();
        for n in 0..OF_ONE_MAX {
            assert!(owners.begun(&format!("a{n}"), "ann").is_empty());
        }
        assert!(owners.is_of("a0", "ann"));
        assert!(owners.begun("b", "bob").is_empty());
        assert_eq!(owners.begun("more", "ann"), ["a1"]);
        assert!(owners.is_of("a0", "ann") && !owners.is_of("a1", "ann") && owners.is_of("b", "bob"));
    }
}
