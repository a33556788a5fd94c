//! From the journal to a session's state, and back again faster: the newest snapshot, then its tail.

use std::sync::Arc;

use weir_events::{Body, BranchForked, Payload, SessionHalted};
use weir_journal::{Branch, ForkPoint, Journal, Listed, OfKind, PAGE_MAX, ReadError, Status};
use weir_kernel::{At, Lifecycle, Session};
use weir_types::{BranchId, BranchName, Event, EventId, Seq};

use crate::address::Address;
use crate::error::EngineError;
use crate::evidence;
use crate::snapshots::{self, SealedJournal};

/// A session as it is in the journal.
pub(crate) struct Loaded {
    pub(crate) session: Session,
    /// The newest snapshot's place.
    pub(crate) snapshot: Seq,
    /// What has to be written down before anything else: how the branch begins, if it is a fork that nothing was appended
    /// to yet; that it is halted, if it was imported.
    pub(crate) preface: Vec<Body>,
}

impl Loaded {
    /// The session as whoever takes it up finds it.
    pub(crate) fn state(mut self) -> Session {
        for body in &self.preface {
            let at =
                At { seq: self.session.seq, ts: self.session.ts, id: EventId::from_u128(0), held_us: None };
            self.session.apply_body(at, body);
        }
        self.session
    }
}

/// Folds a session; nothing, if there is none.
pub(crate) async fn load(
    journal: SealedJournal<'_>,
    address: &Address,
) -> Result<Option<Loaded>, EngineError> {
    load_until(journal, address, None).await
}

/// Folds a session up to and including an event.
pub(crate) async fn load_until(
    journal: SealedJournal<'_>,
    address: &Address,
    until: Option<Seq>,
) -> Result<Option<Loaded>, EngineError> {
    let branch = address.branch_id();
    if journal.head(&branch).await?.is_none() {
        return Ok(None);
    }
    let mut loaded = match until {
        Some(_) => None,
        // Boxed, because whoever loads a session would carry the room for all of it.
        None => Box::pin(newest_snapshot(journal, &branch)).await?,
    }
    .unwrap_or_else(empty);
    read_on(&*journal, address, &branch, &mut loaded, until).await?;
    if until.is_none() {
        loaded.preface = Box::pin(preface(&*journal, &branch, &loaded.session)).await?;
    }
    Ok(Some(loaded))
}

fn empty() -> Loaded {
    Loaded { session: Session::default(), snapshot: Seq(0), preface: Vec::new() }
}

/// An import leaves a session halted in its row alone, since it adds nothing to the events that it brings. The first process to
/// take the session up writes that down: nothing that was brought along as decided or granted counts then.
///
/// INVARIANT: the row is read after the events, and written with them: it is at least as new as what was folded.
pub(crate) async fn import_to_halt(
    journal: &dyn Journal,
    branch: &BranchId,
    session: &Session,
) -> Result<Option<SessionHalted>, ReadError> {
    if let Lifecycle::Closed(_) = session.lifecycle {
        return Ok(None);
    }
    let row = journal.listed(branch).await?;
    let is_open = session.lifecycle == Lifecycle::Open;
    let is_halted = |row: &Listed| row.attrs.status == Status::Halted && (is_open || is_of_import(row));
    Ok(row.as_ref().is_some_and(is_halted).then(halt_of_import))
}

fn halt_of_import() -> SessionHalted {
    SessionHalted { reason: "it was imported".to_owned(), imported: true }
}

/// Whether a row is as an import leaves it. The engine always writes the agent.
fn is_of_import(row: &Listed) -> bool {
    row.attrs.status == Status::Halted && row.attrs.agent.is_none()
}

