//! Where the connection for one target is: being made, there, or not to be tried for a while.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::call_error::CallError;
use crate::connection::Connection;
use crate::error::Error;

/// The wait after the second failure in a row; it doubles with each further one. After the first the next call tries
/// again at once: one failure may be chance.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);

/// The longest wait.
const BACKOFF_LONGEST: Duration = Duration::from_secs(60);

/// What came of an attempt to connect.
pub(crate) type Attempt = Result<Arc<Connection>, Arc<Error>>;

/// The place of one target's connection.
pub(crate) struct Slot {
    state: Mutex<State>,
    users: AtomicUsize,
}

struct State {
    phase: Phase,
    used: Instant,
    /// Connections so far.
    connections: u64,
    /// Failures since the last answer.
    failures: u32,
    not_before: Option<Instant>,
    /// What went wrong last.
    why: String,
}

enum Phase {
    Empty,
    Connecting(watch::Receiver<Option<Attempt>>),
    Live(Arc<Connection>),
}

/// What a call finds.
pub(crate) enum Found {
    Live(Arc<Connection>),
    /// Somebody is connecting already.
    Connecting(watch::Receiver<Option<Attempt>>),
    /// Nobody is; it is for the finder to do, and to say here what came of it.
    Empty(watch::Sender<Option<Attempt>>, watch::Receiver<Option<Attempt>>),
}

/// A call that uses a slot. As long as there is one, the slot is not given away.
pub(crate) struct Use(pub(crate) Arc<Slot>);

impl Use {
    pub(crate) fn of(slot: &Arc<Slot>) -> Self {
        slot.users.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(slot))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.state().used = Instant::now();
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Slot {
    pub(crate) fn new() -> Self {
        let state = State {
            phase: Phase::Empty,
            used: Instant::now(),
            connections: 0,
            failures: 0,
            not_before: None,
            why: String::new(),
        };
        Self { state: Mutex::new(state), users: AtomicUsize::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, or who makes it.
    pub(crate) fn find(&self) -> Result<Found, CallError> {
        let mut state = self.state();
        match &state.phase {
            Phase::Live(connection) if connection.is_live() => {
                return Ok(Found::Live(Arc::clone(connection)));
            }
            Phase::Connecting(attempt) => return Ok(Found::Connecting(attempt.clone())),
            Phase::Live(_) | Phase::Empty => {}
        }
        let now = Instant::now();
        if let Some(retry_in) = state.not_before.map(|then| then - now).filter(|wait| !wait.is_zero()) {
            return Err(CallError::BackingOff { retry_in, why: state.why.clone() });
        }
        let (sender, receiver) = watch::channel(None);
        state.phase = Phase::Connecting(receiver.clone());
        Ok(Found::Empty(sender, receiver))
    }

    /// The attempt succeeded. Returns how many have so far.
    pub(crate) fn connected(&self, connection: &Arc<Connection>) -> u64 {
        let mut state = self.state();
        state.phase = Phase::Live(Arc::clone(connection));
        state.connections += 1;
        state.connections
    }

    /// The attempt came to nothing; `why` if that says something about the server.
    pub(crate) fn not_connected(&self, why: Option<&Error>) {
        let mut state = self.state();
        state.phase = Phase::Empty;
        if let Some(why) = why {
            state.fail(why);
        }
    }

    /// The connection takes no more calls; `why` if that is a failure. Only the first to say so counts.
    pub(crate) fn retire(&self, connection: &Arc<Connection>, why: Option<&Error>) {
        let mut state = self.state();
        if matches!(&state.phase, Phase::Live(live) if Arc::ptr_eq(live, connection)) {
            state.phase = Phase::Empty;
        }
        if let (true, Some(why)) = (connection.retire(), why) {
            state.fail(why);
        }
    }

    /// The server has answered, so it works.
    pub(crate) fn proved(&self) {
        let mut state = self.state();
        state.failures = 0;
        state.not_before = None;
    }

    /// Whether a call uses it.
    pub(crate) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Since when nobody uses it.
    pub(crate) fn used(&self) -> Instant {
        self.state().used
    }

    /// The connection, if there is one.
    pub(crate) fn live(&self) -> Option<Arc<Connection>> {
        match &self.state().phase {
            Phase::Live(connection) => Some(Arc::clone(connection)),
            Phase::Empty | Phase::Connecting(_) => None,
        }
    }

    /// Whether there is nothing in it worth keeping.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        let is_waiting = state.not_before.is_some_and(|then| then > Instant::now());
        !self.is_used() && !is_waiting && matches!(state.phase, Phase::Empty)
    }
}

impl State {
    fn fail(&mut self, why: &Error) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = backoff(self.failures).map(|wait| Instant::now() + wait);
        self.why = why.to_string();
    }
}

/// How long a server is left alone that has failed so often in a row.
fn backoff(failures: u32) -> Option<Duration> {
    let doublings = failures.checked_sub(2)?;
    Some(BACKOFF_FIRST.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(BACKOFF_LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_up_to_a_minute() {
        let seconds = |failures| backoff(failures).map(|wait| wait.as_secs());
        let waits: Vec<_> = (0..=9).map(seconds).collect();
        assert_eq!(
            waits,
            [None, None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(32), Some(60), Some(60)]
        );
        assert_eq!(seconds(u32::MAX), Some(60));
    }
}
