//! What a model call used, and what that costs.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Tokens of one or more model calls. Input includes what was read from and written to the provider's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens sent, cached ones included.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// How many of the input tokens came from the cache.
    pub cache_read_tokens: u64,
    /// How many of the input tokens were put into the cache.
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Everything sent and received.
    pub const fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// An amount of money in billionths of a dollar. Never a float: sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    /// Billionths in a dollar.
    pub const PER_USD: u64 = 1_000_000_000;

    /// The amount in dollars, for people and for JSON that promises `cost_usd`.
    #[expect(clippy::cast_precision_loss, reason = "a view; sums are made before it")]
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / Self::PER_USD as f64
    }
}

impl Add for NanoUsd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for NanoUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self(0), Add::add)
    }
}

/// `$0.0123`: at least two decimals, and as many as it takes.
impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0 % Self::PER_USD);
        let kept = digits.trim_end_matches('0').len().max(2);
        f.pad(&format!("${}.{}", self.0 / Self::PER_USD, &digits[..kept]))
    }
}

/// Text that is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an amount in dollars, like `0.50`, with at most nine decimals")]
pub struct MoneyError(String);

impl FromStr for NanoUsd {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let refuse = || MoneyError(text.chars().take(40).collect());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let empty = whole.is_empty() && decimals.is_empty();
        if empty || !digits(whole) || !digits(decimals) || decimals.len() > 9 {
            return Err(refuse());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| refuse())? };
        let nano: u64 = format!("{decimals:0<9}").parse().map_err(|_| refuse())?;
        let total = whole.checked_mul(Self::PER_USD).and_then(|whole| whole.checked_add(nano));
        total.map(Self).ok_or_else(refuse)
    }
}

/// What a million tokens of each kind cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "PriceRecord", try_from = "PriceRecord")]
pub struct Price {
    /// A million tokens sent that are not cached.
    pub input: NanoUsd,
    /// A million tokens received.
    pub output: NanoUsd,
    /// A million tokens read from the cache.
    pub cache_read: NanoUsd,
    /// A million tokens written to the cache.
    pub cache_write: NanoUsd,
}

impl Price {
    /// The most that so many tokens can cost, whatever the provider's cache makes of them.
    pub fn at_most(&self, input_tokens: u64, output_tokens: u64) -> NanoUsd {
        let input = self.input.max(self.cache_read).max(self.cache_write);
        Self { input, ..*self }.of(Usage { input_tokens, output_tokens, ..Usage::default() })
    }

    /// What `usage` costs, rounded up to a billionth.
    pub fn of(&self, usage: Usage) -> NanoUsd {
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let parts = [
            (usage.input_tokens.saturating_sub(cached), self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        let total: u128 = parts.iter().map(|(tokens, per)| u128::from(*tokens) * u128::from(per.0)).sum();
        NanoUsd(u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// A price as it is written down: dollars per million tokens, as text, so that no float comes near money. Without
/// prices of their own, cached tokens cost what others cost.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRecord {
    input: String,
    output: String,
    cache_read: Option<String>,
    cache_write: Option<String>,
}

impl TryFrom<PriceRecord> for Price {
    type Error = MoneyError;

    fn try_from(record: PriceRecord) -> Result<Self, MoneyError> {
        let input: NanoUsd = record.input.parse()?;
        let or_input = |price: Option<String>| price.map_or(Ok(input), |price| price.parse());
        Ok(Self {
            input,
            output: record.output.parse()?,
            cache_read: or_input(record.cache_read)?,
            cache_write: or_input(record.cache_write)?,
        })
    }
}

impl From<Price> for PriceRecord {
    fn from(price: Price) -> Self {
        let text = |amount: NanoUsd| amount.to_string().trim_start_matches('$').to_owned();
        Self {
            input: text(price.input),
            output: text(price.output),
            cache_read: Some(text(price.cache_read)),
            cache_write: Some(text(price.cache_write)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_and_print() {
        let check = |text: &str, nano: u64, shown: &str| {
            let amount: NanoUsd = text.parse().unwrap();
            assert_eq!((amount, amount.to_string().as_str()), (NanoUsd(nano), shown), "{text}");
        };
        check("0.50", 500_000_000, "$0.50");
        check("3", 3_000_000_000, "$3.00");
        check(".0000001", 100, "$0.0000001");
        check("18446744073.709551615", u64::MAX, "$18446744073.709551615");
        for bad in ["", ".", "-1", "1e3", "1.0000000001", "18446744074", "1,5", "$1"] {
            assert!(bad.parse::<NanoUsd>().is_err(), "{bad}");
        }
    }

    #[test]
    fn cached_input_has_its_own_price_and_fractions_round_up() {
        let usd = |text: &str| text.parse::<NanoUsd>().unwrap();
        let price =
            Price { input: usd("3"), output: usd("15"), cache_read: usd("0.30"), cache_write: usd("3.75") };
        let usage =
            Usage { input_tokens: 1_000, output_tokens: 10, cache_read_tokens: 600, cache_write_tokens: 100 };
        // 300 × 3000 + 10 × 15000 + 600 × 300 + 100 × 3750 billionths.
        assert_eq!(price.of(usage), NanoUsd(1_605_000));
        // All of it may be written to the cache.
        assert_eq!(price.at_most(1_000, 10), NanoUsd(3_900_000));
        let cheap =
            Price { input: NanoUsd(1), output: NanoUsd(0), cache_read: NanoUsd(0), cache_write: NanoUsd(0) };
        assert_eq!(cheap.of(Usage { input_tokens: 1, ..Usage::default() }), NanoUsd(1));
        // A provider that reports more cached tokens than tokens must not make the cost wrap.
        assert_eq!(price.of(Usage { cache_read_tokens: 1_000_000, ..Usage::default() }), usd("0.30"));
    }
}
