//! What a purse has left: a fold of the stream `budget:<scope>`, the same for every process that reads it.
//!
//! A reservation carries the limit it is made under. It holds if everything settled and everything held up to it, itself
//! included, stays within that limit; else it is void and counts nothing. So nobody has to be asked for leave: whoever appends a
//! reservation reads on to it and knows, and two that do not fit together are told apart by their place.
//!
//! `budget.carried` says what the events up to one of them come to, so that a reader can begin there. For the
//! fold it is no more than a place: what it says never changes a state that was folded from the events
//! themselves.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use weir_events::{
    Allowance, Amount, Body, BudgetCarried, BudgetReleased, BudgetReserved, BudgetSettled, Draw, Held, Limit,
    Payload, Short, Void,
};
use weir_types::{Event, EventId, NanoUsd, Seq};

use crate::fold::FoldError;
use crate::session::{InFlight, Phase, Run, Session};

/// How many of the newest void reservations a purse can tell about.
const VOID_MAX: usize = 256;

/// What is counted before a call: which limit, its value, and how much of an amount counts.
type Counted = (Limit, fn(&Allowance) -> Option<u64>, fn(&Amount) -> u64);

const COUNTED: [Counted; 3] = [
    (Limit::Usd, |limit| limit.nano.map(|nano| nano.0), |amount| amount.nano.0),
    (Limit::Tokens, |limit| limit.tokens, |amount| amount.tokens),
    (Limit::ModelCalls, |limit| limit.model_calls, |amount| amount.model_calls),
];

/// Everything that happened to a purse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purse {
    /// The newest event folded.
    pub seq: Seq,
    /// Whose it is; empty before its first reservation.
    pub scope: String,
    /// What was spent.
    pub settled: Amount,
    /// What was put in beyond the limit.
    pub raised: Amount,
    /// The limit of the newest reservation, for whoever looks: each counts under its own.
    pub limit: Allowance,
    held: BTreeMap<EventId, Amount>,
    void: VecDeque<(EventId, Short)>,
}

impl Purse {
    /// The state that a `budget.carried` at `at` says; nothing, if another version of the fold made it, or if
    /// it speaks of events that came after it.
    pub fn carried_by(body: BudgetCarried, at: Seq) -> Option<Self> {
        let BudgetCarried { version, scope, through, settled, raised, limit, held, void } = body;
        if version != BudgetCarried::VERSION || through >= at {
            return None;
        }
        let held = held.into_iter().map(|held| (held.call, held.amount)).collect();
        let void = void.into_iter().map(|void| (void.call, void.short)).collect();
        Some(Self { seq: through, scope, settled, raised, limit, held, void })
    }

    /// What a `budget.carried` says of the events up to here.
    pub fn carried(&self) -> BudgetCarried {
        let held = self.held.iter().map(|(&call, &amount)| Held { call, amount }).collect();
        let void = self.void.iter().map(|&(call, short)| Void { call, short }).collect();
        BudgetCarried {
            version: BudgetCarried::VERSION,
            scope: self.scope.clone(),
            through: self.seq,
            settled: self.settled,
            raised: self.raised,
            limit: self.limit,
            held,
            void,
        }
    }

    /// How many reservations a `budget.carried` names.
    pub fn reservations(&self) -> usize {
        self.held.len() + self.void.len()
    }

