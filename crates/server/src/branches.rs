//! Going another way: branches that somebody asks for, and those for what is said again, or after an answer that was not the last.

use axum::http::StatusCode;
use weir_engine::{Address, EngineError};
use weir_events::{Body, Payload, RunCancelled, RunErrored, RunFinished, RunStarted, UserMessage};
use weir_journal::{Branch, ForkError, OfKind};
use weir_types::{BranchId, BranchName, Event, Kind, Role, Seq, StreamName};

use crate::app::App;
use crate::error::Error;
use crate::idempotency::Claimed;
use crate::stream::Begun;

/// How often another name is tried when somebody else was quicker.
const TRIES_MAX: u32 = 16;

/// The code of an error: less was said than what is to be said again.
pub(crate) const NO_SUCH_MESSAGE: &str = "server::no-such-message";

/// What branches are called: this, and a number that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Of those that nobody has named, and of sessions that go on after an older answer.
    Fork,
    /// Of chats in which something is said again: the newest is what the chat goes on with.
    Again,
}

impl Prefix {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Fork => "fork-",
            Self::Again => "again-",
        }
    }

    fn number(self, name: &BranchName) -> Option<u64> {
        name.as_str().strip_prefix(self.as_str())?.parse().ok()
    }

    /// The newest of these branches, if there is one.
    fn newest(self, branches: &[Branch]) -> Option<(u64, &BranchName)> {
        branches.iter().filter_map(|branch| Some((self.number(&branch.name)?, &branch.name))).max()
    }
}

/// Makes a branch of the name that is wanted, or of a free one; answers with its name. What the same request has made before it was cut off is not made again.
pub(crate) async fn fork<T, F>(
    app: &App,
    claimed: &Claimed,
    from: &BranchId,
    at: Seq,
    wanted: Option<&str>,
    make: impl Fn(BranchName) -> F,
) -> Result<BranchName, Error>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let Some(name) = wanted.map(str::to_owned).or_else(|| claimed.name("fork")) else {
        return numbered(app, &from.stream, Prefix::Fork, make).await;
    };
    let name = branch_name(&name)?;
    if !(claimed.is_repeated() && is_made(app, from, at, &name).await?) {
        make(name.clone()).await?;
    }
    Ok(name)
}

async fn is_made(app: &App, from: &BranchId, at: Seq, name: &BranchName) -> Result<bool, Error> {
    let branches = app.journal.branches(&from.stream).await?;
    let parent = branches.into_iter().find(|branch| branch.name == *name).and_then(|branch| branch.parent);
    Ok(parent.is_some_and(|parent| parent.branch == from.branch && parent.at == at))
}

/// A name for a new branch.
pub(crate) fn branch_name(name: &str) -> Result<BranchName, Error> {
    name.parse().map_err(|error: weir_types::NameError| Error::bad(error.to_string(), "choose another name"))
}

/// A new branch of a session that shares everything up to an event.
pub(crate) async fn branch_off(
    app: &App,
    claimed: &Claimed,
    from: &Address,
    at: Seq,
    prefix: Prefix,
) -> Result<Address, Error> {
    let engine = claimed.engine(app);
    let branch = numbered(app, &from.branch_id().stream, prefix, |name| engine.fork(from, at, name)).await?;
    Ok(Address { session: from.session, branch })
}

/// Makes a branch with the next number, or the one after that if somebody else was quicker.
async fn numbered<T, F>(
    app: &App,
    stream: &StreamName,
    prefix: Prefix,
    make: impl Fn(BranchName) -> F,
) -> Result<BranchName, Error>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut tries = 0;
    loop {
        let branches = app.journal.branches(stream).await?;
        let number = prefix.newest(&branches).map_or(1, |(number, _)| number.saturating_add(1));
        let name = branch_name(&format!("{}{number}", prefix.as_str()))?;
        match make(name.clone()).await {
            Ok(_) => return Ok(name),
            Err(EngineError::Fork(error))
                if matches!(*error, ForkError::Exists { .. }) && tries < TRIES_MAX =>
            {
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The branch of a chat that it goes on with: where something was said again last.
pub(crate) async fn newest(app: &App, main: Address) -> Result<Address, Error> {
    if app.journal.head(&main.branch_id()).await?.is_none() {
        return Ok(main);
    }
    let branches = app.journal.branches(&main.branch_id().stream).await?;
    match Prefix::Again.newest(&branches) {
        Some((_, branch)) => Ok(Address { session: main.session, branch: branch.clone() }),
        None => Ok(main),
    }
}

/// The last event of a run that is over; none for one that is not, and has nothing after it.
pub(crate) async fn end_of(app: &App, begun: &Begun) -> Result<Option<Seq>, Error> {
    let next = |kind: Kind| async move {
        let found = app.journal.by_kind(&begun.address.branch_id(), &kind, begun.started, 1).await?;
        Ok::<_, Error>(found.first().map(|event| event.seq))
    };
    // One that was given up for another ends before that.
    let mut end = next(RunStarted::kind()).await?.map(|seq| Seq(seq.0 - 1));
    for kind in [RunFinished::kind(), RunErrored::kind(), RunCancelled::kind()] {
        end = end.into_iter().chain(next(kind).await?).min();
    }
    Ok(end)
}

/// The last event before what the user said as the nth, from 1.
///
/// # Errors
/// When that much was not said.
pub(crate) async fn before_said(app: &App, address: &Address, nth: usize) -> Result<Seq, Error> {
    let branch = address.branch_id();
    let mut pages = OfKind::new(&*app.journal, &branch, UserMessage::kind());
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        for event in page.iter().filter(|event| is_of_user(event)) {
            count += 1;
            if count == nth {
                return Ok(Seq(event.seq.0 - 1));
            }
        }
    }
    Err(no_such_message())
}

fn is_of_user(event: &Event) -> bool {
    match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::UserMessage(UserMessage { history, .. }))) => history != Some(Role::Assistant),
        _ => false,
    }
}

fn no_such_message() -> Error {
    Error::new(
        StatusCode::CONFLICT,
        NO_SUCH_MESSAGE,
        "less was said here than what is to be said again",
        "send what the chat has here, up to the message that is to be answered again, or say it as a new message",
    )
}
