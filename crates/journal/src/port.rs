//! The port: what every journal engine does, in terms of branches and events.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use weir_types::{BranchId, Event, EventId, Hash, Kind, Position, Seq, StreamName};

use crate::append::{Appended, Key, Part};
use crate::error::{AppendError, ForkError, ReadError, StorageError};
use crate::listing::{Branch, Fork, Head, ListAfter, ListFilter, Listed, Looked, StreamSummary};
use crate::snapshot::{FoldVersion, Snapshot};
use crate::verify::{Report, VerifyProgress};

/// Most events one read returns; a longer range is read page by page, so that no reader holds a snapshot for long.
pub const PAGE_MAX: usize = 1_000;

/// Events as they are followed: everything after a cursor, then whatever is appended, without gap or duplicate.
pub type Tail = BoxStream<'static, Result<Arc<Event>, ReadError>>;

/// The future of every port method.
pub type Answer<'a, T, E> = BoxFuture<'a, Result<T, E>>;

/// An append-only journal of streams with branches. Object-safe; engines are swapped at run time.
///
/// Reads take a `limit` and return at most [`PAGE_MAX`] events; fewer than asked for means there are no more right
/// now. Every event a read returns has been checked against its hash chain: damage is [`ReadError::Damaged`], never
/// wrong bytes. Reading a branch that does not exist is [`ReadError::NoStream`] or [`ReadError::NoBranch`].
pub trait Journal: Send + Sync + 'static {
    /// Appends all parts or none, durably, in one step.
    ///
    /// # Cancel safety
    /// A future dropped before it is done may have appended everything or nothing; a keyed part can be repeated.
    fn append(&self, parts: Vec<Part>) -> Answer<'_, Vec<Appended>, AppendError>;

    /// Makes a new branch that shares its parent's events up to `fork.at`. Appends nothing.
    fn fork(&self, fork: Fork) -> Answer<'_, Branch, ForkError>;

    /// The newest event's place and chain; `None` if the branch does not exist.
    fn head<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Head>, ReadError>;

    /// Events with `seq > after`, oldest first, through the whole lineage.
    fn read<'a>(
        &'a self,
        branch: &'a BranchId,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError>;

    /// Events with `seq < before` (all, if `None`), newest first, through the whole lineage.
    fn read_back<'a>(
        &'a self,
        branch: &'a BranchId,
        before: Option<Seq>,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError>;

    /// Events of one kind with `seq > after`, oldest first, through the whole lineage.
    fn by_kind<'a>(
        &'a self,
        branch: &'a BranchId,
        kind: &'a Kind,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError>;

    /// The event with this id, wherever it is.
    fn by_id(&self, id: EventId) -> Answer<'_, Option<Event>, ReadError>;

    /// Events whose meta names `of` as their causation, in order of position.
    fn children(&self, of: EventId, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError>;

    /// Events of all streams with `position > after`, in order of position.
    fn read_all(&self, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError>;

    /// The newest position there is; 0 in an empty journal.
    fn end(&self) -> Answer<'_, Position, ReadError>;

    /// Writes something that changes nothing, as durably as an append: whether anything can be stored now.
    fn probe(&self) -> Answer<'_, (), StorageError> {
        Box::pin(async { Ok(()) })
    }

    /// Everything on the branch after `after`, then what is appended. A branch that does not exist yet is waited for.
    fn tail(&self, branch: &BranchId, after: Seq) -> Tail;

    /// Everything in the journal after `after`, then what is appended, in order of position.
    fn tail_all(&self, after: Position) -> Tail;

    /// Streams by name, after `after`.
    fn streams(&self, after: Option<StreamName>, limit: usize) -> Answer<'_, Vec<StreamSummary>, ReadError>;

    /// The branches of a stream, parents before their forks; empty if there is no such stream.
    fn branches<'a>(&'a self, stream: &'a StreamName) -> Answer<'a, Vec<Branch>, ReadError>;

    /// Branches by their attributes, in a stable order, after `after`.
    fn list(
        &self,
        filter: ListFilter,
        after: Option<ListAfter>,
        limit: usize,
    ) -> Answer<'_, Vec<Listed>, ReadError>;

    /// A branch as a listing has it; `None` if it is in none.
    fn listed<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Listed>, ReadError>;

    /// The keyed parts whose last event lies in `[from, to]` on a branch itself (not its lineage), for export.
    fn keys<'a>(
        &'a self,
        branch: &'a BranchId,
        from: Seq,
        to: Seq,
    ) -> Answer<'a, Vec<crate::KeyedPart>, ReadError>;

    /// The keyed part of a branch itself (not its lineage) with this key; `None` if there is none, or no such branch.
    fn keyed<'a>(
        &'a self,
        branch: &'a BranchId,
        key: &'a Key,
    ) -> Answer<'a, Option<crate::KeyedPart>, ReadError>;

    /// Whether any event names this blob in its refs.
    fn refers_to(&self, hash: Hash) -> Answer<'_, bool, ReadError>;

    /// The events that name this blob in their refs and have `position > after`, in order: where each is, and its stream.
    fn referring(
        &self,
        hash: Hash,
        after: Position,
        limit: usize,
    ) -> Answer<'_, Vec<(Position, StreamName)>, ReadError>;

    /// Looks at up to `limit` events of a branch itself (not its lineage) after `after` for one that names this blob in its refs. What that
    /// takes depends on the branch, and not on who else refers to the blob.
    fn referring_on<'a>(
        &'a self,
        branch: &'a BranchId,
        hash: Hash,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Looked, ReadError>;

    /// Remembers a fold. A cache: it may be forgotten at any time, and storing it waits for nothing.
    fn put_snapshot(&self, snapshot: Snapshot) -> Answer<'_, (), AppendError>;

    /// The newest remembered fold on the branch or its lineage whose chain still matches the journal.
    fn snapshot<'a>(
        &'a self,
        branch: &'a BranchId,
        fold: &'a FoldVersion,
    ) -> Answer<'a, Option<Snapshot>, ReadError>;

    /// Every remembered fold of a branch itself (not its lineage), also one that no longer fits, for a check. At most
    /// [`STORED_SNAPSHOTS_MAX`](crate::STORED_SNAPSHOTS_MAX).
    fn stored_snapshots<'a>(&'a self, _branch: &'a BranchId) -> Answer<'a, Vec<Snapshot>, ReadError> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Checks every event (of one stream, or of all), every blob they need, and everything by which events are found,
    /// compared with the events in both directions.
    fn verify(&self, stream: Option<StreamName>, progress: VerifyProgress) -> Answer<'_, Report, ReadError>;

    /// Checks what can be checked without decoding events: the structure of the storage, the places of all events, and
    /// the heads of all branches. An engine that has no faster way checks everything.
    fn verify_quick(&self, progress: VerifyProgress) -> Answer<'_, Report, ReadError> {
        self.verify(None, progress)
    }
}
