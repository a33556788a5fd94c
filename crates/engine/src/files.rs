//! The files of a session: a fold of its `file.*` events, with what the calls under way have changed on top.
//!
//! Tools change files in turns, in the order of their calls. What a turn changed becomes events together with the result of
//! its call, and only then does the next turn begin: so the events are in the order of the turns, and a call that was cut off
//! has changed nothing.

use std::collections::BTreeMap;
use std::path::Path as Directory;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;
use weir_blobs::{Blobs, GetError};
use weir_events::{Body, FileDeleted, FileWritten, Payload};
use weir_journal::{Journal, OfKind, ReadError};
use weir_kernel::FoldError;
use weir_tools::{Edit, FileInfo, FilesError, Trace};
use weir_types::{BranchId, CallId, Event, Explain, Hash, Seq};
use weir_workspace::{Change, Entry, Files, Mode, Path, Scan, changes_in, checkout, diff};

use crate::snapshots::{self, Fold, SealedJournal, SnapshotSeal};

/// The largest file that a tool reads or writes as a whole.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How many `file.*` events may follow a snapshot of the files before the next one.
const SNAPSHOT_EVERY: usize = 512;

/// The files of a branch at its newest event, or at an earlier one.
pub(crate) async fn files_at(
    journal: SealedJournal<'_>,
    branch: &BranchId,
    until: Option<Seq>,
) -> Result<Files, ReadError> {
    let Some(head) = journal.head(branch).await? else { return Ok(Files::new()) };
    let until = until.unwrap_or(head.seq).min(head.seq);
    let remembered = snapshots::newest::<SessionFilesFold>(journal, branch).await?;
    let mut fold = remembered.filter(|fold| fold.seq <= until).unwrap_or_default();
    let mut events = Vec::new();
    for kind in [FileWritten::kind(), FileDeleted::kind()] {
        let pages = OfKind::new(&*journal, branch, kind).after(fold.seq);
        events.extend(events_until(pages, until).await?);
    }
    events.sort_by_key(|event| event.seq);
    events.iter().filter_map(change_of).for_each(|change| fold.files.apply(&change));
    fold.seq = until;
    if events.len() >= SNAPSHOT_EVERY && until == head.seq {
        snapshots::remember(journal, branch, &fold).await;
    }
    Ok(fold.files)
}

async fn events_until(mut pages: OfKind<'_>, until: Seq) -> Result<Vec<Event>, ReadError> {
    let mut events = Vec::new();
    while let Some(page) = pages.next().await? {
        let goes_on = page.last().is_some_and(|last| last.seq < until);
        events.extend(page.into_iter().filter(|event| event.seq <= until));
        if !goes_on {
            break;
        }
    }
    Ok(events)
}

/// What an event changed. What cannot be the path of a file was never one of ours, and changes nothing.
fn change_of(event: &Event) -> Option<Change> {
    match Body::decode(&event.kind, &event.payload).ok()?? {
        Body::FileWritten(FileWritten { path, hash, mode, size }) => {
            let entry = Entry { hash, size, mode: Mode::from_bits(mode) };
            Some(Change::Written { path: path.parse().ok()?, entry })
        }
        Body::FileDeleted(FileDeleted { path }) => Some(Change::Deleted { path: path.parse().ok()? }),
        _ => None,
    }
}

/// A change as an event.
pub(crate) fn body_of(change: &Change) -> Body {
    match change {
        Change::Written { path, entry } => FileWritten {
            path: path.to_string(),
            hash: entry.hash,
            mode: entry.mode.bits(),
            size: entry.size,
        }
        .into(),
        Change::Deleted { path } => FileDeleted { path: path.to_string() }.into(),
    }
}

/// A snapshot's record of one file.
#[derive(Serialize, Deserialize)]
struct Kept(Hash, u64, u32);

/// The files of a branch after an event.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SessionFilesFold {
    files: Files,
    seq: Seq,
}

impl Fold for SessionFilesFold {
    const NAME: &'static str = "files";
    const VERSION: u32 = 1;

    fn seq(&self) -> Seq {
        self.seq
    }

    fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        if let Some(change) = change_of(event) {
            self.files.apply(&change);
        }
        self.seq = event.seq;
        Ok(())
    }

    fn encode(&self) -> Option<Vec<u8>> {
        let kept = |entry: &Entry| Kept(entry.hash, entry.size, entry.mode.bits());
        let kept: BTreeMap<&str, Kept> =
            self.files.iter().map(|(path, entry)| (path.as_str(), kept(entry))).collect();
        serde_json::to_vec(&kept).ok()
    }

    fn decode(state: &[u8], seq: Seq) -> Option<Self> {
        let kept: BTreeMap<String, Kept> = serde_json::from_slice(state).ok()?;
        let mut files = Files::new();
        for (path, Kept(hash, size, mode)) in kept {
            let (path, entry) = (path.parse().ok()?, Entry { hash, size, mode: Mode::from_bits(mode) });
            files.apply(&Change::Written { path, entry });
        }
        Some(Self { files, seq })
    }
}

