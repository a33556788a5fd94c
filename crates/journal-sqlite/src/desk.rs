//! The desk: where batches are committed, by whoever sits at it.
//!
//! There is one per open journal, behind a mutex. The commit thread sits there for the batches of the queue; a caller
//! that is alone sits there itself. Whoever it is commits, answers, and tells the followers before leaving, so commits
//! are published in the order of their positions.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::SyncSender;

use tokio::sync::oneshot;
use weir_journal::follow::Hub;
use weir_journal::{AppendError, Appended, Branch, ForkError, ReadError, StorageError};
use weir_types::{EventId, Position};

use crate::anchor_file::AnchorFile;
use crate::checkpoint::Wake;
use crate::commit::{Counters, Request};
use crate::connection::{Location, without_waiting};
use crate::write::{Writer, Written};

/// Log pages after which, each time, the checkpoint thread is woken.
const CHECKPOINT_PAGES: i32 = 500;

/// Log pages after which the commit thread finishes the checkpoint itself, so that the log starts over under steady
/// load. It bounds the log, and with it the time that opening takes after a crash.
const RESTART_PAGES: i32 = 1_000;

/// What it takes to commit.
pub(crate) struct Desk {
    pub(crate) writer: Writer,
    pub(crate) hub: Arc<Hub>,
    pub(crate) location: Location,
    pub(crate) counters: Arc<Counters>,
    /// Pages in the log after the last commit, set by SQLite's hook.
    pub(crate) log_pages: Arc<AtomicI32>,
    pub(crate) checkpoint: SyncSender<Wake>,
    /// Log pages at which the checkpoint thread is woken next.
    pub(crate) checkpoint_at: i32,
    /// Where the newest acknowledged event is named.
    pub(crate) anchor: Option<AnchorFile>,
    /// Committed, but not yet told to the followers.
    pub(crate) written: Vec<Written>,
}

/// What became of a request inside the transaction.
enum Applied {
    Append(Result<Vec<Appended>, AppendError>),
    Fork(Result<Branch, ForkError>),
    Nothing,
}

/// A request's answer, kept back until the batch is durable.
pub(crate) enum Outcome {
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
    pub(crate) fn send(self) {
        match self {
            Self::Append(reply, result) => drop(reply.send(result)),
            Self::Fork(reply, result) => drop(reply.send(result)),
        }
    }
}

impl Desk {
    /// Commits a batch. If a constraint refuses it as a whole, each request is tried alone: an id that exists already
    /// must not take the other requests down with it.
    pub(crate) fn commit(&mut self, requests: Vec<Request>) -> Vec<Outcome> {
        let attempted = self.attempt(&requests);
        self.conclude(requests, attempted)
    }

    /// Commits one request, answers it and tells the followers. Gives it back, with nothing done, if another process
    /// is in the way: waiting is the thread's business.
    pub(crate) fn commit_at_once(&mut self, request: Request) -> Option<Request> {
        let attempted = without_waiting(|| self.attempt(std::slice::from_ref(&request)));
        if attempted.as_ref().is_err_and(is_busy) {
            return Some(request);
        }
        self.counters.in_place.fetch_add(u64::from(attempted.is_ok()), Ordering::Relaxed);
        self.conclude(vec![request], attempted).into_iter().for_each(Outcome::send);
        self.publish();
        None
    }

    fn conclude(
        &mut self,
        requests: Vec<Request>,
        attempted: rusqlite::Result<Vec<Applied>>,
    ) -> Vec<Outcome> {
        match attempted {
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
                tracing::debug!(target: "weir", requests = requests.len(), %error, "a commit failed");
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
                self.advance_anchor();
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

    /// Names the newest event of the batch, which is durable now and not acknowledged yet. An anchor that cannot be
    /// written is behind, which costs nothing but a finding that could have been made.
    fn advance_anchor(&self) {
        let (Some(anchor), Some(newest)) = (&self.anchor, self.writer.newest_written()) else { return };
        if anchor.advance(newest).unwrap_or(false) {
            // A full channel means that the thread is awake, and looks by itself.
            let _ = self.checkpoint.try_send(Wake::Anchor);
        }
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
    pub(crate) fn publish(&mut self) {
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

    /// Looks for what other processes have committed, and sends their followers to it.
    pub(crate) fn look_out(&mut self) {
        // A failed look is repeated at the next tick.
        if let Ok(Some(known)) = self.writer.notice_others() {
            self.nudge(known);
        }
    }

    /// Keeps the log short: the checkpoint thread copies most of it while others go on. True, if it cannot catch up and
    /// the rest should be copied now, by [`Desk::restart_log`].
    pub(crate) fn log_is_long(&mut self) -> bool {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < CHECKPOINT_PAGES {
            self.checkpoint_at = CHECKPOINT_PAGES;
        } else if pages < RESTART_PAGES && pages >= self.checkpoint_at {
            self.checkpoint_at = pages + CHECKPOINT_PAGES;
            // A full channel means that it has been woken already.
            let _ = self.checkpoint.try_send(Wake::Checkpoint);
        }
        pages >= RESTART_PAGES
    }

    /// Copies what is left of the log, so that the next commit starts it over.
    pub(crate) fn restart_log(&mut self) {
        self.writer.finish_checkpoint();
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// The same error once more, for the next caller of the same batch.
fn repeat(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => rusqlite::Error::SqliteFailure(*code, text.clone()),
        other => rusqlite::Error::ToSqlConversionFailure(other.to_string().into()),
    }
}
