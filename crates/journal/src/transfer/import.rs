//! Reading an export into a journal.

mod batch;
mod existing;

use std::collections::{HashMap, HashSet};

use tokio::io::{AsyncBufRead, AsyncWriteExt, DuplexStream};
use weir_blobs::{Blobs, Lease, PutError};
use weir_types::{BranchId, BranchName, Event, Hash, Hasher, Position, Seq, StreamName, Timestamp};

use super::input::{Input, Next};
use super::{ImportError, Imported, RuntimeStreams, is_runtime_stream};
use crate::append::{EVENTS_MAX, NewEvent};
use crate::error::ReadError;
use crate::lines::{BLOB_PIECE_MAX, BlobLine, ForkLine, KeyLine, Line};
use crate::listing::Fork;
use crate::port::Journal;

use batch::Batch;
use existing::Existing;

/// Heads and blobs remembered between look-ups; more are forgotten and looked up again.
const REMEMBERED_MAX: usize = 10_000;

/// Which streams an import takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepts {
    /// Sessions, and what people and programs write themselves.
    Foreign(RuntimeStreams),
    /// Also what the runtime keeps for itself.
    Everything,
}

impl Accepts {
    /// Whether a line is taken.
    ///
    /// # Errors
    /// When the export is refused because of it.
    fn takes(self, line: &Line, number: u64) -> Result<bool, ImportError> {
        let Some(stream) = stream_of(line) else { return Ok(true) };
        match self {
            Self::Foreign(RuntimeStreams::Refuse) if is_runtime_stream(stream) => {
                Err(ImportError::Authority { line: number, stream: stream.clone() })
            }
            Self::Foreign(_) => Ok(!is_runtime_stream(stream)),
            Self::Everything => Ok(true),
        }
    }
}

/// The stream that a line is about.
fn stream_of(line: &Line) -> Option<&StreamName> {
    match line {
        Line::Fork(fork) => Some(&fork.branch.stream),
        Line::Key(key) => Some(&key.branch.stream),
        Line::Event(event) => Some(&event.stream),
        Line::Header { .. } | Line::Blob(_) => None,
    }
}

/// Reads an export to its end, and refuses one that [`import`] would refuse because of its streams. Writes nothing.
///
/// # Errors
/// At the first line of a stream that only the runtime writes, or that is no line of an export.
pub async fn check_streams(source: &mut (dyn AsyncBufRead + Send + Unpin)) -> Result<(), ImportError> {
    let mut input = Input::new(source);
    loop {
        match input.next().await? {
            Next::Line(line, _) => drop(Accepts::Foreign(RuntimeStreams::Refuse).takes(&line, input.line)?),
            Next::Cut(_) | Next::End => return Ok(()),
        }
    }
}

/// Restores one's own export into a journal that has nothing yet: also what the runtime keeps for itself, such as tokens,
/// deployments and budgets. Sessions come in halted.
///
/// # Errors
/// When the journal is not empty; besides those of [`import`].
///
/// # Cancel safety
/// Dropping the future leaves a whole prefix of the export restored.
pub async fn restore(
    journal: &dyn Journal,
    blobs: &dyn Blobs,
    source: &mut (dyn AsyncBufRead + Send + Unpin),
) -> Result<Imported, ImportError> {
    let end = journal.end().await.map_err(|source| ImportError::Read { line: 0, source })?;
    if end != Position(0) {
        return Err(ImportError::NotEmpty);
    }
    read(journal, blobs, source, Accepts::Everything).await
}

/// Reads an export from `source` into the journal. Sessions come in halted; streams of the runtime are refused or left out.
///
/// # Errors
/// At the first line that is wrong, was altered, contradicts the journal or is of a stream that is refused. What is before that line
/// stays imported, and importing the file again skips it.
///
/// # Cancel safety
/// Dropping the future leaves a whole prefix of the export imported.
pub async fn import(
    journal: &dyn Journal,
    blobs: &dyn Blobs,
    source: &mut (dyn AsyncBufRead + Send + Unpin),
    runtime: RuntimeStreams,
) -> Result<Imported, ImportError> {
    read(journal, blobs, source, Accepts::Foreign(runtime)).await
}

