//! All connections to servers: one for each target, made when it is first needed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use weir_types::Explain;

use crate::answer::Answered;
use crate::call::{Call, deliver};
use crate::call_error::CallError;
use crate::connect::{Way, open};
use crate::connection::Connection;
use crate::error::Error;
use crate::slot::{Attempt, Found, Slot, Use};
use crate::stdio::Extent;
use crate::target::{Key, Target};

/// Most connections at once. Each stdio server is a process, often a whole interpreter.
const CONNECTIONS_MAX: usize = 64;

/// Most targets that are remembered, connected or not.
const TARGETS_MAX: usize = 1024;

/// How long a server may take to start and introduce itself. Some are downloaded first.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a new connection waits for the end of another one.
const PLACE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long [`Connections::close`] waits. Each server gets about a second to say goodbye; then it is killed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections to servers. Cheap to clone; with the last clone everything ends.
#[derive(Clone)]
pub struct Connections(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    _closing: DropGuard,
}

/// What the tasks know of.
pub(crate) struct Shared {
    targets: Mutex<HashMap<Key, Arc<Slot>>>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

impl Connections {
    /// No connection yet.
    pub fn new() -> Self {
        let closing = CancellationToken::new();
        let shared = Shared {
            targets: Mutex::new(HashMap::new()),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            tasks: TaskTracker::new(),
            closing: closing.clone(),
        };
        Self(Arc::new(Owner { shared: Arc::new(shared), _closing: closing.drop_guard() }))
    }

    /// Calls a tool. The server is connected to if need be, its definition of the tool is shown to [`Call::accepts`],
    /// and the call is sent once.
    ///
    /// It is sent a second time only when the server has said that it did not read it the first time: when the
    /// connection was gone before the first byte, or the session (HTTP 404).
    ///
    /// # Errors
    /// See [`CallError`]; [`CallError::may_have_happened`] says whether the tool may have run.
    ///
    /// # Cancel safety
    /// The server is told that nobody waits any more. Whether the tool has run is not known.
    pub async fn call(&self, target: &Target, call: Call) -> Result<Answered, CallError> {
        let shared = &self.0.shared;
        let has_left = Arc::new(AtomicBool::new(false));
        let mut work = Box::pin(deliver(shared, target, &call, &has_left));
        enum End {
            Done(Result<Answered, CallError>),
            Late,
            Cancelled,
            Closed,
        }
        let end = tokio::select! {
            biased;
            () = shared.closing.cancelled() => End::Closed,
            () = call.cancelled.cancelled() => End::Cancelled,
            done = &mut work => End::Done(done),
            () = tokio::time::sleep(call.deadline) => End::Late,
        };
        // Only a question that was taken back says whether it had left.
        drop(work);
        let may_have_happened = has_left.load(Ordering::Acquire);
        match end {
            End::Done(done) => done,
            End::Late => Err(CallError::Late { after: call.deadline, may_have_happened }),
            End::Cancelled => Err(CallError::Cancelled { may_have_happened }),
            End::Closed if may_have_happened => Err(CallError::Cancelled { may_have_happened }),
            End::Closed => Err(CallError::Closed),
        }
    }

    /// Ends all connections: no more calls, those under way are broken off, and servers are asked to end before they
    /// are killed. Waits until they are gone, for a few seconds at most; says whether they are.
    pub async fn close(&self) -> bool {
        let shared = &self.0.shared;
        shared.closing.cancel();
        shared.tasks.close();
        tokio::time::timeout(CLOSE_TIMEOUT, shared.tasks.wait()).await.is_ok()
    }

    /// How many connections there are, those included that are being made or ended.
    pub fn count(&self) -> usize {
        CONNECTIONS_MAX - self.0.shared.places.available_permits()
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("count", &self.count()).finish()
    }
}

impl Shared {
    fn targets(&self) -> MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of a target, in use.
    pub(crate) fn slot(&self, target: &Target) -> Result<Use, CallError> {
        let key = target.key();
        let mut targets = self.targets();
        if let Some(slot) = targets.get(&key) {
            return Ok(Use::of(slot));
        }
        if targets.len() >= TARGETS_MAX {
            targets.retain(|_, slot| !slot.is_empty());
        }
        if targets.len() >= TARGETS_MAX {
            let oldest =
                targets.iter().filter(|(_, slot)| !slot.is_used()).min_by_key(|(_, slot)| slot.used());
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return Err(too_many()) };
            let slot = targets.remove(&oldest);
            slot.and_then(|slot| slot.live()).iter().for_each(|connection| {
                connection.retire();
            });
        }
        let slot = Arc::new(Slot::new());
        let using = Use::of(&slot);
        targets.insert(key, slot);
        Ok(using)
    }

