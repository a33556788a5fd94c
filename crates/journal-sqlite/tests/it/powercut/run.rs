//! The work that is interrupted, and what its writers were told.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use rusqlite::{Connection, OpenFlags};
use weir_blobs::{Blobs, MemoryBlobs};
use weir_journal::{AppendError, ForkError, ReadError, StorageFailure};
use weir_journal_sqlite::{OpenError, Options, SqliteJournal};
use weir_powercut::{Disk, Fault};
use weir_types::{BranchId, PAYLOAD_INLINE_MAX, Seq};

use crate::promises::{Promise, Session, Shape};
use crate::support::main_of;

const FILE: &str = "journal.db";

/// What is done between opening and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Everything that writes, with few pages: making the file, commits of one session and of several, forks, keys, a
    /// checkpoint after which the log starts over (another connection's, as another process's would be), closing,
    /// opening again, and more of the same.
    Small,
    /// More pages than the journal's own checkpoint thread waits for, while commits go on.
    Bulk,
}

/// One run of a workload on a disk of its own, with a fault on its way.
pub(crate) struct Run {
    pub(crate) disk: Disk,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) promises: Vec<Promise>,
    /// Groups whose writer was told that nothing was appended.
    pub(crate) refused: Vec<String>,
    /// How the storage was said to have failed.
    pub(crate) errors: BTreeSet<String>,
    fault: Option<Fault>,
    session: Session,
}

pub(crate) async fn open(disk: &Disk, blobs: &Arc<dyn Blobs>) -> Result<SqliteJournal, OpenError> {
    let (path, vfs) = (FILE.into(), Some(disk.vfs_name().to_owned()));
    SqliteJournal::open(Options { path, blobs: blobs.clone(), vfs }).await
}

/// A connection beside the journal's own, as another process has it.
pub(crate) fn connect(disk: &Disk) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    Connection::open_with_flags_and_vfs(FILE, flags, disk.vfs_name()).unwrap()
}

/// Copies the log into the file. A disk that fails is the other steps' concern.
fn checkpoint(disk: &Disk) {
    let _ = connect(disk).query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

/// Whether commits go to a write-ahead log; one that goes elsewhere would not be durable with one sync.
pub(crate) fn writes_ahead(disk: &Disk) -> bool {
    connect(disk).query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).unwrap() == "wal"
}

