//! How a request is committed: by the thread, in a batch, or by its caller, if that is alone.
//!
//! The thread makes batches, and batches are what many sessions need. One session alone pays for them with two
//! hand-overs between threads per commit, and gets nothing for it. So a caller that finds nobody else commits by itself,
//! on a thread that the runtime is told to do without (`block_in_place`). See docs/adr/0012.
//!
//! INVARIANT: nothing here decides what is committed or in which order positions are given out; the desk's mutex does.
//! The signs only say whose thread does it. A wrong sign costs time, not correctness.
//!
//! INVARIANT: what a task has queued is committed before what it submits later: a caller goes to the desk only while
//! nothing is queued.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::commit::{Request, Size};
use crate::desk::Desk;

/// A commit that took longer than this is no business of a caller's: the disk is slow, or was, so that a hand-over to
/// the thread does not matter, and the caller should rather stay able to give up.
const QUICK: Duration = Duration::from_millis(2);

/// The most that a caller commits by itself. More takes long enough to leave it to the thread.
const IN_PLACE_EVENTS_MAX: usize = 64;
const IN_PLACE_BYTES_MAX: usize = 64 * 1024;

/// How many commits callers do in a row before one of them looks round. Looking round means to let others run first,
/// which moves a task to another thread. Futures of one task that all append are strung together meanwhile, at worst.
const LOOK_ROUND_AFTER: usize = 8;

/// What callers hold.
pub(crate) struct Queue {
    pub(crate) sender: Sender<Request>,
    pub(crate) shared: Arc<Shared>,
}

/// The journal has been closed, or its thread has died.
#[derive(Debug)]
pub(crate) struct Closed;

/// What the thread and the callers share.
pub(crate) struct Shared {
    /// Empty once the journal is closed.
    desk: Mutex<Option<Desk>>,
    pub(crate) signs: Signs,
}

/// What the thread and the callers tell one another, to find who commits.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    /// Callers that are looking round.
    arriving: AtomicUsize,
    /// Commits by callers since one of them looked round.
    in_a_row: AtomicUsize,
    /// Requests that were queued and are not committed yet.
    queued: AtomicUsize,
    /// The last commit was of one request, nobody came meanwhile, and it was quick.
    is_calm: AtomicBool,
    /// Callers are not to commit: the journal is being closed, or the runtime cannot be told to do without a thread.
    is_refused: AtomicBool,
}

impl Signs {
    /// The thread has committed a batch.
    pub(crate) fn served(&self, answered: usize, expected: usize, took: Duration) {
        self.queued.fetch_sub(answered, Ordering::SeqCst);
        self.is_calm.store(expected <= 1 && took < QUICK, Ordering::Relaxed);
    }

    fn may_be_alone(&self, arriving: usize) -> bool {
        self.is_calm.load(Ordering::Relaxed)
            && self.arriving.load(Ordering::SeqCst) == arriving
            && self.queued.load(Ordering::SeqCst) == 0
            && !self.is_refused.load(Ordering::Relaxed)
    }
}

/// A caller that is looking round.
struct Arrival<'a>(&'a Signs);

impl<'a> Arrival<'a> {
    fn new(signs: &'a Signs) -> Self {
        signs.arriving.fetch_add(1, Ordering::SeqCst);
        Self(signs)
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    pub(crate) fn new(desk: Desk) -> Arc<Self> {
        Arc::new(Self { desk: Mutex::new(Some(desk)), signs: Signs::default() })
    }

    /// A seat at the desk, when it is free; none, if somebody broke down there.
    pub(crate) fn desk(&self) -> Option<MutexGuard<'_, Option<Desk>>> {
        self.desk.lock().ok()
    }