async fn read(
    journal: &dyn Journal,
    blobs: &dyn Blobs,
    source: &mut (dyn AsyncBufRead + Send + Unpin),
    accepts: Accepts,
) -> Result<Imported, ImportError> {
    let mut import = Import {
        journal,
        blobs,
        accepts,
        input: Input::new(source),
        existing: Existing::new(journal),
        batch: Batch::default(),
        key: None,
        tips: HashMap::new(),
        stored: HashSet::new(),
        leases: Vec::new(),
        done: Imported::default(),
    };
    let outcome = import.lines().await;
    // What stands before a bad line is imported too, unless that is what failed.
    let flushed = import.flush().await;
    outcome?;
    flushed?;
    Ok(import.done)
}

struct Import<'a> {
    journal: &'a dyn Journal,
    blobs: &'a dyn Blobs,
    accepts: Accepts,
    input: Input<'a>,
    existing: Existing<'a>,
    batch: Batch,
    /// The keyed part that is being read.
    key: Option<KeyLine>,
    /// The newest event of branches, those of the batch included.
    tips: HashMap<BranchId, Tip>,
    /// Blobs known to be in the store.
    stored: HashSet<Hash>,
    /// Keeps collectors away from what was stored, until the events that name it are there.
    leases: Vec<Lease>,
    done: Imported,
}

#[derive(Clone, Copy)]
struct Tip {
    seq: Seq,
    chain: Hash,
    /// `None` before the first event.
    ts: Option<Timestamp>,
}

