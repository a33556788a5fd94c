//! Walking every chain and every blob.

use std::collections::HashSet;

use weir_blobs::GetError;
use weir_types::{BranchId, Event, Hash, Seq, StreamName};

use super::Shared;
use super::state::Record;
use crate::error::ReadError;
use crate::listing::Branch;
use crate::port::PAGE_MAX;
use crate::verify::{Problem, Report, VerifyProgress};

pub(super) async fn verify(
    shared: &Shared,
    stream: Option<StreamName>,
    progress: &VerifyProgress,
) -> Result<Report, ReadError> {
    let streams = wanted(shared, stream)?;
    let mut walk = Walk { shared, progress, report: Report::default(), total: 0, blobs: HashSet::new() };
    let branches: Vec<(StreamName, Vec<Branch>)> =
        streams.into_iter().map(|stream| (stream.clone(), shared.state().branches(&stream))).collect();
    walk.total = branches.iter().flat_map(|(_, branches)| branches).map(Branch::own_events).sum();
    for (stream, branches) in branches {
        walk.report.streams += 1;
        for branch in branches {
            walk.report.branches += 1;
            let id = BranchId { stream: stream.clone(), branch: branch.name.clone() };
            walk.branch(id, &branch).await?;
        }
    }
    progress(walk.report.events, walk.total);
    Ok(walk.report)
}

fn wanted(shared: &Shared, stream: Option<StreamName>) -> Result<Vec<StreamName>, ReadError> {
    let state = shared.state();
    match stream {
        None => Ok(state.streams.keys().cloned().collect()),
        Some(stream) if state.streams.contains_key(&stream) => Ok(vec![stream]),
        Some(stream) => Err(ReadError::NoStream(stream)),
    }
}

struct Walk<'a> {
    shared: &'a Shared,
    progress: &'a VerifyProgress,
    report: Report,
    total: u64,
    /// Blobs found to be sound.
    blobs: HashSet<Hash>,
}

impl Walk<'_> {
    async fn branch(&mut self, id: BranchId, branch: &Branch) -> Result<(), ReadError> {
        if let Some((seq, what)) = self.first_problem(&id, branch).await? {
            self.report.note(Problem::at_event(&id, seq, what));
        }
        Ok(())
    }

    /// Walks the branch's own events from its fork point, up to the first that is wrong.
    async fn first_problem(
        &mut self,
        id: &BranchId,
        branch: &Branch,
    ) -> Result<Option<(Seq, String)>, ReadError> {
        let wrong = |seq, what: &str| Ok(Some((seq, what.to_owned())));
        let (mut seq, mut chain) = (Seq(0), Hash::ZERO);
        if let Some(parent) = &branch.parent {
            (seq, chain) = (parent.at, parent.chain);
            let shared = self.shared.state().read(id, Seq(seq.0 - 1), 1)?;
            if shared.first().is_none_or(|record| record.event.chain != chain) {
                return wrong(seq, "the fork point is not the parent's event");
            }
        }
        while seq < branch.head.seq {
            let limit = PAGE_MAX.min((branch.head.seq.0 - seq.0) as usize);
            let page = self.shared.state().read(id, seq, limit)?;
            if page.is_empty() {
                return wrong(seq.next(), "the event is missing");
            }
            for Record { event, large } in page {
                seq = seq.next();
                if let Err(what) = self.event(&event, large, seq, chain).await {
                    return Ok(Some((seq, what)));
                }
                chain = event.chain;
                self.report.events += 1;
            }
            (self.progress)(self.report.events, self.total);
        }
        if chain != branch.head.chain {
            return wrong(seq, "the head names another chain");
        }
        Ok(None)
    }

    async fn event(&mut self, event: &Event, large: bool, seq: Seq, prev: Hash) -> Result<(), String> {
        if event.seq != seq || event.chain_after(prev) != event.chain {
            return Err("the chain does not match".to_owned());
        }
        if !large && Hash::of(&event.payload) != event.payload_hash {
            return Err("the payload does not match its hash".to_owned());
        }
        // A large payload's own blob is among the refs.
        for hash in &event.refs {
            self.blob(*hash).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn blob(&mut self, hash: Hash) -> Result<(), GetError> {
        if self.blobs.contains(&hash) {
            return Ok(());
        }
        let mut content = self.shared.blobs.get(hash).await?;
        let copied = tokio::io::copy(&mut content, &mut tokio::io::sink()).await;
        copied.map_err(|error| GetError::from_reader(hash, error))?;
        self.report.blobs += 1;
        self.blobs.insert(hash);
        Ok(())
    }
}
