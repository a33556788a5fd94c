//! One follower: a cursor, the store it catches up from, and the batches it is sent.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::sync::broadcast::error::RecvError;
use weir_types::{BranchId, Event, Position, Seq};

use super::{Batch, Hub, Subscription};
use crate::error::ReadError;
use crate::port::Tail;

/// What a follower reads from when memory has a gap. An empty page means there is nothing more right now.
pub trait Store: Send + Sync + 'static {
    /// The next events of a branch's lineage after `after`; `NoStream` or `NoBranch` while it does not exist.
    fn page(&self, branch: &BranchId, after: Seq) -> BoxFuture<'_, Result<Vec<Event>, ReadError>>;

    /// The next events of the whole journal after `after`.
    fn page_all(&self, after: Position) -> BoxFuture<'_, Result<Vec<Event>, ReadError>>;
}

/// Everything on a branch after `after`, then what is appended to it. A branch that does not exist is waited for, and
/// so is a `seq` beyond its head. An error ends the tail.
pub fn tail<S: Store>(store: Arc<S>, hub: Arc<Hub>, branch: BranchId, after: Seq) -> Tail {
    let subscription = Subscription::new(hub, Some(branch.clone()));
    follow(store, subscription, Cursor::Branch { branch, seen: after })
}

/// Everything in the journal after `after`, then what is appended. An error ends the tail.
pub fn tail_all<S: Store>(store: Arc<S>, hub: Arc<Hub>, after: Position) -> Tail {
    follow(store, Subscription::new(hub, None), Cursor::All { seen: after })
}

/// What has been delivered.
enum Cursor {
    Branch { branch: BranchId, seen: Seq },
    All { seen: Position },
}

impl Cursor {
    fn is_new(&self, event: &Event) -> bool {
        match self {
            Self::Branch { seen, .. } => event.seq > *seen,
            Self::All { seen } => event.position > *seen,
        }
    }

    /// Whether nothing lies between what has been delivered and `first`, the first new event of a batch.
    fn reaches(&self, prev: Position, first: &Event) -> bool {
        match self {
            Self::Branch { seen, .. } => first.seq == seen.next(),
            // The batch is complete from `prev` on.
            Self::All { seen } => prev <= *seen,
        }
    }

    fn advance(&mut self, event: &Event) {
        match self {
            Self::Branch { seen, .. } => *seen = event.seq,
            Self::All { seen } => *seen = event.position,
        }
    }
}

struct Follower<S> {
    store: Arc<S>,
    subscription: Subscription,
    cursor: Cursor,
    /// Behind the cursor: read or received, and next to be handed out.
    ready: VecDeque<Arc<Event>>,
    /// The store may have more than what was received.
    behind: bool,
}

fn follow<S: Store>(store: Arc<S>, subscription: Subscription, cursor: Cursor) -> Tail {
    let follower = Follower { store, subscription, cursor, ready: VecDeque::new(), behind: true };
    stream::try_unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Ok(Some((event, follower)))
    })
    .boxed()
}

impl<S: Store> Follower<S> {
    async fn next(&mut self) -> Result<Arc<Event>, ReadError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if self.behind {
                self.catch_up().await?;
            } else {
                self.receive().await;
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), ReadError> {
        let page = match &self.cursor {
            Cursor::Branch { branch, seen } => self.store.page(branch, *seen).await,
            Cursor::All { seen } => self.store.page_all(*seen).await,
        };
        let page = match page {
            Err(ReadError::NoStream(_) | ReadError::NoBranch(_)) => Vec::new(),
            page => page?,
        };
        self.behind = !page.is_empty();
        self.ready.extend(page.into_iter().map(Arc::new));
        if let Some(last) = self.ready.back() {
            self.cursor.advance(last);
        }
        Ok(())
    }

    async fn receive(&mut self) {
        match self.subscription.batches.recv().await {
            Ok(Batch::Events { prev, events }) => self.take(prev, &events),
            Ok(Batch::Read) | Err(RecvError::Lagged(_)) => self.behind = true,
            // INVARIANT: the channel lives as long as this subscription, so it cannot close before us.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    fn take(&mut self, prev: Position, events: &[Arc<Event>]) {
        let known = events.iter().take_while(|event| !self.cursor.is_new(event)).count();
        let new = &events[known..];
        let Some((first, last)) = new.first().zip(new.last()) else { return };
        if self.cursor.reaches(prev, first) {
            self.cursor.advance(last);
            self.ready.extend(new.iter().cloned());
        } else {
            self.behind = true;
        }
    }
}
