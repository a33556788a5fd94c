//! Who handles a request: the process that wrote it down first, for as long as it lives and has not let go of it.
//!
//! The key of the first append decides who that is, across processes; its loser is told who has won. What the dead have left, and
//! what was let go, is taken over by an append whose key counts how often that happened: again one of those who try wins.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use weir_engine::{Address, Standing};
use weir_events::{About, Payload, RequestAnswered, RequestReceived, RequestReleased, RequestTaken};
use weir_journal::{AppendError, NewEvent, PAGE_MAX, Part};
use weir_types::{Event, EventId, Hash, Meta, OwnerId, Position, Seq};

use super::{Claim, branch, event, under_way};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;

/// What becomes of a request.
pub(super) enum Found {
    /// It was answered before.
    Answer(RequestAnswered),
    /// It is to be handled here.
    Claim(Claim),
}

/// Writes down that a request arrived, or finds what came of it when it did before.
///
/// # Errors
/// 422 for the key of another request, 409 while another process handles it.
pub(super) async fn claim(
    app: &App,
    caller: &Caller,
    name: Hash,
    received: &RequestReceived,
) -> Result<Found, Error> {
    let (me, branch) = (app.engine.owners().me(), branch()?);
    let meta = Meta::new(&json!({ "actor": caller.principal, "owner": me }).to_string());
    let new = event(received, &About::default())?.with_meta(meta.map_err(|_| Error::bug())?);
    let id = new.id();
    let Some(known) = append(app, name.to_string(), new).await?.map_err(|()| key_reused())? else {
        return Ok(Found::Claim(Claim { event: id, name, is_repeated: false, led_to: Default::default() }));
    };
    let first = app.journal.read(&branch, Seq(known.0.saturating_sub(1)), 1).await?;
    let first = first.into_iter().next().ok_or_else(Error::bug)?;
    let mut history = History::read(app, &first).await?;
    if let Some(answer) = history.answer {
        return Ok(Found::Answer(answer));
    }
    // Nobody here handles it any more, or whoever asks would not have come this far.
    if history.owner != Some(me) {
        if let Some(owner) = history.owner
            && !is_dead(app, owner).await
        {
            return Err(under_way());
        }
        let about = about(caller, first.id);
        let taken = event(&RequestTaken { owner: Some(me) }, &about)?;
        let times = history.taken;
        if append(app, format!("{name}:{times}"), taken).await?.is_err() {
            return Err(under_way());
        }
        // The dead one may have come further than what was read above.
        history = History::read(app, &first).await?;
    }
    let led_to = history.led_to.into();
    Ok(Found::Claim(Claim { event: first.id, name, is_repeated: true, led_to }))
}

/// Writes down that nobody handles a request any more, though it has no answer that is kept: whoever repeats it may do so anywhere.
pub(super) async fn release(app: &App, caller: &Caller, claim: &Claim) {
    let released = async {
        let event = event(&RequestReleased {}, &about(caller, claim.event))?;
        Ok::<_, Error>(app.journal.append(vec![Part::new(branch()?, vec![event])]).await?)
    };
    if let Err(error) = released.await {
        tracing::warn!(code = %error.code, "a request was not let go");
    }
}

pub(super) fn about(caller: &Caller, causation: EventId) -> About {
    let actor = Some(caller.principal.clone());
    About { actor, causation: Some(causation), ..About::default() }
}

/// Appends an event with a key. Its place, if it was there before; `Err(())`, if something else has the key.
async fn append(app: &App, key: String, event: NewEvent) -> Result<Result<Option<Seq>, ()>, Error> {
    let key = Some(key.parse().map_err(|_| Error::bug())?);
    match app.journal.append(vec![Part { key, ..Part::new(branch()?, vec![event]) }]).await {
        Err(AppendError::KeyReused { .. }) => Ok(Err(())),
        appended => {
            let appended = appended?;
            Ok(Ok(appended.first().filter(|appended| appended.replayed).map(|appended| appended.first)))
        }
    }
}

async fn is_dead(app: &App, owner: OwnerId) -> bool {
    matches!(app.engine.owners().standing(owner).await, Ok(Standing::Dead))
}

