//! Purses: what is reserved, spent and given back.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};
use weir_types::{EventId, NanoUsd, Seq};

use crate::model::Reserve;
use crate::skip::{is_false, is_zero};

/// Money is set aside, if the purse has so much left. It has not, if what was settled and what is held make more than the
/// limit together with it: then it is void, and counts nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReserved {
    /// From which purse.
    pub scope: String,
    /// For which request: the id of its event.
    pub call: EventId,
    /// How much.
    pub nano: NanoUsd,
    /// Tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// What the purse may hold.
    #[serde(default)]
    pub limit: Allowance,
}

/// It was spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSettled {
    /// From which purse.
    pub scope: String,
    /// For which request.
    pub call: EventId,
    /// How much.
    pub nano: NanoUsd,
    /// Tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Microseconds of work, since the request before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub micros: u64,
}

/// It was not; or someone puts more in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReleased {
    /// To which purse.
    pub scope: String,
    /// Of which request; or the event by which someone puts more in.
    pub call: EventId,
    /// How much.
    pub nano: NanoUsd,
    /// Tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Microseconds of work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub micros: u64,
    /// Whether it is put in beyond the limit.
    #[serde(default, skip_serializing_if = "is_false")]
    pub raises: bool,
}

/// What the events of a purse up to one of them come to: a reader begins there instead of at the first event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetCarried {
    /// The version of the fold that made it. Another version is ignored.
    pub version: u32,
    /// Which purse.
    pub scope: String,
    /// The newest event that is in it. Those between it and this one are not.
    pub through: Seq,
    /// What was spent.
    pub settled: Amount,
    /// What was put in beyond the limit.
    pub raised: Amount,
    /// The limit of the newest reservation.
    pub limit: Allowance,
    /// What is set aside, by request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// The newest reservations that were void, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub void: Vec<Void>,
}

impl BudgetCarried {
    /// The version of the fold here. It rises whenever the fold of a purse changes.
    pub const VERSION: u32 = 1;
}

/// What is set aside for a request, as [`BudgetCarried`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The id of the request's event. The session that the event belongs to owns the reservation.
    pub call: EventId,
    /// How much.
    pub amount: Amount,
}

/// A reservation that was void, as [`BudgetCarried`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Void {
    /// The id of the request's event.
    pub call: EventId,
    /// What the purse lacked for it.
    pub short: Short,
}

/// A purse has too little left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetExceeded {
    /// Which.
    pub scope: String,
    /// What it may hold.
    pub limit: u64,
    /// What was spent, or set aside for others.
    pub spent: u64,
    /// In which unit.
    #[serde(default = "usd")]
    pub which: Limit,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub need: u64,
    /// How long the call waits for others to give back what they have set aside; absent if it does not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waits_ms: u64,
    /// The request that is therefore not made, if it was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<EventId>,
}

/// A purse that a session draws from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which; without the day, where there is one for each day.
    pub scope: String,
    /// What it holds.
    pub limit: Allowance,
}

/// A purse that a request is paid from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// Which.
    pub scope: String,
    /// Whether the session's parent draws from it, too. Its time is the parent's time, and counts once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

/// What may be used and spent; nothing said means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allowance {
    /// Model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Tokens in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nano: Option<NanoUsd>,
    /// Milliseconds of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_clock_ms: Option<u64>,
}

impl Allowance {
    /// Whether it limits nothing.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// A limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Iterations.
    Iterations,
    /// Model calls.
    ModelCalls,
    /// Tokens in and out.
    Tokens,
    /// Billionths of a dollar.
    Usd,
    /// Milliseconds of work.
    WallClock,
}

impl Limit {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Iterations => "iterations",
            Self::ModelCalls => "model_calls",
            Self::Tokens => "tokens",
            Self::Usd => "usd",
            Self::WallClock => "wall_clock",
        }
    }
}

/// Purses are about money first.
fn usd() -> Limit {
    Limit::Usd
}

impl BudgetReserved {
    /// How much it is about.
    pub fn amount(&self) -> Amount {
        Amount { nano: self.nano, tokens: self.tokens, model_calls: self.model_calls, micros: 0 }
    }
}

impl BudgetSettled {
    /// How much it is about.
    pub fn amount(&self) -> Amount {
        let Self { nano, tokens, model_calls, micros, .. } = *self;
        Amount { nano, tokens, model_calls, micros }
    }
}

impl BudgetReleased {
    /// How much it is about.
    pub fn amount(&self) -> Amount {
        let Self { nano, tokens, model_calls, micros, .. } = *self;
        Amount { nano, tokens, model_calls, micros }
    }
}

/// What was used, or is set aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amount {
    /// Money.
    pub nano: NanoUsd,
    /// Tokens in and out.
    pub tokens: u64,
    /// Model calls.
    pub model_calls: u64,
    /// Microseconds of work.
    pub micros: u64,
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            nano: self.nano + other.nano,
            tokens: self.tokens.saturating_add(other.tokens),
            model_calls: self.model_calls.saturating_add(other.model_calls),
            micros: self.micros.saturating_add(other.micros),
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl From<Reserve> for Amount {
    /// What one model call takes at most. How long it takes, nobody knows before.
    fn from(reserve: Reserve) -> Self {
        Self { nano: reserve.nano, tokens: reserve.tokens, model_calls: 1, micros: 0 }
    }
}

impl From<Allowance> for Amount {
    fn from(given: Allowance) -> Self {
        Self {
            nano: given.nano.unwrap_or_default(),
            tokens: given.tokens.unwrap_or_default(),
            model_calls: given.model_calls.unwrap_or_default(),
            micros: given.wall_clock_ms.unwrap_or_default().saturating_mul(1_000),
        }
    }
}

/// What a purse lacks for a call, in the limit's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Short {
    /// Which limit.
    pub which: Limit,
    /// What the purse may hold.
    pub max: u64,
    /// What of that someone has put in beyond the limit.
    pub raised: u64,
    /// What of it was spent, or is set aside for others.
    pub spent: u64,
    /// What the call takes at most.
    pub need: u64,
    /// Whether it would fit, were it not for what is set aside.
    pub may_pass: bool,
}
