//! The engine as the rest of the program sees it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{Semaphore, oneshot};
use weir_blobs::Blobs;
use weir_journal::follow::{self, Hub};
use weir_journal::{
    Answer, AppendError, Appended, Branch, FoldVersion, Fork, ForkError, Head, Journal, Key, KeyedPart,
    ListAfter, ListFilter, Listed, Looked, PAGE_MAX, Part, Problem, ReadError, Report, SNAPSHOT_MAX,
    Snapshot, StorageError, StorageFailure, StreamSummary, Tail, VerifyProgress, payloads, rules,
};
use weir_types::{BranchId, Event, EventId, Hash, Kind, Position, Seq, StreamName};

use crate::check::{Depth, Scope};
use crate::commit::{Committer, Counters, Request, Size};
use crate::connection::{Location, Role, without_waiting};
use crate::damage::{DamageLog, DamageRecord};
use crate::desk::Desk;
use crate::facts::Facts;
use crate::open::{Findings, Opened, Options};
use crate::open_error::OpenError;
use crate::pool::{self, Pool};
use crate::queue::{Queue, Shared};
use crate::record::Record;
use crate::rows::Error;
use crate::schema::APPLICATION_ID;
use crate::source::Source;
use crate::write::{Append, Writer};
use crate::{check, checkpoint, facts, open, read_only, record};

/// Kibibytes of appends waiting for the commit thread; beyond that, callers wait before they queue.
const QUEUE_KIB_MAX: usize = 64 * 1024;

/// Work above this many bytes is encoded on a blocking thread.
const ENCODE_INLINE_MAX: usize = 32 * 1024;

/// A journal in one SQLite file. Several processes may have the same file open at once.
///
/// On a runtime with several threads, an append may be committed on the caller's own thread, which the runtime is told
/// to do without; other futures of the same task wait for as long.
pub struct SqliteJournal {
    source: Arc<Source>,
    hub: Arc<Hub>,
    pub(crate) queue: Queue,
    room: Arc<Semaphore>,
    counters: Arc<Counters>,
    reads: Arc<AtomicU64>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    findings: Findings,
    /// Held for as long as the file is in use.
    _lock: Option<std::fs::File>,
    /// Removed when the journal is dropped.
    _copy: Option<tempfile::TempDir>,
    is_read_only: bool,
}

/// What the engine has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Transactions, each with one sync.
    pub commits: u64,
    /// Requests committed by them.
    pub requests: u64,
    /// Events appended.
    pub events: u64,
    /// Copies of the log into the file.
    pub checkpoints: u64,
    /// Transactions that a caller committed by itself, because it was alone.
    pub in_place: u64,
    /// Rows looked up, by readers and by the commit thread.
    pub reads: u64,
}

