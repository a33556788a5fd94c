//! What a check of the whole journal reports.

use std::fmt;
use std::sync::Arc;

use weir_types::{BranchName, Seq, StreamName};

/// Called from time to time with the number of events checked so far and the number there are.
pub type VerifyProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A progress that goes nowhere.
pub fn silent() -> VerifyProgress {
    Arc::new(|_, _| {})
}

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Streams checked.
    pub streams: u64,
    /// Branches checked.
    pub branches: u64,
    /// Events checked.
    pub events: u64,
    /// Blobs read and checked.
    pub blobs: u64,
    /// What is wrong, at most [`Report::PROBLEMS_MAX`] of it; the first bad event of each damaged branch.
    pub problems: Vec<Problem>,
}

impl Report {
    /// More than this many problems are not told apart.
    pub const PROBLEMS_MAX: usize = 100;

    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// One thing that is wrong, and where. Damage outside any event has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The stream.
    pub stream: Option<StreamName>,
    /// The branch.
    pub branch: Option<BranchName>,
    /// The first event concerned.
    pub seq: Option<Seq>,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stream) = &self.stream {
            write!(f, "stream `{stream}`")?;
        }
        if let Some(branch) = &self.branch {
            write!(f, ", branch `{branch}`")?;
        }
        if let Some(seq) = self.seq {
            write!(f, ", seq {seq}")?;
        }
        let separator = if self.stream.is_some() { ": " } else { "" };
        write!(f, "{separator}{}", self.what)
    }
}
