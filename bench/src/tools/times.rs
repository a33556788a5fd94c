//! How long something took, many times.

use std::time::{Duration, Instant};

/// Seconds, one for each time.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64());
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn p50(&mut self) -> f64 {
        self.at(50)
    }

    pub(crate) fn p99(&mut self) -> f64 {
        self.at(99)
    }

    fn at(&mut self, percent: usize) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0.get(self.0.len() * percent / 100).copied().unwrap_or(f64::NAN)
    }
}

/// Until when to repeat something: as long as was asked for, and often enough for a median.
pub(crate) struct Until {
    began: Instant,
    duration: Duration,
}

/// The fewest repetitions that are worth a median.
const TIMES_MIN: usize = 5;

impl Until {
    pub(crate) fn after(duration: Duration) -> Self {
        Self { began: Instant::now(), duration }
    }

    pub(crate) fn is_over(&self, times: &Times) -> bool {
        self.began.elapsed() >= self.duration && times.len() >= TIMES_MIN
    }
}
