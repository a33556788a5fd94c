//! Writing an export.
//!
//! All streams go out in order of position; one stream goes out branch by branch, in the order they were made. Both
//! orders survive an import, so an export of an imported export is the same, byte for byte.
//!
//! A damaged event costs its own branch: the export has the events before it, goes on with all other branches, and reports it.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use weir_blobs::{Blobs, GetError};
use weir_types::{BranchId, BranchName, Event, Hash, PAYLOAD_INLINE_MAX, Position, Seq, StreamName};

use super::{DamagedBranch, ExportError, Exported, Selection};
use crate::append::{EVENTS_MAX, Key};
use crate::error::ReadError;
use crate::lines::{BLOB_PIECE_MAX, BlobLine, EXPORT_VERSION, ForkLine, KeyLine, Line, Positions, to_line};
use crate::listing::{Branch, StreamSummary};
use crate::port::{Journal, PAGE_MAX};

/// Pages shrink while they hold more payload than this.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Writes the streams of a selection to `sink`: what is in the journal when it starts, not what is appended meanwhile.
///
/// # Errors
/// When the output cannot be written, or nothing more can be read. What was written until then is a whole prefix of the export. Damage
/// is no error: see [`Exported::damaged`].
pub async fn export(
    journal: &dyn Journal,
    blobs: &dyn Blobs,
    selection: Selection,
    sink: &mut (dyn AsyncWrite + Send + Unpin),
) -> Result<Exported, ExportError> {
    let mut export = Export {
        journal,
        blobs,
        sink: BufWriter::with_capacity(64 * 1024, sink),
        told_forks: HashMap::new(),
        ends: HashMap::new(),
        damaged: BTreeMap::new(),
        told_blobs: HashSet::new(),
        page: Paging { limit: PAGE_MAX },
        left_out: HashSet::new(),
        written: Exported::default(),
        selection,
    };
    export.line(&Line::Header { version: EXPORT_VERSION }).await?;
    match export.selection.clone() {
        Selection::Stream(stream) => export.one(&stream).await?,
        Selection::Portable | Selection::Everything => export.all().await?,
    }
    export.sink.flush().await.map_err(ExportError::Write)?;
    export.written.damaged = export.damaged.into_values().collect();
    export.written.left_out.streams = export.left_out.len() as u64;
    Ok(export.written)
}

struct Export<'a> {
    journal: &'a dyn Journal,
    blobs: &'a dyn Blobs,
    sink: BufWriter<&'a mut (dyn AsyncWrite + Send + Unpin)>,
    /// Branches other than `main` that were told of, and the last event that each shares with its parent.
    told_forks: HashMap<BranchId, Seq>,
    /// The last event of each branch that was written.
    ends: HashMap<BranchId, Seq>,
    damaged: BTreeMap<Option<BranchId>, DamagedBranch>,
    told_blobs: HashSet<Hash>,
    /// Streams that the selection does not take.
    left_out: HashSet<StreamName>,
    page: Paging,
    selection: Selection,
    written: Exported,
}

/// How many events to ask for, so that a page of large payloads does not fill the memory.
struct Paging {
    limit: usize,
}

