//! Verifying the file: every chain from its first event to its head, every index along the way, every blob.
//!
//! Branch by branch, through the same look-ups that readers use, so that what verifies can be read. Each page is a
//! transaction of its own: a long check does not keep the log from being checkpointed, and others may go on writing.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::params;
use tokio::io::AsyncReadExt;
use weir_blobs::Blobs;
use weir_journal::{PAGE_MAX, Problem, ReadError, Report, StorageFailure, VerifyProgress, content};
use weir_types::{Event, Explain, Hash, Seq, StreamName};

use crate::block::BLOCK;
use crate::connection::failure;
use crate::dictionary;
use crate::pool::Pool;
use crate::read::Reader;
use crate::rows::{BranchRow, Error, HeadRow, Result, clamp, convert, unsigned};

/// A branch as it was when the check began.
type Subject = (Arc<BranchRow>, HeadRow);

/// What one page found.
struct Page {
    /// The chain after the last sound event.
    chain: Hash,
    /// The blobs its events need, with the event that needs them.
    blobs: Vec<(Hash, Seq)>,
    /// What is wrong with the first event that is not sound.
    problem: Option<Problem>,
}

/// A check in progress.
struct Check<'a> {
    pool: &'a Arc<Pool>,
    blobs: &'a Arc<dyn Blobs>,
    seen: HashSet<Hash>,
    report: Report,
}

pub(crate) async fn verify(
    pool: &Arc<Pool>,
    blobs: &Arc<dyn Blobs>,
    stream: Option<StreamName>,
    progress: VerifyProgress,
) -> std::result::Result<Report, ReadError> {
    let mut check = Check { pool, blobs, seen: HashSet::new(), report: Report::default() };
    let scope = stream.clone();
    let subjects = match pool.read(move |reader| subjects(reader, scope.as_ref())).await {
        Err(error) if is_damage(&error) => {
            check.note(nowhere(error.to_string()));
            return Ok(check.report);
        }
        found => check.keep_sound(found?),
    };
    let total = subjects.iter().map(|(branch, head)| head.seq - branch.at).sum();
    let streams: HashSet<i64> = subjects.iter().map(|(branch, _)| branch.stream).collect();
    (check.report.streams, check.report.branches) = (streams.len() as u64, subjects.len() as u64);
    for subject in subjects {
        check.branch(Arc::new(subject), total, &progress).await?;
    }
    check.run(move |reader| whole_file(reader, stream.is_none())).await?;
    progress(check.report.events, total);
    Ok(check.report)
}

/// The branches to check and their heads, of one moment; or what is wrong with them.
fn subjects(
    reader: &mut Reader,
    stream: Option<&StreamName>,
) -> Result<Vec<std::result::Result<Subject, Problem>>> {
    // What this connection remembers was true once; the question is what the file says now.
    reader.rows.forget();
    let scope = match stream {
        None => None,
        Some(name) => Some(reader.rows.stream_no(name)?.ok_or_else(|| ReadError::NoStream(name.clone()))?),
    };
    let mut subjects = Vec::new();
    for no in reader.branch_numbers(scope)? {
        let branch = match reader.rows.branch_by_no(no) {
            Ok(branch) => branch,
            Err(error) => {
                subjects
                    .push(Err(nowhere(format!("branch number {no} cannot be read ({})", damage(error)?))));
                continue;
            }
        };
        subjects.push(match reader.rows.head(&branch) {
            Ok(head) => Ok((branch, head)),
            Err(error) => Err(problem(&branch, branch.at + 1, &damage(error)?)),
        });
    }
    Ok(subjects)
}

/// What an error says about the file; an error that says nothing about it is passed on.
fn damage(error: Error) -> Result<String> {
    match error {
        Error::Read(ReadError::Damaged { what, .. }) => Ok(what),
        Error::Read(error) => Ok(error.to_string()),
        Error::Sqlite(error) if failure(&error) == StorageFailure::Corrupt => {
            Ok(format!("it cannot be read ({error})"))
        }
        Error::Sqlite(error) => Err(error.into()),
    }
}