/// Whether a fork without events of its own shares events that were imported, and that no halt on its lineage says so of.
async fn shares_import(
    journal: &dyn Journal,
    branches: &[Branch],
    fork: &BranchId,
) -> Result<bool, ReadError> {
    let mut below = fork.branch.clone();
    while let Some(point) = parent_of(branches, &below) {
        let above = BranchId { stream: fork.stream.clone(), branch: point.branch.clone() };
        if journal.listed(&above).await?.as_ref().is_some_and(is_of_import) {
            return Ok(true);
        }
        let mut halts = OfKind::new(journal, &above, SessionHalted::kind()).after(point.at);
        while let Some(page) = halts.next().await? {
            if page.iter().any(is_halt_of_import) {
                return Ok(true);
            }
        }
        below = point.branch.clone();
    }
    Ok(false)
}

fn parent_of<'a>(branches: &'a [Branch], name: &BranchName) -> Option<&'a ForkPoint> {
    branches.iter().find(|branch| branch.name == *name)?.parent.as_ref()
}

fn is_halt_of_import(event: &Event) -> bool {
    let halted = Body::decode(&event.kind, &event.payload).ok().flatten();
    matches!(halted, Some(Body::SessionHalted(halted)) if halted.imported)
}

/// The newest snapshot, unless the events say otherwise where it matters who may do what.
async fn newest_snapshot(
    journal: SealedJournal<'_>,
    branch: &BranchId,
) -> Result<Option<Loaded>, EngineError> {
    let Some(session) = snapshots::newest::<Session>(journal, branch).await? else { return Ok(None) };
    if session.is_unfinished() {
        // An older version made it.
        let seq = session.seq.0;
        tracing::debug!(branch = %branch, seq, "a snapshot of an unfinished run or call is ignored");
        return Ok(None);
    }
    if let Some(contradiction) = evidence::contradiction(&*journal, branch, &session).await? {
        tracing::error!(
            branch = %branch,
            seq = session.seq.0,
            %contradiction,
            "a snapshot contradicts the events of its session; it is dropped, and the events are folded again"
        );
        return Ok(None);
    }
    let snapshot = session.seq;
    Ok(Some(Loaded { session, snapshot, preface: Vec::new() }))
}

async fn read_on(
    journal: &dyn Journal,
    address: &Address,
    branch: &BranchId,
    loaded: &mut Loaded,
    until: Option<Seq>,
) -> Result<(), EngineError> {
    loop {
        let page = journal.read(branch, loaded.session.seq, PAGE_MAX).await?;
        for event in &page {
            if until.is_some_and(|until| event.seq > until) {
                return Ok(());
            }
            loaded.session.apply(event).map_err(|source| EngineError::Unreadable {
                address: address.clone(),
                source: Arc::new(source),
            })?;
        }
        if page.len() < PAGE_MAX {
            return Ok(());
        }
    }
}

/// What comes before anything else on a branch: how it begins, if it has no events of its own; that it was imported.
async fn preface(
    journal: &dyn Journal,
    branch: &BranchId,
    session: &Session,
) -> Result<Vec<Body>, ReadError> {
    let mut preface: Vec<Body> = Vec::new();
    let mut halt = import_to_halt(journal, branch, session).await?;
    if branch.branch != BranchName::main() {
        let branches = journal.branches(&branch.stream).await?;
        if let Some(forked) = fork_point(&branches, branch, session.seq) {
            preface.push(forked.into());
            if halt.is_none() && shares_import(journal, &branches, branch).await? {
                halt = Some(halt_of_import());
            }
        }
    }
    preface.extend(halt.map(Body::from));
    Ok(preface)
}

/// A branch that has no events of its own begins where its parent was left.
fn fork_point(branches: &[Branch], branch: &BranchId, at: Seq) -> Option<BranchForked> {
    let this = branches.iter().find(|other| other.name == branch.branch)?;
    let parent = this.parent.as_ref().filter(|parent| this.own_events() == 0 && parent.at == at)?;
    Some(BranchForked { from: parent.branch.clone(), at, name: branch.branch.clone() })
}

/// Remembers the fold of everything up to the head, unless a run or a call is unfinished.
pub(crate) async fn remember(journal: SealedJournal<'_>, branch: &BranchId, session: &Session) {
    if !session.is_unfinished() {
        snapshots::remember(journal, branch, session).await;
    }
}
