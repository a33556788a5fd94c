//! Writing an export.
//!
//! All streams go out in order of position; one stream goes out branch by branch, in the order they were made. Both
//! orders survive an import, so an export of an imported export is the same, byte for byte.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use weir_blobs::{Blobs, GetError};
use weir_types::{BranchId, BranchName, Event, Hash, PAYLOAD_INLINE_MAX, Position, Seq, StreamName};

use super::{ExportError, Exported};
use crate::append::{EVENTS_MAX, Key};
use crate::error::ReadError;
use crate::lines::{BLOB_PIECE_MAX, BlobLine, EXPORT_VERSION, ForkLine, KeyLine, Line, Positions, to_line};
use crate::listing::Branch;
use crate::port::{Journal, PAGE_MAX};

/// Pages shrink while they hold more payload than this.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Writes one stream, or all of them, to `sink`: what is in the journal when it starts, not what is appended meanwhile.
///
/// # Errors
/// When something cannot be read or written. What was written until then is a whole prefix of the export.
pub async fn export(
    journal: &dyn Journal,
    blobs: &dyn Blobs,
    stream: Option<StreamName>,
    sink: &mut (dyn AsyncWrite + Send + Unpin),
) -> Result<Exported, ExportError> {
    let mut export = Export {
        journal,
        blobs,
        sink: BufWriter::with_capacity(64 * 1024, sink),
        told_forks: HashSet::new(),
        told_blobs: HashSet::new(),
        page: Paging { limit: PAGE_MAX },
        written: Exported::default(),
    };
    export.line(&Line::Header { version: EXPORT_VERSION }).await?;
    match stream {
        Some(stream) => export.one(&stream).await?,
        None => export.all().await?,
    }
    export.sink.flush().await.map_err(ExportError::Write)?;
    Ok(export.written)
}

struct Export<'a> {
    journal: &'a dyn Journal,
    blobs: &'a dyn Blobs,
    sink: BufWriter<&'a mut (dyn AsyncWrite + Send + Unpin)>,
    told_forks: HashSet<BranchId>,
    told_blobs: HashSet<Hash>,
    page: Paging,
    written: Exported,
}

/// How many events to ask for, so that a page of large payloads does not fill the memory.
struct Paging {
    limit: usize,
}

impl Paging {
    fn adapt(&mut self, page: &[Event]) {
        let bytes: usize = page.iter().map(|event| event.payload.len()).sum();
        self.limit = if bytes > PAGE_BYTES { self.limit / 2 } else { self.limit * 2 }.clamp(1, PAGE_MAX);
    }
}

/// The keys of the events of one page, by the place of their part's first event.
type Keys = BTreeMap<(BranchId, Seq), (Key, Seq)>;