impl Check<'_> {
    fn note(&mut self, problem: Problem) {
        self.report.note(problem);
    }

    fn keep_sound(&mut self, found: Vec<std::result::Result<Subject, Problem>>) -> Vec<Subject> {
        let mut sound = Vec::with_capacity(found.len());
        for subject in found {
            match subject {
                Ok(subject) => sound.push(subject),
                Err(problem) => self.note(problem),
            }
        }
        sound
    }

    /// Runs one step; damage below the level of events is a finding, not a failure of the check.
    async fn run<F>(&mut self, step: F) -> std::result::Result<(), ReadError>
    where
        F: FnOnce(&mut Reader) -> Result<Vec<Problem>> + Send + 'static,
    {
        match self.pool.read(step).await {
            Ok(problems) => problems.into_iter().for_each(|problem| self.note(problem)),
            Err(error) if is_damage(&error) => {
                self.note(placed(&error).unwrap_or_else(|| nowhere(error.to_string())));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn branch(
        &mut self,
        subject: Arc<Subject>,
        total: u64,
        progress: &VerifyProgress,
    ) -> std::result::Result<(), ReadError> {
        let (branch, head) = &*subject;
        let step = subject.clone();
        self.run(move |reader| fork_pointer(reader, &step.0)).await?;
        let mut chain = branch.chain;
        let mut from = branch.at + 1;
        while from <= head.seq {
            let to = head.seq.min(from + PAGE_MAX as u64 - 1);
            let step = subject.clone();
            let page = self.pool.read(move |reader| page(reader, &step, from, to, chain)).await?;
            self.blobs(branch, page.blobs).await?;
            if let Some(problem) = page.problem {
                self.note(problem);
                return Ok(());
            }
            self.report.events += to + 1 - from;
            (chain, from) = (page.chain, to + 1);
            progress(self.report.events, total);
        }
        if chain != head.chain {
            self.note(problem(branch, head.seq, "the head of its branch has another chain"));
        }
        let step = subject.clone();
        self.run(move |reader| keys(reader, &step)).await
    }

    /// Reads every blob once.
    async fn blobs(
        &mut self,
        branch: &BranchRow,
        needed: Vec<(Hash, Seq)>,
    ) -> std::result::Result<(), ReadError> {
        for (hash, seq) in needed {
            if !self.seen.insert(hash) {
                continue;
            }
            match drain(self.blobs, hash).await {
                Ok(()) => self.report.blobs += 1,
                Err(error) => self.note(problem(branch, seq.0, &error)),
            }
        }
        Ok(())
    }
}

async fn drain(blobs: &Arc<dyn Blobs>, hash: Hash) -> std::result::Result<(), String> {
    let mut reader = blobs.get(hash).await.map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 64 * 1024];
    while reader.read(&mut buffer).await.map_err(|error| error.to_string())? > 0 {}
    Ok(())
}

/// A fork continues its parent's chain at the event it names.
fn fork_pointer(reader: &mut Reader, branch: &BranchRow) -> Result<Vec<Problem>> {
    let Some(parent) = branch.parent else {
        let is_root = branch.at == 0 && branch.chain == Hash::ZERO;
        return Ok(if is_root {
            vec![]
        } else {
            vec![problem(branch, branch.at + 1, "its branch has no parent")]
        });
    };
    let parent = reader.rows.branch_by_no(parent)?;
    let wrong = |what: &str| Ok(vec![problem(branch, branch.at, what)]);
    if parent.stream != branch.stream || parent.no >= branch.no {
        return wrong("its fork pointer names a branch that cannot be its parent");
    }
    let Some(segment) = reader.lineage(&parent.id, branch.at.saturating_sub(1))?.into_iter().next() else {
        return wrong("its fork pointer lies beyond the end of its parent");
    };
    let chain = reader.rows.chain_before(&segment.branch, &segment.head, branch.at + 1)?;
    if chain != branch.chain {
        return wrong("its fork pointer does not fit its parent's chain");
    }
    Ok(vec![])
}

/// Checks the own events `from..=to` of a branch.
fn page(reader: &mut Reader, subject: &Subject, from: u64, to: u64, mut chain: Hash) -> Result<Page> {
    let (branch, head) = subject;
    let mut blobs = Vec::new();
    for seq in from..=to {
        let checked = match event(reader, branch, head, seq, chain) {
            Ok(checked) => checked,
            Err(error) => Err(damage(error)?),
        };
        match checked {
            Ok(event) => {
                chain = event.chain;
                blobs.extend(event.refs.iter().map(|hash| (*hash, event.seq)));
            }
            Err(what) => return Ok(Page { chain, blobs, problem: Some(problem(branch, seq, &what)) }),
        }
    }
    Ok(Page { chain, blobs, problem: None })
}

/// One event: in its place, in its chain, and found by everything that should find it. The inner error says what is
/// wrong with it.
fn event(
    reader: &mut Reader,
    branch: &BranchRow,
    head: &HeadRow,
    seq: u64,
    before: Hash,
) -> Result<std::result::Result<Event, String>> {
    let wrong = |what: &str| Ok(Err(what.to_owned()));
    let entry = reader.rows.entries(branch, head, seq, seq)?[0];
    let Some(row) = reader.rows.event(entry.position)? else { return wrong("it is missing") };
    if (row.branch, row.seq) != (branch.no, seq) {
        return wrong("another event is in its place");
    }
    if row.kind != entry.kind {
        return wrong("the index of its branch has another kind for it");
    }
    let position = row.position;
    let event = reader.finish(branch, &row, before)?.event;
    let same = |found: Option<i64>| found == Some(position);
    if !same(
        reader
            .rows
            .one("SELECT position FROM events WHERE id = ?1", [event.id.to_bytes()], |row| row.get(0))?,
    ) {
        return wrong("it is not found by its id");
    }
    if let Some(cause) = event.meta.causation() {
        let sql = "SELECT position FROM causes WHERE cause = ?1 AND position = ?2";
        if !same(reader.rows.one(sql, params![cause.to_bytes(), position], |row| row.get(0))?) {
            return wrong("it is not found by its cause");
        }
    }
    for hash in &event.refs {
        let sql = "SELECT position FROM refs WHERE hash = ?1 AND position = ?2";
        if !same(reader.rows.one(sql, params![hash.as_bytes(), position], |row| row.get(0))?) {
            return wrong("it is not found by a blob it refers to");
        }
    }
    if (seq - branch.at).is_multiple_of(BLOCK)
        && !kinds_indexed(reader, branch, head, (seq - branch.at) / BLOCK - 1)?
    {
        return wrong("the index by kind does not fit its block");
    }
    if seq == head.seq && (head.ts, head.position) != (event.ts, position) {
        return wrong("the head of its branch has another time or position");
    }
    Ok(Ok(event))
}

fn kinds_indexed(reader: &mut Reader, branch: &BranchRow, head: &HeadRow, n: u64) -> Result<bool> {
    let mut kinds: Vec<i64> = reader.rows.block(branch, head, n)?.iter().map(|entry| entry.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let sql = "SELECT 1 FROM kind_blocks WHERE branch = ?1 AND kind = ?2 AND n = ?3";
        if reader.rows.one(sql, params![branch.no, kind, clamp(n)], |_| Ok(()))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Every key names events that exist and have the content it was used for.
fn keys(reader: &mut Reader, subject: &Subject) -> Result<Vec<Problem>> {
    let (branch, head) = subject;
    let sql =
        "SELECT first, last, position, content FROM keys WHERE branch = ?1 AND last <= ?2 ORDER BY last";
    let rows = reader.rows.many(sql, params![branch.no, clamp(head.seq)], |row| {
        let position: i64 = row.get(2)?;
        Ok((unsigned(row, 0)?, unsigned(row, 1)?, position, convert(row, 3, Hash::from_slice)?))
    })?;
    for (first, last, position, hash) in rows {
        let wrong = |what: &str| Ok(vec![problem(branch, first, what)]);
        if first <= branch.at || last < first || last > head.seq {
            return wrong("its idempotency key names events that are not there");
        }
        let entry = reader.rows.entries(branch, head, first, first)?[0];
        let mut found = Vec::new();
        let mut after = first - 1;
        while after < last {
            let page = reader.read(&branch.id, Seq(after), (last - after).min(PAGE_MAX as u64) as usize)?;
            after += page.len() as u64;
            found.extend(
                page.into_iter()
                    .map(|loaded| (loaded.event.kind, loaded.event.payload_hash, loaded.event.refs)),
            );
        }
        let parts = found.iter().map(|(kind, payload_hash, refs)| (kind, *payload_hash, refs.as_slice()));
        if entry.position != position || content(parts) != hash {
            return wrong("its idempotency key was used for other content");
        }
    }
    Ok(vec![])
}

/// What belongs to no branch: the dictionaries, and events that no branch knows of.
fn whole_file(reader: &mut Reader, everything: bool) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for stored in dictionary::check(&reader.rows.connection)? {
        if !stored.is_sound {
            let what = format!(
                "dictionary {}, which its record is compressed with, is damaged or missing",
                stored.no
            );
            problems.push(first_user(reader, stored.no, &what)?);
        }
    }
    if everything {
        let known =
            "SELECT coalesce(sum(seq - at), 0) FROM heads JOIN branches ON branches.no = heads.branch";
        let known: i64 = reader.rows.one(known, [], |row| row.get(0))?.unwrap_or_default();
        let stored: i64 =
            reader.rows.one("SELECT count(*) FROM events", [], |row| row.get(0))?.unwrap_or_default();
        if stored != known {
            problems.push(nowhere(format!("the file holds {stored} events, but its branches have {known}")));
        }
    }
    Ok(problems)
}

/// The first event that is compressed with a dictionary.
fn first_user(reader: &mut Reader, no: i64, what: &str) -> Result<Problem> {
    let sql = "SELECT branch, seq FROM events WHERE form = ?1 ORDER BY position LIMIT 1";
    match reader.rows.one(sql, [no], |row| Ok((row.get::<_, i64>(0)?, unsigned(row, 1)?)))? {
        Some((branch, seq)) => Ok(problem(&*reader.rows.branch_by_no(branch)?, seq, what)),
        None => Ok(nowhere(format!("dictionary {no} is damaged or missing"))),
    }
}

fn problem(branch: &BranchRow, seq: u64, what: &str) -> Problem {
    Problem::at_event(&branch.id, Seq(seq), what)
}

fn nowhere(what: String) -> Problem {
    Problem { what, ..Problem::default() }
}

fn placed(error: &ReadError) -> Option<Problem> {
    let ReadError::Damaged { branch, seq, what } = error else { return None };
    Some(Problem::at_event(branch, *seq, what.clone()))
}

fn is_damage(error: &ReadError) -> bool {
    error.fault() == weir_types::Fault::Damaged
}