impl SqliteJournal {
    /// Opens or makes a journal.
    ///
    /// # Errors
    /// When the place is not safe, the file is not ours or too new, or the storage fails. Nothing is changed then.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let Options { path, blobs, vfs } = options;
        let opened = tokio::task::spawn_blocking(move || {
            open::open(&path, vfs.as_deref()).and_then(|o| start(o, blobs))
        });
        match opened.await {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// Opens a journal that is there to read it. Nothing in its directory is changed, and appends are refused.
    ///
    /// # Errors
    /// When the file is not ours, too new, or damaged, or cannot be read.
    pub async fn open_read_only(path: PathBuf, blobs: Arc<dyn Blobs>) -> Result<Self, OpenError> {
        let opened = tokio::task::spawn_blocking(move || {
            read_only::open(&path).and_then(|opened| start(opened, blobs))
        });
        match opened.await {
            Ok(result) => result.map(|mut journal| {
                journal.is_read_only = true;
                journal
            }),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// Finishes what is queued, stops the threads and closes the file. Appends after this fail.
    pub async fn close(&self) {
        self.queue.close();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let pool = self.source.pool.clone();
        let joined = tokio::task::spawn_blocking(move || {
            pool.close();
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        let _ = joined.await;
    }

    /// What was found when the journal was opened.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Whether it was opened to be read.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// What the engine has done since it was opened.
    pub fn stats(&self) -> Stats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { commits, events, requests, checkpoints, in_place } = &*self.counters;
        let (commits, events, requests) = (load(commits), load(events), load(requests));
        let (checkpoints, in_place) = (load(checkpoints), load(in_place));
        Stats { commits, requests, events, checkpoints, in_place, reads: load(&self.reads) }
    }

    /// Copies the file, as it is at one moment, to `target`, while others go on writing.
    ///
    /// # Errors
    /// When the target exists or cannot be written.
    pub async fn backup_to(&self, target: &Path) -> Result<(), StorageError> {
        facts::backup(self.source.location.clone(), target.to_owned()).await
    }

    /// Whether no other process has the journal open. If so, whoever opens it waits until this one is closed.
    pub fn hold_alone(&self) -> bool {
        let Some(lock) = &self._lock else { return true };
        if lock.try_lock().is_ok() {
            return true;
        }
        // Trying for all of it may have lost the share that says that the file is in use.
        let _ = lock.lock_shared();
        false
    }

    /// Facts about the file, for people who look for trouble.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn facts(&self) -> Result<Facts, ReadError> {
        let wal = self.source.location.wal();
        self.source.pool.read(move |reader| facts::gather(reader, &wal)).await
    }
}

impl SqliteJournal {
    /// The damage found at this opening or an earlier one that no person has accepted.
    async fn open_damage(&self) -> Vec<DamageRecord> {
        let directory = open::directory_of(&self.source.location.path).to_owned();
        if self.is_read_only || self.source.location.vfs.is_some() {
            return self.findings.damage.clone();
        }
        let read = tokio::task::spawn_blocking(move || DamageLog::read(&directory));
        match read.await {
            Ok(Ok(log)) => log.into_open(),
            _ => self.findings.damage.clone(),
        }
    }
}

fn problem(record: &DamageRecord) -> Problem {
    let copy = record.copy.as_ref().map_or_else(String::new, |copy| format!("; a copy: `{copy}`"));
    Problem::at_place(record.kind.place(), format!("{} (found {}{copy})", record.what, record.found_at))
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Starts the threads on an opened file.
fn start(opened: Opened, blobs: Arc<dyn Blobs>) -> Result<SqliteJournal, OpenError> {
    let Opened { location, mut connection, lock, anchor, findings, copy } = opened;
    let (hub, counters, reads) = (Hub::new(), Arc::<Counters>::default(), Arc::<AtomicU64>::default());
    let log_pages = Arc::new(AtomicI32::new(0));
    let pages = log_pages.clone();
    let hook = move |_: &mut rusqlite::hooks::Wal, count| {
        pages.store(count, Ordering::Relaxed);
        Ok(())
    };
    let explain = |error| OpenError::Storage(location.explain(error));
    connection.wal_hook(Some(hook)).map_err(explain)?;
    let reader = pool::reader(connection, reads.clone()).map_err(|error| match error {
        Error::Sqlite(error) => OpenError::Storage(location.explain(error)),
        Error::Read(ReadError::Storage(error)) => OpenError::Storage(error),
        Error::Read(_) => OpenError::NotAJournal { path: location.path.to_path_buf() },
    })?;
    let mut writer = Writer::new(reader, hub.clone());
    writer.notice_others().map_err(explain)?;
    let (sender, inbox) = channel();
    // One of each kind of wake.
    let (wake, wakes) = sync_channel(2);
    let desk = Desk {
        writer,
        hub: hub.clone(),
        location: location.clone(),
        counters: counters.clone(),
        log_pages,
        checkpoint: wake,
        checkpoint_at: 0,
        anchor: anchor.clone(),
        written: Vec::new(),
    };
    let queue = Queue { sender, shared: Shared::new(desk) };
    let committer = Committer { shared: queue.shared.clone(), inbox, hub: hub.clone() };
    let (checkpoint_location, checkpoint_counters) = (location.clone(), counters.clone());
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let source = |source| OpenError::Directory { path: location.path.to_path_buf(), source };
        std::thread::Builder::new().name(name.into()).spawn(work).map_err(source)
    };
    let threads = vec![
        spawn("weir-commit", Box::new(move || committer.run()))?,
        spawn(
            "weir-checkpoint",
            Box::new(move || {
                checkpoint::run(&checkpoint_location, &wakes, &checkpoint_counters, anchor.as_ref());
            }),
        )?,
    ];
    let pool = Pool::new(location.clone(), reads.clone());
    let (source, room) =
        (Arc::new(Source { pool, blobs, location }), Arc::new(Semaphore::new(QUEUE_KIB_MAX)));
    let threads = Mutex::new(threads);
    Ok(SqliteJournal {
        source,
        hub,
        queue,
        room,
        counters,
        reads,
        threads,
        findings,
        _lock: lock,
        _copy: copy,
        is_read_only: false,
    })
}

impl SqliteJournal {
    #[cfg(test)]
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The error for a write to a journal that was opened to be read; what was opened may be a copy.
    fn read_only(&self) -> Option<StorageError> {
        let error = || StorageError {
            path: self.source.location.path.to_path_buf(),
            what: StorageFailure::ReadOnly,
            source: "it was opened to be read".into(),
        };
        self.is_read_only.then(error)
    }

    async fn append_all(&self, parts: Vec<Part>) -> Result<Vec<Appended>, AppendError> {
        if let Some(error) = self.read_only() {
            return Err(error.into());
        }
        rules::check_limits(&parts)?;
        let lease = payloads::lease(&*self.source.blobs, &parts).await?;
        let (append, size) = encode(parts).await;
        // The request may outlive this future: the lease goes along.
        let append = Append { _lease: Some(lease), ..append };
        let closed = || AppendError::from(self.source.location.closed());
        let room = self.room.clone().acquire_many_owned(kib(size.bytes)).await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let request = Request::Append { append, size, reply, _room: room };
        self.queue.submit(request, size).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn fork_at(&self, fork: Fork) -> Result<Branch, ForkError> {
        if let Some(error) = self.read_only() {
            return Err(ForkError::Read(error.into()));
        }
        let closed = || ForkError::Read(self.source.location.closed().into());
        let room = self.room.clone().acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        self.queue.send(Request::Fork { fork, reply, _room: room }).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

/// Commits a transaction on a connection of its own. The mark of the file is written again as it is: a page in the log, and a sync.
fn probe(location: &Location) -> Result<(), StorageError> {
    let written = without_waiting(|| {
        location.connect(Role::Commit)?.pragma_update(None, "application_id", APPLICATION_ID)
    });
    match written.map_err(|error| location.explain(error)) {
        // Whoever holds the lock is writing.
        Err(error) if error.what == StorageFailure::Busy => Ok(()),
        written => written,
    }
}

/// The room that this many bytes take in the queue.
fn kib(bytes: usize) -> u32 {
    u32::try_from((bytes / 1024 + 1).min(QUEUE_KIB_MAX)).unwrap_or(u32::MAX)
}

/// Encodes the records of an append before it queues up.
async fn encode(parts: Vec<Part>) -> (Append, Size) {
    let events = parts.iter().flat_map(|part| &part.events);
    let work: usize = events.filter(|event| !event.is_large()).map(|event| event.payload().len() + 256).sum();
    if work <= ENCODE_INLINE_MAX {
        return encode_now(parts);
    }
    match tokio::task::spawn_blocking(move || encode_now(parts)).await {
        Ok(encoded) => encoded,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

fn encode_now(parts: Vec<Part>) -> (Append, Size) {
    let records: Vec<Record> = parts.iter().flat_map(record::encode_part).collect();
    let size =
        Size { events: records.len(), bytes: records.iter().map(|record| record.bytes.len() + 128).sum() };
    (Append { parts, records, _lease: None }, size)
}

impl SqliteJournal {
    /// Checks the file, and adds what was found when it was opened.
    fn verify_and_open_damage(
        &self,
        scope: Scope,
        progress: VerifyProgress,
    ) -> Answer<'_, Report, ReadError> {
        let is_whole = scope.stream.is_none();
        let checked = check::verify(&self.source.pool, &self.source.blobs, scope, progress);
        Box::pin(async move {
            let mut report = checked.await?;
            if is_whole {
                self.open_damage().await.into_iter().for_each(|record| report.note(problem(&record)));
            }
            Ok(report)
        })
    }
}

impl Journal for SqliteJournal {
    fn append(&self, parts: Vec<Part>) -> Answer<'_, Vec<Appended>, AppendError> {
        Box::pin(self.append_all(parts))
    }

    fn fork(&self, fork: Fork) -> Answer<'_, Branch, ForkError> {
        Box::pin(self.fork_at(fork))
    }

    fn head<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Head>, ReadError> {
        let id = branch.clone();
        Box::pin(self.source.pool.look(move |reader| reader.head(&id)))
    }

    fn read<'a>(
        &'a self,
        branch: &'a BranchId,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        let id = branch.clone();
        Box::pin(self.source.events(move |reader| reader.read(&id, after, limit.min(PAGE_MAX))))
    }

    fn read_back<'a>(
        &'a self,
        branch: &'a BranchId,
        before: Option<Seq>,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        let id = branch.clone();
        Box::pin(self.source.events(move |reader| reader.read_back(&id, before, limit.min(PAGE_MAX))))
    }

    fn by_kind<'a>(
        &'a self,
        branch: &'a BranchId,
        kind: &'a Kind,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        let (id, kind) = (branch.clone(), kind.clone());
        Box::pin(self.source.events(move |reader| reader.by_kind(&id, &kind, after, limit.min(PAGE_MAX))))
    }

    fn by_id(&self, id: EventId) -> Answer<'_, Option<Event>, ReadError> {
        let found = self.source.events(move |reader| Ok(reader.by_id(id)?.into_iter().collect()));
        Box::pin(async move { Ok(found.await?.pop()) })
    }

    fn children(&self, of: EventId, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError> {
        Box::pin(self.source.events(move |reader| reader.children(of, after, limit.min(PAGE_MAX))))
    }

    fn read_all(&self, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError> {
        Box::pin(self.source.events(move |reader| reader.read_all(after, limit.min(PAGE_MAX))))
    }

    fn end(&self) -> Answer<'_, Position, ReadError> {
        Box::pin(self.source.pool.read(|reader| reader.end()))
    }

    fn probe(&self) -> Answer<'_, (), StorageError> {
        Box::pin(async {
            let location = self.source.location.clone();
            let probed = tokio::task::spawn_blocking(move || probe(&location)).await;
            probed.map_err(|_| self.source.location.closed())?
        })
    }

    fn tail(&self, branch: &BranchId, after: Seq) -> Tail {
        let tail = follow::tail(self.source.clone(), self.hub.clone(), branch.clone(), after);
        let _ = self.queue.send(Request::Follow);
        tail
    }

    fn tail_all(&self, after: Position) -> Tail {
        let tail = follow::tail_all(self.source.clone(), self.hub.clone(), after);
        let _ = self.queue.send(Request::Follow);
        tail
    }

    fn streams(&self, after: Option<StreamName>, limit: usize) -> Answer<'_, Vec<StreamSummary>, ReadError> {
        Box::pin(self.source.pool.read(move |reader| reader.streams(after.as_ref(), limit.min(PAGE_MAX))))
    }

