//! The commit thread: many callers, one transaction, one sync.
//!
//! Callers put requests into a bounded queue and wait. The thread drains what is there, commits it as one batch,
//! answers everybody, and only then tells the followers. While a batch is being committed the next one gathers, so
//! under load the batches grow by themselves; a short linger keeps sessions that answer at once in the same batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use weir_journal::follow::Hub;
use weir_journal::{AppendError, Appended, Branch, Fork, ForkError, ReadError, Snapshot, StorageError};
use weir_types::{EventId, Position};

use crate::connection::Location;
use crate::write::{Append, Writer, Written};

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

/// Log pages after which, each time, the checkpoint thread is woken.
const CHECKPOINT_PAGES: i32 = 500;

/// Log pages after which this thread finishes the checkpoint itself, so that the log starts over under steady load.
/// It bounds the log, and with it the time that opening takes after a crash.
const RESTART_PAGES: i32 = 1_000;

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
}

/// The thread's own state.
pub(crate) struct Committer {
    pub(crate) writer: Writer,
    pub(crate) inbox: Receiver<Request>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) location: Location,
    pub(crate) counters: Arc<Counters>,
    /// Pages in the log after the last commit, set by SQLite's hook.
    pub(crate) log_pages: Arc<AtomicI32>,
    pub(crate) checkpoint: SyncSender<()>,
    /// Log pages at which the checkpoint thread is woken next.
    pub(crate) checkpoint_at: i32,
    /// Committed, but not yet told to the followers.
    pub(crate) written: Vec<Written>,
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

/// What became of a request inside the transaction.
enum Applied {
    Append(Result<Vec<Appended>, AppendError>),
    Fork(Result<Branch, ForkError>),
    Nothing,
}

/// A request's answer, kept back until the batch is durable.
enum Outcome {
    Append(oneshot::Sender<Result<Vec<Appended>, AppendError>>, Result<Vec<Appended>, AppendError>),
    Fork(oneshot::Sender<Result<Branch, ForkError>>, Result<Branch, ForkError>),
}

impl Outcome {
    fn new(request: Request, applied: Applied) -> Option<Self> {
        match (request, applied) {
            (Request::Append { reply, .. }, Applied::Append(result)) => Some(Self::Append(reply, result)),
            (Request::Fork { reply, .. }, Applied::Fork(result)) => Some(Self::Fork(reply, result)),
            _ => None,
        }
    }

    fn failed(request: Request, error: impl Fn() -> StorageError) -> Option<Self> {
        match request {
            Request::Append { reply, .. } => Some(Self::Append(reply, Err(error().into()))),
            Request::Fork { reply, .. } => Some(Self::Fork(reply, Err(ReadError::from(error()).into()))),
            Request::Snapshot { .. } | Request::Follow | Request::Close => None,
        }
    }

    /// Answers a caller; one that has stopped waiting is not an error.
    fn send(self) {
        match self {
            Self::Append(reply, result) => drop(reply.send(result)),
            Self::Fork(reply, result) => drop(reply.send(result)),
        }
    }
}

