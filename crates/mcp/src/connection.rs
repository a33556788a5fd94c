//! One connection to one server, as one identity.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ask::Asker;
use crate::connect::{CALLS_MAX, Open};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::list::{self, Definition, NotListed};

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// How long a call waits to hear how the server ended under it.
const ENDING: Duration = Duration::from_secs(3);

/// A server that has introduced itself and can be asked.
pub(crate) struct Connection {
    pub(crate) asker: Asker,
    ledger: Ledger,
    /// A place for each call under way.
    places: Arc<Semaphore>,
    tools: tokio::sync::Mutex<Option<Listed>>,
    /// Takes no new call; ends when the last one is over.
    retired: CancellationToken,
    used: Mutex<Instant>,
    why: OnceLock<Arc<Error>>,
    over: CancellationToken,
}

/// The tools as they were when they had changed so often.
struct Listed {
    changes: u64,
    tools: Tools,
}

type Tools = Arc<BTreeMap<String, Definition>>;

impl Connection {
    pub(crate) fn new(open: &Open, tasks: TaskTracker) -> Self {
        Self {
            asker: Asker::new(open, tasks),
            ledger: open.ledger.clone(),
            places: Arc::new(Semaphore::new(CALLS_MAX)),
            tools: tokio::sync::Mutex::new(None),
            retired: CancellationToken::new(),
            used: Mutex::new(Instant::now()),
            why: OnceLock::new(),
            over: CancellationToken::new(),
        }
    }

    /// Whether it can be asked.
    pub(crate) fn is_live(&self) -> bool {
        !self.retired.is_cancelled() && !self.asker.is_gone()
    }

    /// Takes no new call from now on. Says whether it did until now.
    pub(crate) fn retire(&self) -> bool {
        let was_live = !self.retired.is_cancelled();
        self.retired.cancel();
        was_live
    }

    /// A place among the calls under way; `None` when there are no more calls.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        self.touch();
        place
    }

    /// Somebody uses it now.
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The server's tools, asked for again if they have changed. Whoever comes while they are being listed waits for
    /// the same list.
    pub(crate) async fn tools(&self) -> Result<Tools, NotListed> {
        let mut listed = self.tools.lock().await;
        let changes = self.ledger.changes();
        if let Some(listed) = listed.as_ref().filter(|listed| listed.changes == changes) {
            return Ok(Arc::clone(&listed.tools));
        }
        let tools = list::pages(&self.asker).await?;
        let tools: Tools = Arc::new(tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect());
        *listed = Some(Listed { changes, tools: Arc::clone(&tools) });
        Ok(tools)
    }

    /// Why it is gone, once that is known.
    pub(crate) async fn why(&self) -> Arc<Error> {
        let _ = tokio::time::timeout(ENDING, self.over.cancelled()).await;
        self.why.get().map_or_else(|| Arc::new(Error::ended()), Arc::clone)
    }

    /// It is gone.
    pub(crate) fn ended(&self, why: Option<Arc<Error>>) {
        if let Some(why) = why {
            // Only its one task says so.
            let _ = self.why.set(why);
        }
        self.over.cancel();
    }

    /// Waits until nobody needs it any more, or it does not take what it is sent.
    pub(crate) async fn enough(&self) -> Option<Error> {
        loop {
            let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let in_use = self.places.available_permits() < CALLS_MAX;
            let since = if in_use { Instant::now() } else { used };
            tokio::select! {
                () = self.asker.stuck.cancelled() => return Some(Error::Stuck),
                () = self.retired.cancelled() => break,
                () = tokio::time::sleep_until(since + IDLE) => {}
            }
            let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if self.places.available_permits() == CALLS_MAX && used.elapsed() >= IDLE {
                self.retire();
                break;
            }
        }
        // Calls that are under way come to their end.
        let all = u32::try_from(CALLS_MAX).unwrap_or(u32::MAX);
        tokio::select! {
            () = self.asker.stuck.cancelled() => Some(Error::Stuck),
            _ = self.places.acquire_many(all) => None,
        }
    }
}
