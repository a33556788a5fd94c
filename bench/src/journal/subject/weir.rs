//! This journal, behind its port.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{BoxFuture, try_join_all};
use weir_blobs::MemoryBlobs;
use weir_journal::{Fork, Journal, NewEvent, PAGE_MAX, Part};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_types::{BranchId, BranchName, Kind, Meta, Seq};

use super::{Answer, Counts, Error, Subject};
use crate::payload::Sample;

pub(super) struct Weir {
    journal: SqliteJournal,
    kind: Kind,
    samples: Vec<(Bytes, Meta)>,
}

impl Weir {
    pub(super) async fn open(directory: &Path, samples: &[Sample]) -> Result<Self, Error> {
        let blobs = Arc::new(MemoryBlobs::default());
        let journal =
            SqliteJournal::open(Options { path: directory.join("journal.db"), blobs, vfs: None }).await?;
        let sample =
            |s: &Sample| Ok((Bytes::copy_from_slice(s.payload.as_bytes()), Meta::new(&s.meta_json())?));
        let samples = samples.iter().map(sample).collect::<Result<_, Error>>()?;
        Ok(Self { journal, kind: "harbour.report".parse()?, samples })
    }

    fn event(&self, sample: usize) -> NewEvent {
        let (payload, meta) = &self.samples[sample % self.samples.len()];
        NewEvent::new(self.kind.clone(), payload.clone()).with_meta(meta.clone())
    }

    async fn scan_branch(&self, branch: &BranchId) -> Result<usize, Error> {
        let mut after = Seq(0);
        let mut count = 0;
        loop {
            let page = self.journal.read(branch, after, PAGE_MAX).await?;
            count += page.len();
            match page.last() {
                Some(event) if page.len() == PAGE_MAX => after = event.seq,
                _ => return Ok(count),
            }
        }
    }
}

fn branch(stream: usize, level: usize) -> Result<BranchId, Error> {
    let branch = if level == 0 { BranchName::main() } else { format!("level-{level}").parse()? };
    Ok(BranchId { stream: format!("bench:{stream:06}").parse()?, branch })
}

impl Subject for Weir {
    fn append(&self, stream: usize, sample: usize) -> Answer<'_, ()> {
        Box::pin(async move {
            self.journal.append(vec![Part::new(branch(stream, 0)?, vec![self.event(sample)])]).await?;
            Ok(())
        })
    }

    fn load(&self, streams: usize, rows: usize, sample: usize) -> Answer<'_, ()> {
        Box::pin(async move {
            let append = async |row: usize| -> Result<(), Error> {
                let event = |stream| self.event(sample + row * streams + stream);
                let part = |stream| Ok(Part::new(branch(stream, 0)?, vec![event(stream)]));
                self.journal.append((0..streams).map(part).collect::<Result<_, Error>>()?).await?;
                Ok(())
            };
            try_join_all((0..rows).map(append)).await?;
            Ok(())
        })
    }

    fn scan(&self, stream: usize) -> Answer<'_, usize> {
        Box::pin(async move { self.scan_branch(&branch(stream, 0)?).await })
    }

    fn last(&self, stream: usize, count: usize) -> Answer<'_, usize> {
        Box::pin(async move { Ok(self.journal.read_back(&branch(stream, 0)?, None, count).await?.len()) })
    }

    fn head(&self, stream: usize) -> Answer<'_, u64> {
        Box::pin(async move {
            let head = self.journal.head(&branch(stream, 0)?).await?;
            Ok(head.map_or(0, |head| head.seq.0))
        })
    }

    fn counts(&self) -> Option<Counts> {
        let stats = self.journal.stats();
        Some(Counts { events: stats.events, commits: stats.commits, checkpoints: stats.checkpoints })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.journal.close())
    }

    fn fork(&self, stream: usize, levels: usize, events: usize) -> Answer<'_, Vec<Duration>> {
        Box::pin(async move {
            let mut times = Vec::new();
            for level in 1..=levels {
                let from = branch(stream, level - 1)?;
                let to = branch(stream, level)?;
                let at = self.journal.head(&from).await?.ok_or("the stream to fork is empty")?.seq;
                let started = Instant::now();
                self.journal.fork(Fork { from, at, name: to.branch.clone() }).await?;
                times.push(started.elapsed());
                let events = (0..events).map(|n| self.event(level + n)).collect();
                self.journal.append(vec![Part::new(to, events)]).await?;
            }
            Ok(times)
        })
    }

    fn scan_deepest(&self, stream: usize, levels: usize) -> Answer<'_, usize> {
        Box::pin(async move { self.scan_branch(&branch(stream, levels)?).await })
    }
}
