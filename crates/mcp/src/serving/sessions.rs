//! Whose session is whose. A session of MCP is a convenience of the protocol: it lives in memory, and whoever finds theirs gone
//! begins another. It is nobody else's, and there is never more than a bounded number of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

/// Most sessions of one of those who ask: their oldest one goes when they begin another.
const OF_ONE_MAX: usize = 64;

/// Most sessions of all together.
const OF_ALL_MAX: usize = 1024;

/// Whose a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Whoever asks. All their sessions are counted together.
    pub who: String,
    /// What they ask, and as what. A session that was begun for something else is none.
    pub what: String,
}

/// Who has which session.
#[derive(Default)]
pub(crate) struct Owners(Mutex<State>);

#[derive(Default)]
struct State {
    all: HashMap<String, Owned>,
    /// How many are about to begin, of whom.
    beginning: HashMap<String, usize>,
}

struct Owned {
    by: Owner,
    used: Instant,
}

impl Owners {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session is theirs. Looking is using.
    pub(crate) fn is_of(&self, session: &str, owner: &Owner) -> bool {
        let mut state = self.state();
        let Some(owned) = state.all.get_mut(session).filter(|owned| owned.by == *owner) else { return false };
        owned.used = Instant::now();
        true
    }

    /// A place for a session that is about to begin, if there is one. Those that have ended are forgotten first.
    pub(crate) fn place(self: &Arc<Self>, who: &str, lives: impl Fn(&str) -> bool) -> Option<Place> {
        let mut state = self.state();
        state.all.retain(|session, _| lives(session));
        let all = state.all.len() + state.beginning.values().sum::<usize>();
        let theirs = state.beginning.get(who).copied().unwrap_or_default();
        if all >= OF_ALL_MAX || theirs >= OF_ONE_MAX {
            return None;
        }
        state.beginning.insert(who.to_owned(), theirs + 1);
        Some(Place { owners: Arc::clone(self), who: who.to_owned() })
    }

    /// A session begins. Returns those of the same person that have to go for it.
    fn begun(&self, session: &str, owner: &Owner) -> Vec<String> {
        let all = &mut self.state().all;
        all.insert(session.to_owned(), Owned { by: owner.clone(), used: Instant::now() });
        let mut theirs: Vec<(Instant, String)> = all
            .iter()
            .filter(|(_, owned)| owned.by.who == owner.who)
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

/// A place for a session that is about to begin, until this is dropped.
pub(crate) struct Place {
    owners: Arc<Owners>,
    who: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let beginning = &mut self.owners.state().beginning;
        if let Some(count) = beginning.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                beginning.remove(&self.who);
            }
        }
    }
}

/// The sessions of a door, as they are for somebody: one that begins is theirs from its first moment, whether they wait for its answer or not.
pub(crate) struct Theirs {
    pub(crate) sessions: Arc<LocalSessionManager>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) owner: Owner,
}

type Said<T> = Result<T, <LocalSessionManager as SessionManager>::Error>;

impl SessionManager for Theirs {
    type Error = <LocalSessionManager as SessionManager>::Error;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Said<(SessionId, Self::Transport)> {
        let (session, transport) = self.sessions.create_session().await?;
        for surplus in self.owners.begun(&session, &self.owner) {
            // It goes for a newer one of the same person, who begins another when they need it.
            let _ = self.sessions.close_session(&surplus.into()).await;
        }
        Ok((session, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Said<ServerJsonRpcMessage> {
        self.sessions.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Said<bool> {
        self.sessions.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Said<()> {
        self.sessions.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Said<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.sessions.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Said<()> {
        self.sessions.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Said<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.sessions.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Said<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.sessions.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(who: &str, what: &str) -> Owner {
        Owner { who: who.to_owned(), what: what.to_owned() }
    }

    #[test]
    fn a_session_is_its_owners_alone() {
        let owners = Arc::new(Owners::default());
        assert_eq!(owners.begun("a", &of("ann", "x")), Vec::<String>::new());
        assert!(owners.is_of("a", &of("ann", "x")));
        assert!(!owners.is_of("a", &of("bob", "x")));
        assert!(!owners.is_of("a", &of("ann", "y")));
        assert!(!owners.is_of("b", &of("ann", "x")));
        assert!(owners.place("bob", |session| session != "a").is_some());
        assert!(!owners.is_of("a", &of("ann", "x")));
    }

    #[test]
    fn the_least_used_of_too_many_goes() {
        let owners = Owners::default();
        for n in 0..OF_ONE_MAX {
            assert!(owners.begun(&format!("a{n}"), &of("ann", &format!("agent {n}"))).is_empty());
        }
        assert!(owners.is_of("a0", &of("ann", "agent 0")));
        assert!(owners.begun("b", &of("bob", "agent 0")).is_empty());
        assert_eq!(owners.begun("more", &of("ann", "another agent")), ["a1"]);
        assert!(owners.is_of("a0", &of("ann", "agent 0")) && owners.is_of("b", &of("bob", "agent 0")));
        assert!(!owners.is_of("a1", &of("ann", "agent 1")));
    }

    #[test]
    fn those_that_are_about_to_begin_count() {
        let owners = Arc::new(Owners::default());
        let hers: Vec<Place> = std::iter::from_fn(|| owners.place("ann", |_| true)).collect();
        assert_eq!(hers.len(), OF_ONE_MAX);
        let others = |n: usize| owners.place(&format!("user {n}"), |_| true);
        let all: Vec<Place> = (0..2 * OF_ALL_MAX).map_while(others).collect();
        assert_eq!(hers.len() + all.len(), OF_ALL_MAX);
        drop((hers, all));
        assert!(owners.state().beginning.is_empty());
        for n in 0..OF_ALL_MAX {
            owners.begun(&format!("{n}"), &of(&format!("user {n}"), "x"));
        }
        assert!(owners.place("bob", |_| true).is_none());
        assert!(owners.place("bob", |session| session != "7").is_some());
    }
}