impl Export<'_> {
    async fn one(&mut self, stream: &StreamName) -> Result<(), ExportError> {
        // One read: the heads are those of one moment.
        let branches = self.journal.branches(stream).await?;
        if branches.is_empty() {
            return Err(ReadError::NoStream(stream.clone()).into());
        }
        for branch in branches {
            let id = BranchId { stream: stream.clone(), branch: branch.name.clone() };
            self.fork(&id, &branch).await?;
            let mut after = Seq(branch.head.seq.0 - branch.own_events());
            while after < branch.head.seq {
                let left = usize::try_from(branch.head.seq.0 - after.0).unwrap_or(PAGE_MAX);
                let page = self.journal.read(&id, after, self.page.limit.min(left)).await?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                self.events(&page).await?;
                self.page.adapt(&page);
            }
        }
        Ok(())
    }

    async fn all(&mut self) -> Result<(), ExportError> {
        let end = self.journal.end().await?;
        let mut after = Position(0);
        while after < end {
            let mut page = self.journal.read_all(after, self.page.limit).await?;
            page.retain(|event| event.position <= end);
            let Some(last) = page.last() else { break };
            after = last.position;
            self.events(&page).await?;
            self.page.adapt(&page);
        }
        self.remaining_forks(end).await
    }

    async fn events(&mut self, page: &[Event]) -> Result<(), ExportError> {
        let keys = self.keys(page).await?;
        for event in page {
            let branch = event.branch_id();
            self.fork_of(&branch).await?;
            if let Some((key, last)) = keys.get(&(branch.clone(), event.seq)) {
                let (key, first, last) = (key.clone(), event.seq, *last);
                self.line(&Line::Key(KeyLine { branch, key, first, last })).await?;
            }
            let own = (event.payload.len() > PAYLOAD_INLINE_MAX).then_some(event.payload_hash);
            for hash in event.refs.iter().filter(|hash| Some(**hash) != own) {
                self.blob(*hash, event).await?;
            }
            self.text(&to_line(event, Positions::Hidden)).await?;
            self.written.events += 1;
        }
        Ok(())
    }

    /// The keys of the parts that start on this page, among others.
    async fn keys(&mut self, page: &[Event]) -> Result<Keys, ExportError> {
        let mut ranges: BTreeMap<BranchId, (Seq, Seq)> = BTreeMap::new();
        for event in page {
            ranges.entry(event.branch_id()).or_insert((event.seq, event.seq)).1 = event.seq;
        }
        // Events of one part follow one another, so only the page's last part can go on after it.
        let open = page.last().map(Event::branch_id);
        let mut keys = Keys::new();
        for (branch, (from, to)) in ranges {
            let beyond = if open.as_ref() == Some(&branch) { EVENTS_MAX as u64 } else { 0 };
            let parts = self.journal.keys(&branch, from, Seq(to.0.saturating_add(beyond))).await?;
            for part in parts {
                keys.insert((branch.clone(), part.first), (part.key, part.last));
            }
        }
        Ok(keys)
    }

    /// Tells of a branch and of those it comes from, before its first event.
    async fn fork_of(&mut self, branch: &BranchId) -> Result<(), ExportError> {
        if branch.branch == BranchName::main() || self.told_forks.contains(branch) {
            return Ok(());
        }
        let branches = self.journal.branches(&branch.stream).await?;
        let mut ancestors = Vec::new();
        let mut name = Some(&branch.branch);
        while let Some(found) = branches.iter().find(|branch| Some(&branch.name) == name) {
            ancestors.push(found);
            name = found.parent.as_ref().map(|parent| &parent.branch);
        }
        for found in ancestors.into_iter().rev() {
            let id = BranchId { stream: branch.stream.clone(), branch: found.name.clone() };
            self.fork(&id, found).await?;
        }
        Ok(())
    }

    async fn fork(&mut self, id: &BranchId, branch: &Branch) -> Result<(), ExportError> {
        let Some(parent) = &branch.parent else { return Ok(()) };
        if self.told_forks.insert(id.clone()) {
            let (parent, at, chain) = (parent.branch.clone(), parent.at, parent.chain);
            self.line(&Line::Fork(ForkLine { branch: id.clone(), parent, at, chain })).await?;
            self.written.forks += 1;
        }
        Ok(())
    }

    /// Tells of the branches that have no event of their own up to `end`.
    async fn remaining_forks(&mut self, end: Position) -> Result<(), ExportError> {
        let mut after = None;
        loop {
            let page = self.journal.streams(after.take(), PAGE_MAX).await?;
            for summary in page.iter().filter(|summary| summary.branches > 1) {
                for branch in self.journal.branches(&summary.stream).await? {
                    let id = BranchId { stream: summary.stream.clone(), branch: branch.name.clone() };
                    if self.is_within(&id, &branch, end).await? {
                        self.fork(&id, &branch).await?;
                    }
                }
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.stream),
                None => return Ok(()),
            }
        }
    }

    /// Whether the event a branch was forked at is in this export, and its parent too. Parents come first.
    async fn is_within(
        &mut self,
        id: &BranchId,
        branch: &Branch,
        end: Position,
    ) -> Result<bool, ExportError> {
        let Some(parent) = &branch.parent else { return Ok(false) };
        let parent_id = BranchId { stream: id.stream.clone(), branch: parent.branch.clone() };
        if parent.branch != BranchName::main() && !self.told_forks.contains(&parent_id) {
            return Ok(false);
        }
        let shared = self.journal.read(id, Seq(parent.at.0.saturating_sub(1)), 1).await?;
        Ok(shared.first().is_some_and(|event| event.position <= end))
    }

    /// Writes a blob's content, once.
    async fn blob(&mut self, hash: Hash, event: &Event) -> Result<(), ExportError> {
        if !self.told_blobs.insert(hash) {
            return Ok(());
        }
        let (branch, seq) = (event.branch_id(), event.seq);
        let failed = |source| ExportError::Blob { branch: branch.clone(), seq, source };
        let mut content = self.blobs.get(hash).await.map_err(failed)?;
        let mut piece = Vec::new();
        loop {
            let mut next = Vec::new();
            let read = (&mut content).take(BLOB_PIECE_MAX as u64).read_to_end(&mut next).await;
            read.map_err(|error| failed(GetError::from_reader(hash, error)))?;
            let more = !next.is_empty();
            if more && piece.is_empty() {
                piece = next;
                continue;
            }
            let data = Bytes::from(std::mem::replace(&mut piece, next));
            self.line(&Line::Blob(BlobLine { hash, data, more })).await?;
            if !more {
                self.written.blobs += 1;
                return Ok(());
            }
        }
    }

    async fn line(&mut self, line: &Line) -> Result<(), ExportError> {
        self.text(&line.to_text()).await
    }

    async fn text(&mut self, line: &str) -> Result<(), ExportError> {
        self.sink.write_all(line.as_bytes()).await.map_err(ExportError::Write)?;
        self.sink.write_all(b"\n").await.map_err(ExportError::Write)
    }
}
