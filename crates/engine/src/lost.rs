//! What dead processes have set aside. It counts as spent, since nobody knows what came of their calls; whoever needs the room
//! settles it, and nobody has to wait for the sessions to be taken up.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use weir_events::About;
use weir_types::EventId;

use crate::address::Address;
use crate::draft::settlement;
use crate::error::EngineError;
use crate::owners::Standing as Life;
use crate::shared::Shared;
use crate::store;

/// How many calls are looked at together. Those of the living come and go.
const LOOKED_AT_MAX: usize = 256;

/// However many wait for room in a purse, one of them looks, and not all the time.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// How many purses are remembered as looked at.
const SCOPES_MAX: usize = 1_024;

/// When purses were looked at, by scope.
pub(crate) type Looked = tokio::sync::Mutex<HashMap<String, Instant>>;

/// Settles what dead processes have set aside in a purse. True, if there was anything.
///
/// # Errors
/// When the journal cannot be read or written.
pub(crate) async fn settle(shared: &Shared, scope: &str) -> Result<bool, EngineError> {
    let mut looked = shared.lost.lock().await;
    let now = Instant::now();
    if looked.get(scope).is_some_and(|at| now.duration_since(*at) < LOOKED_EVERY) {
        return Ok(false);
    }
    if looked.len() >= SCOPES_MAX {
        looked.clear();
    }
    looked.insert(scope.to_owned(), now);
    let held = shared.purses.held(&*shared.setup.journal, scope, LOOKED_AT_MAX).await?;
    let mut settled = false;
    for call in held {
        settled |= settle_one(shared, call).await?;
    }
    Ok(settled)
}

async fn settle_one(shared: &Shared, call: EventId) -> Result<bool, EngineError> {
    let journal = &*shared.setup.journal;
    let Some(event) = journal.by_id(call).await? else { return Ok(false) };
    let branch = event.branch_id();
    let Some(address) = Address::of(&branch) else { return Ok(false) };
    let owner = journal.listed(&branch).await?.and_then(|listed| listed.owner);
    let Some(owner) = owner else { return Ok(false) };
    // Who cannot be shown to be dead is alive. The dead stay dead: whoever takes the session over settles the same, and the
    // first one counts.
    if !matches!(shared.setup.owners.standing(owner).await, Ok(Life::Dead)) {
        return Ok(false);
    }
    let Some(loaded) = store::load(shared.journal(), &address).await? else { return Ok(false) };
    let session = loaded.session;
    let Some(pending) = session.pending().filter(|pending| pending.id() == call) else { return Ok(false) };
    let about = About {
        actor: session.created.as_ref().map(|created| created.principal.clone()),
        run: session.run.as_ref().map(|run| run.id),
        causation: Some(call),
        ..About::default()
    };
    let mut parts: Vec<_> =
        pending.lost(&session).iter().filter_map(|told| settlement(told, &about)).collect();
    if parts.is_empty() {
        return Ok(false);
    }
    shared.purses.carry_along(&mut parts);
    let appended = journal.append(parts.clone()).await?;
    for (part, appended) in parts.iter().zip(&appended) {
        shared.purses.note(part, appended);
    }
    Ok(true)
}