    /// The connection of a target, made if need be. Whoever comes while it is being made waits for the same one.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        using: &Use,
        target: &Target,
    ) -> Result<Arc<Connection>, CallError> {
        let mut attempt = match using.0.find()? {
            Found::Live(connection) => return Ok(connection),
            Found::Connecting(attempt) => attempt,
            Found::Empty(sender, receiver) => {
                let (shared, slot) = (Arc::clone(self), Arc::clone(&using.0));
                // It belongs to no caller: whoever cancels does so for himself.
                self.tasks.spawn(serve(shared, slot, target.clone(), sender));
                receiver
            }
        };
        match attempt.wait_for(Option::is_some).await.ok().and_then(|attempt| attempt.clone()) {
            Some(Ok(connection)) => Ok(connection),
            Some(Err(error)) => Err(CallError::NotConnected(error)),
            None => Err(CallError::Closed),
        }
    }

    /// A place for one more connection. The one that has not been used for longest makes room.
    async fn place(&self) -> Result<OwnedSemaphorePermit, Error> {
        let places = Arc::clone(&self.places);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return Ok(place);
        }
        let unused = self.targets().values().filter(|slot| !slot.is_used()).cloned().collect::<Vec<_>>();
        let oldest =
            unused.iter().filter_map(|slot| Some((slot.used(), slot.live()?))).min_by_key(|(used, _)| *used);
        if let Some((_, connection)) = oldest {
            connection.retire();
        }
        let place = tokio::time::timeout(PLACE_TIMEOUT, places.acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(Error::TooMany { connections_max: CONNECTIONS_MAX })
    }
}

fn too_many() -> CallError {
    CallError::NotConnected(Arc::new(Error::TooMany { connections_max: CONNECTIONS_MAX }))
}

/// The life of one connection.
async fn serve(
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    target: Target,
    attempt: watch::Sender<Option<Attempt>>,
) {
    let (server, began) = (target.server.shown(), tokio::time::Instant::now());
    let took_ms = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let opening = async {
        let place = shared.place().await?;
        let way = Way {
            server: &target.server,
            directory: &target.directory,
            environment: &target.environment,
            headers: &target.headers,
            launcher: &target.launcher,
            extent: Extent::Running,
        };
        Ok::<_, Error>((place, open(&way, START_TIMEOUT).await?))
    };
    let opened = tokio::select! {
        () = shared.closing.cancelled() => return slot.not_connected(None),
        opened = Box::pin(opening) => opened,
    };
    let (_place, open) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // Its text can hold what the server wrote; its code cannot.
            tracing::debug!(server, code = error.code(), took_ms = took_ms(), "MCP server not started");
            slot.not_connected(Some(&error).filter(|error| !matches!(error, Error::TooMany { .. })));
            attempt.send_replace(Some(Err(Arc::new(error))));
            return;
        }
    };
    let connection = Arc::new(Connection::new(&open, shared.tasks.clone()));
    match slot.connected(&connection) {
        1 => tracing::debug!(server, took_ms = took_ms(), "MCP server started"),
        connection => tracing::debug!(server, connection, took_ms = took_ms(), "MCP server started again"),
    }
    attempt.send_replace(Some(Ok(Arc::clone(&connection))));
    drop(attempt);
    let enough = async {
        tokio::select! {
            () = shared.closing.cancelled() => None,
            why = connection.enough() => why,
        }
    };
    let (why, _) = open.until(enough).await;
    tracing::debug!(server, code = why.as_ref().map(Explain::code), "MCP server ended");
    let why = why.map(Arc::new);
    slot.retire(&connection, why.as_deref());
    connection.ended(why);
}
