//! The published crate `lago-journal` 0.3: redb, used through its `Journal` trait as its documentation does. Each append is
//! a transaction with redb's default durability, which is durable when it returns. (Its `Wal` helper acknowledges before
//! anything is written, so it has no place in a table of durable appends.)

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use lago_core::event::{EventEnvelope, EventPayload};
use lago_core::{BranchId, EventId, EventQuery, Journal, SessionId};
use lago_journal::RedbJournal;
use serde_json::Value;

use super::{Answer, Counts, Error, Subject};
use crate::payload::Sample;

pub(super) struct Lago {
    /// None once closed.
    journal: Mutex<Option<RedbJournal>>,
    samples: Vec<(Value, HashMap<String, String>)>,
}

impl Lago {
    pub(super) fn open(directory: &Path, samples: &[Sample]) -> Result<Self, Error> {
        let journal = RedbJournal::open(directory.join("journal.redb"))?;
        let sample = |sample: &Sample| -> Result<_, Error> {
            let metadata =
                sample.meta.iter().map(|(key, value)| (key.to_string(), value.trim_matches('"').to_owned()));
            Ok((serde_json::from_str(&sample.payload)?, metadata.collect()))
        };
        let samples = samples.iter().map(sample).collect::<Result<_, Error>>()?;
        Ok(Self { journal: Mutex::new(Some(journal)), samples })
    }

    fn journal(&self) -> Result<RedbJournal, Error> {
        Ok(self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or("closed")?)
    }

    fn event(&self, stream: usize, sample: usize) -> EventEnvelope {
        let (data, metadata) = &self.samples[sample % self.samples.len()];
        let payload = EventPayload::Custom { event_type: "harbour.report".to_owned(), data: data.clone() };
        EventEnvelope {
            event_id: EventId::new(),
            session_id: session(stream),
            branch_id: main(),
            run_id: None,
            seq: 0,
            timestamp: EventEnvelope::now_micros(),
            parent_id: None,
            payload,
            metadata: metadata.clone(),
            schema_version: 1,
        }
    }
}

fn session(stream: usize) -> SessionId {
    SessionId::from_string(format!("bench:{stream:06}"))
}

fn main() -> BranchId {
    BranchId::from_string("main")
}

impl Subject for Lago {
    fn append(&self, stream: usize, sample: usize) -> Answer<'_, ()> {
        Box::pin(async move {
            self.journal()?.append(self.event(stream, sample)).await?;
            Ok(())
        })
    }

    fn load(&self, streams: usize, rows: usize, sample: usize) -> Answer<'_, ()> {
        Box::pin(async move {
            let events = (0..streams * rows).map(|n| self.event(n % streams, sample + n)).collect();
            self.journal()?.append_batch(events).await?;
            Ok(())
        })
    }

    fn scan(&self, stream: usize) -> Answer<'_, usize> {
        Box::pin(async move {
            let query = EventQuery::new().session(session(stream)).branch(main());
            Ok(self.journal()?.read(query).await?.len())
        })
    }

    fn last(&self, stream: usize, count: usize) -> Answer<'_, usize> {
        Box::pin(async move {
            // It reads forwards only, but can start anywhere.
            let journal = self.journal()?;
            let head = journal.head_seq(&session(stream), &main()).await?;
            let after = head.saturating_sub(count as u64);
            let query = EventQuery::new().session(session(stream)).branch(main()).after(after).limit(count);
            Ok(journal.read(query).await?.len())
        })
    }

    fn head(&self, stream: usize) -> Answer<'_, u64> {
        Box::pin(async move { Ok(self.journal()?.head_seq(&session(stream), &main()).await?) })
    }

    fn counts(&self) -> Option<Counts> {
        None
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Closing a database writes to it.
            let _ = tokio::task::spawn_blocking(move || drop(journal)).await;
        })
    }
}
