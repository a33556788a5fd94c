//! From the journal to a session's state, and back again faster: the newest snapshot, then its tail.

use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{FoldVersion, Journal, PAGE_MAX, ReadError, SNAPSHOT_MAX, Snapshot, Status};
use weir_kernel::{At, Body, BranchForked, FOLD_VERSION, Lifecycle, Session, SessionHalted};
use weir_types::{BranchId, BranchName, EventId, Seq};

use crate::address::Address;
use crate::error::EngineError;

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
            let at = At { seq: self.session.seq, ts: self.session.ts, id: EventId::from_u128(0) };
            self.session.apply_body(at, body);
        }
        self.session
    }
}

/// Folds a session; nothing, if there is none.
pub(crate) async fn load(journal: &dyn Journal, address: &Address) -> Result<Option<Loaded>, EngineError> {
    load_until(journal, address, None).await
}

/// Folds a session up to and including an event.
pub(crate) async fn load_until(
    journal: &dyn Journal,
    address: &Address,
    until: Option<Seq>,
) -> Result<Option<Loaded>, EngineError> {
    let branch = address.branch_id();
    if journal.head(&branch).await?.is_none() {
        return Ok(None);
    }
    let mut loaded = match until {
        Some(_) => None,
        None => newest_snapshot(journal, &branch).await?,
    }
    .unwrap_or_else(empty);
    read_on(journal, address, &branch, &mut loaded, until).await?;
    if until.is_none() {
        let fork = fork_point(journal, &branch, loaded.session.seq).await?;
        let halt = import_to_halt(journal, &branch, &loaded.session).await?;
        loaded.preface = fork.map(Body::from).into_iter().chain(halt.map(Body::from)).collect();
    }
    Ok(Some(loaded))
}

fn empty() -> Loaded {
    Loaded { session: Session::default(), snapshot: Seq(0), preface: Vec::new() }
}

/// Whoever imports events of a session leaves it halted in its row alone, since an import adds nothing to what it brings.
/// The first to take it up writes that down: nothing that was brought along as decided or granted counts then.
///
/// INVARIANT: the row is read after the events, and written with them: it is at least as new as what was folded.
pub(crate) async fn import_to_halt(
    journal: &dyn Journal,
    branch: &BranchId,
    session: &Session,
) -> Result<Option<SessionHalted>, ReadError> {
    if session.lifecycle != Lifecycle::Open {
        return Ok(None);
    }
    let row = journal.listed(branch).await?;
    let is_halted = row.is_some_and(|row| row.attrs.status == Status::Halted);
    Ok(is_halted.then(|| SessionHalted { reason: "it was imported".to_owned() }))
}

async fn newest_snapshot(journal: &dyn Journal, branch: &BranchId) -> Result<Option<Loaded>, EngineError> {
    let Some(snapshot) = journal.snapshot(branch, &fold_version()).await? else { return Ok(None) };
    // A snapshot is a cache: one that cannot be read is as good as none.
    let session = serde_json::from_slice::<Session>(&snapshot.state).ok();
    let usable = session.filter(|session| session.seq == snapshot.seq);
    Ok(usable.map(|session| Loaded { session, snapshot: snapshot.seq, preface: Vec::new() }))
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

/// A branch that has no events of its own begins where its parent was left.
async fn fork_point(
    journal: &dyn Journal,
    branch: &BranchId,
    at: Seq,
) -> Result<Option<BranchForked>, ReadError> {
    if branch.branch == BranchName::main() {
        return Ok(None);
    }
    let branches = journal.branches(&branch.stream).await?;
    let this = branches.into_iter().find(|other| other.name == branch.branch);
    let parent = this.filter(|this| this.own_events() == 0).and_then(|this| this.parent);
    Ok(parent.filter(|parent| parent.at == at).map(|parent| BranchForked {
        from: parent.branch,
        at: parent.at,
        name: branch.branch.clone(),
    }))
}

/// Remembers the fold of everything up to the head. It is a cache: failing to is no failure.
pub(crate) async fn remember(journal: &dyn Journal, branch: &BranchId, session: &Session) {
    let Ok(state) = serde_json::to_vec(session) else { return };
    let Ok(Some(head)) = journal.head(branch).await else { return };
    if state.len() > SNAPSHOT_MAX || head.seq != session.seq {
        return;
    }
    let snapshot = Snapshot {
        branch: branch.clone(),
        seq: head.seq,
        chain: head.chain,
        fold: fold_version(),
        state: Bytes::from(state),
    };
    let _ = journal.put_snapshot(snapshot).await;
}

fn fold_version() -> FoldVersion {
    FoldVersion { fold: "session".to_owned(), version: FOLD_VERSION }
}
