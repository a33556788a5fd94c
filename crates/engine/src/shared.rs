//! What all sessions of an engine share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quick_cache::sync::Cache;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_events::SessionCreated;
use weir_types::{Hash, Seq};

use crate::actor::{Actor, Command, Leave, Standing, Stay, Staying};
use crate::address::Address;
use crate::adopt::Queue;
use crate::alive::Alive;
use crate::error::EngineError;
use crate::holds::Holds;
use crate::live::Live;
use crate::lost;
use crate::poke::Poke;
use crate::purses::Purses;
use crate::setup::{Adopt, Runnable, Setup};
use crate::snapshots::SealedJournal;

/// Commands that wait for one session; a full queue makes its senders wait.
const COMMANDS_MAX: usize = 64;

/// Blobs known to be stored: prompts and tool definitions, which hardly ever change.
const KNOWN_BLOBS_MAX: usize = 1_024;

/// What all sessions of an engine share.
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    /// Nothing new is begun.
    pub(crate) stopping: CancellationToken,
    /// Nor are calls of tools waited for.
    pub(crate) cutting: CancellationToken,
    pub(crate) tasks: TaskTracker,
    active: Mutex<HashMap<Address, Handle>>,
    /// What sessions say right now, as far as they have a task or a listener.
    pub(crate) live: Alive<Address, Live>,
    pub(crate) holds: Holds,
    known_blobs: Cache<Hash, ()>,
    pub(crate) purses: Purses,
    /// When what dead processes have set aside was looked for.
    pub(crate) lost: lost::Looked,
    /// Sessions that wait to be taken up.
    pub(crate) adoption: Queue,
    /// Why events cannot be stored, while they are held and tried again.
    pub(crate) storage: watch::Sender<Option<EngineError>>,
}

/// How to reach a session's task.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) standing: watch::Receiver<Standing>,
    /// Whether it stays in memory for a while when it rests.
    pub(crate) stay: Arc<Staying>,
    poke: Arc<Poke>,
}

impl Shared {
    pub(crate) fn new(setup: Setup) -> Arc<Self> {
        let adoption = Queue::new(setup.options.adopt == Adopt::All);
        let purses = Purses::new(setup.options.carry_every);
        Arc::new(Self {
            setup,
            stopping: CancellationToken::new(),
            cutting: CancellationToken::new(),
            tasks: TaskTracker::new(),
            active: Mutex::default(),
            live: Alive::default(),
            holds: Holds::default(),
            known_blobs: Cache::new(KNOWN_BLOBS_MAX),
            purses,
            lost: lost::Looked::default(),
            adoption,
            storage: watch::Sender::new(None),
        })
    }

    /// The journal, with the seal of its snapshots.
    pub(crate) fn journal(&self) -> SealedJournal<'_> {
        SealedJournal::new(&*self.setup.journal, &self.setup.seal)
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
        let stay = Arc::new(Staying::new(stay));
        let handle = Handle { commands, standing: watched, stay: Arc::clone(&stay), poke: Arc::clone(&poke) };
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
    pub(crate) fn retire(&self, address: &Address, how: Leave) {
        let left = self.active().remove(address);
        if how == Leave::Rested && left.is_some_and(|left| left.poke.has_news()) {
            // Someone spoke to it when it was about to leave.
            self.adoption.push(address.clone());
        }
    }

    /// The agent of a session, of the build that it began with if that matters to whoever knows the agents.
    pub(crate) async fn agent_of(&self, created: &SessionCreated) -> Result<Arc<Runnable>, EngineError> {
        self.setup.agents.agent(&created.agent, Some(created.manifest)).await.map_err(EngineError::Agent)
    }

    /// Stores a blob, unless it is known to be stored.
    pub(crate) async fn put_once(&self, content: &str) -> Result<Hash, EngineError> {
        let hash = Hash::of(content.as_bytes());
        if self.known_blobs.get(&hash).is_some() {
            return Ok(hash);
        }
        self.setup.blobs.put_bytes(Bytes::copy_from_slice(content.as_bytes())).await?;
        self.known_blobs.insert(hash, ());
        Ok(hash)
    }

    /// A blob is not stored any more. Whether it was known to be: then it is put again when it is needed.
    pub(crate) fn forget_blob(&self, hash: Hash) -> bool {
        self.known_blobs.remove(&hash).is_some()
    }

    fn active(&self) -> MutexGuard<'_, HashMap<Address, Handle>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use weir_blobs::MemoryBlobs;
    use weir_journal::{MemoryJournal, mint_owner};
    use weir_types::{Catalog, OwnerId, SessionId};

    use super::*;
    use crate::adopt::Turn;
    use crate::error::Explained;
    use crate::owners::{Owners, Standing as Life};
    use crate::setup::{Agents, Options};
    use crate::snapshots::SnapshotSeal;

    struct Nobody;

    impl Agents for Nobody {
        fn agent<'a>(
            &'a self,
            name: &'a str,
            _build: Option<Hash>,
        ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
            let missing = Catalog::default().find(name).map(|_| ()).unwrap_err();
            async move { Err(Arc::new(missing) as Explained) }.boxed()
        }
    }

    impl Owners for Nobody {
        fn me(&self) -> OwnerId {
            mint_owner()
        }

        fn standing(&self, _: OwnerId) -> BoxFuture<'_, std::io::Result<Life>> {
            async { Ok(Life::Dead) }.boxed()
        }
    }

    fn shared(adopt: Adopt) -> Arc<Shared> {
        let blobs = Arc::new(MemoryBlobs::new());
        let journal = Arc::new(MemoryJournal::new(Arc::clone(&blobs) as _));
        let (options, seal) = (Options { adopt, ..Options::default() }, SnapshotSeal::in_memory().unwrap());
        Shared::new(Setup {
            journal,
            blobs,
            agents: Arc::new(Nobody),
            owners: Arc::new(Nobody),
            seal,
            options,
        })
    }

    /// A session in memory whose task does nothing, told and knowing so much.
    fn leaving(shared: &Shared, told: u64, known: u64) -> Address {
        let address = Address::main(SessionId::from_u128(7));
        let (commands, _) = mpsc::channel(1);
        let (_, standing) = watch::channel(Standing::Working);
        let poke = Arc::<Poke>::default();
        let stay = Arc::new(Staying::new(Stay::No));
        let handle = Handle { commands, standing, stay, poke: Arc::clone(&poke) };
        shared.active().insert(address.clone(), handle);
        poke.know(Seq(known));
        assert!(shared.poke(&address, Seq(told)));
        address
    }

    #[test]
    fn a_session_that_is_spoken_to_when_it_leaves_is_taken_up_again() {
        let server = shared(Adopt::All);
        let address = leaving(&server, 5, 4);
        server.retire(&address, Leave::Rested);
        assert_eq!(server.adoption.next(), Turn::Session(address.clone()));
        assert!(!server.poke(&address, Seq(6)), "nobody is there to be told");
        // What it knows is nothing new; and one that cannot go on is not tried over and over.
        for (told, how) in [(4, Leave::Rested), (5, Leave::Failed)] {
            let address = leaving(&server, told, 4);
            server.retire(&address, how);
            assert_eq!(server.adoption.next(), Turn::Nothing);
        }
        let command = shared(Adopt::Asked);
        let address = leaving(&command, 5, 4);
        command.retire(&address, Leave::Rested);
        assert_eq!(command.adoption.next(), Turn::Nothing);
    }
}
