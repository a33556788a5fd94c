//! What one writes in an afternoon: a table, WAL, `synchronous=FULL`, a mutex, one transaction per event.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use rusqlite::{Connection, params};

use super::{Answer, Counts, Error, Subject};
use crate::payload::Sample;

pub(super) struct Sqlite(Arc<Inner>);

struct Inner {
    /// None once closed.
    connection: Mutex<Option<Connection>>,
    samples: Vec<(String, Sample)>,
    events: AtomicU64,
    commits: AtomicU64,
}

const INSERT: &str = "INSERT INTO events (stream, seq, kind, meta, payload)
    VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM events WHERE stream = ?1), ?2, ?3, ?4)";

impl Sqlite {
    pub(super) fn open(directory: &Path, samples: Vec<Sample>) -> Result<Self, Error> {
        let connection = Connection::open(directory.join("plain.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS events (
                id INTEGER PRIMARY KEY, stream TEXT NOT NULL, seq INTEGER NOT NULL,
                kind TEXT NOT NULL, meta TEXT NOT NULL, payload TEXT NOT NULL, UNIQUE (stream, seq))",
        )?;
        let samples = samples.into_iter().map(|sample| (sample.meta_json(), sample)).collect();
        let (events, commits) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self(Arc::new(Inner { connection: Mutex::new(Some(connection)), samples, events, commits })))
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let inner = self.0.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || -> Result<T, Error> {
                let mut connection = inner.connection.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(work(&inner, connection.as_mut().ok_or("closed")?)?)
            });
            done.await?
        })
    }
}

impl Inner {
    fn insert(&self, connection: &Connection, stream: usize, sample: usize) -> rusqlite::Result<()> {
        let (meta, Sample { payload, .. }) = &self.samples[sample % self.samples.len()];
        let mut insert = connection.prepare_cached(INSERT)?;
        insert.execute(params![name(stream), "harbour.report", meta, payload])?;
        self.events.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn name(stream: usize) -> String {
    format!("bench:{stream:06}")
}

impl Subject for Sqlite {
    fn append(&self, stream: usize, sample: usize) -> Answer<'_, ()> {
        self.run(move |inner, connection| {
            inner.insert(connection, stream, sample)?;
            inner.commits.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    fn load(&self, streams: usize, rows: usize, sample: usize) -> Answer<'_, ()> {
        self.run(move |inner, connection| {
            let transaction = connection.transaction()?;
            for n in 0..streams * rows {
                inner.insert(&transaction, n % streams, sample + n)?;
            }
            transaction.commit()
        })
    }

    fn scan(&self, stream: usize) -> Answer<'_, usize> {
        self.run(move |_, connection| rows(connection, "ORDER BY seq", stream, usize::MAX))
    }

    fn last(&self, stream: usize, count: usize) -> Answer<'_, usize> {
        self.run(move |_, connection| rows(connection, "ORDER BY seq DESC LIMIT ?2", stream, count))
    }

    fn head(&self, stream: usize) -> Answer<'_, u64> {
        self.run(move |_, connection| {
            let mut head =
                connection.prepare_cached("SELECT coalesce(max(seq), 0) FROM events WHERE stream = ?1")?;
            head.query_row([name(stream)], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
        })
    }

    fn counts(&self) -> Option<Counts> {
        let (events, commits) =
            (self.0.events.load(Ordering::Relaxed), self.0.commits.load(Ordering::Relaxed));
        Some(Counts { events, commits, checkpoints: 0 })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let inner = self.0.clone();
        Box::pin(async move {
            let closed = tokio::task::spawn_blocking(move || {
                inner.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
            });
            let _ = closed.await;
        })
    }
}

/// Fetches whole events, as a reader would keep them.
fn rows(connection: &Connection, order: &str, stream: usize, limit: usize) -> rusqlite::Result<usize> {
    let sql = format!("SELECT seq, kind, meta, payload FROM events WHERE stream = ?1 {order}");
    let mut statement = connection.prepare_cached(&sql)?;
    if statement.parameter_count() == 2 {
        statement.raw_bind_parameter(2, i64::try_from(limit).unwrap_or(i64::MAX))?;
    }
    statement.raw_bind_parameter(1, name(stream))?;
    let mut rows = statement.raw_query();
    let mut events: Vec<(i64, String, String, String)> = Vec::new();
    while let Some(row) = rows.next()? {
        events.push((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    }
    Ok(events.len())
}