/// The files of a session while its calls run.
pub(crate) struct SessionFiles {
    journal: Arc<dyn Journal>,
    seal: SnapshotSeal,
    blobs: Arc<dyn Blobs>,
    branch: BranchId,
    /// With what finished turns changed; nothing before the first look.
    now: Mutex<Option<Arc<Files>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The turn that is over, while its call's result is not drafted yet.
    finished: Mutex<Option<Finished>>,
}

/// A turn that is over.
struct Finished {
    call: CallId,
    files: Files,
    /// INVARIANT: held until the result is drafted, so that the next turn's events come after these.
    _turn: OwnedMutexGuard<()>,
}

impl SessionFiles {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        seal: SnapshotSeal,
        blobs: Arc<dyn Blobs>,
        branch: BranchId,
    ) -> Arc<Self> {
        let (now, turn, finished) = Default::default();
        Arc::new(Self { journal, seal, blobs, branch, now, turn, finished })
    }

    async fn current(&self) -> Result<Arc<Files>, FilesError> {
        if let Some(files) = self.now().clone() {
            return Ok(files);
        }
        let journal = SealedJournal::new(&*self.journal, &self.seal);
        let loaded = files_at(journal, &self.branch, None).await;
        let loaded = loaded.map_err(|error| FilesError::Unavailable(error.to_string()))?;
        // Whoever loaded first may have changed something since.
        Ok(Arc::clone(self.now().get_or_insert_with(|| Arc::new(loaded))))
    }

    /// A call's result is drafted: what its turn changed is so from now on, and the next turn begins.
    pub(crate) fn keep(&self, call: CallId) {
        if let Some(finished) = self.take_finished(call) {
            *self.now() = Some(Arc::new(finished.files));
        }
    }

    /// A call failed: what its turn changed has not happened, and the next turn begins.
    pub(crate) fn forget(&self, call: CallId) {
        drop(self.take_finished(call));
    }

    fn take_finished(&self, call: CallId) -> Option<Finished> {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.take_if(|finished| finished.call == call)
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Option<Arc<Files>>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files as a call is given them.
pub(crate) struct Handle {
    session: Arc<SessionFiles>,
    call: CallId,
    /// Its place in the queue of those that change files; gone with the call.
    place: Mutex<Option<Place>>,
}

/// A place in the queue: reached, or waited for.
type Place = BoxFuture<'static, OwnedMutexGuard<()>>;

impl Handle {
    pub(crate) fn new(session: &Arc<SessionFiles>, call: CallId) -> Self {
        Self { session: Arc::clone(session), call, place: Mutex::default() }
    }

    /// For a call that changes files: its place in the queue is taken now, whenever its task gets to run.
    pub(crate) fn in_turn(session: &Arc<SessionFiles>, call: CallId) -> Self {
        let mut place: Place = Arc::clone(&session.turn).lock_owned().boxed();
        // INVARIANT: the queue is in the order of first polls (tokio's mutex is fair), so that one is made here.
        let place = match place.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => std::future::ready(turn).boxed(),
            Poll::Pending => place,
        };
        Self { place: Mutex::new(Some(place)), ..Self::new(session, call) }
    }

    /// The turn, once it has come.
    async fn take_turn(&self) -> OwnedMutexGuard<()> {
        let place = self.place().take();
        match place {
            Some(place) => place.await,
            None => Arc::clone(&self.session.turn).lock_owned().await,
        }
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl weir_tools::Files for Handle {
    fn list(&self) -> BoxFuture<'_, Result<Arc<[FileInfo]>, FilesError>> {
        async { Ok(infos(&*self.session.current().await?)) }.boxed()
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        async move { content(&*self.session.current().await?, path, &*self.session.blobs).await }.boxed()
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        async move {
            let turn = self.take_turn().await;
            *self.place() = Some(std::future::ready(turn).boxed());
        }
        .boxed()
    }

    fn edit(&self) -> BoxFuture<'_, Result<Box<dyn Edit>, FilesError>> {
        async move {
            let turn = self.take_turn().await;
            let base = self.session.current().await?;
            let files = (*base).clone();
            Ok(Box::new(Turn { session: Arc::clone(&self.session), call: self.call, base, files, turn })
                as Box<dyn Edit>)
        }
        .boxed()
    }
}

/// A turn to change files.
struct Turn {
    session: Arc<SessionFiles>,
    call: CallId,
    base: Arc<Files>,
    files: Files,
    turn: OwnedMutexGuard<()>,
}