    /// Folds one event. Kinds that are not about purses only move its place, and so does `budget.carried`.
    ///
    /// # Errors
    /// When the payload of a known kind cannot be read. The purse is as it was.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        if event.kind.as_str() == BudgetCarried::KIND {
            // It adds nothing to the events before it, also if it cannot be read.
            self.apply_body(event.seq, None);
            return Ok(());
        }
        let body = Body::decode(&event.kind, &event.payload).map_err(|source| FoldError {
            seq: event.seq,
            kind: event.kind.to_string(),
            source,
        })?;
        self.apply_body(event.seq, body.as_ref());
        Ok(())
    }

    /// Folds what an event says.
    pub fn apply_body(&mut self, seq: Seq, body: Option<&Body>) {
        self.seq = seq;
        match body {
            Some(Body::BudgetReserved(body)) => self.reserve(body),
            Some(Body::BudgetSettled(body)) => {
                // The end of a reservation that did not hold, or was settled before, is nobody's cost.
                if self.held.remove(&body.call).is_some() {
                    self.settled += body.amount();
                }
            }
            Some(Body::BudgetReleased(body)) if body.raises => self.raised += body.amount(),
            Some(Body::BudgetReleased(body)) => _ = self.held.remove(&body.call),
            Some(_) | None => {}
        }
    }

    fn reserve(&mut self, body: &BudgetReserved) {
        self.limit = body.limit;
        self.scope.clone_from(&body.scope);
        if self.holds(body.call) {
            return;
        }
        match self.lacks(body.amount(), &body.limit) {
            None => _ = self.held.insert(body.call, body.amount()),
            Some(short) => {
                self.void.push_back((body.call, short));
                if self.void.len() > VOID_MAX {
                    self.void.pop_front();
                }
            }
        }
    }

    /// What it lacks for this, if anything.
    pub fn lacks(&self, need: Amount, limit: &Allowance) -> Option<Short> {
        let held = self.held();
        for (which, limit_of, of) in COUNTED {
            let Some(limit) = limit_of(limit) else { continue };
            let (settled, raised, need) = (of(&self.settled), of(&self.raised), of(&need));
            let (max, spent) = (limit.saturating_add(raised), settled.saturating_add(of(&held)));
            if spent.saturating_add(need) > max {
                let may_pass = settled.saturating_add(need) <= max;
                return Some(Short { which, max, raised, spent, need, may_pass });
            }
        }
        self.lacks_time(limit)
    }

    /// Time that is up stays up.
    fn lacks_time(&self, limit: &Allowance) -> Option<Short> {
        let raised = self.raised.micros / 1_000;
        let max = limit.wall_clock_ms?.saturating_add(raised);
        let spent = self.settled.micros / 1_000;
        let short = Short { which: Limit::WallClock, max, raised, spent, need: 0, may_pass: false };
        (spent >= max).then_some(short)
    }

    /// What is set aside for calls under way.
    pub fn held(&self) -> Amount {
        self.held.values().fold(Amount::default(), |sum, amount| sum + *amount)
    }

    /// The calls under way.
    pub fn held_calls(&self) -> impl Iterator<Item = EventId> {
        self.held.keys().copied()
    }

    /// How many calls are under way.
    pub fn calls(&self) -> usize {
        self.held.len()
    }

    /// Whether something is set aside for this call.
    pub fn holds(&self, call: EventId) -> bool {
        self.held.contains_key(&call)
    }

    /// Why nothing was set aside for this call, if it is one of the newest.
    pub fn refusal(&self, call: EventId) -> Option<Short> {
        self.void.iter().rev().find(|(void, _)| *void == call).map(|(_, short)| *short)
    }
}

/// A request that is out, and what its purses will have to be told.
#[derive(Clone, Debug)]
pub struct Pending {
    request: InFlight,
    /// Work that they have been told of.
    settled_micros: u64,
}

impl Session {
    /// The request that is out, if purses pay for it.
    pub fn pending(&self) -> Option<Pending> {
        let Some(Run { phase: Phase::Calling(request), .. }) = &self.run else { return None };
        let pending = || Pending { request: request.clone(), settled_micros: self.settled_micros };
        (!request.purses.is_empty()).then(pending)
    }
}

impl Pending {
    /// What each purse is told when this is folded, and led to that state: nothing, as long as the request is out.
    pub fn ended_by(&self, body: &Body, after: &Session) -> Vec<Body> {
        let out = after.run.as_ref().map(|run| &run.phase);
        if matches!(out, Some(Phase::Calling(request)) if request.seq == self.request.seq) {
            return Vec::new();
        }
        let amount = match body {
            // The branch that it was forked from still waits for it.
            Body::BranchForked(_) => return Vec::new(),
            Body::BudgetExceeded(_) => return self.each(|draw| self.released(draw)),
            Body::AssistantMessage(body) => used(body.usage.total(), body.cost),
            Body::ModelFailed(body) => used(body.usage.total(), body.cost),
            Body::ContextCompacted(body) => used(body.usage.total(), body.cost),
            // Nobody knows what came of it.
            _ => Amount::from(self.request.reserve),
        };
        let micros = after.totals.micros.saturating_sub(self.settled_micros);
        self.each(|draw| {
            self.settled(draw, Amount { micros: if draw.shared { 0 } else { micros }, ..amount })
        })
    }

    /// The request's event.
    pub fn id(&self) -> EventId {
        self.request.id
    }

    /// What each purse is told when the process that made the request is gone: nobody knows what came of it, so it counts as it was
    /// reserved. `session` is the state that it is pending in.
    pub fn lost(&self, session: &Session) -> Vec<Body> {
        let micros = session.totals.micros.saturating_sub(self.settled_micros);
        let amount = Amount::from(self.request.reserve);
        self.each(|draw| {
            self.settled(draw, Amount { micros: if draw.shared { 0 } else { micros }, ..amount })
        })
    }

    fn each(&self, told: impl Fn(&Draw) -> Body) -> Vec<Body> {
        self.request.purses.iter().map(told).collect()
    }

    fn settled(&self, draw: &Draw, amount: Amount) -> Body {
        let Amount { nano, tokens, model_calls, micros } = amount;
        BudgetSettled { scope: draw.scope.clone(), call: self.request.id, nano, tokens, model_calls, micros }
            .into()
    }

    fn released(&self, draw: &Draw) -> Body {
        let Amount { nano, tokens, model_calls, micros } = Amount::from(self.request.reserve);
        let (scope, call) = (draw.scope.clone(), self.request.id);
        BudgetReleased { scope, call, nano, tokens, model_calls, micros, raises: false }.into()
    }
}

fn used(tokens: u64, nano: NanoUsd) -> Amount {
    Amount { nano, tokens, model_calls: 1, micros: 0 }
}
