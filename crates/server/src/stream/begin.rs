//! Saying something, and finding the run that deals with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use futures_util::FutureExt;
use weir_engine::{Address, EngineError, New, Update, Updates};
use weir_journal::OfKind;
use weir_kernel::{About, Body, kind};
use weir_types::{Block, Event, Message, Purpose, RunId, Seq};

use crate::api::chat::{self, Where};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::idempotency::Claimed;

/// What is said, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The agent.
    pub(crate) agent: String,
    /// The session that goes on; none for a new one.
    pub(crate) session: Option<Address>,
    /// For people and filters, on a session that begins.
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
    /// Who has followed it so far.
    pub(crate) ahead: Ahead,
}

/// What follows a run since before it began, and the event by which it did. Whoever streams the run goes on with it, instead of
/// reading again what has just been written.
#[derive(Clone, Default)]
pub(crate) struct Ahead(Arc<Mutex<Option<Followed>>>);

/// What follows, and the last it has told.
type Followed = (Updates, Arc<Event>);

impl Ahead {
    fn of(updates: Updates, started: Arc<Event>) -> Self {
        Self(Arc::new(Mutex::new(Some((updates, started)))))
    }

    /// For one; there is none for others.
    pub(super) fn take(&self) -> Option<Followed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ahead")
    }
}

/// Says something, and waits until a run takes it up. The run goes on whatever becomes of whoever waits.
pub(crate) async fn begin(app: &App, caller: &Caller, claimed: &Claimed, turn: Turn) -> Result<Begun, Error> {
    let address = app.engine.new_address();
    begin_at(app, caller, claimed, turn, address).await
}

/// The same; if a session begins, it does so at that address.
pub(crate) async fn begin_at(
    app: &App,
    caller: &Caller,
    claimed: &Claimed,
    turn: Turn,
    address: Address,
) -> Result<Begun, Error> {
    let place = match turn.session {
        Some(address) => Where::Known(address),
        None => {
            let new = New {
                agent: turn.agent,
                principal: caller.principal.clone(),
                groups: caller.groups.clone(),
                labels: turn.labels,
                history: turn.history,
                ..New::default()
            };
            Where::New(address, new)
        }
    };
    say(app, caller, claimed, turn.content, place).await
}

/// The same for a place that is known. What the same request has led to before is not done again.
pub(crate) async fn say(
    app: &App,
    caller: &Caller,
    claimed: &Claimed,
    content: Vec<Block>,
    place: Where,
) -> Result<Begun, Error> {
    let (engine, said) = (claimed.engine(app), chat::said(caller, content));
    match (claimed.earlier(), place) {
        (Some((address, seq)), _) => {
            let before = Seq(seq.0.saturating_sub(1));
            let updates = app.engine.watch(&address, before);
            taken_up(app, &address, updates, before).await
        }
        (None, Where::New(address, new)) => {
            let updates = listening(app, &address, Seq(0));
            engine.begin(&address, new, said).await?;
            taken_up(app, &address, updates, Seq(0)).await
        }
        (None, Where::Known(address)) => {
            let head = app.journal.head(&address.branch_id()).await?.map_or(Seq(0), |head| head.seq);
            let updates = listening(app, &address, head);
            engine.say(&address, said).await?;
            taken_up(app, &address, updates, head).await
        }
    }
}

/// Listens before something is said: what has been there is looked for while it is being written down, and what comes of it
/// is heard at once.
fn listening(app: &App, address: &Address, after: Seq) -> Updates {
    let mut updates = app.engine.watch(address, after);
    updates.start();
    updates
}

/// Waits until a run takes up what was said: the next one, or one that is under way and asks the model once more. One that waits for
/// people has it taken up when they have decided. It was said after the event `before`.
async fn taken_up(app: &App, address: &Address, mut updates: Updates, before: Seq) -> Result<Begun, Error> {
    let settled = app.engine.settle(address).fuse();
    tokio::pin!(settled);
    let mut rests_at = None;
    let (mut seen, mut is_said) = (before, false);
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
                        Ok(Some(Body::UserMessage(_))) => is_said = true,
                        Ok(Some(Body::RunStarted(started))) if is_said => {
                            let (address, run, started) = (address.clone(), started.run, event.seq);
                            let ahead = Ahead::of(updates, event);
                            return Ok(Begun { address, run, started, ahead });
                        }
                        Ok(Some(Body::ModelRequested(asked)))
                            if asked.params.purpose == Purpose::Turn && is_said =>
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
                rests_at = Some((run, head.map_or(before, |head| head.seq)));
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
    let is_it = |event: &Event| match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::RunStarted(started))) => started.run == run,
        _ => false,
    };
    let branch = address.branch_id();
    let mut pages = OfKind::new(&*app.journal, &branch, kind("run.started"));
    while let Some(page) = pages.next().await? {
        if let Some(event) = page.iter().find(|event| is_it(event)) {
            let (address, started) = (address.clone(), event.seq);
            return Ok(Begun { address, run, started, ahead: Ahead::default() });
        }
    }
    Err(Error::missing("run"))
}