impl Edit for Turn {
    fn list(&self) -> Arc<[FileInfo]> {
        infos(&self.files)
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        content(&self.files, path, &*self.session.blobs).boxed()
    }

    fn write<'a>(&'a mut self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), FilesError>> {
        async move {
            let at = parse(path)?;
            if content.len() as u64 > FILE_BYTES_MAX {
                return Err(FilesError::TooMuch(format!(
                    "`{path}` would have more than {FILE_BYTES_MAX} bytes"
                )));
            }
            let stored = self.session.blobs.put_bytes(content).await;
            let stored = stored.map_err(|error| FilesError::Unavailable(error.to_string()))?;
            let mode = self.files.get(path).map_or(Mode::Regular, |entry| entry.mode);
            let entry = Entry { hash: stored.hash, size: stored.bytes, mode };
            self.files.apply(&Change::Written { path: at, entry });
            Ok(())
        }
        .boxed()
    }

    fn checkout<'a>(&'a mut self, directory: &'a Directory) -> BoxFuture<'a, Result<(), FilesError>> {
        async move {
            let done = checkout(&self.files, directory, &*self.session.blobs).await;
            done.map(drop).map_err(|error| FilesError::Unavailable(error.to_string()))
        }
        .boxed()
    }

    fn take_in<'a>(&'a mut self, directory: &'a Directory) -> BoxFuture<'a, Result<Vec<String>, FilesError>> {
        async move {
            let found = changes_in(directory, &self.files, &Scan::default(), &*self.session.blobs).await;
            let found = found.map_err(|error| FilesError::TooMuch(format!("{error}; {}", error.help())))?;
            found.changes.iter().for_each(|change| self.files.apply(change));
            Ok(found.skipped.iter().map(ToString::to_string).collect())
        }
        .boxed()
    }

    fn finish(self: Box<Self>) -> Vec<Trace> {
        let Self { session, call, base, files, turn } = *self;
        let traces = diff(&base, &files).iter().map(trace).collect();
        let mut finished = session.finished.lock().unwrap_or_else(PoisonError::into_inner);
        *finished = Some(Finished { call, files, _turn: turn });
        traces
    }
}

fn trace(change: &Change) -> Trace {
    match change {
        Change::Written { path, entry } => Trace::FileWritten {
            path: path.to_string(),
            hash: entry.hash,
            mode: entry.mode.bits(),
            size: entry.size,
        },
        Change::Deleted { path } => Trace::FileDeleted { path: path.to_string() },
    }
}

fn infos(files: &Files) -> Arc<[FileInfo]> {
    let info = |(path, entry): (&Path, &Entry)| FileInfo {
        path: path.to_string(),
        size: entry.size,
        executable: entry.mode == Mode::Executable,
    };
    files.iter().map(info).collect()
}

async fn content(files: &Files, path: &str, blobs: &dyn Blobs) -> Result<Bytes, FilesError> {
    let Some(entry) = files.get(path) else {
        // What is no path at all deserves to be told apart from what is not there.
        parse(path)?;
        return Err(FilesError::Missing(path.to_owned()));
    };
    blobs.get_bytes(entry.hash, FILE_BYTES_MAX).await.map_err(|error| match error {
        GetError::TooLarge { .. } => FilesError::TooMuch(format!(
            "`{path}` has more than {FILE_BYTES_MAX} bytes; use a command on it instead"
        )),
        other => FilesError::Unavailable(other.to_string()),
    })
}

fn parse(path: &str) -> Result<Path, FilesError> {
    path.parse()
        .map_err(|error: weir_workspace::PathError| FilesError::Path(format!("{error}; {}", error.help())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_blobs::MemoryBlobs;
    use weir_journal::{MemoryJournal, mint_call, mint_session};
    use weir_tools::Files as _;

    #[tokio::test]
    async fn a_turn_that_has_come_is_kept_until_it_is_used() {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
        let journal = Arc::new(MemoryJournal::new(Arc::clone(&blobs)));
        let branch = crate::address::Address::main(mint_session()).branch_id();
        let session = SessionFiles::new(journal, SnapshotSeal::in_memory().unwrap(), blobs, branch);
        let [first, second, third] = [(); 3].map(|()| Handle::in_turn(&session, mint_call()));
        first.turn().await;
        let waiting = |handle: &Handle| handle.turn().now_or_never().is_none();
        assert!(waiting(&second), "the first has the turn, although it edits nothing yet");
        drop(first);
        // One that gave up while it waited is not waited for.
        assert!(third.turn().now_or_never().is_some());
        assert!(Handle::in_turn(&session, mint_call()).turn().now_or_never().is_none());
        drop(third);
        assert!(Handle::new(&session, mint_call()).turn().now_or_never().is_some());
    }
}
