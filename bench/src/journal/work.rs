//! The measurements. Each runs in a process of its own, so that its counters count nothing else.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::payload::{PAYLOAD_BYTES, Sample, samples};
use crate::subject::{Column, Counts, Error, Subject};
use weir_bench::system;

/// Streams that the large journal is made of.
pub(crate) const STREAMS: usize = 100;

/// Events appended to each stream by one step of loading.
const ROWS: usize = 10;

/// Forks of forks, and events on each.
pub(crate) const LEVELS: usize = 64;
const EVENTS_PER_LEVEL: usize = 10;

/// A number per name.
pub(crate) type Metrics = BTreeMap<String, f64>;

/// What a child process is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) column: Column,
    pub(crate) directory: PathBuf,
    /// Other payloads in every round, the same in every column.
    pub(crate) seed: u64,
    pub(crate) work: Work,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Sessions append one event after another, each waiting for its acknowledgement.
    Append { sessions: usize, seconds: f64 },
    /// Fills the large journal.
    Load { events: usize, cap_seconds: f64 },
    /// Reads from the large journal.
    Read,
    /// Opens a journal and asks it one question.
    Open,
    /// Makes an empty journal.
    Create,
    /// Appends until killed.
    Victim,
    /// Forks through many levels and reads through them.
    Fork,
}

pub(crate) fn run(job: Job) -> Result<Metrics, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(async move {
        let Job { column, directory, seed, work } = job;
        match work {
            Work::Append { sessions, seconds } => append(column, &directory, seed, sessions, seconds).await,
            Work::Load { events, cap_seconds } => load(column, &directory, seed, events, cap_seconds).await,
            Work::Read => read(column, &directory, seed).await,
            Work::Open => open(column, &directory).await,
            Work::Create => create(column, &directory).await,
            Work::Victim => victim(column, &directory, seed).await,
            Work::Fork => fork(column, &directory, seed).await,
        }
    })
}

fn metrics<const N: usize>(pairs: [(&str, f64); N]) -> Metrics {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn pool(seed: u64) -> Vec<Sample> {
    const DIFFERENT: usize = 2_048;
    samples(seed, DIFFERENT)
}

async fn append(
    column: Column,
    directory: &Path,
    seed: u64,
    sessions: usize,
    seconds: f64,
) -> Result<Metrics, Error> {
    let subject = column.open(directory, pool(seed)).await?;
    let warm = Instant::now() + Duration::from_secs_f64(seconds / 5.0);
    let end = warm + Duration::from_secs_f64(seconds);
    let mut tasks = JoinSet::new();
    for session in 0..sessions {
        let subject = subject.clone();
        tasks.spawn(async move { append_until(&*subject, session, warm, end).await });
    }
    tokio::time::sleep_until(warm.into()).await;
    let (counts, flushes) = (subject.counts(), system::flushes(directory));
    tokio::time::sleep_until(end.into()).await;
    let (counts_after, flushes_after) = (subject.counts(), system::flushes(directory));

    let (mut appended, mut latencies) = (0, Vec::new());
    while let Some(done) = tasks.join_next().await {
        let session = done??;
        appended += session.appended;
        latencies.extend(session.latencies);
    }
    latencies.sort_unstable();
    subject.close().await;
    let mut found = metrics([
        ("events_per_second", latencies.len() as f64 / seconds),
        ("p50_us", percentile(&latencies, 0.50)),
        ("p99_us", percentile(&latencies, 0.99)),
        ("written_per_payload_byte", system::written_bytes()? as f64 / (appended * PAYLOAD_BYTES) as f64),
    ]);
    if let (Some(before), Some(after)) = (counts, counts_after) {
        let Counts { events, commits, checkpoints } = after;
        let commits = (commits - before.commits) as f64;
        found.insert("events_per_commit".into(), (events - before.events) as f64 / commits);
        found.insert("checkpoints".into(), (checkpoints - before.checkpoints) as f64);
        if let (Some(before), Some(after)) = (flushes, flushes_after) {
            found.insert("flushes_per_commit".into(), (after - before) as f64 / commits);
        }
    }
    Ok(found)
}

struct Session {
    appended: usize,
    /// Of the appends that were acknowledged between warming up and the end, in nanoseconds.
    latencies: Vec<u64>,
}

async fn append_until(
    subject: &dyn Subject,
    session: usize,
    warm: Instant,
    end: Instant,
) -> Result<Session, Error> {
    let mut done = Session { appended: 0, latencies: Vec::new() };
    loop {
        let started = Instant::now();
        if started >= end {
            return Ok(done);
        }
        subject.append(session, session * 31 + done.appended).await?;
        let now = Instant::now();
        done.appended += 1;
        if now >= warm && now < end {
            done.latencies.push((now - started).as_nanos() as u64);
        }
    }
}

/// The latency in microseconds below which this share of `sorted` lies.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
}