    /// Takes the desk away.
    pub(crate) fn clear_desk(&self) -> Option<Desk> {
        self.desk.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

impl Queue {
    /// Sees to it that the request is committed and answered: by the thread, or here and now.
    ///
    /// # Cancel safety
    /// When the future is dropped the request is either queued, and will be committed, or was never submitted. While a
    /// request is committed here, the future cannot be dropped.
    pub(crate) async fn submit(&self, request: Request, size: Size) -> Result<(), Closed> {
        let is_small = size.events <= IN_PLACE_EVENTS_MAX && size.bytes <= IN_PLACE_BYTES_MAX;
        if is_small && self.is_alone().await {
            return self.commit_in_place(request).map_or(Ok(()), |request| self.send(request));
        }
        self.send(request)
    }

    /// Whether nobody else has anything to commit, as far as can be seen, and this is a thread to commit on.
    async fn is_alone(&self) -> bool {
        let (signs, multi_thread) = (&self.shared.signs, RuntimeFlavor::MultiThread);
        if !signs.may_be_alone(0)
            || Handle::try_current().map_or(true, |handle| handle.runtime_flavor() != multi_thread)
        {
            return false;
        }
        if signs.in_a_row.fetch_add(1, Ordering::Relaxed) < LOOK_ROUND_AFTER {
            return true;
        }
        signs.in_a_row.store(0, Ordering::Relaxed);
        let _arrival = Arrival::new(signs);
        // Whoever is ready to run comes first, and so do the other futures of this task. If they have something to
        // append, they find this one here: they are company, and the thread's batch.
        tokio::task::yield_now().await;
        signs.may_be_alone(1)
    }

    /// Puts a request into the queue.
    pub(crate) fn send(&self, request: Request) -> Result<(), Closed> {
        let counts =
            matches!(request, Request::Append { .. } | Request::Fork { .. } | Request::Snapshot { .. });
        if counts {
            self.shared.signs.queued.fetch_add(1, Ordering::SeqCst);
        }
        self.sender.send(request).map_err(|_| Closed)
    }

    /// Lets the thread finish what is queued and end. From here on no caller commits by itself.
    pub(crate) fn close(&self) {
        self.shared.signs.is_refused.store(true, Ordering::Relaxed);
        let _ = self.send(Request::Close);
    }

    /// Commits a request on this thread. Gives it back if somebody else is committing.
    fn commit_in_place(&self, request: Request) -> Option<Request> {
        let mut desk = match self.shared.desk.try_lock() {
            Ok(desk) => desk,
            // Also when somebody broke down there: the thread finds out and says so.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return Some(request),
        };
        let Some(desk) = desk.as_mut() else { return Some(request) };
        let (mut request, mut given_back) = (Some(request), None);
        // There is no way to ask whether this can be done; inside a `LocalSet` tokio panics before it begins. A panic
        // of ours goes on, and leaves the desk poisoned.
        let blocked = catch_unwind(AssertUnwindSafe(|| {
            tokio::task::block_in_place(|| {
                given_back = request.take().map(|request| self.commit_here(desk, request));
            });
        }));
        match (blocked, given_back, request) {
            (_, Some(given_back), _) => given_back,
            (_, None, Some(request)) => {
                self.shared.signs.is_refused.store(true, Ordering::Relaxed);
                Some(request)
            }
            (Err(panic), None, None) => resume_unwind(panic),
            (Ok(()), None, None) => None,
        }
    }

    fn commit_here(&self, desk: &mut Desk, request: Request) -> Option<Request> {
        let began = Instant::now();
        let given_back = desk.commit_at_once(request);
        // Copying a long log takes a while: the next commit is the thread's, and it does that, too.
        if desk.log_is_long() || began.elapsed() >= QUICK {
            self.shared.signs.is_calm.store(false, Ordering::Relaxed);
        }
        given_back
    }
}

#[cfg(test)]
mod tests {
    use weir_blobs::MemoryBlobs;
    use weir_journal::{AppendError, Journal, NewEvent, Part, StorageFailure};
    use weir_types::BranchId;

    use super::*;
    use crate::{Options, SqliteJournal};

    #[tokio::test(flavor = "multi_thread")]
    async fn after_a_breakdown_at_the_desk_nothing_is_promised_and_nothing_hangs() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            path: directory.path().join("journal.db"),
            blobs: Arc::new(MemoryBlobs::default()),
            vfs: None,
        };
        let journal = SqliteJournal::open(options).await.unwrap();
        let append = || {
            let event = NewEvent::new("k".parse().unwrap(), "{}");
            journal.append(vec![Part::new(BranchId::main("a".parse().unwrap()), vec![event])])
        };
        append().await.unwrap();
        let shared = Arc::clone(&journal.queue.shared);
        let broken = std::thread::spawn(move || {
            let _desk = shared.desk();
            panic!("a bug");
        });
        broken.join().unwrap_err();
        for _ in 0..2 {
            match append().await {
                Err(AppendError::Storage(error)) => assert_eq!(error.what, StorageFailure::Closed),
                other => panic!("{other:?}"),
            }
        }
        tokio::time::timeout(Duration::from_secs(30), journal.close()).await.unwrap();
    }
}
