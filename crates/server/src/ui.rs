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
use weir_engine::{Address, ApprovalError, EngineError, New};
use weir_events::{ApprovalRequested, AssistantMessage, Payload, RunStarted, ToolCompleted, ToolFailed};
use weir_journal::PAGE_MAX;
use weir_types::{Hash, Message, Role, RunId, Seq, SessionId};

use self::messages::{Decision, Submission, Wish};
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::branches::{NO_SUCH_MESSAGE, Prefix, before_said, branch_off, newest};
use crate::decisions::{self, Answer, Undecided};
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path};
use crate::formats::{Named, Vercel};
use crate::idempotency::Claimed;
use crate::saying::{self, MESSAGES_MAX, Unheard, Where};
use crate::stream::{Begun, Source, locate, refuse_last_event_id, respond, say};

/// The longest id of a chat.
const CHAT_BYTES_MAX: usize = 256;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(ui_submit)).routes(routes!(ui_resume))
}

/// Say something in a chat of the AI SDK, or decide about a call: its chat transport's `api`.
///
/// Of the messages, only the newest is said when the chat is known; those before it begin one that is not. `regenerate-message`, or a message of the
/// user that is changed (`submit-message` with its `messageId`), forks the session before that message, and the chat goes on there; one that never arrived is said.
///
/// A response to an approval approves a live write, unless `runsAs` is `dry_run`: in the body of the request (`body: { runsAs: "dry_run" }` of the
/// transport) for all responses in it, or in the `approval` of a part for that part. The response is refused if the call would do something else on this server.
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
) -> Result<Response, Unheard> {
    refuse_last_event_id(&headers)?;
    access::agent(&app, &caller, &agent)?;
    let wish = submission.wish()?;
    let address = newest(&app, chat(&caller, &agent, &submission.id)?).await?;
    match wish {
        Wish::Say { history, content, is_again } => {
            let is_known = app.journal.head(&address.branch_id()).await?.is_some();
            let wanted = match is_known {
                true if is_again => Where::Known(before(&app, &claimed, &address, &history).await?),
                true => Where::Known(address),
                false if history.len() >= MESSAGES_MAX => return Err(too_long(history.len() + 1).into()),
                false => Where::New(address, New { history, ..saying::new(&caller, &agent) }),
            };
            let begun = say(&app, &caller, &claimed, content, wanted).await?;
            let response = stream(&app, agent, &begun, Seq(0)).await;
            response.map_err(|error| Unheard::after(&begun.address, error))
        }
        Wish::Decide(decisions) => {
            let (run, decided) = decide(&app, &caller, &claimed, &address, &decisions).await?;
            let begun = locate(&app, &address, run).await?;
            let known = asked_before(&app, &address, decided).await?;
            Ok(stream(&app, agent, &begun, known).await?)
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
        Some(begun) => stream(&app, agent, &begun, Seq(0)).await,
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Another way for a chat, that begins after this much of it; or the same, if that is all there is: then it never arrived what the client
/// tries to have answered again.
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
    match before_said(app, address, said + 1).await {
        Ok(at) => branch_off(app, claimed, address, at, Prefix::Again).await,
        Err(error) if error.code == NO_SUCH_MESSAGE && is_all_there(app, address, said).await? => {
            Ok(address.clone())
        }
        Err(error) => Err(error),
    }
}

/// Whether so much was said there; what would come after it was not.
async fn is_all_there(app: &App, address: &Address, said: usize) -> Result<bool, Error> {
    match before_said(app, address, said).await {
        Err(error) if error.code == NO_SUCH_MESSAGE => Ok(said == 0),
        there => there.map(|_| true),
    }
}

async fn stream(app: &App, agent: String, begun: &Begun, known: Seq) -> Result<Response, Error> {
    let encoder = Box::new(Vercel::new(Named { agent, run: begun.run }));
    let source = Source { known, ..Source::run(begun) };
    respond(app, &source, encoder, None).await
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

/// Decides about calls; the run they belong to, which may be over by then, and an event of it that comes after whatever they wait for.
async fn decide(
    app: &App,
    caller: &Caller,
    claimed: &Claimed,
    address: &Address,
    made: &[Decision],
) -> Result<(RunId, Seq), Error> {
    if let Some((there, seq)) = claimed.earlier() {
        return decided_earlier(app, address, (&there, seq)).await;
    }
    let engine = claimed.engine(app);
    let asked = match engine.approvals(address).await {
        Err(EngineError::NoSession(_)) => Vec::new(),
        asked => asked?,
    };
    // Whatever else is in the message was decided before.
    let open: Vec<_> =
        made.iter().filter(|decision| asked.iter().any(|approval| approval.id == decision.call)).collect();
    if open.is_empty() {
        return Err(nothing_asked());
    }
    let session = app.engine.state(address, None).await?;
    let run = session.run.ok_or_else(nothing_asked)?.id;
    for Decision { call, approved, reason, runs } in open {
        let answer = if *approved { Answer::yes(*runs) } else { Answer::No { message: reason.clone() } };
        let decided = decisions::decide(&engine, caller, address, *call, &asked, answer).await;
        decided.map_err(in_words_of_the_transport)?;
    }
    Ok((run, session.seq))
}

/// The same for what the same request has decided before: here, or in a session behind this one.
async fn decided_earlier(
    app: &App,
    address: &Address,
    (there, seq): (&Address, Seq),
) -> Result<(RunId, Seq), Error> {
    if there == address {
        let decided = app.journal.read(&address.branch_id(), Seq(seq.0.saturating_sub(1)), 1).await?;
        if let Some(run) = decided.first().and_then(saying::run_of) {
            return Ok((run, seq));
        }
    }
    let session = app.engine.state(address, None).await?;
    let run = session.run.map(|run| run.id).or(session.ended.map(|ended| ended.run));
    Ok((run.ok_or_else(nothing_asked)?, session.seq))
}

/// What the message has that the client goes on with: everything up to where its calls were asked about. What has come of some of them since, or
/// of others, by whoever decided that, it may not have heard, and hears now; to hear it twice does no harm.
async fn asked_before(app: &App, address: &Address, decided: Seq) -> Result<Seq, Error> {
    let (mut before, mut asked, mut is_first) = (decided.next(), None, true);
    loop {
        let page = app.journal.read_back(&address.branch_id(), Some(before), PAGE_MAX).await?;
        for event in &page {
            match event.kind.as_str() {
                ApprovalRequested::KIND if is_first => (asked, is_first) = (Some(event.seq), false),
                // Whatever was asked after this, the client was not told with the others.
                ToolCompleted::KIND | ToolFailed::KIND => is_first = true,
                AssistantMessage::KIND if asked.is_some() => return Ok(asked.unwrap_or(decided)),
                RunStarted::KIND => return Ok(asked.unwrap_or(decided)),
                _ => {}
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE_MAX => before = last.seq,
            _ => return Ok(asked.unwrap_or(decided)),
        }
    }
}

/// A chat that is known here may be as long as it likes: nothing of it is written down again.
fn too_long(messages: usize) -> Error {
    Error::bad(
        format!("the chat is new here and has {messages} messages, and {MESSAGES_MAX} is the most"),
        "send less of the past",
    )
}

/// What to send instead is a field of this route's own.
fn in_words_of_the_transport(undecided: Undecided) -> Error {
    let help = match &undecided {
        Undecided::WouldPretend { .. } => Some(
            "let a server decide that was started with `--live-writes`, or approve the dry run with `runsAs: \"dry_run\"`; it \
             still waits",
        ),
        Undecided::Refused(EngineError::Approval(ApprovalError::WouldHappen { .. })) => {
            Some("approve it without `runsAs: \"dry_run\"`; it still waits")
        }
        Undecided::TooLong | Undecided::Refused(_) => None,
    };
    let error = Error::from(undecided);
    Error { help: help.map_or(error.help, Into::into), ..error }
}

fn nothing_asked() -> Error {
    Error::new(
        StatusCode::CONFLICT,
        "server::nothing-asked",
        "nobody is asked about any of these calls any more",
        "say something, or follow what goes on with `GET /agents/{name}/ui/{chat}/stream`",
    )
}