    fn branches<'a>(&'a self, stream: &'a StreamName) -> Answer<'a, Vec<Branch>, ReadError> {
        let stream = stream.clone();
        Box::pin(self.source.pool.read(move |reader| reader.branches(&stream)))
    }

    fn list(
        &self,
        filter: ListFilter,
        after: Option<ListAfter>,
        limit: usize,
    ) -> Answer<'_, Vec<Listed>, ReadError> {
        Box::pin(
            self.source.pool.read(move |reader| reader.list(&filter, after.as_ref(), limit.min(PAGE_MAX))),
        )
    }

    fn listed<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Listed>, ReadError> {
        let id = branch.clone();
        Box::pin(self.source.pool.read(move |reader| reader.listed(&id)))
    }

    fn keys<'a>(&'a self, branch: &'a BranchId, from: Seq, to: Seq) -> Answer<'a, Vec<KeyedPart>, ReadError> {
        let id = branch.clone();
        Box::pin(self.source.pool.read(move |reader| reader.keys(&id, from, to)))
    }

    fn keyed<'a>(&'a self, branch: &'a BranchId, key: &'a Key) -> Answer<'a, Option<KeyedPart>, ReadError> {
        let (id, key) = (branch.clone(), key.clone());
        Box::pin(self.source.pool.look(move |reader| reader.keyed(&id, &key)))
    }

    fn refers_to(&self, hash: Hash) -> Answer<'_, bool, ReadError> {
        Box::pin(self.source.pool.read(move |reader| reader.refers_to(hash)))
    }

    fn referring(
        &self,
        hash: Hash,
        after: Position,
        limit: usize,
    ) -> Answer<'_, Vec<(Position, StreamName)>, ReadError> {
        let limit = limit.min(PAGE_MAX);
        Box::pin(self.source.pool.read(move |reader| reader.referring(hash, after, limit)))
    }

    fn referring_on<'a>(
        &'a self,
        branch: &'a BranchId,
        hash: Hash,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Looked, ReadError> {
        let (id, limit) = (branch.clone(), limit.clamp(1, PAGE_MAX));
        Box::pin(self.source.pool.read(move |reader| reader.referring_on(&id, hash, after, limit)))
    }

    fn put_snapshot(&self, snapshot: Snapshot) -> Answer<'_, (), AppendError> {
        if self.is_read_only {
            return Box::pin(std::future::ready(Ok(())));
        }
        // A cache: when the queue is full, or the snapshot too large, it is simply not kept.
        let room = self.room.clone().try_acquire_many_owned(kib(snapshot.state.len()));
        let sent = match room {
            Ok(room) if snapshot.state.len() <= SNAPSHOT_MAX => {
                self.queue.send(Request::Snapshot { snapshot, _room: room }).is_ok()
            }
            _ => true,
        };
        let result = if sent { Ok(()) } else { Err(self.source.location.closed().into()) };
        Box::pin(std::future::ready(result))
    }

    fn snapshot<'a>(
        &'a self,
        branch: &'a BranchId,
        fold: &'a FoldVersion,
    ) -> Answer<'a, Option<Snapshot>, ReadError> {
        let (id, fold) = (branch.clone(), fold.clone());
        Box::pin(self.source.pool.read(move |reader| reader.snapshot(&id, &fold)))
    }

    fn stored_snapshots<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Vec<Snapshot>, ReadError> {
        let id = branch.clone();
        Box::pin(self.source.pool.read(move |reader| reader.stored_snapshots(&id)))
    }

    fn verify(&self, stream: Option<StreamName>, progress: VerifyProgress) -> Answer<'_, Report, ReadError> {
        self.verify_and_open_damage(Scope { stream, depth: Depth::Full }, progress)
    }

    fn verify_quick(&self, progress: VerifyProgress) -> Answer<'_, Report, ReadError> {
        self.verify_and_open_damage(Scope { stream: None, depth: Depth::Quick }, progress)
    }
}
