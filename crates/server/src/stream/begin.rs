//! Saying something, and finding the run that deals with it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use weir_engine::{Address, EngineError, Update, Updates};
use weir_events::{About, Body, Payload, RunStarted};
use weir_journal::OfKind;
use weir_types::{Block, Event, Purpose, RunId, Seq};

use super::respond::Leave;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::idempotency::Claimed;
use crate::saying::{Place, Unheard, Where, not_taken_up, out_of_patience};

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

/// Says something, and waits until a run takes it up, for as long as the server lets clients wait. The run goes on whatever becomes of
/// whoever waits.
pub(crate) async fn say(
    app: &App,
    caller: &Caller,
    claimed: &Claimed,
    content: Vec<Block>,
    wanted: Where,
) -> Result<Begun, Unheard> {
    let place = Place::of(app, claimed, wanted).await?;
    let (address, before) = (place.address.clone(), place.before);
    let updates = listening(app, &address, before);
    let said = place.say(app, caller, claimed, content).await?;
    let begun = tokio::select! {
        biased;
        begun = taken_up(app, &address, updates, before, said) => begun,
        why = out_of_patience(app) => Err(why),
    };
    begun.map_err(|error| Unheard::after(&address, error))
}

/// The same for a client that wants its run to end when it leaves. What it says may be there by then, so that it is waited for what
/// comes of it whether the client is still there or not.
pub(crate) async fn say_while_there(
    app: &App,
    caller: &Caller,
    claimed: &Claimed,
    content: Vec<Block>,
    wanted: Where,
) -> Result<(Begun, Leave), Unheard> {
    let (keeper, caller, claimed) = (app.clone(), caller.clone(), claimed.clone());
    let saying = app.tasks.spawn(async move {
        let begun = say(&keeper, &caller, &claimed, content, wanted).await?;
        // Nobody takes it out of here if the client is gone.
        let leave = Leave::of(&keeper, &caller, &begun);
        Ok((begun, leave))
    });
    saying.await.unwrap_or_else(|_| Err(Error::bug().into()))
}

/// Listens before something is said: what has been there is looked for while it is being written down, and what comes of it
/// is heard at once.
fn listening(app: &App, address: &Address, after: Seq) -> Updates {
    let mut updates = app.engine.watch(address, after);
    updates.start();
    updates
}

/// Waits until a run takes up what was said: the next one, or one that is under way and asks the model once more. One that waits for
/// people has it taken up when they have decided. Others may say something at the same time, and have runs of their own.
async fn taken_up(
    app: &App,
    address: &Address,
    mut updates: Updates,
    before: Seq,
    said: Seq,
) -> Result<Begun, Error> {
    let settled = app.engine.settle(address).fuse();
    tokio::pin!(settled);
    let (mut seen, mut rests_at) = (before, None);
    loop {
        if let Some(head) = rests_at
            && seen >= head
        {
            let waiting = app.engine.state(address, None).await?.run.ok_or_else(not_taken_up)?;
            return locate(app, address, waiting.id).await;
        }
        tokio::select! {
            biased;
            update = updates.next() => match update? {
                Some(Update::Event(event)) => {
                    seen = event.seq;
                    if event.seq <= said {
                        continue;
                    }
                    match Body::decode(&event.kind, &event.payload) {
                        Ok(Some(Body::RunStarted(started))) => {
                            let (address, run, started) = (address.clone(), started.run, event.seq);
                            let ahead = Ahead::of(updates, event);
                            return Ok(Begun { address, run, started, ahead });
                        }
                        Ok(Some(Body::ModelRequested(asked))) if asked.params.purpose == Purpose::Turn => {
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
                outcome?;
                let head = app.journal.head(&address.branch_id()).await?;
                rests_at = Some(head.map_or(before, |head| head.seq));
            }
        }
    }
}

/// The event by which a run began.
pub(crate) async fn locate(app: &App, address: &Address, run: RunId) -> Result<Begun, Error> {
    let is_it = |event: &Event| match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::RunStarted(started))) => started.run == run,
        _ => false,
    };
    let branch = address.branch_id();
    let mut pages = OfKind::new(&*app.journal, &branch, RunStarted::kind());
    while let Some(page) = pages.next().await? {
        if let Some(event) = page.iter().find(|event| is_it(event)) {
            let (address, started) = (address.clone(), event.seq);
            return Ok(Begun { address, run, started, ahead: Ahead::default() });
        }
    }
    Err(Error::missing("run"))
}
