//! The purses that this process knows: folds of their streams, remembered, and caught up by reading on.
//!
//! Nothing here decides: a purse is what its stream says, for every process alike. What is remembered saves
//! reading. So does `budget.carried`, an event of the stream that says what those before it come to: who pays
//! writes one now and then, in an append that is made anyway. Other processes may append in between; a reader
//! goes on from the events that are in it, not from its place.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as Turns;
use weir_events::{About, Allowance, Amount, Body, BudgetCarried, Payload, Short};
use weir_journal::{Appended, Journal, NewEvent, PAGE_MAX, Part, ReadError, StreamSummary, newest_of_kind};
use weir_kernel::Purse;
use weir_types::{BranchId, Event, EventId, PAYLOAD_INLINE_MAX, Seq, StreamName};

use crate::budgets::{PREFIX, Paid, stream};
use crate::draft::new_event;
use crate::error::EngineError;

/// How many purses are remembered.
const KNOWN_MAX: usize = 1_024;

/// The largest `budget.carried`. Some thousands of calls would have to be under way at once; then readers
/// read more.
const CARRIED_BYTES_MAX: usize = 16 * PAYLOAD_INLINE_MAX;

/// The purses that this process knows.
pub(crate) struct Purses {
    known: Mutex<HashMap<StreamName, Arc<Turns<Known>>>>,
    /// How many events there are from one `budget.carried` to the next.
    carry_every: u64,
}

/// A purse as far as it is known.
#[derive(Default)]
struct Known {
    purse: Purse,
    /// Whether its stream was read at all.
    loaded: bool,
    /// The newest event that is in a `budget.carried`.
    carried: Seq,
    /// The newest event that was in one of ours, whatever became of it.
    offered: Seq,
}

/// Whether a reservation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    Holds,
    Void(Short),
}

impl Purses {
    pub(crate) fn new(carry_every: u64) -> Self {
        Self { known: Mutex::default(), carry_every }
    }

    /// What a purse lacks for this, if anything. Only what is known now is asked, unless that says no.
    pub(crate) async fn lacks(
        &self,
        journal: &dyn Journal,
        paid: &Paid,
        need: Amount,
    ) -> Result<Option<Short>, EngineError> {
        let branch = stream(&paid.draw.scope);
        let turn = self.turn(&branch.stream);
        let mut known = turn.lock().await;
        if known.loaded && known.purse.lacks(need, &paid.limit).is_none() {
            return Ok(None);
        }
        known.catch_up(journal, &branch).await?;
        Ok(known.purse.lacks(need, &paid.limit))
    }

    /// Calls for which something is set aside, some of them if there are many.
    pub(crate) async fn held(
        &self,
        journal: &dyn Journal,
        scope: &str,
        most: usize,
    ) -> Result<Vec<EventId>, EngineError> {
        let branch = stream(scope);
        let turn = self.turn(&branch.stream);
        let mut known = turn.lock().await;
        known.catch_up(journal, &branch).await?;
        Ok(known.purse.held_calls().take(most).collect())
    }

    /// What became of a reservation that is in the journal.
    pub(crate) async fn verdict(
        &self,
        journal: &dyn Journal,
        paid: &Paid,
        call: EventId,
        need: Amount,
    ) -> Result<Reservation, EngineError> {
        let branch = stream(&paid.draw.scope);
        let turn = self.turn(&branch.stream);
        let mut known = turn.lock().await;
        if !known.purse.holds(call) && known.purse.refusal(call).is_none() {
            known.catch_up(journal, &branch).await?;
        }
        Ok(match (known.purse.holds(call), known.purse.refusal(call)) {
            (true, _) => Reservation::Holds,
            (false, Some(short)) => Reservation::Void(short),
            // So many were void since that it is forgotten: what is lacking now is as good.
            (false, None) => {
                let short = known.purse.lacks(need, &paid.limit);
                Reservation::Void(short.unwrap_or_else(|| passing(&paid.limit, need)))
            }
        })
    }

    /// What this process has appended need not be read, as long as nobody else has appended in between.
    pub(crate) fn note(&self, part: &Part, appended: &Appended) {
        if !part.branch.stream.as_str().starts_with(PREFIX) {
            return;
        }
        let Some(turn) = self.known().get(&part.branch.stream).cloned() else { return };
        let Ok(mut known) = turn.try_lock() else { return };
        if !known.loaded || known.purse.seq.next() != appended.first {
            return;
        }
        for (event, seq) in part.events.iter().zip(appended.first.0..) {
            let Ok(body) = Body::decode(event.kind(), event.payload()) else { return };
            known.purse.apply_body(Seq(seq), body.as_ref());
            if let Some(Body::BudgetCarried(body)) = body {
                known.read_carried(body, Seq(seq));
            }
        }
    }

    /// Adds a `budget.carried` for each purse that these parts are about and that should have one. Only what
    /// is known now is asked: it saves reading, and nothing waits for it.
    pub(crate) fn carry_along(&self, parts: &mut [Part]) {
        let mut seen = HashSet::new();
        for part in parts {
            let stream = &part.branch.stream;
            if !stream.as_str().starts_with(PREFIX) || !seen.insert(stream.clone()) {
                continue;
            }
            let Some(turn) = self.known().get(stream).cloned() else { continue };
            let Ok(mut known) = turn.try_lock() else { continue };
            part.events.splice(0..0, known.offer(self.carry_every));
        }
    }

