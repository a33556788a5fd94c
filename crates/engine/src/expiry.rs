//! Approvals whose time is over: whoever opens a journal writes that down, so that it needs no process that waits for it.
//!
//! A server notices by itself, and goes on with the session. Everybody else only says so: the call waits no more, nobody can
//! approve it, and whoever runs the session next tells the model.

use weir_events::{ApprovalExpired, Body};
use weir_journal::{ListFilter, Status};
use weir_kernel::{CallState, Lifecycle, Session};
use weir_types::{CallId, Timestamp};

use crate::address::Address;
use crate::error::EngineError;
use crate::input;
use crate::shared::Shared;
use crate::store;

/// How many sessions are looked at together.
const ROWS_AT_ONCE: usize = 100;

/// Writes down that approvals have expired, in sessions that nobody runs.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) async fn note(shared: &Shared) -> Result<(), EngineError> {
    let now = (shared.setup.options.clock)();
    let filter =
        || ListFilter { due_before: Some(now), status: Some(Status::Waiting), ..ListFilter::default() };
    let mut after = None;
    loop {
        let page = shared.setup.journal.list(filter(), after.take(), ROWS_AT_ONCE).await?;
        for address in page.iter().filter_map(|listed| Address::of(&listed.branch)) {
            // What cannot be read, or is just being changed by others, costs nobody else anything.
            let _ = note_in(shared, &address, now).await;
        }
        match page.last() {
            Some(last) if page.len() == ROWS_AT_ONCE => after = Some(last.after()),
            _ => return Ok(()),
        }
    }
}

async fn note_in(shared: &Shared, address: &Address, now: Timestamp) -> Result<(), EngineError> {
    let Some(loaded) = store::load(shared.journal(), address).await? else { return Ok(()) };
    let session = loaded.state();
    let Some(created) = &session.created else { return Ok(()) };
    let by = input::By { actor: created.principal.clone(), cause: None };
    for call in late(&session, now) {
        let expired: Body = ApprovalExpired { call }.into();
        let still_waits = |session: &Session| late(session, now).contains(&call);
        input::append_if(shared, address, &[expired], &by, None, still_waits).await?;
    }
    Ok(())
}

/// The calls that waited long enough.
fn late(session: &Session, now: Timestamp) -> Vec<CallId> {
    let is_late =
        |state: &CallState| matches!(state, CallState::Awaiting { expires: Some(at), .. } if now >= *at);
    let is_open = session.lifecycle == Lifecycle::Open;
    let calls = session.all_calls().filter(|call| is_open && is_late(&call.state));
    calls.map(|call| call.id).collect()
}
