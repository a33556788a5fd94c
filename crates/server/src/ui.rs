//! The routes of the AI SDK's chat transport.
//!
//! A chat is a session: the one whose id follows from who asks, the agent and the chat's id. So it is found again without anything
//! being kept, and two people with the same chat id have two sessions. What is said again is said on a branch of it, and the chat goes on with
//! the newest of these.

mod messages;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::{Address, EngineError};
use weir_types::{Hash, Message, Role, Seq, SessionId};

use self::messages::{Decision, Submission, Wish};
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::branches::{Prefix, before_said, branch_off, newest};
use crate::decisions::{self, Answer};
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path};
use crate::formats::{Named, Vercel};
use crate::idempotency::Claimed;
use crate::stream::{Begun, Leaving, Source, Turn, begin_at, locate, refuse_last_event_id, respond};

/// The longest id of a chat.
const CHAT_BYTES_MAX: usize = 256;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(ui_submit)).routes(routes!(ui_resume))
}

/// Say something in a chat of the AI SDK, or decide about a call: its chat transport's `api`.
///
/// Of the messages, only the newest is said when the chat is known; those before it begin one that is not. `regenerate-message`, or a message of the
/// user that is changed (`submit-message` with its `messageId`), forks the session before that message, and the chat goes on there.
#[utoipa::path(
    post,
    path = "/agents/{name}/ui",
    tag = "agents",
    params(("name" = String, Path, description = "The agent.")),
    request_body(content = Object, description = "What `DefaultChatTransport` sends: `id`, `messages`, `trigger`, `messageId`."),
    responses(
        (status = 200, description = "The UI message stream of the AI SDK.", body = String, content_type = "text/event-stream"),
        (status = "4XX", body = ErrorBody),
    ),
)]
async fn ui_submit(
    State(app): State<App>,
    caller: Caller,
    Path(agent): Path<String>,
    headers: HeaderMap,
    claimed: Claimed,
    Json(submission): Json<Submission>,
) -> Result<Response, Error> {
    refuse_last_event_id(&headers)?;
    access::agent(&app, &caller, &agent)?;
    let wish = submission.wish()?;
    let address = newest(&app, chat(&caller, &agent, &submission.id)?).await?;
    match wish {
        Wish::Say { history, content, is_again } => {
            let is_known = app.journal.head(&address.branch_id()).await?.is_some();
            let session = match is_known {
                true if is_again => Some(before(&app, &claimed, &address, &history).await?),
                true => Some(address.clone()),
                false => None,
            };
            let turn = Turn { agent: agent.clone(), session, labels: Default::default(), history, content };
            let begun = begin_at(&app, &caller, &claimed, turn, address).await?;
            stream(&app, &caller, agent, &begun, Seq(0)).await
        }
        Wish::Decide(decisions) => {
            let first = decide(&app, &caller, &claimed, &address, &decisions).await?;
            let session = app.engine.state(&address, None).await?;
            let run = session.run.as_ref().ok_or_else(nothing_asked)?;
            let begun = locate(&app, &address, run.id).await?;
            // What came before is in the message that the client goes on with.
            stream(&app, &caller, agent, &begun, first).await
        }
    }
}

/// Go on with what a chat is being told, from the start of the message.
#[utoipa::path(
    get,
    path = "/agents/{name}/ui/{chat}/stream",
    tag = "agents",
    params(
        ("name" = String, Path, description = "The agent."),
        ("chat" = String, Path, description = "The chat."),
    ),
    responses(
        (status = 200, description = "The UI message stream of the AI SDK.", body = String, content_type = "text/event-stream"),
        (status = 204, description = "Nothing is being said."),
        (status = "4XX", body = ErrorBody),
    ),
)]
async fn ui_resume(
    State(app): State<App>,
    caller: Caller,
    Path((agent, chat_id)): Path<(String, String)>,
) -> Result<Response, Error> {
    access::agent(&app, &caller, &agent)?;
    let address = newest(&app, chat(&caller, &agent, &chat_id)?).await?;
    match running(&app, &address).await? {
        Some(begun) => stream(&app, &caller, agent, &begun, Seq(0)).await,
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Another way for a chat, that begins after this much of it.
async fn before(
    app: &App,
    claimed: &Claimed,
    address: &Address,
    history: &[Message],
) -> Result<Address, Error> {
    // What was done already is found by its request, wherever it was done.
    if let Some((earlier, _)) = claimed.earlier() {
        return Ok(earlier);
    }
    let said = history.iter().filter(|message| message.role == Role::User).count();
    let at = before_said(app, address, said + 1).await?;
    branch_off(app, claimed, address, at, Prefix::Again).await
}

async fn stream(
    app: &App,
    caller: &Caller,
    agent: String,
    begun: &Begun,
    known: Seq,
) -> Result<Response, Error> {
    let encoder = Box::new(Vercel::new(Named { agent, run: begun.run }));
    let source = Source { known, ..Source::run(begun) };
    respond(app, caller, &source, encoder, Leaving::GoesOn).await
}

/// The session of a chat.
fn chat(caller: &Caller, agent: &str, id: &str) -> Result<Address, Error> {
    if id.is_empty() || id.len() > CHAT_BYTES_MAX {
        return Err(Error::bad(
            format!("the id of a chat has 1 to {CHAT_BYTES_MAX} bytes"),
            "send the chat's id as `id`",
        ));
    }
    let hash = Hash::of_parts(&["ui chat", &caller.principal, agent, id]);
    let bytes = hash.as_bytes().first_chunk::<16>().copied().unwrap_or_default();
    Ok(Address::main(SessionId::from_u128(u128::from_be_bytes(bytes))))
}

/// The run of a session that is neither over nor waits for anybody.
async fn running(app: &App, address: &Address) -> Result<Option<Begun>, Error> {
    let session = match app.engine.state(address, None).await {
        Err(EngineError::NoSession(_)) => return Ok(None),
        state => state?,
    };
    match session.active_run().filter(|_| !session.is_waiting()) {
        Some(run) => locate(app, address, run.id).await.map(Some),
        None => Ok(None),
    }
}

/// Decides about calls; the event after which they go on.
async fn decide(
    app: &App,
    caller: &Caller,
    claimed: &Claimed,
    address: &Address,
    made: &[Decision],
) -> Result<Seq, Error> {
    if let Some((_, seq)) = claimed.earlier() {
        return Ok(Seq(seq.0.saturating_sub(1)));
    }
    let engine = claimed.engine(app);
    let asked = match engine.approvals(address).await {
        Err(EngineError::NoSession(_)) => Vec::new(),
        asked => asked?,
    };
    let before = app.journal.head(&address.branch_id()).await?.map_or(Seq(0), |head| head.seq);
    // Whatever else is in the message was decided before.
    let open = made.iter().filter(|decision| asked.iter().any(|approval| approval.id == decision.call));
    let mut decided = false;
    for Decision { call, approved, reason } in open {
        let answer = if *approved { Answer::yes() } else { Answer::No { message: reason.clone() } };
        decisions::decide(&engine, caller, address, *call, &asked, answer).await?;
        decided = true;
    }
    if decided { Ok(before) } else { Err(nothing_asked()) }
}

fn nothing_asked() -> Error {
    Error::new(
        StatusCode::CONFLICT,
        "server::nothing-asked",
        "nobody is asked about any of these calls any more",
        "say something, or follow what goes on with `GET /agents/{name}/ui/{chat}/stream`",
    )
}
