//! Which sessions this process holds. The owner of a session is a process, for all of its branches; several of these may run here at
//! the same time, and the last one to end lets go of the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::MutexGuard;
use weir_types::SessionId;

use crate::alive::Alive;

/// The sessions that have a task here.
pub(crate) type Holds = Alive<SessionId, Held>;

/// A session, as far as this process holds it.
#[derive(Default)]
pub(crate) struct Held {
    turn: tokio::sync::Mutex<()>,
    shares: AtomicUsize,
}

/// A branch for which the session is held.
pub(crate) struct Share(Arc<Held>);

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
