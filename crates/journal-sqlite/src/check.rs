//! Verifying the file: every event, and everything by which events are found, compared with the events in both
//! directions.
//!
//! One thread reads the events in order of position and folds the columns of each branch (`walk`): places, blocks, heads,
//! fork points. Others decode the records and check chains and links (`content`). Beside them SQLite checks its own
//! pages, and its indexes against their tables (`file`). What is compared is of one moment (`moment`), but each page of
//! events is a transaction of its own: a long check does not keep the log from being checkpointed, and others go on
//! writing. See docs/adr/0016.

mod content;
mod file;
mod findings;
mod moment;
mod reverse;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use tokio::io::AsyncReadExt;
use weir_blobs::{Blobs, GetError};
use weir_journal::{Problem, ReadError, Report, StorageFailure, VerifyProgress};
use weir_types::{Explain, Fault, Hash, Seq, StreamName};

use self::findings::{Findings, Needed};
use crate::connection::failure;
use crate::pool::Pool;
use crate::rows::Error;

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Everything.
    Full,
    /// Pages, places and heads; no event's content.
    Quick,
}

/// What to check.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Only the events of this stream and what finds them.
    pub(crate) stream: Option<StreamName>,
    pub(crate) depth: Depth,
}

/// Blobs read at the same time.
const BLOBS_AT_ONCE: usize = 2;

/// Set when the caller no longer waits for the check.
type Stop = Arc<AtomicBool>;

struct StopWhenDropped(Stop);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) async fn verify(
    pool: &Arc<Pool>,
    blobs: &Arc<dyn Blobs>,
    scope: Scope,
    progress: VerifyProgress,
) -> Result<Report, ReadError> {
    let stop = Stop::default();
    let _stop = StopWhenDropped(stop.clone());
    let findings = Arc::new(Findings::default());
    let pages = scope.stream.is_none().then(|| {
        let (pool, findings, stop) = (pool.clone(), findings.clone(), stop.clone());
        tokio::task::spawn_blocking(move || file::check(&pool, scope.depth, &findings, &stop))
    });
    let walked = {
        let (pool, findings) = (pool.clone(), findings.clone());
        tokio::task::spawn_blocking(move || walk::run(&pool, &scope, &findings, &progress, &stop)).await
    };
    let counted = finished(pool, walked)?;
    if let Some(pages) = pages {
        finished(pool, pages.await)?;
    }
    let mut report = Report { streams: counted.streams, branches: counted.branches, ..Report::default() };
    report.events = counted.events;
    report.keys_not_known = counted.keys_not_known;
    report.blobs = check_blobs(blobs, &findings).await;
    report.problems = findings.into_problems();
    Ok(report)
}

/// The outcome of a step: damage is a finding by now, any other failure ends the check.
fn finished<T>(
    pool: &Arc<Pool>,
    step: Result<Result<T, Error>, tokio::task::JoinError>,
) -> Result<T, ReadError> {
    match step {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(pool.explain(error)),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(pool.closed()),
        },
    }
}

/// Reads every blob that an event needs, once. Returns how many are sound.
async fn check_blobs(blobs: &Arc<dyn Blobs>, findings: &Findings) -> u64 {
    let needed = findings.take_blobs();
    let mut reads = futures_util::stream::iter(needed)
        .map(|(hash, needed)| async move { (needed, drain(blobs, hash).await) })
        .buffer_unordered(BLOBS_AT_ONCE);
    let mut sound = 0;
    while let Some((Needed { branch, seq }, read)) = reads.next().await {
        match read {
            Ok(()) => sound += 1,
            Err(error) => findings.at_event(&branch, seq, error.to_string()),
        }
    }
    sound
}

async fn drain(blobs: &Arc<dyn Blobs>, hash: Hash) -> Result<(), GetError> {
    let mut reader = blobs.get(hash).await?;
    let mut buffer = vec![0; 64 * 1024];
    while reader.read(&mut buffer).await.map_err(|error| GetError::from_reader(hash, error))? > 0 {}
    Ok(())
}

/// What an error says about the file; an error that says nothing about it is passed on.
fn damage(error: Error) -> Result<String, Error> {
    match error {
        Error::Read(ReadError::Damaged { what, .. }) => Ok(what),
        Error::Read(error) if error.fault() == Fault::Damaged => Ok(error.to_string()),
        Error::Sqlite(error) if failure(&error) == StorageFailure::Corrupt => {
            Ok(format!("it cannot be read ({error})"))
        }
        error => Err(error),
    }
}

fn in_table(table: &str, what: impl Into<String>) -> Problem {
    Problem::at_place(format!("table `{table}`"), what)
}

/// The event after `seq` events of a lineage.
fn after(seq: u64) -> Seq {
    Seq(seq.saturating_add(1))
}
