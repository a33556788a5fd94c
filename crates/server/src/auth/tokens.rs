//! Tokens that `weir token issue` makes. The journal has what is known about them: who each is for, and the hash of it. A token
//! is 256 bits of chance, which nobody can guess or find by trying, so that a plain SHA-256 is enough to keep: what makes slow
//! and salted hashes needful is that people choose passwords badly.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::StreamExt;
use tokio::sync::watch;
use weir_events::{Payload, TokenIssued, TokenRevoked};
use weir_journal::{Journal, NewEvent, PAGE_MAX, ReadError, mint, now};
use weir_types::{BranchId, Event, Hash, Meta, Seq, Timestamp};

use super::{Admitted, Caller, Standing, caller, from_now};

/// The stream that has them.
pub const STREAM: &str = "engine:tokens";

/// What every token begins with, so that people and scanners recognise one.
const PREFIX: &str = "weir_";

/// How much chance is in one.
const RANDOM_BYTES: usize = 32;

/// How long to wait before a stream that broke off is followed again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What is known about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// As it was made.
    pub issued: TokenIssued,
    /// When that was.
    pub at: Timestamp,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

/// Tokens, as the journal has them. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: RwLock<State>,
    /// What was taken in last.
    news: watch::Sender<Seq>,
}

#[derive(Debug, Default)]
struct State {
    seq: Seq,
    by_hash: HashMap<Hash, Known>,
    ids: HashMap<String, Hash>,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The system has no chance to give.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    /// Nobody can be called that.
    #[error("a token cannot say this: {0}")]
    Claims(&'static str),
}

/// The branch that has them.
pub fn branch() -> BranchId {
    #[expect(clippy::expect_used, reason = "a constant that is a name")]
    BranchId::main(STREAM.parse().expect("a constant that is a name"))
}

/// Whether a text is meant to be one of these.
pub(super) fn is_token(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Makes a token: its text, which is kept nowhere, and what the journal is told.
///
/// # Errors
/// When nobody can be called like that, or there are no random numbers.
pub fn issue(
    principal: &str,
    groups: &[String],
    name: Option<String>,
    expires: Option<Timestamp>,
) -> Result<(weir_types::Secret, TokenIssued), IssueError> {
    let Caller { principal, groups } =
        caller(principal.to_owned(), groups.iter().map(String::as_str)).map_err(IssueError::Claims)?;
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|error| IssueError::Random(error.to_string()))?;
    let token = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
    let hash = Hash::of(token.as_bytes());
    let issued = TokenIssued { id: mint().to_string(), hash, principal, groups, name, expires };
    Ok((weir_types::Secret::new(token), issued))
}

/// The event that says so, of whoever did it.
///
/// # Errors
/// When it cannot be put into words.
pub fn event<P: Payload>(body: &P, actor: &str) -> Result<NewEvent, IssueError> {
    let wrong = |_| IssueError::Claims("what cannot be written down");
    let payload = body.encode().map_err(|_| wrong(()))?;
    let meta = Meta::new(&serde_json::json!({ "actor": actor }).to_string()).map_err(|_| wrong(()))?;
    Ok(NewEvent::new(P::kind(), payload).with_meta(meta))
}

impl Tokens {
    /// Reads what the journal has.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn load(&self, journal: &dyn Journal) -> Result<(), ReadError> {
        let branch = branch();
        if journal.head(&branch).await?.is_none() {
            return Ok(());
        }
        loop {
            let page = journal.read(&branch, self.seq(), PAGE_MAX).await?;
            page.iter().for_each(|event| self.apply(event));
            if page.len() < PAGE_MAX {
                return Ok(());
            }
        }
    }

    /// Takes in whatever comes, for as long as it is polled: who revokes a token has revoked it at once.
    pub(crate) async fn follow(&self, journal: &dyn Journal) {
        loop {
            let mut tail = journal.tail(&branch(), self.seq());
            while let Some(event) = tail.next().await {
                match event {
                    Ok(event) => self.apply(&event),
                    Err(error) => {
                        tracing::error!(%error, "the tokens cannot be followed");
                        break;
                    }
                }
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Takes in what was written since, by whatever process, if that can be had; how far it is known then.
    pub(super) async fn catch_up(&self, journal: &dyn Journal) -> Seq {
        let head = journal.head(&branch()).await.ok().flatten().map_or(Seq(0), |head| head.seq);
        if head > self.seq()
            && let Err(error) = self.load(journal).await
        {
            tracing::warn!(%error, "the tokens cannot be read");
        }
        self.seq()
    }

    /// All of them, the oldest first.
    pub fn list(&self) -> Vec<Known> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Known> = state.by_hash.values().cloned().collect();
        all.sort_by(|one, other| one.issued.id.cmp(&other.issued.id));
        all
    }

    /// Whom a token is for, if it counts now. What is compared are hashes of what was sent: how long it takes says nothing
    /// about the tokens there are.
    pub(super) fn admitted(&self, token: &str) -> Option<Admitted> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        let known = state.by_hash.get(&Hash::of(token.as_bytes()))?;
        let TokenIssued { hash, principal, groups, expires, .. } = &known.issued;
        let left = expires.map(|expires| expires.as_micros().saturating_sub(now().as_micros()));
        if known.revoked.is_some() || left.is_some_and(|left| left <= 0) {
            return None;
        }
        let until = left.and_then(|left| from_now(Duration::from_micros(left.unsigned_abs())));
        let caller = Caller { principal: principal.clone(), groups: groups.clone() };
        Some(Admitted { caller, standing: Standing { tokens: vec![*hash], until } })
    }

    /// Comes to an end when any of these is revoked.
    pub(super) async fn revoked(&self, tokens: &[Hash]) {
        let is_revoked = |hash: &Hash| {
            let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
            state.by_hash.get(hash).is_none_or(|known| known.revoked.is_some())
        };
        // There is always a sender: these very tokens.
        let _ = self.0.news.subscribe().wait_for(|_| tokens.iter().any(is_revoked)).await;
    }

    /// The last event that was taken in.
    pub(super) fn seq(&self) -> Seq {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner).seq
    }

    /// Takes in one event, and tells those who wait for it.
    fn apply(&self, event: &Event) {
        self.fold(event);
        self.0.news.send_replace(event.seq);
    }

    /// Folds one event. What cannot be understood lets nobody in.
    fn fold(&self, event: &Event) {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        if event.seq <= state.seq {
            return;
        }
        state.seq = event.seq;
        match event.kind.as_str() {
            TokenIssued::KIND => {
                let Ok(issued) = serde_json::from_slice::<TokenIssued>(&event.payload) else { return };
                state.ids.insert(issued.id.clone(), issued.hash);
                let known = Known { at: event.ts, revoked: None, issued };
                state.by_hash.insert(known.issued.hash, known);
            }
            TokenRevoked::KIND => {
                let Ok(TokenRevoked { id }) = serde_json::from_slice(&event.payload) else { return };
                let Some(hash) = state.ids.get(&id).copied() else { return };
                if let Some(known) = state.by_hash.get_mut(&hash) {
                    known.revoked.get_or_insert(event.ts);
                }
            }
            _ => {}
        }
    }
}
