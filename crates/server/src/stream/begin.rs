//! Saying something, and finding the run that deals with it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use futures_util::FutureExt;
use weir_engine::{Address, EngineError, New, Said, Update};
use weir_journal::{PAGE_MAX, now};
use weir_kernel::{About, Body};
use weir_types::{Block, Event, Kind, Message, Purpose, RunId, Seq};

use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::idempotency::Claimed;

/// What is said, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The agent.
    pub(crate) agent: String,
    /// The session that goes on, or the one to begin; none for a new one.
    pub(crate) session: Option<Address>,
    /// Whether that session is to begin.
    pub(crate) labels: BTreeMap<String, String>,
    /// What was said before a session that begins, as the client tells it.
    pub(crate) history: Vec<Message>,
    /// What is said.
    pub(crate) content: Vec<Block>,
}

/// A run that deals with what was said.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// Where.
    pub(crate) address: Address,
    /// Which.
    pub(crate) run: RunId,
    /// The event by which it began.
    pub(crate) started: Seq,
}

/// Says something, and waits until a run takes it up. The run goes on whatever becomes of whoever waits. What a request with the same
/// key has said before is not said again.
pub(crate) async fn begin(app: &App, caller: &Caller, claimed: &Claimed, turn: Turn) -> Result<Begun, Error> {
    if let Some((address, seq)) = claimed.earlier() {
        return taken_up(app, &address, seq).await;
    }
    let engine = claimed.engine(app);
    let runtime = BTreeMap::from([("time".to_owned(), now().to_string())]);
    let said = Said { content: turn.content, runtime, actor: caller.principal.clone() };
    let (address, seq) = match turn.session {
        Some(address) => {
            let seq = engine.say(&address, said).await?;
            (address, seq)
        }
        None => {
            let address = app.engine.new_address();
            let new = New {
                agent: turn.agent,
                principal: caller.principal.clone(),
                groups: caller.groups.clone(),
                labels: turn.labels,
                history: turn.history,
                ..New::default()
            };
            let seq = engine.begin(&address, new, said).await?;
            (address, seq)
        }
    };
    let said = message_at(app, &address, seq).await?;
    taken_up(app, &address, said).await
}

/// Where the message is that was written down with this event at the latest: a run may have begun in the same append.
async fn message_at(app: &App, address: &Address, at: Seq) -> Result<Seq, Error> {
    let page =
        app.journal.read_back(&address.branch_id(), Some(Seq(at.0.saturating_add(1))), PAGE_MAX).await?;
    let message = page.iter().find(|event| event.kind.as_str() == "user.message");
    Ok(message.map_or(at, |event| event.seq))
}

/// Waits until a run takes up what was said: the next one, or one that is under way and asks the model once more. One that waits for
/// people has it taken up when they have decided.
async fn taken_up(app: &App, address: &Address, said: Seq) -> Result<Begun, Error> {
    let mut updates = app.engine.watch(address, Seq(said.0.saturating_sub(1)));
    let settled = app.engine.settle(address).fuse();
    tokio::pin!(settled);
    let mut rests_at = None;
    let mut seen = Seq(0);
    loop {
        if let Some((run, head)) = rests_at
            && seen >= head
        {
            return locate(app, address, run).await;
        }
        tokio::select! {
            biased;
            update = updates.next() => match update? {
                Some(Update::Event(event)) => {
                    seen = event.seq;
                    match Body::decode(&event.kind, &event.payload) {
                        Ok(Some(Body::RunStarted(started))) => {
                            let (address, run) = (address.clone(), started.run);
                            return Ok(Begun { address, run, started: event.seq });
                        }
                        Ok(Some(Body::ModelRequested(asked)))
                            if asked.params.purpose == Purpose::Turn && event.seq > said =>
                        {
                            let Some(run) = About::decode(&event.meta).run else { continue };
                            return locate(app, address, run).await;
                        }
                        _ => {}
                    }
                }
                Some(Update::Delta(_)) => {}
                None => return Err(EngineError::Stopping.into()),
            },
            outcome = &mut settled, if rests_at.is_none() => {
                let run = outcome?.run.ok_or_else(not_taken_up)?;
                let head = app.journal.head(&address.branch_id()).await?;
                rests_at = Some((run, head.map_or(said, |head| head.seq)));
            }
        }
    }
}

fn not_taken_up() -> Error {
    Error::new(
        StatusCode::CONFLICT,
        "server::not-taken-up",
        "what was said is kept, but nothing came of it yet",
        "look at the session, and resume it",
    )
}

/// The event by which a run began.
pub(crate) async fn locate(app: &App, address: &Address, run: RunId) -> Result<Begun, Error> {
    let kind: Kind = "run.started".parse().map_err(|_| Error::missing("run"))?;
    let is_it = |event: &Event| match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::RunStarted(started))) => started.run == run,
        _ => false,
    };
    let mut after = Seq(0);
    loop {
        let page = app.journal.by_kind(&address.branch_id(), &kind, after, PAGE_MAX).await?;
        if let Some(event) = page.iter().find(|event| is_it(event)) {
            return Ok(Begun { address: address.clone(), run, started: event.seq });
        }
        match page.last() {
            Some(last) if page.len() == PAGE_MAX => after = last.seq,
            _ => return Err(Error::missing("run")),
        }
    }
}
