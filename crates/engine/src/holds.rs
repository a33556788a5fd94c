//! Which sessions this process holds. The owner of a session is a process, for all of its branches; several of these may run here at
//! the same time, and the last one to end lets go of the session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::MutexGuard;
use weir_types::SessionId;

/// The sessions that have a task here.
#[derive(Default)]
pub(crate) struct Holds(Mutex<HashMap<SessionId, Weak<Held>>>);

/// A session, as far as this process holds it.
#[derive(Default)]
pub(crate) struct Held {
    turn: tokio::sync::Mutex<()>,
    shares: AtomicUsize,
}

/// A branch for which the session is held.
pub(crate) struct Share(Arc<Held>);

impl Holds {
    pub(crate) fn of(&self, session: SessionId) -> Arc<Held> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = all.get(&session).and_then(Weak::upgrade) {
            return held;
        }
        // Sessions whose tasks have ended leave empty places behind, which are cleared before more room is taken for them.
        if all.len() == all.capacity() {
            all.retain(|_, held| held.strong_count() > 0);
        }
        let held = Arc::<Held>::default();
        all.insert(session, Arc::downgrade(&held));
        held
    }
}

impl Held {
    /// For whoever claims the session or lets go of it, until that is written down: whether others need it must be true until then.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(crate) fn share(self: &Arc<Self>) -> Share {
        self.shares.fetch_add(1, Ordering::SeqCst);
        Share(Arc::clone(self))
    }

    /// Whether more than one branch needs it.
    pub(crate) fn is_shared(&self) -> bool {
        self.shares.load(Ordering::SeqCst) > 1
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.shares.fetch_sub(1, Ordering::SeqCst);
    }
}