async fn load(
    column: Column,
    directory: &Path,
    seed: u64,
    events: usize,
    cap_seconds: f64,
) -> Result<Metrics, Error> {
    let subject = column.open(directory, pool(seed)).await?;
    let started = Instant::now();
    let mut loaded = 0;
    while loaded < events && started.elapsed().as_secs_f64() < cap_seconds {
        subject.load(STREAMS, ROWS, loaded).await?;
        loaded += STREAMS * ROWS;
    }
    let seconds = started.elapsed().as_secs_f64();
    subject.close().await;
    Ok(metrics([("events", loaded as f64), ("seconds", seconds)]))
}

async fn read(column: Column, directory: &Path, seed: u64) -> Result<Metrics, Error> {
    const SCANS: usize = 5;
    const LASTS: usize = 200;
    const HEADS: usize = 1_000;
    let subject = column.open(directory, Vec::new()).await?;
    let stream = |n: usize| (seed as usize * 7 + n * 13) % STREAMS;
    // The first scan fills caches that all the others find filled.
    let expected = subject.scan(stream(0)).await?;

    let mut scans = Vec::new();
    for n in 1..=SCANS {
        let started = Instant::now();
        let count = subject.scan(stream(n)).await?;
        scans.push(count as f64 / started.elapsed().as_secs_f64());
        if count != expected {
            return Err(format!("a scan read {count} events instead of {expected}").into());
        }
    }
    let mut lasts = Vec::new();
    for n in 0..LASTS {
        let started = Instant::now();
        let count = subject.last(stream(n), 100).await?;
        lasts.push(started.elapsed().as_nanos() as f64 / 1e3);
        if count != 100 {
            return Err(format!("reading the last 100 events read {count}").into());
        }
    }
    let mut heads = Vec::new();
    for n in 0..HEADS {
        let started = Instant::now();
        let head = subject.head(stream(n)).await?;
        heads.push(started.elapsed().as_nanos() as f64 / 1e3);
        if head != expected as u64 {
            return Err(format!("the head is {head} instead of {expected}").into());
        }
    }
    let (resident, most) = system::memory()?;
    subject.close().await;
    Ok(metrics([
        ("scan_events_per_second", median(&mut scans)),
        ("last_100_us", median(&mut lasts)),
        ("head_us", median(&mut heads)),
        ("resident_mb", resident as f64 / 1e6),
        ("resident_most_mb", most as f64 / 1e6),
    ]))
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

async fn open(column: Column, directory: &Path) -> Result<Metrics, Error> {
    let started = Instant::now();
    let subject = column.open(directory, Vec::new()).await?;
    if column.reads() {
        // An engine that opens lazily has opened when it answers.
        subject.head(0).await?;
    }
    let milliseconds = started.elapsed().as_secs_f64() * 1e3;
    subject.close().await;
    Ok(metrics([("open_ms", milliseconds)]))
}

async fn create(column: Column, directory: &Path) -> Result<Metrics, Error> {
    column.open(directory, Vec::new()).await?.close().await;
    Ok(Metrics::new())
}

/// Appends from eight sessions for ever; says `ready` on standard output once some are acknowledged.
async fn victim(column: Column, directory: &Path, seed: u64) -> Result<Metrics, Error> {
    const SESSIONS: usize = 8;
    const READY: usize = 64;
    let subject = column.open(directory, pool(seed)).await?;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for session in 0..SESSIONS {
        let (subject, acknowledged) = (subject.clone(), acknowledged.clone());
        tasks.spawn(async move {
            for n in 0.. {
                // Streams of its own: those that are read keep their length.
                subject.append(STREAMS + session, n).await?;
                if acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == READY {
                    writeln!(std::io::stdout(), "ready")?;
                }
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Err("a victim that was not killed".into())
}

async fn fork(column: Column, directory: &Path, seed: u64) -> Result<Metrics, Error> {
    const SCANS: usize = 20;
    let subject = column.open(directory, pool(seed)).await?;
    let (deep, flat) = (0, 1);
    let events = LEVELS * EVENTS_PER_LEVEL;
    for n in 0..EVENTS_PER_LEVEL {
        subject.append(deep, n).await?;
    }
    let forks = subject.fork(deep, LEVELS, EVENTS_PER_LEVEL).await?;
    for n in 0..events + EVENTS_PER_LEVEL {
        subject.append(flat, n).await?;
    }
    let (mut through, mut along) = (Vec::new(), Vec::new());
    for _ in 0..SCANS {
        let started = Instant::now();
        let count = subject.scan_deepest(deep, LEVELS).await?;
        through.push(started.elapsed().as_nanos() as f64 / 1e3 / count as f64);
        let started = Instant::now();
        let same = subject.scan(flat).await?;
        along.push(started.elapsed().as_nanos() as f64 / 1e3 / same as f64);
        if count != same {
            return Err(format!("{count} events through {LEVELS} levels, {same} without").into());
        }
    }
    subject.close().await;
    let mut forks: Vec<f64> = forks.iter().map(|time| time.as_nanos() as f64 / 1e3).collect();
    Ok(metrics([
        ("fork_us", median(&mut forks)),
        ("through_us_per_event", median(&mut through)),
        ("flat_us_per_event", median(&mut along)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
        let sorted: Vec<u64> = (0..100).map(|n| n * 1_000).collect();
        assert_eq!((percentile(&sorted, 0.5), percentile(&sorted, 0.99)), (50.0, 99.0));
    }
}
