//! What an engine does without being asked: it wakes sessions that others have spoken to, looks after those that
//! are due, and takes up those whose process is gone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use weir_journal::{ListFilter, PAGE_MAX, Status, Tail, now};
use weir_kernel::INPUT_KINDS;
use weir_types::{BranchId, Event};

use crate::address::Address;
use crate::error::EngineError;
use crate::input;
use crate::owners::Standing;
use crate::setup::Adopt;
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
            Some(Err(_)) | None => {
                tokio::time::sleep(DUE_EVERY).await;
                let Ok(end) = shared.setup.journal.end().await else { continue };
                tail = shared.setup.journal.tail_all(end);
            }
        }
    }
}

fn wake(shared: &Arc<Shared>, event: &Event) {
    if !INPUT_KINDS.contains(&event.kind.as_str()) {
        return;
    }
    let branch = BranchId { stream: event.stream.clone(), branch: event.branch.clone() };
    let Some(address) = Address::of(&branch) else { return };
    if !shared.poke(&address, event.seq) && shared.setup.options.adopt == Adopt::All {
        // It looks at its stream first thing; if another process runs it, it leaves again.
        let _ = shared.activate(&address);
    }
}

/// Wakes the sessions that are due.
pub(crate) async fn tick(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(DUE_EVERY) => {}
            () = shared.stopping.cancelled() => return,
        }
        let filter = ListFilter { due_before: Some(now()), ..ListFilter::default() };
        let Ok(due) = shared.setup.journal.list(filter, None, PAGE_MAX).await else { continue };
        for listed in due {
            if let Some(address) = Address::of(&listed.branch) {
                let _ = shared.activate(&address);
            }
        }
    }
}

/// Takes up every session that has something to do and that no living process runs. Says how many.
pub(crate) async fn recover(shared: &Arc<Shared>) -> Result<Vec<Address>, EngineError> {
    let mut orphans = Vec::new();
    let mut after = None;
    loop {
        let filter = ListFilter { status: Some(Status::Running), ..ListFilter::default() };
        let page = shared.setup.journal.list(filter, after.take(), PAGE_MAX).await?;
        for listed in &page {
            let alive = match listed.owner {
                Some(owner) => !matches!(shared.setup.owners.standing(owner).await, Ok(Standing::Dead)),
                None => false,
            };
            if let Some(address) = Address::of(&listed.branch).filter(|_| !alive) {
                orphans.push(address);
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE_MAX => after = Some(last.after()),
            _ => break,
        }
    }
    shared.tasks.spawn(take_up(Arc::clone(shared), orphans.clone()));
    Ok(orphans)
}

/// A few at a time: after a long downtime there may be thousands.
async fn take_up(shared: Arc<Shared>, orphans: Vec<Address>) {
    let at_once = shared.setup.options.recover_max.max(1);
    let work = futures_util::stream::iter(orphans).for_each_concurrent(at_once, |address| {
        let shared = Arc::clone(&shared);
        async move {
            // What it comes to is in its journal.
            let _ = input::settle(&shared, &address).await;
        }
    });
    tokio::select! {
        () = work => {}
        () = shared.stopping.cancelled() => {}
    }
}
