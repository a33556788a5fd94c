//! Append and `fdatasync`: what no journal on this disk can beat.
//!
//! Sessions send their bytes to one thread; it takes what is waiting, writes it, syncs once and acknowledges all.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::{Answer, Counts, Error, Subject};
use crate::payload::Sample;

pub(super) struct Raw {
    samples: Vec<Bytes>,
    queue: Mutex<Option<Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<Counters>,
}

struct Request {
    records: Vec<Bytes>,
    done: oneshot::Sender<std::io::Result<()>>,
}

#[derive(Default)]
struct Counters {
    events: AtomicU64,
    commits: AtomicU64,
}

impl Raw {
    pub(super) fn open(directory: &Path, samples: &[Sample]) -> Result<Self, Error> {
        let file = File::options().create(true).append(true).open(directory.join("journal.log"))?;
        let (queue, requests) = channel();
        let counters = Arc::new(Counters::default());
        let thread = std::thread::spawn({
            let counters = counters.clone();
            move || commit(file, &requests, &counters)
        });
        let samples = samples.iter().map(|sample| record(sample).into()).collect();
        Ok(Self { samples, queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), counters })
    }

    async fn write(&self, records: Vec<Bytes>) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        queue.ok_or("closed")?.send(Request { records, done })?;
        Ok(answer.await??)
    }

    fn sample(&self, sample: usize) -> Bytes {
        self.samples[sample % self.samples.len()].clone()
    }
}

fn record(sample: &Sample) -> Vec<u8> {
    let meta = sample.meta_json();
    let mut record = ((meta.len() + sample.payload.len()) as u32).to_le_bytes().to_vec();
    record.extend(meta.as_bytes());
    record.extend(sample.payload.as_bytes());
    record
}

fn commit(mut file: File, requests: &Receiver<Request>, counters: &Counters) {
    let mut buffer = Vec::new();
    while let Ok(first) = requests.recv() {
        buffer.clear();
        let mut batch = vec![first];
        batch.extend(requests.try_iter());
        let mut events = 0;
        for record in batch.iter().flat_map(|request| &request.records) {
            buffer.extend_from_slice(record);
            events += 1;
        }
        let result = file.write_all(&buffer).and_then(|()| file.sync_data());
        counters.events.fetch_add(events, Ordering::Relaxed);
        counters.commits.fetch_add(1, Ordering::Relaxed);
        for request in batch {
            let copy = result.as_ref().copied().map_err(|error| error.kind().into());
            // A session that has gone does not want to know.
            let _ = request.done.send(copy);
        }
    }
}

impl Subject for Raw {
    fn append(&self, _stream: usize, sample: usize) -> Answer<'_, ()> {
        Box::pin(self.write(vec![self.sample(sample)]))
    }

    fn load(&self, streams: usize, rows: usize, sample: usize) -> Answer<'_, ()> {
        Box::pin(self.write((0..streams * rows).map(|n| self.sample(sample + n)).collect()))
    }

    fn scan(&self, _stream: usize) -> Answer<'_, usize> {
        Box::pin(async { Err("a raw file has no streams".into()) })
    }

    fn last(&self, _stream: usize, _count: usize) -> Answer<'_, usize> {
        Box::pin(async { Err("a raw file has no streams".into()) })
    }

    fn head(&self, _stream: usize) -> Answer<'_, u64> {
        Box::pin(async { Err("a raw file has no streams".into()) })
    }

    fn counts(&self) -> Option<Counts> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(Counts {
            events: load(&self.counters.events),
            commits: load(&self.counters.commits),
            checkpoints: 0,
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            let joined = tokio::task::spawn_blocking(move || thread.map(JoinHandle::join));
            let _ = joined.await;
        })
    }
}
