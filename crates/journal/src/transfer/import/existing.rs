//! What the journal already holds of an export.

use std::collections::VecDeque;

use weir_types::{BranchId, Event, Seq};

use crate::error::ReadError;
use crate::port::{Journal, PAGE_MAX};
use crate::transfer::ImportError;

/// Pages grow only while they hold less payload than this.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Events read ahead on the branch that was compared last. An import that goes on after a failure skips long runs.
pub(super) struct Existing<'a> {
    journal: &'a dyn Journal,
    branch: Option<BranchId>,
    ahead: VecDeque<Event>,
    limit: usize,
}

impl<'a> Existing<'a> {
    pub(super) fn new(journal: &'a dyn Journal) -> Self {
        Self { journal, branch: None, ahead: VecDeque::new(), limit: 1 }
    }

    /// Makes sure that an exported event is the one in its place.
    pub(super) async fn compare(&mut self, event: &Event, line: u64) -> Result<(), ImportError> {
        let what = || format!("event {} of {}", event.seq, event.branch_id());
        let found = self.find(event).await.map_err(|source| ImportError::Read { line, source })?;
        match found {
            // A position belongs to one journal.
            Some(found) if Event { position: event.position, ..found.clone() } == *event => Ok(()),
            Some(found) if found.chain == event.chain => {
                let what = format!("{} differs from the one with the same chain", what());
                Err(ImportError::Altered { line, what })
            }
            _ => Err(ImportError::Conflict { line, what: what() }),
        }
    }

    async fn find(&mut self, event: &Event) -> Result<Option<Event>, ReadError> {
        let branch = event.branch_id();
        let follows = self.branch.as_ref() == Some(&branch)
            && self.ahead.front().is_some_and(|ahead| ahead.seq == event.seq);
        if !follows {
            let is_same = self.branch.as_ref() == Some(&branch);
            let page = self.journal.read(&branch, Seq(event.seq.0.saturating_sub(1)), self.limit).await?;
            let bytes: usize = page.iter().map(|event| event.payload.len()).sum();
            let grow = is_same && bytes < PAGE_BYTES;
            self.limit = if grow { (self.limit * 2).min(PAGE_MAX) } else { 1 };
            (self.branch, self.ahead) = (Some(branch), page.into());
        }
        Ok(self.ahead.pop_front())
    }
}
