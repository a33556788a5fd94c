//! From a request of a vendor's client to a run: of a session that goes on, or of a new one.

use axum::http::{HeaderMap, StatusCode};
use weir_engine::{Address, New};
use weir_kernel::Session;
use weir_types::RunId;

use super::conversation::{Beginning, Conversation};
use super::fields::Field;
use super::refused::Refused;
use crate::access::{self, Reached};
use crate::app::App;
use crate::auth::Caller;
use crate::branches::{self, Prefix};
use crate::error::Error;
use crate::idempotency::Claimed;
use crate::saying::{self, Where};
use crate::stream::{self, Begun};

/// Why the client's own tools are refused.
pub(super) const NO_TOOLS: &str =
    "is not supported: an agent calls the tools it has, and none of its client's";

/// What goes on with a session.
const SESSION: &str = "x-weir-session";

/// What a client asks for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) agent: String,
    /// Whether the answer is to be streamed.
    pub(super) stream: bool,
    pub(super) conversation: Conversation,
    /// Where the messages were, for errors.
    pub(super) list: &'static str,
    /// The response that this one follows.
    pub(super) previous: Option<String>,
}

/// The agent, where vendors have a model.
pub(super) fn agent(body: &Field<'_>) -> Result<String, Refused> {
    Ok(body.need("model")?.text()?.to_owned())
}

/// Says it, and waits until a run takes it up.
pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    claimed: &Claimed,
    headers: &HeaderMap,
    asked: Asked,
) -> Result<Begun, Refused> {
    stream::refuse_last_event_id(headers)?;
    access::agent(app, caller, &asked.agent).map_err(|_| Refused::no_model(&asked.agent))?;
    let Asked { agent, conversation, list, .. } = asked;
    let named = named_session(app, caller, headers).await?;
    let previous = match &asked.previous {
        Some(id) => Some(previous_response(app, caller, id).await?),
        None => None,
    };
    if let (Some(named), Some(previous)) = (&named, &previous)
        && *named != previous.address
    {
        let why = "belongs to another session than `X-Weir-Session` names: send one of them";
        return Err(Refused::field("previous_response_id", why));
    }
    let (wanted, content) = match named.or_else(|| Some(previous.as_ref()?.address.clone())) {
        Some(address) => {
            let mut session = app.engine.state(&address, None).await.map_err(Error::from)?;
            check(&session, &agent)?;
            conversation.check(list)?;
            let fork = match previous {
                Some(previous) => fork_after(app, claimed, &session, &previous).await?,
                None => None,
            };
            if let Some(fork) = &fork {
                session = app.engine.state(fork, None).await.map_err(Error::from)?;
            }
            let content = conversation.goes_on(&session, list)?;
            (Where::Known(fork.unwrap_or(address)), content)
        }
        None => {
            let Beginning { history, said } = conversation.begins(list)?;
            let new = New { history, ..saying::new(caller, &agent) };
            (Where::New(app.engine.new_address(), new), said)
        }
    };
    Ok(stream::say(app, caller, claimed, content, wanted).await?)
}

/// A branch that begins after a response, unless that is the newest there.
async fn fork_after(
    app: &App,
    claimed: &Claimed,
    session: &Session,
    previous: &Begun,
) -> Result<Option<Address>, Refused> {
    let newest = session.run.as_ref().map(|run| run.id).or(session.ended.as_ref().map(|ended| ended.run));
    // What was done already is found by its request, wherever it was done.
    if newest == Some(previous.run) || claimed.earlier().is_some() {
        return Ok(None);
    }
    let Some(end) = branches::end_of(app, previous).await? else { return Ok(None) };
    Ok(Some(branches::branch_off(app, claimed, &previous.address, end, Prefix::Fork).await?))
}

/// The session that the client names, if it does and it is theirs.
async fn named_session(app: &App, caller: &Caller, headers: &HeaderMap) -> Result<Option<Address>, Refused> {
    let Some(value) = headers.get(SESSION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| Error::missing("session"))?.trim();
    Ok(Some(access::session_to_change(app, caller, value, None).await?.address))
}

/// A session goes on with its own agent.
fn check(session: &Session, agent: &str) -> Result<(), Refused> {
    match &session.created {
        Some(created) if created.agent != agent => {
            let why = format!("must be `{}`: the session is a conversation with that one", created.agent);
            Err(Refused::field("model", why))
        }
        _ => Ok(()),
    }
}

/// The id of a response: it names the session and the run.
pub(super) fn response_id(address: &Address, run: RunId) -> String {
    let branch = &address.branch;
    match branch.as_str() {
        "main" => format!("resp_{}_{run}", address.session),
        branch => format!("resp_{}_{run}_{branch}", address.session),
    }
}

/// The run of a response that is the caller's own.
async fn previous_response(app: &App, caller: &Caller, id: &str) -> Result<Begun, Refused> {
    let missing = || {
        let id: String = id.chars().take(200).collect();
        Refused::new(
            StatusCode::NOT_FOUND,
            "previous_response_not_found",
            format!("there is no response `{id}`"),
        )
    };
    let mut parts = id.strip_prefix("resp_").ok_or_else(missing)?.splitn(3, '_');
    let (session, run, branch) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let run: RunId = run.and_then(|run| run.parse().ok()).ok_or_else(missing)?;
    let Reached { address, .. } = access::session_to_change(app, caller, session, branch)
        .await
        .map_err(|error| if error.status == StatusCode::NOT_FOUND { missing() } else { error.into() })?;
    stream::locate(app, &address, run)
        .await
        .map_err(|error| if error.status == StatusCode::NOT_FOUND { missing() } else { error.into() })
}
