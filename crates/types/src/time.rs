//! Time as events carry it: microseconds since the epoch, RFC 3339 in every view.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Timestamp(i64);

/// A time that cannot be read or is outside the years 1 to 9999.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time (expected RFC 3339, like `2026-01-31T12:00:00Z`)")]
pub struct TimeError(String);

impl Timestamp {
    /// A time from microseconds since the epoch, if RFC 3339 can show it.
    pub fn from_micros(micros: i64) -> Result<Self, TimeError> {
        match jiff::Timestamp::from_microsecond(micros) {
            Ok(_) => Ok(Self(micros)),
            Err(_) => Err(TimeError(micros.to_string())),
        }
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// That many milliseconds later, or the last time there is.
    #[must_use]
    pub fn after_millis(self, millis: u64) -> Self {
        let micros = i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros)).unwrap_or(self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_microsecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{time:.6}")
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let time: jiff::Timestamp = text.parse().map_err(|_| TimeError(text.chars().take(60).collect()))?;
        Ok(Self(time.as_microsecond()))
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimeError;

    fn try_from(text: String) -> Result<Self, TimeError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_round_trip_to_the_microsecond() {
        for micros in [0, 1, -1, 1_700_000_000_123_456] {
            let time = Timestamp::from_micros(micros).expect("a time");
            assert_eq!(time.to_string().parse(), Ok(time), "{time}");
        }
        assert_eq!(Timestamp(1_700_000_000_120_000).to_string(), "2023-11-14T22:13:20.120000Z");
        assert!(Timestamp::from_micros(i64::MAX).is_err());
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
