//! What is under way on one connection.
//!
//! `rmcp` matches answers to requests; this book says what it cannot: whether a request has left this process, which
//! answer it got, word for word, and why it failed. Answers to lists and calls never travel through `rmcp`: it would
//! read them into types that drop the fields they do not know, and a newer version would know more, so that hashes
//! changed with our dependencies. It is given an empty result instead and the text waits here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};

use crate::error::Error;

/// Most requests of a server that we have not answered yet. More are left without an answer: a server that asks and
/// does not read the replies would otherwise fill our memory with them.
const ASKED_MAX: usize = 64;

/// The book of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Book>);

#[derive(Debug, Default)]
struct Book {
    pending: Mutex<HashMap<i64, Pending>>,
    /// Requests of the server that wait for our reply.
    asked: AtomicUsize,
    /// How often the server has said that its tools changed.
    changes: AtomicU64,
}

#[derive(Debug)]
struct Pending {
    state: State,
    is_whole: bool,
    answer: Option<String>,
    failure: Option<Failure>,
    /// The last event of the stream that is to bring the answer, by which the stream can be resumed.
    event: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody waits for it any more, and it has not left: it must not.
    Withdrawn,
    /// Some of it may be at the server.
    Left,
    /// It has its answer.
    Answered,
}

/// Why a request got no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether the server may have acted on it.
    pub(crate) may_have_happened: bool,
}

/// How a request ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Whether any of it has left.
    pub(crate) has_left: bool,
    /// The answer, as the server wrote it.
    pub(crate) answer: Option<String>,
    pub(crate) failure: Option<Failure>,
}

/// What a message that leaves is to the ledger.
pub(crate) enum Leaving {
    /// A request, which may go.
    Request(i64),
    /// A request that nobody waits for any more: it stays.
    Withdrawn,
    /// A reply to the server; the guard counts it as given when it is dropped.
    Reply(Replied),
    /// A notification.
    Notification,
}

/// Counts a reply to the server as given when it is dropped.
pub(crate) struct Replied(Ledger);

impl Drop for Replied {
    fn drop(&mut self) {
        let less = |asked: usize| asked.checked_sub(1);
        let _ = self.0.0.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Ledger {
    fn pending(&self) -> MutexGuard<'_, HashMap<i64, Pending>> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transport is about to send this message.
    pub(crate) fn leaves(&self, message: &ClientJsonRpcMessage) -> Leaving {
        match message {
            JsonRpcMessage::Request(request) => {
                let is_whole = matches!(
                    request.request,
                    ClientRequest::ListToolsRequest(_) | ClientRequest::CallToolRequest(_)
                );
                let Some(id) = number(&request.id) else { return Leaving::Withdrawn };
                self.request_leaves(id, is_whole)
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Leaving::Reply(Replied(self.clone())),
            JsonRpcMessage::Notification(_) => Leaving::Notification,
        }
    }

    fn request_leaves(&self, id: i64, is_whole: bool) -> Leaving {
        let mut pending = self.pending();
        if pending.get(&id).is_some_and(|entry| entry.state == State::Withdrawn) {
            pending.remove(&id);
            return Leaving::Withdrawn;
        }
        let entry = Pending { state: State::Left, is_whole, answer: None, failure: None, event: None };
        pending.insert(id, entry);
        Leaving::Request(id)
    }

    /// Not a byte of it could be sent.
    pub(crate) fn stayed(&self, id: i64) {
        self.pending().remove(&id);
    }

    /// It failed, in a way that concerns no other request.
    pub(crate) fn fail(&self, id: i64, error: Error, may_have_happened: bool) {
        if let Some(entry) = self.pending().get_mut(&id) {
            entry.failure.get_or_insert(Failure { error, may_have_happened });
        }
    }

    /// It is answered. `Some(true)` when the answer is kept here whole, `None` when nobody asked.
    pub(crate) fn answered(&self, id: i64, answer: Option<&str>) -> Option<bool> {
        let mut pending = self.pending();
        let entry = pending.get_mut(&id).filter(|entry| entry.state == State::Left)?;
        entry.state = State::Answered;
        if entry.is_whole {
            entry.answer = answer.map(str::to_owned);
        }
        Some(entry.is_whole)
    }

    /// Nobody waits for it any more. Says whether it has left; if not, it never will.
    pub(crate) fn withdraw(&self, id: &RequestId) -> bool {
        let Some(id) = number(id) else { return false };
        let mut pending = self.pending();
        if pending.remove(&id).is_some() {
            return true;
        }
        let entry =
            Pending { state: State::Withdrawn, is_whole: false, answer: None, failure: None, event: None };
        pending.insert(id, entry);
        false
    }

    /// How it ended; forgets it.
    pub(crate) fn take(&self, id: &RequestId) -> Ended {
        let entry = number(id).and_then(|id| self.pending().remove(&id));
        entry.map_or_else(Ended::default, |entry| Ended {
            has_left: entry.state != State::Withdrawn,
            answer: entry.answer,
            failure: entry.failure,
        })
    }

    /// The stream that is to bring the answer to `id` can be resumed after this event.
    pub(crate) fn resumable(&self, id: i64, event: &str) {
        if let Some(entry) = self.pending().get_mut(&id) {
            entry.event = Some(event.to_owned());
        }
    }

    /// Whose answer a stream brings that is resumed after this event.
    pub(crate) fn resumed(&self, event: &str) -> Option<i64> {
        let pending = self.pending();
        pending.iter().find(|(_, entry)| entry.event.as_deref() == Some(event)).map(|(id, _)| *id)
    }

    /// The server asks for something. Says whether it gets a reply.
    pub(crate) fn asks(&self) -> bool {
        let more = |asked: usize| (asked < ASKED_MAX).then_some(asked + 1);
        self.0.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// The server's tools are not what they were, or may not be.
    pub(crate) fn tools_changed(&self) {
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// How often they have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }
}

/// Our ids are numbers; a server may give one back as text.
pub(crate) fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RequestId = RequestId::Number(7);

    #[test]
    fn what_was_withdrawn_before_it_left_never_leaves() {
        let ledger = Ledger::default();
        assert!(!ledger.withdraw(&ID));
        assert!(matches!(ledger.request_leaves(7, true), Leaving::Withdrawn));
        // Once is enough: ids are not used again, and the book does not grow.
        assert!(ledger.pending().is_empty());
    }

    #[test]
    fn what_has_left_cannot_be_withdrawn() {
        let ledger = Ledger::default();
        assert!(matches!(ledger.request_leaves(7, true), Leaving::Request(7)));
        assert!(ledger.withdraw(&ID));
        assert!(ledger.pending().is_empty());
    }

    #[test]
    fn the_first_answer_counts_and_nobody_else_is_listened_to() {
        let ledger = Ledger::default();
        ledger.request_leaves(7, true);
        assert_eq!(ledger.answered(7, Some("{\"x\":1.50}")), Some(true));
        assert_eq!(ledger.answered(7, Some("{}")), None);
        assert_eq!(ledger.answered(8, Some("{}")), None);
        assert_eq!(ledger.take(&ID).answer.as_deref(), Some("{\"x\":1.50}"));
    }

    #[test]
    fn a_server_that_does_not_read_replies_gets_no_more_of_them() {
        let ledger = Ledger::default();
        assert_eq!((0..1000).filter(|_| ledger.asks()).count(), ASKED_MAX);
        drop(Replied(ledger.clone()));
        assert!(ledger.asks());
        assert!(!ledger.asks());
    }
}