impl Run {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        let disk = Disk::new();
        fault.into_iter().for_each(|fault| disk.arm(fault));
        Self {
            disk,
            blobs: Arc::new(MemoryBlobs::default()),
            promises: Vec::new(),
            refused: Vec::new(),
            errors: BTreeSet::new(),
            fault,
            session: Session::new("w".to_owned()),
        }
    }

    /// Runs the workload as far as it goes. The journal is still open at the end, if it could be opened at all.
    pub(crate) async fn go(&mut self, work: Work) -> Option<SqliteJournal> {
        let journal = self.open().await?;
        if work == Work::Bulk {
            self.bulk(&journal).await;
            return Some(journal);
        }
        self.small(&journal).await;
        journal.close().await;
        // A commit whose sync has failed is in the log, and whoever opens the file next cannot tell it from others.
        // "Nothing was appended" holds while the journal stays open, and for ever once something else is appended.
        self.refused.clear();
        let journal = self.open().await?;
        self.small(&journal).await;
        Some(journal)
    }

    async fn small(&mut self, journal: &SqliteJournal) {
        let (a, b) = (main_of("a"), main_of("b"));
        self.together(journal, &[&a, &b, &a, &b]).await;
        self.append(journal, &[(&a, 2), (&b, 1)], Shape::SMALL).await;
        self.fork(journal, &a).await;
        self.append(journal, &[(&b, 1)], Shape::KEYED).await;
        checkpoint(&self.disk);
        self.append(journal, &[(&a, 1)], Shape::of_bytes(20_000)).await;
        self.append(journal, &[(&a, 1), (&b, 1)], Shape::of_bytes(PAYLOAD_INLINE_MAX + 1)).await;
        self.together(journal, &[&b, &b, &a]).await;
    }

    async fn bulk(&mut self, journal: &SqliteJournal) {
        let streams = [main_of("a"), main_of("b"), main_of("c")];
        for n in 0..30 {
            self.append(journal, &[(&streams[n % 3], 2)], Shape::of_bytes(60_000)).await;
            self.append(journal, &[(&streams[n % 2], 1)], Shape::of_bytes(60_000)).await;
        }
        self.fork(journal, &streams[0]).await;
        self.together(journal, &[&streams[0], &streams[1], &streams[2]]).await;
    }

    /// Appends once more to every stream there can be.
    pub(crate) async fn append_again(&mut self, journal: &SqliteJournal) {
        self.append(journal, &[(&main_of("a"), 1), (&main_of("b"), 1)], Shape::SMALL).await;
    }

    async fn open(&mut self) -> Option<SqliteJournal> {
        for _ in 0..self.tries() {
            match open(&self.disk, &self.blobs).await {
                Ok(journal) => return Some(journal),
                Err(OpenError::Storage(error)) => self.fail(error.what),
                Err(error) => panic!("{error:?}"),
            }
        }
        self.give_up();
        None
    }

    async fn append(&mut self, journal: &SqliteJournal, counts: &[(&BranchId, usize)], shape: Shape) {
        for _ in 0..self.tries() {
            match self.session.append(journal, counts, shape).await {
                Ok(promises) => return self.note(promises, self.disk.fired()),
                Err((group, error)) => self.refuse(group, error),
            }
        }
        self.give_up();
    }

    /// Several sessions at once, for which one commit is enough.
    async fn together(&mut self, journal: &SqliteJournal, branches: &[&BranchId]) {
        let mut left: Vec<(Session, &BranchId)> =
            branches.iter().map(|branch| (Session::new(self.session.next_group()), *branch)).collect();
        for _ in 0..self.tries() {
            let disk = &self.disk;
            let appends = left.into_iter().map(|(mut session, branch)| async move {
                let answer = session.append(journal, &[(branch, 1)], Shape::SMALL).await;
                (session, branch, answer, disk.fired())
            });
            let answers = join_all(appends).await;
            left = Vec::new();
            for (session, branch, answer, fired) in answers {
                match answer {
                    Ok(promises) => self.note(promises, fired),
                    Err((group, error)) => {
                        self.refuse(group, error);
                        left.push((session, branch));
                    }
                }
            }
        }
        if !left.is_empty() {
            self.give_up();
        }
    }

    /// Forks, and appends to the fork.
    async fn fork(&mut self, journal: &SqliteJournal, from: &BranchId) {
        for _ in 0..self.tries() {
            match self.session.fork(journal, from, Seq(1)).await {
                Ok((branch, promise)) => {
                    self.note(vec![promise], self.disk.fired());
                    return self.append(journal, &[(&branch, 1), (from, 1)], Shape::SMALL).await;
                }
                Err(ForkError::Read(ReadError::Storage(error))) => self.fail(error.what),
                // A stream that could not be made cannot be forked either.
                Err(ForkError::NoStream(_)) if self.may_give_up() => return,
                Err(error) => panic!("{error:?}"),
            }
        }
        self.give_up();
    }

    /// Keeps promises that have to be kept. A disk that fails says so, and is taken at its word; one without power says
    /// nothing, so a promise counts only if the power was still on when it had arrived.
    fn note(&mut self, promises: Vec<Promise>, fired: bool) {
        if !(fired && matches!(self.fault, Some(Fault::StopPersisting { .. }))) {
            self.promises.extend(promises);
        }
    }

    fn refuse(&mut self, group: String, error: AppendError) {
        match error {
            AppendError::Storage(error) => self.fail(error.what),
            error => panic!("{error:?}"),
        }
        self.refused.push(group);
    }

    fn fail(&mut self, what: StorageFailure) {
        self.errors.insert(what.to_string());
    }

    /// A disk that has failed once must work the second time.
    fn tries(&self) -> usize {
        if matches!(self.fault, Some(Fault::FailOnce { .. })) { 2 } else { 1 }
    }

    /// Only a disk that goes on failing is a reason to.
    fn may_give_up(&self) -> bool {
        matches!(self.fault, Some(Fault::FailFrom { .. }))
    }

    fn give_up(&self) {
        assert!(self.may_give_up(), "{:?}: {:?}", self.fault, self.errors);
    }

    /// The disk works from now on.
    pub(crate) fn repair(&mut self) {
        self.disk.disarm();
        self.fault = None;
    }
}
