//! What all sessions of an engine share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_types::{Hash, Seq};

use crate::actor::{Actor, Command, Standing, Stay};
use crate::address::Address;
use crate::adopt::Queue;
use crate::error::EngineError;
use crate::live::Live;
use crate::poke::Poke;
use crate::purses::Purses;
use crate::setup::{Adopt, Setup};

/// Commands that wait for one session; a full queue makes its senders wait.
const COMMANDS_MAX: usize = 64;

/// Blobs known to be stored: prompts and tool definitions, which hardly ever change.
const KNOWN_BLOBS_MAX: usize = 1_024;

/// What all sessions of an engine share.
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
    active: Mutex<HashMap<Address, Handle>>,
    live: Mutex<HashMap<Address, Weak<Live>>>,
    known_blobs: Mutex<HashSet<Hash>>,
    pub(crate) purses: Purses,
    /// Sessions that wait to be taken up.
    pub(crate) adoption: Queue,
}

/// How to reach a session's task.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) standing: watch::Receiver<Standing>,
    poke: Arc<Poke>,
}

impl Shared {
    pub(crate) fn new(setup: Setup) -> Arc<Self> {
        let adoption = Queue::new(setup.options.adopt == Adopt::All);
        Arc::new(Self {
            setup,
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            active: Mutex::default(),
            live: Mutex::default(),
            known_blobs: Mutex::default(),
            purses: Purses::default(),
            adoption,
        })
    }

    /// The session's task, started if need be.
    pub(crate) fn activate(self: &Arc<Self>, address: &Address) -> Result<Handle, EngineError> {
        self.start(address, Stay::AWhile)
    }

    /// The same for a session that nobody asked for: it leaves memory as soon as it has nothing to do.
    pub(crate) fn adopt(self: &Arc<Self>, address: &Address) -> Result<Handle, EngineError> {
        self.start(address, Stay::No)
    }

    fn start(self: &Arc<Self>, address: &Address, stay: Stay) -> Result<Handle, EngineError> {
        if self.stopping.is_cancelled() {
            return Err(EngineError::Stopping);
        }
        let mut active = self.active();
        if let Some(handle) = active.get(address) {
            return Ok(handle.clone());
        }
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (standing, watched) = watch::channel(Standing::Working);
        let poke = Arc::<Poke>::default();
        let handle = Handle { commands, standing: watched, poke: Arc::clone(&poke) };
        active.insert(address.clone(), handle.clone());
        drop(active);
        let actor = Actor::new(Arc::clone(self), address.clone(), inbox, standing, poke, stay);
        self.tasks.spawn(actor.run());
        Ok(handle)
    }

    /// The session's task, if there is one.
    pub(crate) fn find(&self, address: &Address) -> Option<Handle> {
        self.active().get(address).cloned()
    }

    /// How many sessions have a task.
    pub(crate) fn active_count(&self) -> usize {
        self.active().len()
    }

    /// Tells a session's task, if there is one, that its stream has grown to this event.
    ///
    /// INVARIANT: a task that is told has not left yet, and looks once more whether it was told when it has.
    pub(crate) fn poke(&self, address: &Address, seq: Seq) -> bool {
        let active = self.active();
        active.get(address).inspect(|handle| handle.poke.tell(seq)).is_some()
    }

    /// A session's task ends. From here on a new one may be started.
    pub(crate) fn retire(&self, address: &Address) {
        self.active().remove(address);
        // Listeners of sessions that are gone leave empty places behind.
        self.lives().retain(|_, live| live.strong_count() > 0);
    }

    /// What a session says, live.
    pub(crate) fn live(&self, address: &Address) -> Arc<Live> {
        let mut lives = self.lives();
        if let Some(live) = lives.get(address).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(Live::default());
        lives.insert(address.clone(), Arc::downgrade(&live));
        live
    }

    /// Stores a blob, unless it is known to be stored.
    pub(crate) async fn put_once(&self, content: &str) -> Result<Hash, EngineError> {
        let hash = Hash::of(content.as_bytes());
        if self.known().contains(&hash) {
            return Ok(hash);
        }
        self.setup.blobs.put_bytes(Bytes::copy_from_slice(content.as_bytes())).await?;
        let mut known = self.known();
        if known.len() >= KNOWN_BLOBS_MAX {
            known.clear();
        }
        known.insert(hash);
        Ok(hash)
    }

    fn active(&self) -> MutexGuard<'_, HashMap<Address, Handle>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lives(&self) -> MutexGuard<'_, HashMap<Address, Weak<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashSet<Hash>> {
        self.known_blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
