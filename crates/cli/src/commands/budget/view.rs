//! A purse as people and programs read it.

use serde::Serialize;
use weir_engine::{Balance, amount};
use weir_events::{Allowance, Amount, Limit};

use crate::show::thousands;

/// A purse, for programs.
#[derive(Serialize)]
pub(super) struct View {
    pub(super) scope: String,
    /// What it may hold, with what was put in beyond that.
    limit: Amounts,
    /// What was put in beyond what the project allows.
    raised: Amounts,
    settled: Amounts,
    held: Amounts,
    left: Amounts,
    /// Calls under way.
    calls: usize,
    /// The sessions that wait for more.
    stopped: Vec<String>,
}

/// What is counted, where it is limited.
#[derive(Clone, Copy, Serialize)]
struct Amounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_clock_ms: Option<u64>,
    #[serde(skip)]
    nano: Option<u64>,
}

/// What can be limited: its name, its unit, and how much of it there is.
type Kind = (&'static str, Limit, fn(&Amounts) -> Option<u64>);

const KINDS: [Kind; 4] = [
    ("usd", Limit::Usd, |amounts| amounts.nano),
    ("tokens", Limit::Tokens, |amounts| amounts.tokens),
    ("model calls", Limit::ModelCalls, |amounts| amounts.model_calls),
    ("wall clock", Limit::WallClock, |amounts| amounts.wall_clock_ms),
];

/// One limit of a purse, for people.
pub(super) struct Counted {
    pub(super) of: &'static str,
    pub(super) limit: String,
    pub(super) settled: String,
    pub(super) held: String,
    pub(super) left: String,
}

impl View {
    pub(super) fn new(balance: &Balance, stopped: Vec<String>) -> Self {
        let Balance { scope, limit, purse } = balance;
        let of = |amount: Amount| Amounts::of(amount, limit);
        let (settled, held, raised) = (of(purse.settled), of(purse.held()), of(purse.raised));
        let limit = of(Amount::from(*limit)).with(raised, u64::saturating_add);
        let left = limit.with(settled, u64::saturating_sub).with(held, u64::saturating_sub);
        Self { scope: scope.clone(), limit, raised, settled, held, left, calls: purse.calls(), stopped }
    }

    /// Each limit by itself, with its units.
    pub(super) fn counted(&self) -> Vec<Counted> {
        self.each(amount)
    }

    /// Each limit by itself, where a column names the unit.
    pub(super) fn columns(&self) -> Vec<Counted> {
        self.each(|kind, number| match kind {
            Limit::Tokens | Limit::ModelCalls | Limit::Iterations => thousands(number),
            Limit::Usd | Limit::WallClock => amount(kind, number),
        })
    }

    fn each(&self, words: fn(Limit, u64) -> String) -> Vec<Counted> {
        let limited = KINDS.into_iter().filter(|(_, _, get)| get(&self.limit).is_some());
        limited
            .map(|(of, kind, get)| {
                let words = |amounts: &Amounts| words(kind, get(amounts).unwrap_or_default());
                Counted {
                    of,
                    limit: words(&self.limit),
                    settled: words(&self.settled),
                    held: words(&self.held),
                    left: words(&self.left),
                }
            })
            .collect()
    }
}

impl Amounts {
    /// What of an amount a limit is about.
    fn of(amount: Amount, limit: &Allowance) -> Self {
        Self {
            usd: limit.nano.map(|_| amount.nano.as_usd()),
            tokens: limit.tokens.map(|_| amount.tokens),
            model_calls: limit.model_calls.map(|_| amount.model_calls),
            wall_clock_ms: limit.wall_clock_ms.map(|_| amount.micros / 1_000),
            nano: limit.nano.map(|_| amount.nano.0),
        }
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| a.map(|a| join(a, b.unwrap_or_default()));
        let nano = both(self.nano, other.nano);
        Self {
            usd: nano.map(|nano| weir_types::NanoUsd(nano).as_usd()),
            tokens: both(self.tokens, other.tokens),
            model_calls: both(self.model_calls, other.model_calls),
            wall_clock_ms: both(self.wall_clock_ms, other.wall_clock_ms),
            nano,
        }
    }
}
