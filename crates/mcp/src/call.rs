//! One call of a tool, from the check of its definition to its result.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, GetMeta};
use tokio_util::sync::CancellationToken;
use weir_types::Json;

use crate::answer::{self, Answered};
use crate::ask::{Held, Unanswered};
use crate::call_error::CallError;
use crate::connection::Connection;
use crate::connections::Shared;
use crate::error::Error;
use crate::ledger::Failure;
use crate::list::{Definition, NotListed};
use crate::slot::Use;
use crate::target::Target;
use crate::verbatim;

/// The field of a request's `_meta` that carries its idempotency key.
pub const KEY_FIELD: &str = "weir/idempotency-key";

/// How often a call is made again that has certainly not been read: once, for a connection that ended while nobody
/// looked. A server that ends every time gets no third.
const AGAIN_MAX: usize = 1;

/// Says whether a definition is the one that was pinned, or how it differs.
pub type Accepts = Arc<dyn Fn(&Definition) -> Result<(), String> + Send + Sync>;

/// A call of a tool.
#[derive(Clone)]
pub struct Call {
    /// The tool, by the server's own name.
    pub tool: String,
    /// The arguments, an object. They are sent as they are written, on one line.
    pub arguments: Json,
    /// How long everything together may take. Nothing that the server says makes it longer.
    pub deadline: Duration,
    /// Cancels the call.
    pub cancelled: CancellationToken,
    /// The idempotency key; a server that knows [`KEY_FIELD`] does the same call only once.
    pub key: Option<String>,
    /// The check of the pin. Shown the definition of the server as it is now; if it says no, nothing is sent.
    pub accepts: Accepts,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("tool", &self.tool)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Makes the call, again if it has certainly not been read.
pub(crate) async fn deliver(
    shared: &Arc<Shared>,
    target: &Target,
    call: &Call,
    has_left: &Arc<AtomicBool>,
) -> Result<Answered, CallError> {
    if !answer::is_object(&call.arguments) {
        return Err(CallError::Arguments { tool: call.tool.clone() });
    }
    let mut again = AGAIN_MAX;
    loop {
        let using = shared.slot(target)?;
        let connection = shared.connection(&using, target).await?;
        let once = once(&connection, call, has_left).await;
        connection.touch();
        let unread = match once {
            Ok(Once::Answered(answered)) => {
                using.0.proved();
                return Ok(answered);
            }
            Ok(Once::Failed(error)) => {
                if matches!(error, CallError::Refused { .. } | CallError::Answer { .. }) {
                    using.0.proved();
                }
                return Err(error);
            }
            Err(unread) => unread,
        };
        let error = settle(&using, &connection, unread).await;
        if error.may_have_happened() || again == 0 || !is_worth_repeating(&error) {
            return Err(error);
        }
        again -= 1;
    }
}

/// How one attempt ended on a connection that works.
enum Once {
    Answered(Answered),
    Failed(CallError),
}

async fn once(connection: &Connection, call: &Call, has_left: &Arc<AtomicBool>) -> Result<Once, Unanswered> {
    let gone = Unanswered::Gone { has_left: false };
    let Some(place) = connection.place().await else { return Err(gone) };
    if !connection.is_live() {
        return Err(gone);
    }
    let tools = match connection.tools().await {
        Ok(tools) => tools,
        Err(NotListed::Error(error)) => return Ok(Once::Failed(CallError::NotConnected(Arc::new(error)))),
        Err(NotListed::Unanswered(unanswered)) => return unlisted(unanswered),
    };
    let checked = match tools.get(&call.tool) {
        Some(definition) => (call.accepts)(definition),
        None => Err("the server does not offer it any more".to_owned()),
    };
    if let Err(why) = checked {
        return Ok(Once::Failed(CallError::Changed { tool: call.tool.clone(), why }));
    }
    let held = Held { _place: place, has_left: Arc::clone(has_left) };
    match connection.asker.ask(request(call), Some(held)).await {
        Ok(result) => Ok(match answer::read(&result) {
            Ok(answered) => Once::Answered(answered),
            Err(why) => Once::Failed(CallError::Answer { why }),
        }),
        Err(Unanswered::Refused { code, words }) => Ok(Once::Failed(CallError::Refused { code, words })),
        Err(unanswered) => Err(unanswered),
    }
}

/// Whatever became of the list, the call was not sent.
fn unlisted(unanswered: Unanswered) -> Result<Once, Unanswered> {
    match unanswered {
        Unanswered::Refused { words, .. } => {
            Ok(Once::Failed(CallError::NotConnected(Arc::new(Error::Refused { why: words }))))
        }
        Unanswered::Failed(Failure { error, .. }) => {
            Err(Unanswered::Failed(Failure { error, may_have_happened: false }))
        }
        Unanswered::Gone { .. } => Err(Unanswered::Gone { has_left: false }),
    }
}

fn request(call: &Call) -> ClientRequest {
    let mut request = CallToolRequest::new(CallToolRequestParams::new(call.tool.clone()));
    request.extensions.insert(verbatim::Arguments::new(&call.arguments));
    let mut request = ClientRequest::CallToolRequest(request);
    if let Some(key) = &call.key {
        request.get_meta_mut().insert(KEY_FIELD.to_owned(), key.as_str().into());
    }
    request
}

/// What an attempt without an answer means for the connection and for the call.
async fn settle(using: &Use, connection: &Arc<Connection>, unread: Unanswered) -> CallError {
    match unread {
        Unanswered::Failed(Failure { error, may_have_happened }) => {
            match &error {
                // Nobody is there, or somebody else: whoever comes next begins anew and checks the tools again.
                Error::Unreachable { .. } => using.0.retire(connection, Some(&error)),
                Error::SessionEnded { .. } => using.0.retire(connection, None),
                _ => {}
            }
            CallError::Broken { error: Arc::new(error), may_have_happened }
        }
        Unanswered::Gone { has_left } => {
            // A connection that is merely retired may have other calls to wait for.
            let is_gone = has_left || connection.asker.is_gone();
            let error = if is_gone { connection.why().await } else { Arc::new(Error::ended()) };
            CallError::Broken { error, may_have_happened: has_left }
        }
        Unanswered::Refused { code, words } => CallError::Refused { code, words },
    }
}

/// Whether a new connection may do what the old one could not.
fn is_worth_repeating(error: &CallError) -> bool {
    match error {
        CallError::Broken { error, .. } => {
            matches!(error.as_ref(), Error::Ended { .. } | Error::SessionEnded { status: 404, .. })
        }
        _ => false,
    }
}
