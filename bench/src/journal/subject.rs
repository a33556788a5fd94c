//! What is measured: one journal per column, all driven the same way.

mod lago;
mod raw;
mod sqlite;
mod weir;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::payload::Sample;

pub(crate) use weir_bench::Error;

pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The columns of the table, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Column {
    /// This journal.
    Weir,
    /// Append to a file and `fdatasync`, in groups: the limit.
    Raw,
    /// SQLite with one transaction per event.
    Sqlite,
    /// The published crate `lago-journal`.
    Lago,
}

impl Column {
    pub(crate) const ALL: [Self; 4] = [Self::Weir, Self::Raw, Self::Sqlite, Self::Lago];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Weir => "weir",
            Self::Raw => "raw",
            Self::Sqlite => "sqlite",
            Self::Lago => "lago",
        }
    }

    /// A file that is only appended to answers no questions.
    pub(crate) fn reads(self) -> bool {
        self != Self::Raw
    }

    pub(crate) fn forks(self) -> bool {
        self == Self::Weir
    }

    /// Opens, or makes, the journal in `directory`.
    pub(crate) async fn open(
        self,
        directory: &Path,
        samples: Vec<Sample>,
    ) -> Result<Arc<dyn Subject>, Error> {
        std::fs::create_dir_all(directory)?;
        Ok(match self {
            Self::Weir => Arc::new(weir::Weir::open(directory, &samples).await?),
            Self::Raw => Arc::new(raw::Raw::open(directory, &samples)?),
            Self::Sqlite => Arc::new(sqlite::Sqlite::open(directory, samples)?),
            Self::Lago => Arc::new(lago::Lago::open(directory, &samples)?),
        })
    }
}

/// A journal under measurement. Streams are numbers and events are indexes into the samples it was opened with (which it
/// holds in the form its interface wants), so that no column pays for the harness.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Appends one event, durably.
    fn append(&self, stream: usize, sample: usize) -> Answer<'_, ()>;

    /// Appends `rows` events to each of `streams` streams, taking turns, in the way that is fastest here.
    fn load(&self, streams: usize, rows: usize, sample: usize) -> Answer<'_, ()>;

    /// Reads a stream from its start to its end; the answer is the number of events.
    fn scan(&self, stream: usize) -> Answer<'_, usize>;

    /// Reads the newest `count` events of a stream.
    fn last(&self, stream: usize, count: usize) -> Answer<'_, usize>;

    /// The newest sequence number of a stream.
    fn head(&self, stream: usize) -> Answer<'_, u64>;

    /// How often it has synced for how many events, where it tells.
    fn counts(&self) -> Option<Counts>;

    /// Makes everything safe and lets go of the files.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Forks a stream at its head, `levels` times over, appending `events` to each new branch. The answer is the time each
    /// fork took.
    fn fork(&self, _stream: usize, _levels: usize, _events: usize) -> Answer<'_, Vec<std::time::Duration>> {
        Box::pin(async { Err("this column has no forks".into()) })
    }

    /// Reads the branch that [`Subject::fork`] made last, through its whole lineage.
    fn scan_deepest(&self, _stream: usize, _levels: usize) -> Answer<'_, usize> {
        Box::pin(async { Err("this column has no forks".into()) })
    }
}

/// Work done since the journal was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) events: u64,
    pub(crate) commits: u64,
    pub(crate) checkpoints: u64,
}
