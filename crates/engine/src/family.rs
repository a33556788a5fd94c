//! Sessions and those that do calls for them: who is behind a call, and who waits for whom.

use weir_journal::now;
use weir_kernel::{Call, CallState, Lifecycle, Session};
use weir_tools::DEPTH_MAX;
use weir_types::{CallId, SessionId, Timestamp};

use crate::address::Address;
use crate::error::EngineError;
use crate::snapshots::SealedJournal;
use crate::store;

/// A session behind a call.
pub(crate) struct Child {
    pub(crate) address: Address,
    pub(crate) session: Session,
}

/// The sessions behind the calls of a session that have not ended. A call names its session, and that must name the call:
/// what was made up gets nowhere.
pub(crate) async fn behind(
    journal: SealedJournal<'_>,
    parent: SessionId,
    session: &Session,
) -> Result<Vec<Child>, EngineError> {
    let open = session.all_calls().filter(|call| !matches!(call.state, CallState::Done(_)));
    let named: Vec<_> = open.filter_map(|call| Some((call.id, call.child?))).collect();
    let mut found = Vec::new();
    for (call, child) in named {
        found.extend(child_of(journal, parent, call, child).await?);
    }
    Ok(found)
}

/// The session that a call names, if that names the call.
pub(crate) async fn child_of(
    journal: SealedJournal<'_>,
    parent: SessionId,
    call: CallId,
    child: SessionId,
) -> Result<Option<Child>, EngineError> {
    let address = Address::main(child);
    let Some(loaded) = store::load(journal, &address).await? else { return Ok(None) };
    let session = loaded.state();
    let begun_by = session.created.as_ref().and_then(|created| created.parent.as_ref());
    let is_its = begun_by.is_some_and(|begun_by| (begun_by.session, begun_by.call) == (parent, call));
    Ok(is_its.then_some(Child { address, session }))
}

/// All sessions behind a session, and behind those, the nearest first.
pub(crate) async fn below(
    journal: SealedJournal<'_>,
    address: &Address,
    session: &Session,
) -> Result<Vec<Child>, EngineError> {
    let mut found: Vec<Child> = Vec::new();
    let mut level = behind(journal, address.session, session).await?;
    // No session is deeper.
    for _ in 0..DEPTH_MAX {
        let mut next = Vec::new();
        for child in &level {
            next.extend(behind(journal, child.address.session, &child.session).await?);
        }
        found.append(&mut level);
        level = next;
    }
    Ok(found)
}

/// Whether the session behind a call, or one behind that, has anything to do but to wait for people.
pub(crate) async fn stirs(
    journal: SealedJournal<'_>,
    parent: SessionId,
    call: CallId,
    child: SessionId,
) -> Result<bool, EngineError> {
    // Where there is none, there is nothing to wait for: whoever attends it is told.
    let Some(child) = child_of(journal, parent, call, child).await? else { return Ok(true) };
    let now = now();
    if !waits(&child.session, now) {
        return Ok(true);
    }
    let below = below(journal, &child.address, &child.session).await?;
    Ok(below.iter().any(|child| !waits(&child.session, now)))
}

/// Whether nothing of a session's own is left to do, until someone decides.
fn waits(session: &Session, now: Timestamp) -> bool {
    let is_over =
        |call: &Call| matches!(call.state, CallState::Awaiting { expires: Some(at), .. } if now >= at);
    let at_work = session.active_run().filter(|run| !run.cancelling);
    session.lifecycle == Lifecycle::Open
        && at_work.is_some()
        && session.is_waiting()
        && !session.calls().iter().any(is_over)
}

/// The session that waits for a session, and the call it waits with.
pub(crate) struct Waiting {
    pub(crate) address: Address,
    pub(crate) session: Session,
    pub(crate) call: Call,
}

/// The parent of a session, if it waits for that session's run to end.
pub(crate) async fn waiting_parent(
    journal: SealedJournal<'_>,
    child: &Address,
    session: &Session,
) -> Result<Option<Waiting>, EngineError> {
    let Some(parent) = session.created.as_ref().and_then(|created| created.parent.as_ref()) else {
        return Ok(None);
    };
    let address = Address { session: parent.session, branch: parent.branch.clone() };
    let Some(loaded) = store::load(journal, &address).await? else { return Ok(None) };
    let is_ours = |call: &&Call| call.state == CallState::Suspended && call.child == Some(child.session);
    let call = loaded.session.all_calls().find(is_ours).cloned();
    let is_open = loaded.preface.is_empty() && loaded.session.lifecycle == Lifecycle::Open;
    Ok(call.filter(|_| is_open).map(|call| Waiting { address, session: loaded.session, call }))
}

/// The session that a person began, from which a session was called, however deep.
pub(crate) async fn root_of(journal: SealedJournal<'_>, address: &Address) -> Result<Address, EngineError> {
    let mut root = address.clone();
    for _ in 0..=DEPTH_MAX {
        let loaded = store::load(journal, &root).await?;
        let created = loaded.and_then(|loaded| loaded.session.created);
        match created.and_then(|created| created.parent) {
            Some(parent) => root = Address { session: parent.session, branch: parent.branch },
            None => break,
        }
    }
    Ok(root)
}
