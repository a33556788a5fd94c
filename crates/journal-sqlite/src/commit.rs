//! The commit thread: many callers, one transaction, one sync.
//!
//! Callers put requests into a bounded queue and wait. The thread drains what is there, commits it as one batch,
//! answers everybody, and only then tells the followers. While a batch is being committed the next one gathers, so
//! under load the batches grow by themselves; a short linger keeps sessions that answer at once in the same batch.
//!
//! A caller that is alone does not need the thread; see [`queue`](crate::queue).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use weir_journal::follow::Hub;
use weir_journal::{AppendError, Appended, Branch, Fork, ForkError, Snapshot};

use crate::desk::{Desk, Outcome};
use crate::queue::Shared;
use crate::write::Append;

/// Most events in one batch, unless a single append has more.
const BATCH_EVENTS_MAX: usize = 1_024;

/// Most bytes in one batch, unless a single append has more.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Longest wait for the next of those who are likely to come back: the sessions that were just answered.
const LINGER_MAX: Duration = Duration::from_micros(200);

/// A batch of this many requests waits for nobody: its share of a sync is small already, and the rest of a large crowd
/// is better encoding its next requests while these are committed.
const LINGER_REQUESTS_MAX: usize = 128;

/// How often commits of other processes are looked for while somebody follows.
const POLL: Duration = Duration::from_millis(100);

/// What callers ask of the thread.
pub(crate) enum Request {
    Append {
        append: Append,
        size: Size,
        reply: oneshot::Sender<Result<Vec<Appended>, AppendError>>,
        _room: OwnedSemaphorePermit,
    },
    Fork {
        fork: Fork,
        reply: oneshot::Sender<Result<Branch, ForkError>>,
        _room: OwnedSemaphorePermit,
    },
    Snapshot {
        snapshot: Snapshot,
        _room: OwnedSemaphorePermit,
    },
    /// Somebody has begun to follow: look for other processes' commits from now on.
    Follow,
    /// Finish what is queued and end.
    Close,
}

/// What a request weighs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// Counters that tests and benchmarks read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    /// Commits by callers.
    pub(crate) in_place: AtomicU64,
}

/// The thread's own state.
pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: Receiver<Request>,
    pub(crate) hub: Arc<Hub>,
}

/// Requests to be committed together.
#[derive(Default)]
struct Batch {
    requests: Vec<Request>,
    size: Size,
    is_last: bool,
}

impl Batch {
    fn push(&mut self, request: Request) {
        match &request {
            Request::Append { size, .. } => {
                self.size.events += size.events;
                self.size.bytes += size.bytes;
            }
            Request::Follow => return,
            Request::Close => {
                self.is_last = true;
                return;
            }
            Request::Fork { .. } | Request::Snapshot { .. } => {}
        }
        self.requests.push(request);
    }

    fn is_full(&self) -> bool {
        self.is_last || self.size.events >= BATCH_EVENTS_MAX || self.size.bytes >= BATCH_BYTES_MAX
    }
}

impl Committer {
    /// Runs until the journal is closed.
    pub(crate) fn run(mut self) {
        /// Nobody commits when this thread has ended, however it ended: the connection closes, and the checkpoint
        /// thread, which the desk keeps waiting, ends too.
        struct Leave(Arc<Shared>);
        impl Drop for Leave {
            fn drop(&mut self) {
                drop(self.0.clear_desk());
            }
        }
        let _leave = Leave(Arc::clone(&self.shared));
        self.serve();
    }

    fn serve(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut batch = Batch::default();
        let mut expected = 0;
        loop {
            self.gather(&mut batch, expected);
            let Batch { requests, is_last, .. } = std::mem::take(&mut batch);
            if !requests.is_empty() {
                // A caller that broke down at the desk leaves it unusable: then nothing can be committed any more.
                let Some(mut desk) = shared.desk() else { return };
                let Some(desk) = desk.as_mut() else { return };
                expected = self.commit(desk, requests, &mut batch);
            }
            if is_last {
                return;
            }
        }
    }

    /// Commits a batch. Takes those who have come meanwhile into the next one; says how many that may come to.
    fn commit(&mut self, desk: &mut Desk, requests: Vec<Request>, next: &mut Batch) -> usize {
        let (answered, began) = (requests.len(), Instant::now());
        let outcomes = desk.commit(requests);
        while !next.is_full()
            && let Ok(request) = self.inbox.try_recv()
        {
            next.push(request);
        }
        // Whoever queued up during the commit is in the next batch; those answered now may be, too.
        let expected = LINGER_REQUESTS_MAX.min(answered + next.requests.len());
        // Before the answers: whoever gets one may be back at once.
        self.shared.signs.served(answered, expected, began.elapsed());
        outcomes.into_iter().for_each(Outcome::send);
        desk.publish();
        if desk.log_is_long() {
            desk.restart_log();
        }
        expected
    }

    /// Fills the batch: waits for the first request, takes what is there, lingers for those that are likely to come.
    fn gather(&mut self, batch: &mut Batch, expected: usize) {
        while batch.requests.is_empty() && !batch.is_last {
            match self.next() {
                Some(request) => batch.push(request),
                None => batch.is_last = true,
            }
        }
        while !batch.is_full() {
            match self.inbox.try_recv() {
                Ok(request) => batch.push(request),
                Err(TryRecvError::Empty) if batch.requests.len() < expected => {
                    match self.inbox.recv_timeout(LINGER_MAX) {
                        Ok(request) => batch.push(request),
                        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
                    }
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Waits for a request, looking out for other processes if somebody follows; `None` when nobody can ask any more.
    fn next(&mut self) -> Option<Request> {
        loop {
            if !self.hub.has_followers() {
                return self.inbox.recv().ok();
            }
            match self.inbox.recv_timeout(POLL) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.shared.desk()?.as_mut().into_iter().for_each(Desk::look_out);
                }
            }
        }
    }
}