impl Import<'_> {
    async fn lines(&mut self) -> Result<(), ImportError> {
        loop {
            let (line, bytes) = match self.input.next().await? {
                Next::Line(line, bytes) => (line, bytes),
                Next::Cut(bytes) => {
                    self.done.dropped_tail = Some(bytes);
                    return Ok(());
                }
                Next::End => return Ok(()),
            };
            if !self.accepts.takes(&line, self.input.line)? {
                self.done.left_out += u64::from(matches!(*line, Line::Event(_)));
                continue;
            }
            match *line {
                Line::Header { .. } => {}
                Line::Fork(fork) => self.fork(fork).await?,
                Line::Key(key) => self.start_key(key).await?,
                Line::Event(event) => self.event(event).await?,
                Line::Blob(blob) => {
                    self.done.dropped_tail = self.blob(blob, bytes).await?;
                    if self.done.dropped_tail.is_some() {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn event(&mut self, event: Event) -> Result<(), ImportError> {
        let branch = event.branch_id();
        let key = self.key_of(&branch, event.seq)?;
        let tip = self.tip(&branch).await?;
        if event.seq <= tip.seq {
            if self.batch.touches(&branch) {
                self.flush().await?;
            }
            self.existing.compare(&event, self.input.line).await?;
            self.done.skipped += 1;
        } else if event.seq == tip.seq.next() {
            let new = self.check(&event, tip).await?;
            self.tips.insert(branch.clone(), Tip { seq: event.seq, chain: event.chain, ts: Some(event.ts) });
            self.batch.push(branch, tip.seq, key.as_ref(), new);
        } else {
            let what = format!("event {} comes after event {} of {branch}", event.seq, tip.seq);
            return Err(self.out_of_place(what));
        }
        if key.is_none_or(|key| key.last == event.seq) {
            self.key = None;
            if self.batch.is_full() {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// The keyed part that an event belongs to, if one is being read.
    fn key_of(&mut self, branch: &BranchId, seq: Seq) -> Result<Option<KeyLine>, ImportError> {
        match &self.key {
            None => Ok(None),
            Some(key) if key.branch == *branch && key.first <= seq && seq <= key.last => {
                Ok(Some(key.clone()))
            }
            Some(key) => {
                let what = format!("events {} to {} of {} come first", key.first, key.last, key.branch);
                Err(self.out_of_place(what))
            }
        }
    }

    async fn start_key(&mut self, key: KeyLine) -> Result<(), ImportError> {
        let events = (key.last.0 - key.first.0).saturating_add(1);
        if self.key.is_some() || events > EVENTS_MAX as u64 {
            return Err(self.out_of_place(format!("no part has key `{}`", key.key)));
        }
        // One part is one append: it must not be cut by the size of a batch.
        if !self.batch.has_room(events) {
            self.flush().await?;
        }
        self.key = Some(key);
        Ok(())
    }

    async fn tip(&mut self, branch: &BranchId) -> Result<Tip, ImportError> {
        if let Some(tip) = self.tips.get(branch) {
            return Ok(*tip);
        }
        let tip = match self.journal.head(branch).await.map_err(|source| self.read(source))? {
            Some(head) => Tip { seq: head.seq, chain: head.chain, ts: Some(head.ts) },
            None if branch.branch == BranchName::main() => Tip { seq: Seq(0), chain: Hash::ZERO, ts: None },
            None => return Err(self.out_of_place(format!("nothing says where {branch} was forked"))),
        };
        self.tips.insert(branch.clone(), tip);
        Ok(tip)
    }

    /// Makes sure that an event, once appended after `tip`, is the one that was exported.
    async fn check(&mut self, event: &Event, tip: Tip) -> Result<NewEvent, ImportError> {
        let new = NewEvent::new(event.kind.clone(), event.payload.clone())
            .with_meta(event.meta.clone())
            .with_refs(event.refs.clone())
            .with_identity(event.id, event.ts);
        let is_late = tip.ts.is_none_or(|before| before <= event.ts);
        let what = if new.payload_hash() != event.payload_hash {
            "its payload does not match its hash"
        } else if event.chain_after(tip.chain) != event.chain {
            "its chain does not follow from the event before it"
        } else if new.refs() != event.refs || !is_late {
            "no journal can have written it"
        } else {
            return self.check_blobs(&new).await.map(|()| new);
        };
        Err(self.altered(format!("event {} of {}: {what}", event.seq, event.branch_id())))
    }

    async fn check_blobs(&mut self, event: &NewEvent) -> Result<(), ImportError> {
        let line = self.input.line;
        let own = event.is_large().then(|| event.payload_hash());
        for hash in event.refs().iter().copied().filter(|hash| Some(*hash) != own) {
            if self.stored.contains(&hash) {
                continue;
            }
            let found = self.blobs.stat(hash).await;
            if found.map_err(|source| ImportError::GetBlob { line, source })?.is_none() {
                return Err(ImportError::NoBlob { line, hash });
            }
            self.stored.insert(hash);
        }
        Ok(())
    }

    async fn fork(&mut self, fork: ForkLine) -> Result<(), ImportError> {
        self.flush().await?;
        let line = self.input.line;
        let ForkLine { branch, parent, at, chain } = fork;
        let branches = self.journal.branches(&branch.stream).await.map_err(|source| self.read(source))?;
        if let Some(found) = branches.iter().find(|found| found.name == branch.branch) {
            let is_same = found
                .parent
                .as_ref()
                .is_some_and(|point| (&point.branch, point.at, point.chain) == (&parent, at, chain));
            let what = || format!("branch {branch}");
            return if is_same { Ok(()) } else { Err(ImportError::Conflict { line, what: what() }) };
        }
        let from = BranchId { stream: branch.stream.clone(), branch: parent };
        let shared = self.journal.read(&from, Seq(at.0.saturating_sub(1)), 1).await;
        match shared.as_ref().map(|events| events.first()) {
            Ok(Some(event)) if event.seq == at && event.chain == chain => {}
            Ok(_) | Err(ReadError::NoStream(_) | ReadError::NoBranch(_)) => {
                let what = format!("{branch} was not forked from event {at} of {from} as it is here");
                return Err(self.altered(what));
            }
            Err(_) => return shared.map(drop).map_err(|source| self.read(source)),
        }
        let fork = Fork { from, at, name: branch.branch };
        self.journal.fork(fork).await.map_err(|source| ImportError::Fork { line, source })?;
        self.done.forks += 1;
        Ok(())
    }

    /// Stores a blob whose first piece is given. Says how much was dropped if the file ends before the blob does.
    async fn blob(&mut self, first: BlobLine, bytes: u64) -> Result<Option<u64>, ImportError> {
        let hash = first.hash;
        let line = self.input.line;
        let lease = self.blobs.lease(&[hash]).await;
        self.leases.push(lease.map_err(|source| ImportError::PutBlob { line, source })?);
        let (pipe, content) = tokio::io::duplex(BLOB_PIECE_MAX);
        let put = async { self.blobs.put(Box::new(content)).await.map_err(Stop::Put) };
        // An error of either drops the other, so a blob that is not whole is not stored.
        let both = tokio::try_join!(put, feed(&mut self.input, pipe, first, bytes));
        let line = self.input.line;
        match both {
            Ok((stored, ())) if stored.hash == hash => {
                self.done.blobs += 1;
                self.stored.insert(hash);
                Ok(None)
            }
            Ok(_) => Err(self.altered(format!("the content of blob {hash} does not match its hash"))),
            Err(Stop::Cut(bytes)) => Ok(Some(bytes)),
            Err(Stop::Put(source)) => Err(ImportError::PutBlob { line, source }),
            Err(Stop::Bad(error)) => Err(error),
        }
    }

    async fn flush(&mut self) -> Result<(), ImportError> {
        let (parts, events) = self.batch.take();
        if parts.is_empty() {
            return Ok(());
        }
        let line = self.input.line;
        let appended = self.journal.append(parts).await;
        let appended = appended.map_err(|source| ImportError::Append { line, source })?;
        if appended.iter().any(|part| part.replayed) {
            return Err(ImportError::Conflict { line, what: "one of the keys".to_owned() });
        }
        self.leases.clear();
        self.done.events += events;
        if self.tips.len() > REMEMBERED_MAX {
            self.tips.clear();
        }
        if self.stored.len() > REMEMBERED_MAX {
            self.stored.clear();
        }
        Ok(())
    }

    fn out_of_place(&self, what: String) -> ImportError {
        ImportError::OutOfPlace { line: self.input.line, what }
    }

    fn altered(&self, what: String) -> ImportError {
        ImportError::Altered { line: self.input.line, what }
    }

    fn read(&self, source: ReadError) -> ImportError {
        ImportError::Read { line: self.input.line, source }
    }
}

/// Why a blob was not stored.
enum Stop {
    Cut(u64),
    Put(PutError),
    Bad(ImportError),
}

/// Writes the pieces of a blob into `pipe`, the first one and those on the lines that follow.
async fn feed(
    input: &mut Input<'_>,
    mut pipe: DuplexStream,
    first: BlobLine,
    mut bytes: u64,
) -> Result<(), Stop> {
    let hash = first.hash;
    let mut hasher = Hasher::default();
    let mut piece = first;
    loop {
        hasher.update(&piece.data);
        if pipe.write_all(&piece.data).await.is_err() {
            // The store has stopped reading; its own answer says why.
            return Ok(());
        }
        if !piece.more {
            break;
        }
        let next = match input.next().await.map_err(Stop::Bad)? {
            Next::Line(next, more) => {
                bytes += more;
                *next
            }
            Next::Cut(cut) => return Err(Stop::Cut(bytes + cut)),
            Next::End => return Err(Stop::Cut(bytes)),
        };
        piece = match next {
            Line::Blob(next) if next.hash == hash => next,
            _ => {
                let (line, what) = (input.line, format!("the next piece of blob {hash} is missing"));
                return Err(Stop::Bad(ImportError::OutOfPlace { line, what }));
            }
        };
    }
    if hasher.finish() == hash {
        return Ok(());
    }
    let what = format!("the content of blob {hash} does not match its hash");
    Err(Stop::Bad(ImportError::Altered { line: input.line, what }))
}
