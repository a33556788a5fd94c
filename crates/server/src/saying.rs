//! Saying something to an agent: one way for every route, so that what was said before is said by none of them again, and whoever
//! said it hears what came of that and of nothing else.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use weir_engine::{Address, EngineError, New, Outcome, Said};
use weir_events::{
    About, Body, ModelRequested, Payload, RunCancelled, RunErrored, RunFinished, RunParked, RunStarted,
};
use weir_journal::{OfKind, now};
use weir_types::{Block, BranchId, Event, Explain, Kind, Purpose, RunId, Seq};

use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::idempotency::Claimed;

/// The most messages that a session begins with: each becomes an event, and more than this at once are no conversation.
pub(crate) const MESSAGES_MAX: usize = 1_000;

/// How many events are looked at together; the first of them is nearly always the one.
const EVENTS_AT_ONCE: usize = 8;

/// Where a message is to be said.
pub(crate) enum Where {
    /// A session that begins there.
    New(Address, New),
    /// One that goes on.
    Known(Address),
}

/// Where a message is said, or was when the same request came before.
pub(crate) struct Place {
    /// The session.
    pub(crate) address: Address,
    /// An event before the message: whoever follows from there misses nothing that comes of it.
    pub(crate) before: Seq,
    how: How,
}

enum How {
    /// It is there already.
    Earlier(Seq),
    New(Box<New>),
    Known,
}

/// Why nobody hears what comes of a message.
#[derive(Debug)]
pub(crate) enum Unheard {
    /// It was not said.
    Unsaid(Error),
    /// It was, in that session: whoever says it again says it twice.
    Said(Address, Error),
}

impl Place {
    /// Where a message goes; it is not said yet, unless it was.
    pub(crate) async fn of(app: &App, claimed: &Claimed, wanted: Where) -> Result<Self, Error> {
        if let Some((address, said)) = claimed.earlier() {
            return Ok(Self { address, before: Seq(said.0.saturating_sub(1)), how: How::Earlier(said) });
        }
        match wanted {
            Where::New(address, new) => Ok(Self { address, before: Seq(0), how: How::New(Box::new(new)) }),
            Where::Known(address) => {
                let head = app.journal.head(&address.branch_id()).await?;
                Ok(Self { address, before: head.map_or(Seq(0), |head| head.seq), how: How::Known })
            }
        }
    }

    /// Whether a session begins with it.
    pub(crate) const fn is_new(&self) -> bool {
        matches!(self.how, How::New(_))
    }

    /// Says it, unless it was said before; where it is.
    pub(crate) async fn say(
        self,
        app: &App,
        caller: &Caller,
        claimed: &Claimed,
        content: Vec<Block>,
    ) -> Result<Seq, Error> {
        let (engine, said) = (claimed.engine(app), said(caller, content));
        Ok(match self.how {
            How::Earlier(seq) => seq,
            How::New(new) => match engine.begin(&self.address, *new, said.clone()).await {
                // Somebody who says something there at the same time was quicker to begin it.
                Err(EngineError::Exists(_)) => engine.say(&self.address, said).await?,
                begun => begun?,
            },
            How::Known => engine.say(&self.address, said).await?,
        })
    }
}

impl Unheard {
    /// What goes wrong after something was said.
    pub(crate) fn after(address: &Address, error: impl Into<Error>) -> Self {
        Self::Said(address.clone(), error.into())
    }

    /// What was said, and where.
    pub(crate) const fn said_in(&self) -> Option<&Address> {
        match self {
            Self::Unsaid(_) => None,
            Self::Said(address, _) => Some(address),
        }
    }
}

impl From<Error> for Unheard {
    fn from(error: Error) -> Self {
        Self::Unsaid(error)
    }
}

impl<E: Explain> From<E> for Unheard {
    fn from(error: E) -> Self {
        Self::Unsaid(error.into())
    }
}

/// Told in words, for those who read nothing else.
impl From<Unheard> for Error {
    fn from(unheard: Unheard) -> Self {
        match unheard {
            Unheard::Unsaid(error) => error,
            Unheard::Said(address, error) => {
                let message = format!("{} (what was said is kept, in session {address})", error.message);
                Self { message, ..error }
            }
        }
    }
}

impl IntoResponse for Unheard {
    fn into_response(self) -> Response {
        let headers = self.said_in().map(|address| headers(address, None)).unwrap_or_default();
        (headers, Error::from(self)).into_response()
    }
}

