//! What a check of the whole journal reports.

use std::fmt;
use std::sync::Arc;

use weir_types::{BranchId, BranchName, Seq, StreamName};

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
    /// Events of which it is not known whether they were appended with a key: they were stored before records said so.
    pub keys_not_known: u64,
    /// What is wrong, at most [`Report::PROBLEMS_MAX`] findings; of each damaged branch, its first bad event.
    pub problems: Vec<Problem>,
}

impl Report {
    /// The number of problems that are kept; further ones are dropped.
    pub const PROBLEMS_MAX: usize = 100;

    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds a finding, unless it is known already or there are too many.
    pub fn note(&mut self, problem: Problem) {
        if self.problems.len() < Self::PROBLEMS_MAX && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// One thing that is wrong, and where: in a file, table or index (`place`), at an event, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The file, table or index, in words: "index `keys_last`", "file `blobs/ab/cdef`".
    pub place: Option<String>,
    /// The stream.
    pub stream: Option<StreamName>,
    /// The branch.
    pub branch: Option<BranchName>,
    /// The first event concerned.
    pub seq: Option<Seq>,
    /// What is wrong there.
    pub what: String,
}

impl Problem {
    /// A finding about an event.
    pub fn at_event(branch: &BranchId, seq: Seq, what: impl Into<String>) -> Self {
        let (stream, branch) = (Some(branch.stream.clone()), Some(branch.branch.clone()));
        Self { place: None, stream, branch, seq: Some(seq), what: what.into() }
    }

    /// A finding about a branch as a whole.
    pub fn at_branch(branch: &BranchId, what: impl Into<String>) -> Self {
        Self { seq: None, ..Self::at_event(branch, Seq(0), what) }
    }

    /// A finding about a file, a table or an index.
    pub fn at_place(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: Some(place.into()), what: what.into(), ..Self::default() }
    }

    /// The same finding, in this file, table or index.
    #[must_use]
    pub fn in_place(self, place: impl Into<String>) -> Self {
        Self { place: Some(place.into()), ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(place) = &self.place {
            f.write_str(place)?;
            separator = ", ";
        }
        if let Some(stream) = &self.stream {
            write!(f, "{separator}stream `{stream}`")?;
            separator = ", ";
        }
        if let Some(branch) = &self.branch {
            write!(f, "{separator}branch `{branch}`")?;
            separator = ", ";
        }
        if let Some(seq) = self.seq {
            write!(f, "{separator}seq {seq}")?;
            separator = ", ";
        }
        write!(f, "{}{}", if separator.is_empty() { "" } else { ": " }, self.what)
    }
}
