//! What someone sees: their own sessions, streams, blobs and approvals. Those of others do not exist, as far as they can tell.

use weir_engine::Address;

use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;

/// The agent of a session that belongs to whoever asks.
///
/// # Errors
/// When there is none, or it belongs to someone else.
pub(crate) async fn agent_of(app: &App, caller: &Caller, address: &Address) -> Result<String, Error> {
    let listed = app.journal.listed(&address.branch_id()).await?;
    let attrs =
        listed.map(|listed| listed.attrs).filter(|attrs| attrs.principal.as_ref() == Some(&caller.principal));
    attrs.and_then(|attrs| attrs.agent).ok_or_else(|| Error::missing("session"))
}
