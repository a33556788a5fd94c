//! Who is to be taken up next. The queue is short; what does not fit is in the journal, and is looked for there once the
//! queue is empty.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use weir_journal::ListAfter;

use crate::address::Address;

/// How many sessions wait in memory.
const QUEUE_MAX: usize = 1_024;

/// Sessions that wait for their turn, each once.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    pushed: Notify,
    max: usize,
    /// Whether anybody takes them up.
    open: bool,
}

#[derive(Default)]
struct Waiting {
    turns: VecDeque<Address>,
    known: HashSet<Address>,
    /// Where looking through the journal goes on, if it is not done.
    looking: Option<Option<ListAfter>>,
    /// Something did not fit since looking began.
    again: bool,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This session's turn has come.
    Session(Address),
    /// Look through the journal from here on, and say what was [`Queue::found`].
    Look(Option<ListAfter>),
    /// Wait.
    Nothing,
}

impl Queue {
    /// An empty queue; one that nobody works off stays empty.
    pub(crate) fn new(open: bool) -> Self {
        Self { waiting: Mutex::default(), pushed: Notify::new(), max: QUEUE_MAX, open }
    }

    /// Lets a session wait for its turn.
    pub(crate) fn push(&self, address: Address) {
        if !self.open {
            return;
        }
        let mut waiting = self.waiting();
        if waiting.turns.len() < self.max || waiting.known.contains(&address) {
            waiting.add(address);
        } else {
            // Its row says that it has something to do.
            waiting.again = true;
        }
        self.pushed.notify_one();
    }

    /// Looks through the journal, too.
    pub(crate) fn look(&self) {
        self.waiting().again = true;
        self.pushed.notify_one();
    }

    /// What is to be done next.
    pub(crate) fn next(&self) -> Turn {
        let mut waiting = self.waiting();
        if let Some(address) = waiting.turns.pop_front() {
            waiting.known.remove(&address);
            return Turn::Session(address);
        }
        if let Some(after) = waiting.looking.take() {
            return Turn::Look(after);
        }
        if std::mem::take(&mut waiting.again) {
            return Turn::Look(None);
        }
        Turn::Nothing
    }

    /// What a look through the journal has found, and where the next one begins, if there is more.
    pub(crate) fn found(&self, found: Vec<Address>, next: Option<Option<ListAfter>>) {
        let mut waiting = self.waiting();
        found.into_iter().for_each(|address| waiting.add(address));
        waiting.looking = next;
    }

    /// Waits until something was pushed since the last wait.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn pushed(&self) {
        self.pushed.notified().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&mut self, address: Address) {
        if self.known.insert(address.clone()) {
            self.turns.push_back(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::SessionId;

    use super::*;

    fn session(n: u128) -> Address {
        Address::main(SessionId::from_u128(n))
    }

    fn queue(max: usize) -> Queue {
        Queue { max, ..Queue::new(true) }
    }

    #[test]
    fn each_session_waits_once_and_in_turn() {
        let queue = queue(10);
        [1, 2, 1].map(|n| queue.push(session(n)));
        assert_eq!(queue.next(), Turn::Session(session(1)));
        // It is spoken to again while it is at work.
        queue.push(session(1));
        assert_eq!([queue.next(), queue.next()], [2, 1].map(|n| Turn::Session(session(n))));
        assert_eq!(queue.next(), Turn::Nothing);
    }

    #[test]
    fn what_does_not_fit_is_looked_for_in_the_journal() {
        let queue = queue(2);
        (1..=5).for_each(|n| queue.push(session(n)));
        assert_eq!([queue.next(), queue.next()], [1, 2].map(|n| Turn::Session(session(n))));
        assert_eq!(queue.next(), Turn::Look(None));
        let after = ListAfter { branch: session(4).branch_id(), due: None };
        queue.found(vec![session(3), session(4)], Some(Some(after.clone())));
        // What does not fit while it is being looked for is looked for once more.
        queue.push(session(1));
        assert_eq!([queue.next(), queue.next()], [3, 4].map(|n| Turn::Session(session(n))));
        assert_eq!(queue.next(), Turn::Look(Some(after)));
        queue.found(vec![session(5)], None);
        assert_eq!([queue.next(), queue.next()], [Turn::Session(session(5)), Turn::Look(None)]);
        queue.found(Vec::new(), None);
        assert_eq!(queue.next(), Turn::Nothing);
    }

    #[test]
    fn a_queue_that_nobody_works_off_stays_empty() {
        let queue = Queue::new(false);
        queue.push(session(1));
        assert_eq!(queue.next(), Turn::Nothing);
    }
}
