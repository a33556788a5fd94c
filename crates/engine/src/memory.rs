//! What agents remember: a stream for each agent and each one it remembers for. A note is an event there, appended
//! together with the result of the call that stored it; its text is a blob.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use weir_blobs::Blobs;
use weir_events::{Body, MemoryStored};
use weir_journal::{Expected, Journal, NewEvent, Ownership, PAGE_MAX, Part, ReadError};
use weir_tools::{Memory, MemoryError, Note, Remembered, Trace};
use weir_types::{BranchId, Event, StreamName, Timestamp};

/// How many notes are searched. How many older ones there are is said with what is found. A real index comes with `knowledge`.
const NOTES_MAX: usize = 2_000;

/// The longest note.
const NOTE_BYTES_MAX: u64 = 256 * 1024;

/// Texts that are read at once.
const READS_AT_ONCE: usize = 16;

/// The memory of one agent for one principal.
pub(crate) struct AgentMemory {
    journal: Arc<dyn Journal>,
    blobs: Arc<dyn Blobs>,
    branch: Result<BranchId, MemoryError>,
}

/// The stream that a memory is. Its prefix is reserved: nobody else can write there.
fn stream(agent: &str, principal: &str) -> Result<BranchId, MemoryError> {
    let name = format!("engine:memory:{agent}:{principal}");
    let stream: Result<StreamName, _> = name.parse();
    stream.map(BranchId::main).map_err(|error| MemoryError(error.to_string()))
}

/// What goes to the memory's own stream beside a note's event in the session; nothing, if it has no name.
pub(crate) fn beside(agent: &str, principal: &str, event: NewEvent) -> Option<Part> {
    let branch = stream(agent, principal).ok()?;
    let (expected, owner) = (Expected::Any, Ownership::Unchecked);
    Some(Part { branch, expected, key: None, owner, events: vec![event], attrs: None })
}

impl AgentMemory {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        blobs: Arc<dyn Blobs>,
        agent: &str,
        principal: &str,
    ) -> Arc<Self> {
        Arc::new(Self { journal, blobs, branch: stream(agent, principal) })
    }

    /// The newest event of each document, the newest first, and how many older documents there are.
    async fn newest(&self) -> Result<(Vec<(MemoryStored, Timestamp)>, usize), MemoryError> {
        let (mut found, mut older) = (Vec::new(), 0);
        let each = |note: MemoryStored, at| {
            match found.len() < NOTES_MAX {
                true => found.push((note, at)),
                false => older += 1,
            }
            false
        };
        self.look_back(each).await?;
        Ok((found, older))
    }

    /// Goes through the newest event of each document, the newest first, until told that it is enough.
    async fn look_back(
        &self,
        mut is_enough: impl FnMut(MemoryStored, Timestamp) -> bool,
    ) -> Result<(), MemoryError> {
        let branch = self.branch.as_ref().map_err(Clone::clone)?;
        let (mut known, mut before) = (BTreeSet::new(), None);
        loop {
            let page = match self.journal.read_back(branch, before, PAGE_MAX).await {
                Ok(page) => page,
                // Nothing was ever stored.
                Err(ReadError::NoStream(_) | ReadError::NoBranch(_)) => return Ok(()),
                Err(error) => return Err(MemoryError(error.to_string())),
            };
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.seq);
            for (note, at) in page.iter().filter_map(|event| Some((stored(event)?, event.ts))) {
                if known.insert(note.doc.clone()) && is_enough(note, at) {
                    return Ok(());
                }
            }
        }
    }

    async fn text(&self, stored: MemoryStored, at: Timestamp) -> Result<Remembered, MemoryError> {
        let text = self.blobs.get_bytes(stored.hash, NOTE_BYTES_MAX).await;
        let text = text.map_err(|error| MemoryError(error.to_string()))?;
        let MemoryStored { doc, title, tags, .. } = stored;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(Remembered { note: Note { doc, title, tags, text }, at })
    }
}

fn stored(event: &Event) -> Option<MemoryStored> {
    match Body::decode(&event.kind, &event.payload).ok()?? {
        Body::MemoryStored(stored) => Some(stored),
        _ => None,
    }
}

impl Memory for AgentMemory {
    fn store(&self, note: Note) -> BoxFuture<'_, Result<Trace, MemoryError>> {
        async move {
            self.branch.as_ref().map_err(Clone::clone)?;
            if note.text.len() as u64 > NOTE_BYTES_MAX {
                return Err(MemoryError(format!("a note has at most {NOTE_BYTES_MAX} bytes")));
            }
            let Note { doc, title, tags, text } = note;
            let stored = self.blobs.put_bytes(Bytes::from(text)).await;
            let hash = stored.map_err(|error| MemoryError(error.to_string()))?.hash;
            Ok(Trace::MemoryStored { doc, title, tags, hash })
        }
        .boxed()
    }

    fn notes(&self) -> BoxFuture<'_, Result<Arc<[Remembered]>, MemoryError>> {
        async move {
            let (newest, _) = self.newest().await?;
            let notes = stream::iter(newest).map(|(note, at)| self.text(note, at));
            let notes: Vec<Remembered> = notes.buffered(READS_AT_ONCE).try_collect().await?;
            Ok(notes.into())
        }
        .boxed()
    }

    fn older(&self) -> BoxFuture<'_, Result<usize, MemoryError>> {
        async move { Ok(self.newest().await?.1) }.boxed()
    }

    fn knows<'a>(&'a self, doc: &'a str) -> BoxFuture<'a, Result<bool, MemoryError>> {
        async move {
            let mut is_known = false;
            let look = |note: MemoryStored, _| {
                is_known = note.doc == doc;
                is_known
            };
            self.look_back(look).await?;
            Ok(is_known)
        }
        .boxed()
    }
}