    fn turn(&self, stream: &StreamName) -> Arc<Turns<Known>> {
        let mut known = self.known();
        if known.len() >= KNOWN_MAX && !known.contains_key(stream) {
            // Those in use stay; the others are read again when they are needed.
            known.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(known.entry(stream.clone()).or_default())
    }

    fn known(&self) -> MutexGuard<'_, HashMap<StreamName, Arc<Turns<Known>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was refused and would not be now.
fn passing(limit: &Allowance, need: Amount) -> Short {
    let max = limit.nano.unwrap_or_default().0;
    Short { which: weir_events::Limit::Usd, max, raised: 0, spent: max, need: need.nano.0, may_pass: true }
}

/// A purse as it stands in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Whose.
    pub scope: String,
    /// What it may hold, beside what was put in beyond that.
    pub limit: Allowance,
    /// What happened to it.
    pub purse: Purse,
}

/// The purses whose streams are wanted, by name.
///
/// # Errors
/// When the journal cannot be read.
pub async fn balances(
    journal: &dyn Journal,
    mut wanted: impl FnMut(&StreamSummary) -> bool,
) -> Result<Vec<Balance>, EngineError> {
    let (mut balances, mut after) = (Vec::new(), PREFIX.parse().ok());
    loop {
        let page = journal.streams(after, PAGE_MAX).await?;
        let of_purses = page.iter().take_while(|summary| summary.stream.as_str().starts_with(PREFIX));
        for summary in of_purses.filter(|summary| wanted(summary)) {
            let purse = Known::load(journal, &BranchId::main(summary.stream.clone())).await?.purse;
            balances.push(Balance { scope: purse.scope.clone(), limit: purse.limit, purse });
        }
        match page.into_iter().next_back() {
            Some(last) if last.stream.as_str().starts_with(PREFIX) => after = Some(last.stream),
            Some(_) | None => return Ok(balances),
        }
    }
}

/// The purses that a call would be paid from.
pub(crate) async fn balances_of(journal: &dyn Journal, paid: Vec<Paid>) -> Result<Vec<Balance>, EngineError> {
    let mut balances = Vec::new();
    for Paid { draw, limit } in paid {
        let purse = Known::load(journal, &stream(&draw.scope)).await?.purse;
        balances.push(Balance { scope: draw.scope, limit, purse });
    }
    Ok(balances)
}

impl Known {
    async fn load(journal: &dyn Journal, branch: &BranchId) -> Result<Self, EngineError> {
        let mut known = Self::default();
        known.catch_up(journal, branch).await?;
        Ok(known)
    }

    async fn catch_up(&mut self, journal: &dyn Journal, branch: &BranchId) -> Result<(), EngineError> {
        if !self.loaded {
            self.purse = newest_carried(journal, branch).await?.unwrap_or_default();
            self.carried = self.purse.seq;
        }
        loop {
            let page = match journal.read(branch, self.purse.seq, PAGE_MAX).await {
                Ok(page) => page,
                // Nothing was ever taken from it.
                Err(ReadError::NoStream(_) | ReadError::NoBranch(_)) => break,
                Err(error) => return Err(error.into()),
            };
            for event in &page {
                let unreadable =
                    |source| EngineError::Purse { stream: branch.stream.clone(), source: Arc::new(source) };
                self.purse.apply(event).map_err(unreadable)?;
                if let Some(body) = carried(event) {
                    self.read_carried(body, event.seq);
                }
            }
            if page.len() < PAGE_MAX {
                break;
            }
        }
        self.loaded = true;
        Ok(())
    }

    fn read_carried(&mut self, body: BudgetCarried, at: Seq) {
        let through = Purse::carried_by(body, at).map_or(Seq(0), |purse| purse.seq);
        self.carried = self.carried.max(through);
    }

    /// A `budget.carried` with everything that is known, if it is time for one. If nothing comes of the
    /// append that it is part of, there is another after some more events.
    fn offer(&mut self, every: u64) -> Option<NewEvent> {
        let seq = self.purse.seq.0;
        // It grows with the reservations that it names, and is written more rarely then.
        let since = every.max(self.purse.reservations() as u64);
        if !self.loaded || seq < self.carried.0 + since || seq < self.offered.0 + every / 8 {
            return None;
        }
        self.offered = self.purse.seq;
        let event = new_event(&self.purse.carried().into(), &About::default());
        (event.payload().len() <= CARRIED_BYTES_MAX).then_some(event)
    }
}

/// What an event carries, if it is a `budget.carried` that can be read.
fn carried(event: &Event) -> Option<BudgetCarried> {
    if event.kind.as_str() != BudgetCarried::KIND {
        return None;
    }
    match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::BudgetCarried(body))) => Some(body),
        _ => None,
    }
}

/// The newest state that a `budget.carried` says.
async fn newest_carried(journal: &dyn Journal, branch: &BranchId) -> Result<Option<Purse>, ReadError> {
    let Some(head) = journal.head(branch).await? else { return Ok(None) };
    let purse = |event: &Event| carried(event).and_then(|body| Purse::carried_by(body, event.seq));
    let is_ours = |event: &Event| purse(event).is_some();
    let newest = newest_of_kind(journal, branch, &BudgetCarried::kind(), head.seq, is_ours).await?;
    Ok(newest.as_ref().and_then(purse))
}