impl Committer {
    /// Runs until the journal is closed.
    pub(crate) fn run(mut self) {
        let mut batch = Batch::default();
        let mut expected = 0;
        loop {
            self.gather(&mut batch, expected);
            let is_last = batch.is_last;
            let requests = std::mem::take(&mut batch).requests;
            if !requests.is_empty() {
                let answered = requests.len();
                let outcomes = self.commit(requests);
                // Whoever queued up during the commit is in the next batch; those answered now may be, too.
                while !batch.is_full()
                    && let Ok(request) = self.inbox.try_recv()
                {
                    batch.push(request);
                }
                expected = LINGER_REQUESTS_MAX.min(answered + batch.requests.len());
                outcomes.into_iter().for_each(Outcome::send);
                self.publish();
                self.checkpoint();
            }
            if is_last {
                return;
            }
        }
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
                    // A failed look is repeated at the next tick.
                    if let Ok(Some(known)) = self.writer.notice_others() {
                        self.nudge(known);
                    }
                }
            }
        }
    }

    /// Commits a batch. If a constraint refuses it as a whole, each request is tried alone: an id that exists already
    /// must not take the other requests down with it.
    fn commit(&mut self, requests: Vec<Request>) -> Vec<Outcome> {
        match self.attempt(&requests) {
            Ok(applied) => requests
                .into_iter()
                .zip(applied)
                .filter_map(|(request, applied)| Outcome::new(request, applied))
                .collect(),
            Err(error) if is_constraint(&error) && requests.len() > 1 => {
                requests.into_iter().flat_map(|request| self.commit(vec![request])).collect()
            }
            Err(error) if is_constraint(&error) => {
                requests.into_iter().filter_map(|request| self.duplicate(request)).collect()
            }
            Err(error) => {
                let explain = || self.location.explain(repeat(&error));
                requests.into_iter().filter_map(|request| Outcome::failed(request, explain)).collect()
            }
        }
    }

    /// The only constraint that a checked request can violate is the identity of its events.
    fn duplicate(&mut self, request: Request) -> Option<Outcome> {
        let Request::Append { append, reply, .. } = request else { return None };
        let ids: Vec<EventId> =
            append.parts.iter().flat_map(|part| &part.events).map(|event| event.id()).collect();
        let known =
            |id: &EventId| ids.iter().filter(|other| *other == id).count() > 1 || self.writer.knows(*id);
        let id = ids.iter().copied().find(known).or(ids.first().copied())?;
        Some(Outcome::Append(reply, Err(AppendError::DuplicateId { id })))
    }

    fn attempt(&mut self, requests: &[Request]) -> rusqlite::Result<Vec<Applied>> {
        let result = self.apply_all(requests);
        match &result {
            Ok(_) => {
                let written = self.writer.take_written();
                let events = self.writer.position().0 - written.before.0;
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                self.counters.events.fetch_add(events, Ordering::Relaxed);
                self.counters.requests.fetch_add(requests.len() as u64, Ordering::Relaxed);
                self.written.push(written);
            }
            Err(_) => self.writer.rollback(),
        }
        result
    }

    fn apply_all(&mut self, requests: &[Request]) -> rusqlite::Result<Vec<Applied>> {
        self.writer.begin()?;
        let results = requests.iter().map(|request| self.apply(request)).collect::<rusqlite::Result<_>>()?;
        self.writer.commit()?;
        Ok(results)
    }

    fn apply(&mut self, request: &Request) -> rusqlite::Result<Applied> {
        Ok(match request {
            Request::Append { append, .. } => Applied::Append(self.writer.append(append)?),
            Request::Fork { fork, .. } => Applied::Fork(self.writer.fork(fork)?),
            Request::Snapshot { snapshot, .. } => {
                self.writer.put_snapshot(snapshot)?;
                Applied::Nothing
            }
            Request::Follow | Request::Close => Applied::Nothing,
        })
    }

    /// Tells the followers what is durable now. Who follows is asked again here: somebody may have begun between the
    /// writing and the commit, and has then neither read these events nor been handed them.
    fn publish(&mut self) {
        for written in std::mem::take(&mut self.written) {
            if !self.hub.has_followers() {
                continue;
            }
            if let Some(known) = written.others_after {
                self.nudge(known);
            }
            // Somebody who follows everything since this batch began must not take a part of it for the whole: then
            // nothing is handed on, and everybody is sent to the store.
            let mut told = HashSet::new();
            if written.is_complete || !self.hub.wants_all() {
                self.hub.publish(written.before, &written.events);
                told.extend(written.events.iter().map(|event| event.branch_id()));
            }
            for branch in written.branches.iter().filter(|branch| !told.contains(*branch)) {
                if self.hub.wants(branch) {
                    self.hub.nudge(branch);
                }
            }
        }
    }

    /// Sends followers to the store for what other processes have appended.
    fn nudge(&mut self, after: Position) {
        match self.writer.branches_after(after) {
            Ok(Some(branches)) => branches.iter().for_each(|branch| self.hub.nudge(branch)),
            Ok(None) | Err(_) => self.hub.nudge_all(),
        }
    }

    /// Keeps the log short: the checkpoint thread copies most of it while we go on; under steady load it never quite
    /// catches up, so the rest is copied here, and the next commit starts the log over.
    fn checkpoint(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < CHECKPOINT_PAGES {
            self.checkpoint_at = CHECKPOINT_PAGES;
        } else if pages >= RESTART_PAGES {
            self.writer.finish_checkpoint();
            self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        } else if pages >= self.checkpoint_at {
            self.checkpoint_at = pages + CHECKPOINT_PAGES;
            // A full channel means that it has been woken already.
            let _ = self.checkpoint.try_send(());
        }
    }
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

/// The same error once more, for the next caller of the same batch.
fn repeat(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => rusqlite::Error::SqliteFailure(*code, text.clone()),
        other => rusqlite::Error::ToSqlConversionFailure(other.to_string().into()),
    }
}