/// A session to begin with an agent, on the caller's behalf.
pub(crate) fn new(caller: &Caller, agent: &str) -> New {
    let (agent, principal) = (agent.to_owned(), caller.principal.clone());
    New { agent, principal, groups: caller.groups.clone(), ..New::default() }
}

/// What someone says. What changes from turn to turn travels with the message, so that the system prompt can be cached.
pub(crate) fn said(caller: &Caller, content: Vec<Block>) -> Said {
    let runtime = BTreeMap::from([("time".to_owned(), now().to_string())]);
    Said { content, runtime, actor: caller.principal.clone() }
}

/// Comes when nobody should wait any longer for what comes of a message: why.
pub(crate) async fn out_of_patience(app: &App) -> Error {
    tokio::select! {
        () = tokio::time::sleep(app.settings.chat_patience) => Error::new(
            StatusCode::GATEWAY_TIMEOUT,
            "server::timeout",
            "nothing has come of it yet",
            "do not say it again: follow the session with `GET /sessions/{id}/events/stream`",
        ),
        () = about_to_stop(app) => Error::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server::stopping",
            "the server is shutting down; the session goes on when it is up again",
            "do not say it again: look at the session then",
        ),
    }
}

/// Comes when a server that stops has given runs half of its farewell: there is time left to say where they go on.
pub(crate) async fn about_to_stop(app: &App) {
    app.stopping.cancelled().await;
    tokio::time::sleep(app.settings.farewell / 2).await;
}

/// What came of the run that took a message up: there may have been one before it, and the session may have gone on since.
///
/// # Errors
/// When nothing came of it.
pub(crate) async fn of_message(
    app: &App,
    address: &Address,
    said: Seq,
    latest: Outcome,
) -> Result<Outcome, Error> {
    let branch = address.branch_id();
    let asks = |event: &Event| match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::ModelRequested(asked))) => asked.params.purpose == Purpose::Turn,
        _ => true,
    };
    let Some(taken_up) =
        first_of(app, &branch, [RunStarted::kind(), ModelRequested::kind()], said, asks).await?
    else {
        // A run that waits for people takes it up when they have decided.
        let waits = app.engine.state(address, None).await?.run.is_some();
        return if waits { Ok(latest) } else { Err(not_taken_up()) };
    };
    let (began, Some(run)) = (taken_up.seq, run_of(&taken_up)) else { return Ok(latest) };
    let ends = [RunFinished::kind(), RunErrored::kind(), RunCancelled::kind(), RunParked::kind()];
    let is_its = |event: &Event| run_of(event) == Some(run);
    let end = first_of(app, &branch, ends, began, is_its).await?.map(|event| event.seq);
    let head = app.journal.head(&branch).await?.map(|head| head.seq);
    match end {
        Some(seq) if Some(seq) != head => {
            Ok(Outcome::of(address, &app.engine.state(address, Some(seq)).await?))
        }
        _ => Ok(latest),
    }
}

/// The run that an event belongs to; the one that begins it names it itself.
pub(crate) fn run_of(event: &Event) -> Option<RunId> {
    match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::RunStarted(started))) => Some(started.run),
        _ => About::decode(&event.meta).run,
    }
}

/// The first event of some kinds after another, of those that count.
async fn first_of(
    app: &App,
    branch: &BranchId,
    kinds: impl IntoIterator<Item = Kind>,
    after: Seq,
    counts: impl Fn(&Event) -> bool,
) -> Result<Option<Event>, Error> {
    let mut first: Option<Event> = None;
    for kind in kinds {
        let mut pages = OfKind::new(&*app.journal, branch, kind).after(after).at_once(EVENTS_AT_ONCE);
        while let Some(page) = pages.next().await? {
            if let Some(found) = page.into_iter().find(&counts) {
                first = first.into_iter().chain([found]).min_by_key(|event| event.seq);
                break;
            }
        }
    }
    Ok(first)
}

/// The headers that every answer about a run has. The session is named with its branch (`ID@branch`) unless that is `main`, as it can be
/// wherever a session is asked for.
pub(crate) fn headers(address: &Address, run: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set("x-weir-session", &address.to_string());
    if let Some(run) = run {
        set("x-weir-run", run);
    }
    headers
}

pub(crate) fn not_taken_up() -> Error {
    Error::new(
        StatusCode::CONFLICT,
        "server::not-taken-up",
        "nothing came of it yet",
        "look at the session, and resume it",
    )
}
