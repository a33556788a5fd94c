//! The purses that this process knows: folds of their streams, remembered, and caught up by reading on.
//!
//! Nothing here decides: a purse is what its stream says, for every process alike. What is remembered saves reading.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as Turns;
use weir_events::{Allowance, Amount, Body, Short};
use weir_journal::{Appended, Journal, PAGE_MAX, Part, ReadError, StreamSummary};
use weir_kernel::Purse;
use weir_types::{BranchId, EventId, Seq, StreamName};

use crate::budgets::{PREFIX, Paid, stream};
use crate::error::EngineError;
use crate::snapshots::{self, SealedJournal, SnapshotSeal};

/// How many purses are remembered.
const KNOWN_MAX: usize = 1_024;

/// How many events may follow a snapshot before the next one.
const SNAPSHOT_EVERY: u64 = 512;

/// The purses that this process knows.
#[derive(Default)]
pub(crate) struct Purses(Mutex<HashMap<StreamName, Arc<Turns<Known>>>>);

/// A purse as far as it is known.
#[derive(Default)]
struct Known {
    purse: Purse,
    /// Whether its stream was read at all.
    loaded: bool,
    /// The newest snapshot's place.
    snapshot: Seq,
}

/// Whether a reservation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    Holds,
    Void(Short),
}

impl Purses {
    /// What a purse lacks for this, if anything. Only what is known now is asked, unless that says no.
    pub(crate) async fn lacks(
        &self,
        journal: SealedJournal<'_>,
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
        journal: SealedJournal<'_>,
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
        journal: SealedJournal<'_>,
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was refused and would not be now.
fn passing(limit: &Allowance, need: Amount) -> Short {
    let max = limit.nano.unwrap_or_default().0;
    Short { which: weir_events::Limit::Usd, max, raised: 0, spent: max, need: need.nano.0, may_pass: true }
}

impl Known {
    async fn catch_up(&mut self, journal: SealedJournal<'_>, branch: &BranchId) -> Result<(), EngineError> {
        if !self.loaded {
            (self.purse, self.snapshot) = newest_snapshot(journal, branch).await?;
        }
        read_on(journal, branch, &mut self.purse).await?;
        self.loaded = true;
        if self.purse.seq.0 - self.snapshot.0 >= SNAPSHOT_EVERY {
            snapshots::remember(journal, branch, &self.purse).await;
            self.snapshot = self.purse.seq;
        }
        Ok(())
    }
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
    seal: &SnapshotSeal,
    mut wanted: impl FnMut(&StreamSummary) -> bool,
) -> Result<Vec<Balance>, EngineError> {
    let journal = SealedJournal::new(journal, seal);
    let (mut balances, mut after) = (Vec::new(), PREFIX.parse().ok());
    loop {
        let page = journal.streams(after, PAGE_MAX).await?;
        let of_purses = page.iter().take_while(|summary| summary.stream.as_str().starts_with(PREFIX));
        for summary in of_purses.filter(|summary| wanted(summary)) {
            let purse = load(journal, &BranchId::main(summary.stream.clone())).await?;
            balances.push(Balance { scope: purse.scope.clone(), limit: purse.limit, purse });
        }
        match page.into_iter().next_back() {
            Some(last) if last.stream.as_str().starts_with(PREFIX) => after = Some(last.stream),
            Some(_) | None => return Ok(balances),
        }
    }
}

/// The purses that a call would be paid from.
pub(crate) async fn balances_of(
    journal: SealedJournal<'_>,
    paid: Vec<Paid>,
) -> Result<Vec<Balance>, EngineError> {
    let mut balances = Vec::new();
    for Paid { draw, limit } in paid {
        let purse = load(journal, &stream(&draw.scope)).await?;
        balances.push(Balance { scope: draw.scope, limit, purse });
    }
    Ok(balances)
}

async fn load(journal: SealedJournal<'_>, branch: &BranchId) -> Result<Purse, EngineError> {
    let (mut purse, _) = newest_snapshot(journal, branch).await?;
    read_on(journal, branch, &mut purse).await?;
    Ok(purse)
}

async fn read_on(
    journal: SealedJournal<'_>,
    branch: &BranchId,
    purse: &mut Purse,
) -> Result<(), EngineError> {
    loop {
        let page = match journal.read(branch, purse.seq, PAGE_MAX).await {
            Ok(page) => page,
            // Nothing was ever taken from it.
            Err(ReadError::NoStream(_) | ReadError::NoBranch(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in &page {
            let unreadable =
                |source| EngineError::Purse { stream: branch.stream.clone(), source: Arc::new(source) };
            purse.apply(event).map_err(unreadable)?;
        }
        if page.len() < PAGE_MAX {
            return Ok(());
        }
    }
}

async fn newest_snapshot(journal: SealedJournal<'_>, branch: &BranchId) -> Result<(Purse, Seq), EngineError> {
    let purse = match snapshots::newest::<Purse>(journal, branch).await {
        Ok(purse) => purse.unwrap_or_default(),
        Err(ReadError::NoStream(_) | ReadError::NoBranch(_)) => Purse::default(),
        Err(error) => return Err(error.into()),
    };
    let seq = purse.seq;
    Ok((purse, seq))
}