fn key_reused() -> Error {
    Error::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "server::key-reused",
        "this `Idempotency-Key` was used for another request",
        "use a new key for a new request",
    )
}

#[derive(Default, Deserialize)]
struct Owned {
    owner: Option<OwnerId>,
}

/// What was written down about a request.
struct History {
    /// Who handles it; nobody, if it was let go.
    owner: Option<OwnerId>,
    /// How often it was taken over.
    taken: u64,
    /// What it was answered with.
    answer: Option<RequestAnswered>,
    /// What it has led to.
    led_to: Vec<Event>,
}

impl History {
    async fn read(app: &App, first: &Event) -> Result<Self, Error> {
        let owned: Owned = serde_json::from_str(first.meta.as_str()).unwrap_or_default();
        let mut history = Self { owner: owned.owner, taken: 0, answer: None, led_to: Vec::new() };
        let mut after = Position(0);
        loop {
            let page = app.journal.children(first.id, after, PAGE_MAX).await?;
            let next = page.last().filter(|_| page.len() == PAGE_MAX).map(|event| event.position);
            for event in page {
                history.take(event, first)?;
            }
            match next {
                Some(next) => after = next,
                None => return Ok(history),
            }
        }
    }

    fn take(&mut self, event: Event, first: &Event) -> Result<(), Error> {
        if event.stream != first.stream {
            // Only the runtime writes sessions. What others say was led to by a request is their word.
            if Address::of(&event.branch_id()).is_some() {
                self.led_to.push(event);
            }
            return Ok(());
        }
        match event.kind.as_str() {
            RequestTaken::KIND => {
                let taken: RequestTaken = serde_json::from_slice(&event.payload).map_err(|_| Error::bug())?;
                (self.owner, self.taken) = (taken.owner, self.taken + 1);
            }
            RequestReleased::KIND => self.owner = None,
            RequestAnswered::KIND => {
                self.answer = Some(serde_json::from_slice(&event.payload).map_err(|_| Error::bug())?);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Data, ada};

    async fn claimed(app: &App, n: u32) -> Result<Found, u16> {
        let (name, body) = (Hash::of(&n.to_be_bytes()), Hash::of(b"body"));
        let received = super::super::received("/x".to_owned(), body, None);
        claim(app, &ada(), name, &received).await.map_err(|error| error.status.as_u16())
    }

    fn is_refused(found: &Result<Found, u16>) -> bool {
        matches!(found, Err(409))
    }

    #[tokio::test]
    async fn of_all_who_try_at_once_one_handles_a_request() {
        let data = Data::default();
        let (one, two, three) = (data.app().await, data.app().await, data.app().await);
        for n in 0..50 {
            let (first, second) = tokio::join!(claimed(&two, n), claimed(&three, n));
            assert!(is_refused(&first) != is_refused(&second), "{n}: new");
        }
        // What was let go is free for whoever is first.
        for n in 100..150 {
            let Ok(Found::Claim(claim)) = claimed(&one, n).await else { panic!("{n}: it is new") };
            assert!(is_refused(&claimed(&two, n).await), "{n}: it is being handled");
            release(&one, &ada(), &claim).await;
            let (first, second) = tokio::join!(claimed(&two, n), claimed(&three, n));
            assert!(is_refused(&first) != is_refused(&second), "{n}: let go");
        }
        // And so is what the dead have left, and nothing else.
        for n in 200..250 {
            assert!(matches!(claimed(&one, n).await, Ok(Found::Claim(_))), "{n}: it is new");
            assert!(is_refused(&claimed(&two, n).await), "{n}: it lives");
        }
        one.engine.stop(std::time::Duration::from_secs(9)).await;
        drop(one);
        for n in 200..250 {
            let (first, second) = tokio::join!(claimed(&two, n), claimed(&three, n));
            assert!(is_refused(&first) != is_refused(&second), "{n}: left by the dead");
            let again = tokio::join!(claimed(&two, n), claimed(&three, n));
            assert_eq!(
                (is_refused(&again.0), is_refused(&again.1)),
                (is_refused(&first), is_refused(&second)),
                "{n}"
            );
        }
    }
}