impl Paging {
    /// Asks for less, so that what can be read before something damaged is read; false, if it was one event alone.
    fn narrow(&mut self) -> bool {
        let is_many = self.limit > 1;
        self.limit = (self.limit / 2).max(1);
        is_many
    }

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
            while after < branch.head.seq && !self.is_damaged(&id) {
                let left = usize::try_from(branch.head.seq.0 - after.0).unwrap_or(PAGE_MAX);
                let page = match self.journal.read(&id, after, self.page.limit.min(left)).await {
                    Err(error) if error.is_damage() && self.page.narrow() => continue,
                    Err(error) if error.is_damage() => {
                        self.damage(Some(id.clone()), after.next(), error.to_string());
                        break;
                    }
                    page => page?,
                };
                let Some(last) = page.last() else { break };
                after = last.seq;
                self.events(&page).await?;
                self.page.adapt(&page);
            }
            self.complete(&id, &branch);
        }
        Ok(())
    }

    async fn all(&mut self) -> Result<(), ExportError> {
        let end = self.journal.end().await?;
        let mut after = Position(0);
        while after < end {
            let mut page = match self.journal.read_all(after, self.page.limit).await {
                Err(error) if error.is_damage() && self.page.narrow() => continue,
                Err(error) if error.is_damage() => {
                    self.unreadable(&error);
                    after = Position(after.0 + 1);
                    continue;
                }
                page => page?,
            };
            page.retain(|event| event.position <= end);
            let Some(last) = page.last() else { break };
            after = last.position;
            page.retain(|event| self.takes(event));
            self.events(&page).await?;
            self.page.adapt(&page);
        }
        self.remaining_forks(end).await
    }

    /// Whether an event is in the export; counts those that are not.
    fn takes(&mut self, event: &Event) -> bool {
        if self.selection.takes(&event.stream) {
            return true;
        }
        self.written.left_out.events += 1;
        if !self.left_out.contains(&event.stream) {
            self.left_out.insert(event.stream.clone());
        }
        false
    }

    async fn events(&mut self, page: &[Event]) -> Result<(), ExportError> {
        let keys = self.keys(page).await?;
        for event in page {
            let branch = event.branch_id();
            if !self.continues(&branch, event).await? {
                continue;
            }
            if let Some((key, last)) = keys.get(&(branch.clone(), event.seq)) {
                let (key, first, last) = (key.clone(), event.seq, *last);
                let branch = branch.clone();
                self.line(&Line::Key(KeyLine { branch, key, first, last })).await?;
            }
            let own = (event.payload.len() > PAYLOAD_INLINE_MAX).then_some(event.payload_hash);
            for hash in event.refs.iter().filter(|hash| Some(**hash) != own) {
                self.blob(*hash, event).await?;
            }
            self.text(&to_line(event, Positions::Hidden)).await?;
            self.written.events += 1;
            match self.ends.get_mut(&branch) {
                Some(end) => *end = event.seq,
                None => drop(self.ends.insert(branch, event.seq)),
            }
        }
        Ok(())
    }

    /// Whether an event follows what was written of its branch. After damage it does not, and an import could not check it.
    async fn continues(&mut self, branch: &BranchId, event: &Event) -> Result<bool, ExportError> {
        if !self.is_damaged(branch) {
            self.fork_of(branch).await?;
        }
        let shared = self.told_forks.get(branch).copied().unwrap_or(Seq(0));
        let expected = self.ends.get(branch).copied().unwrap_or(shared).next();
        if !self.is_damaged(branch) && event.seq != expected {
            self.damage(Some(branch.clone()), expected, "it is missing".to_owned());
        }
        if self.damaged.is_empty() {
            return Ok(true);
        }
        match self.damaged.get_mut(&Some(branch.clone())) {
            Some(damaged) => {
                damaged.left_out += 1;
                Ok(false)
            }
            None => Ok(true),
        }
    }

    fn is_damaged(&self, branch: &BranchId) -> bool {
        !self.damaged.is_empty() && self.damaged.contains_key(&Some(branch.clone()))
    }

    /// Notes the first damage of a branch that is to be in the export.
    fn damage(&mut self, branch: Option<BranchId>, seq: Seq, what: String) {
        if branch.as_ref().is_some_and(|branch| !self.selection.takes(&branch.stream)) {
            return;
        }
        let damaged = DamagedBranch { branch: branch.clone(), seq, what, left_out: 0 };
        self.damaged.entry(branch).or_insert(damaged);
    }

    /// An event that cannot be read, of a branch that its error names if it can.
    fn unreadable(&mut self, error: &ReadError) {
        match error {
            ReadError::Damaged { branch, seq, .. } | ReadError::Blob { branch, seq, .. } => {
                self.damage(Some(branch.clone()), *seq, error.to_string());
            }
            other => self.damage(None, Seq(0), other.to_string()),
        }
    }

    /// Notes what a branch has beyond what was written of it.
    fn complete(&mut self, id: &BranchId, branch: &Branch) {
        let shared = Seq(branch.head.seq.0 - branch.own_events());
        let end = self.ends.get(id).copied().unwrap_or(shared);
        if end < branch.head.seq && !self.is_damaged(id) {
            self.damage(Some(id.clone()), end.next(), "it is missing".to_owned());
        }
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
        if branch.branch == BranchName::main() || self.told_forks.contains_key(branch) {
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
        if self.told_forks.contains_key(id) || self.is_damaged(id) {
            return Ok(());
        }
        // A branch that shares what is damaged cannot be imported either.
        let of = BranchId { stream: id.stream.clone(), branch: parent.branch.clone() };
        if let Some(damaged) = self.damaged.get(&Some(of)).filter(|damaged| damaged.seq <= parent.at) {
            let what = format!("it shares damaged events with `{}`: {}", parent.branch, damaged.what);
            self.damage(Some(id.clone()), damaged.seq, what);
            return Ok(());
        }
        if self.told_forks.insert(id.clone(), parent.at).is_none() {
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
            for summary in &page {
                if self.selection.takes(&summary.stream) {
                    self.remaining(summary, end).await?;
                }
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.stream),
                None => return Ok(()),
            }
        }
    }

    /// Tells of the branches of one stream that have no event of their own up to `end`, and notes what is missing of the others.
    async fn remaining(&mut self, summary: &StreamSummary, end: Position) -> Result<(), ExportError> {
        let branches = match self.journal.branches(&summary.stream).await {
            Err(error) if error.is_damage() => {
                let main = BranchId::main(summary.stream.clone());
                let seq = self.ends.get(&main).copied().unwrap_or(Seq(0)).next();
                self.damage(Some(main), seq, error.to_string());
                return Ok(());
            }
            branches => branches?,
        };
        for branch in branches {
            let id = BranchId { stream: summary.stream.clone(), branch: branch.name.clone() };
            match self.is_within(&id, &branch, end).await {
                Ok(true) => self.fork(&id, &branch).await?,
                Ok(false) => {}
                Err(ExportError::Read(error)) if error.is_damage() => self.unreadable(&error),
                Err(error) => return Err(error),
            }
            if branch.own_events() > 0 && branch.head.position <= end {
                self.complete(&id, &branch);
            }
        }
        Ok(())
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
        if parent.branch != BranchName::main() && !self.told_forks.contains_key(&parent_id) {
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
