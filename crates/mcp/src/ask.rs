//! One question and its answer.
//!
//! Nothing here waits longer than its caller: a question whose future is dropped, because its time is up or somebody
//! cancelled it, is taken back at the server by a task of the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::ClientRequest;
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::{Peer, RoleClient};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connect::Open;
use crate::error::Error;
use crate::ledger::{Failure, Ledger};
use crate::plain::plain;

/// How long a server may take to hear that nobody waits for an answer any more. One that does not even do that is not
/// asked again.
const TELL: Duration = Duration::from_secs(5);

/// Asks the server of one connection.
#[derive(Clone)]
pub(crate) struct Asker {
    peer: Peer<RoleClient>,
    ledger: Ledger,
    tasks: TaskTracker,
    /// Cancelled when the server does not take what it is sent.
    pub(crate) stuck: CancellationToken,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The server refused.
    Refused {
        /// The code of its error.
        code: i32,
        /// Its words.
        words: String,
    },
    /// This one failed; the connection may live on.
    Failed(Failure),
    /// The connection is gone.
    Gone {
        /// Whether the question had left before.
        has_left: bool,
    },
}

/// What a question holds until it is over, and where it says whether it has left.
pub(crate) struct Held {
    /// Its place among the questions of the connection.
    pub(crate) _place: OwnedSemaphorePermit,
    pub(crate) has_left: Arc<AtomicBool>,
}

impl Asker {
    pub(crate) fn new(open: &Open, tasks: TaskTracker) -> Self {
        Self {
            peer: open.peer().clone(),
            ledger: open.ledger.clone(),
            tasks,
            stuck: CancellationToken::new(),
        }
    }

    /// Whether the connection is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Asks, and waits for the answer, which is returned as the server wrote it.
    ///
    /// # Cancel safety
    /// The question is taken back, and [`Held::has_left`] says whether it had left.
    pub(crate) async fn ask(&self, request: ClientRequest, held: Option<Held>) -> Result<String, Unanswered> {
        let options = PeerRequestOptions::no_options();
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle = sent.map_err(|_closed| Unanswered::Gone { has_left: false })?;
        let mut asked = Asked { handle: Some(handle), held, asker: self };
        let answer = match &mut asked.handle {
            Some(handle) => (&mut handle.rx).await,
            None => return Err(Unanswered::Gone { has_left: false }),
        };
        // From here on it is over, and nothing is to be taken back.
        let id = asked.handle.take().map(|handle| handle.id);
        let ended = id.map(|id| self.ledger.take(&id)).unwrap_or_default();
        if let (Ok(Ok(_)), Some(answer)) = (&answer, ended.answer) {
            return Ok(answer);
        }
        Err(match (ended.failure, answer) {
            (Some(failure), _) => Unanswered::Failed(failure),
            (None, Ok(Err(ServiceError::McpError(error)))) => {
                Unanswered::Refused { code: error.code.0, words: plain(&error.message) }
            }
            // Only the stream that was to bring the answer has ended.
            (None, Ok(Err(ServiceError::TransportClosed))) => {
                Unanswered::Failed(Failure { error: Error::ended(), may_have_happened: ended.has_left })
            }
            (None, _) => Unanswered::Gone { has_left: ended.has_left },
        })
    }
}

/// A question that waits for its answer; taken back when it is dropped.
struct Asked<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    held: Option<Held>,
    asker: &'a Asker,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let has_left = self.asker.ledger.withdraw(&handle.id);
        let held = self.held.take();
        if let Some(held) = &held {
            held.has_left.store(has_left, Ordering::Release);
        }
        let stuck = self.asker.stuck.clone();
        let tell = async move {
            let told = handle.cancel(Some("nobody waits for it any more".to_owned()));
            if tokio::time::timeout(TELL, told).await.is_err() {
                stuck.cancel();
            }
            // Its place is free only now: what the server has not been told yet still takes our memory.
            drop(held);
        };
        // Without a runtime there is no connection either.
        if let Ok(runtime) = Handle::try_current() {
            self.asker.tasks.spawn_on(tell, &runtime);
        }
    }
}
