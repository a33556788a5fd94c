//! How both engines follow: subscribe first, then read the store until nothing is left, then deliver what is published.
//!
//! A [`Hub`] carries committed events from the writer to the followers of this process. It promises nothing about
//! delivery: a follower that finds a gap, lags behind or is nudged reads the store instead. So publishing never blocks
//! a writer, a slow follower holds at most `BATCHES_MAX` batches, and no event is lost or told twice.
//!
//! What an engine owes: commit before publishing; publish in order; nudge a branch that was forked or that another
//! process has appended to.

mod follower;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use weir_types::{BranchId, Event, Position};

pub use follower::{Store, tail, tail_all};

/// Batches a channel keeps for its slowest follower.
const BATCHES_MAX: usize = 64;

/// A batch with more payload than this is only announced, so that memory is bounded in bytes too.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Brings committed events to whoever follows them. One per open journal.
#[derive(Debug, Default)]
pub struct Hub {
    followers: AtomicUsize,
    all_followers: AtomicUsize,
    channels: Mutex<Channels>,
}

/// Followed places only: a channel lives as long as it has a follower. Branches are named, not looked up, so that one
/// that does not exist yet can be followed.
#[derive(Debug, Default)]
struct Channels {
    all: Option<Channel>,
    branches: HashMap<BranchId, Channel>,
}

#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<Batch>,
    followers: usize,
}

impl Default for Channel {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BATCHES_MAX), followers: 0 }
    }
}

impl Channel {
    fn send(&self, prev: Position, events: &[Arc<Event>]) {
        let bytes: usize = events.iter().map(|event| event.payload.len()).sum();
        if bytes > BATCH_BYTES_MAX {
            return self.announce();
        }
        // Only a channel whose last follower is just leaving refuses a batch.
        let _ = self.sender.send(Batch::Events { prev, events: events.into() });
    }

    fn announce(&self) {
        let _ = self.sender.send(Batch::Read);
    }

    /// The channel after one follower has left; nothing if it was the last.
    fn without_one(self) -> Option<Self> {
        let followers = self.followers - 1;
        (followers > 0).then_some(Self { followers, ..self })
    }
}

#[derive(Clone, Debug)]
enum Batch {
    /// Every event after `prev` (of one branch, or of all), up to the last one here.
    Events { prev: Position, events: Arc<[Arc<Event>]> },
    /// There is something new in the store.
    Read,
}

impl Hub {
    /// A hub that nobody follows yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Whether anybody follows anything; if not, there is nothing to publish.
    pub fn has_followers(&self) -> bool {
        // SeqCst, here and in `subscribe`: a writer that commits and then sees no follower, and a follower that
        // subscribes and then sees no commit, must not both happen.
        self.followers.load(Ordering::SeqCst) > 0
    }

    /// Whether anybody follows all streams.
    pub fn wants_all(&self) -> bool {
        self.all_followers.load(Ordering::SeqCst) > 0
    }

    /// Whether anybody follows this branch, or all of them.
    pub fn wants(&self, branch: &BranchId) -> bool {
        self.wants_all() || (self.has_followers() && self.channels().branches.contains_key(branch))
    }

    /// Hands on the events of one commit, in order of position; `prev` is the position before the first of them.
    /// Unless somebody wants all, events of branches that nobody wants may be left out.
    pub fn publish(&self, prev: Position, events: &[Arc<Event>]) {
        if !self.has_followers() || events.is_empty() {
            return;
        }
        let channels = self.channels();
        if let Some(all) = &channels.all {
            all.send(prev, events);
        }
        if channels.branches.is_empty() {
            return;
        }
        let mut by_branch: HashMap<BranchId, Vec<Arc<Event>>> = HashMap::new();
        for event in events {
            let branch = event.branch_id();
            if channels.branches.contains_key(&branch) {
                by_branch.entry(branch).or_default().push(Arc::clone(event));
            }
        }
        for (branch, events) in by_branch {
            if let Some(channel) = channels.branches.get(&branch) {
                channel.send(prev, &events);
            }
        }
    }

    /// Says that this branch has events (or exists) that were not published here: its followers go and read.
    pub fn nudge(&self, branch: &BranchId) {
        if self.has_followers() {
            let channels = self.channels();
            channels.all.iter().chain(channels.branches.get(branch)).for_each(Channel::announce);
        }
    }

    /// Says that any branch may have such events.
    pub fn nudge_all(&self) {
        if self.has_followers() {
            let channels = self.channels();
            channels.all.iter().chain(channels.branches.values()).for_each(Channel::announce);
        }
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        // Nothing in these sections can panic half-way through a change.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A follower's place in the hub, given back when it is dropped.
#[derive(Debug)]
struct Subscription {
    hub: Arc<Hub>,
    /// `None` for all streams.
    branch: Option<BranchId>,
    batches: broadcast::Receiver<Batch>,
}

impl Subscription {
    fn new(hub: Arc<Hub>, branch: Option<BranchId>) -> Self {
        let batches = {
            let mut channels = hub.channels();
            let channel = match &branch {
                None => channels.all.get_or_insert_default(),
                Some(branch) => channels.branches.entry(branch.clone()).or_default(),
            };
            channel.followers += 1;
            channel.sender.subscribe()
        };
        if branch.is_none() {
            hub.all_followers.fetch_add(1, Ordering::SeqCst);
        }
        hub.followers.fetch_add(1, Ordering::SeqCst);
        Self { hub, branch, batches }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.followers.fetch_sub(1, Ordering::SeqCst);
        let mut channels = self.hub.channels();
        match &self.branch {
            None => {
                self.hub.all_followers.fetch_sub(1, Ordering::SeqCst);
                channels.all = channels.all.take().and_then(Channel::without_one);
            }
            Some(branch) => {
                if let Some(left) = channels.branches.remove(branch).and_then(Channel::without_one) {
                    channels.branches.insert(branch.clone(), left);
                }
            }
        }
    }
}
