//! What an engine does without being asked: it wakes sessions that others have spoken to, looks after those that
//! are due, and takes up those whose process is gone. A bounded number at once, however many there are: the others wait for
//! their turn, in a queue or in the journal.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Semaphore;
use weir_events::{Body, Payload, ToolRequested, is_input_kind};
use weir_journal::{ListAfter, ListFilter, Listed, PAGE_MAX, Status, Tail};
use weir_types::{BranchId, Event, Explain};

pub(crate) use self::queue::{Queue, Turn};
use crate::actor::{Standing, Stay};
use crate::address::Address;
use crate::error::EngineError;
use crate::owners::Standing as Life;
use crate::shared::Shared;

/// How often the sessions that are due are looked for.
const DUE_EVERY: Duration = Duration::from_secs(1);

/// Wakes the tasks of sessions that someone else has appended to.
pub(crate) async fn listen(shared: Arc<Shared>, mut tail: Tail) {
    loop {
        let event = tokio::select! {
            event = tail.next() => event,
            () = shared.stopping.cancelled() => return,
        };
        match event {
            Some(Ok(event)) => wake(&shared, &event),
            // A tail that fails is begun again where the journal ends: sessions look for themselves when they commit.
            failed => {
                let error = failed.and_then(Result::err).map(tracing::field::display);
                tracing::warn!(error, "the journal is not followed for a moment; it is tried again");
                tokio::time::sleep(DUE_EVERY).await;
                let end = match shared.setup.journal.end().await {
                    Ok(end) => end,
                    Err(error) => {
                        tracing::warn!(%error, "the end of the journal cannot be read; it is tried again");
                        continue;
                    }
                };
                tail = shared.setup.journal.tail_all(end);
                // What went by in between is in the journal.
                shared.adoption.look();
            }
        }
    }
}

fn wake(shared: &Shared, event: &Event) {
    if !is_input_kind(event.kind.as_str()) && !asks_for_an_errand(event) {
        return;
    }
    let branch = BranchId { stream: event.stream.clone(), branch: event.branch.clone() };
    let Some(address) = Address::of(&branch) else { return };
    if !shared.poke(&address, event.seq) {
        // It looks at its stream first thing; if another process runs it, it leaves again.
        shared.adoption.push(address);
    }
}

/// Whether a call is asked for from outside: the others are the session's own.
fn asks_for_an_errand(event: &Event) -> bool {
    event.kind.as_str() == ToolRequested::KIND
        && matches!(Body::decode(&event.kind, &event.payload), Ok(Some(Body::ToolRequested(asked))) if asked.key.is_some())
}

/// Wakes the sessions that are due.
pub(crate) async fn tick(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(DUE_EVERY) => {}
            () = shared.stopping.cancelled() => return,
        }
        let filter = ListFilter { due_before: Some((shared.setup.options.clock)()), ..ListFilter::default() };
        let mut after = None;
        // However many are due, and however long the first of them stay so.
        loop {
            let due = match shared.setup.journal.list(filter.clone(), after, PAGE_MAX).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "sessions that are due cannot be listed; it is tried again");
                    break;
                }
            };
            for address in due.iter().filter_map(|listed| Address::of(&listed.branch)) {
                shared.adoption.push(address);
            }
            after = due.last().filter(|_| due.len() == PAGE_MAX).map(Listed::after);
            if after.is_none() {
                break;
            }
        }
    }
}

/// Takes up every session whose turn it is, and in the beginning all that have something to do and that no living process
/// runs.
pub(crate) async fn work(shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(shared.setup.options.adopt_max.max(1)));
    shared.adoption.look();
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = shared.stopping.cancelled() => return,
        };
        let Ok(slot) = slot else { return };
        let address = tokio::select! {
            address = next(&shared) => address,
            () = shared.stopping.cancelled() => return,
        };
        let taken = Arc::clone(&shared);
        shared.tasks.spawn(async move {
            take_up(&taken, &address).await;
            drop(slot);
        });
    }
}

/// The session whose turn it is.
async fn next(shared: &Arc<Shared>) -> Address {
    loop {
        match shared.adoption.next() {
            Turn::Session(address) => return address,
            Turn::Look(after) => match orphans(shared, after.clone()).await {
                Ok((found, next)) => shared.adoption.found(found, next),
                // Whatever is there stays there.
                Err(error) => {
                    let code = error.code();
                    tracing::warn!(code, "sessions without a process cannot be listed; it is tried again");
                    tokio::time::sleep(DUE_EVERY).await;
                    shared.adoption.found(Vec::new(), Some(after));
                }
            },
            Turn::Nothing => shared.adoption.pushed().await,
        }
    }
}

/// A page of sessions that have something to do and that no living process runs, and where the next page begins.
async fn orphans(
    shared: &Shared,
    after: Option<ListAfter>,
) -> Result<(Vec<Address>, Option<Option<ListAfter>>), EngineError> {
    let filter = ListFilter { status: Some(Status::Running), ..ListFilter::default() };
    let page = shared.setup.journal.list(filter, after, PAGE_MAX).await?;
    let mut orphans = Vec::new();
    for listed in &page {
        let alive = match listed.owner {
            Some(owner) => match shared.setup.owners.standing(owner).await {
                Ok(Life::Dead) => false,
                Ok(Life::Alive { .. }) => true,
                Err(error) => {
                    tracing::debug!(%owner, %error, "it is not known whether a process lives");
                    true
                }
            },
            None => false,
        };
        orphans.extend(Address::of(&listed.branch).filter(|_| !alive));
    }
    let next = page.last().filter(|_| page.len() == PAGE_MAX).map(Listed::after);
    Ok((orphans, next.map(Some)))
}

/// Runs a session until it has left memory, or rests because someone else asked for it. What it comes to is in its journal.
async fn take_up(shared: &Arc<Shared>, address: &Address) {
    let Address { session, branch } = address;
    let mut handle = match shared.adopt(address) {
        Ok(handle) => handle,
        Err(error) => {
            tracing::debug!(%session, %branch, code = error.code(), "session not woken");
            return;
        }
    };
    tracing::debug!(%session, %branch, "session woken");
    loop {
        let is_working =
            matches!(*handle.standing.borrow_and_update(), Standing::Working | Standing::WaitingForStorage);
        if !is_working && handle.stay.get() == Stay::AWhile || handle.standing.changed().await.is_err() {
            return;
        }
    }
}
