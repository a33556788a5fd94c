//! Events of one kind, however many there are: page by page, so that no reader holds all of them or a snapshot for long.

use weir_types::{BranchId, Event, Kind, Seq};

use crate::error::ReadError;
use crate::port::{Journal, PAGE_MAX};

/// The events of one kind on a branch, oldest first.
pub struct OfKind<'a> {
    journal: &'a dyn Journal,
    branch: &'a BranchId,
    kind: Kind,
    after: Seq,
    at_once: usize,
    is_over: bool,
}

impl<'a> OfKind<'a> {
    /// All of them.
    pub fn new(journal: &'a dyn Journal, branch: &'a BranchId, kind: Kind) -> Self {
        Self { journal, branch, kind, after: Seq(0), at_once: PAGE_MAX, is_over: false }
    }

    /// Those after an event.
    #[must_use]
    pub fn after(self, after: Seq) -> Self {
        Self { after, ..self }
    }

    /// So many at once, for whoever expects to need few of them.
    #[must_use]
    pub fn at_once(self, events: usize) -> Self {
        // A journal answers with no more than that: a page of it would look like the last one.
        Self { at_once: events.clamp(1, PAGE_MAX), ..self }
    }

    /// The next page, which is never empty; nothing when there are no more.
    ///
    /// # Errors
    /// Those of [`Journal::by_kind`]. The same page can be asked for again.
    pub async fn next(&mut self) -> Result<Option<Vec<Event>>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        let page = self.journal.by_kind(self.branch, &self.kind, self.after, self.at_once).await?;
        self.is_over = page.len() < self.at_once;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = last.seq;
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_blobs::MemoryBlobs;

    use super::*;
    use crate::append::{NewEvent, Part};
    use crate::memory::MemoryJournal;

    /// The places of notes among other events, in pages of so many.
    async fn pages(notes: usize, after: u64, at_once: usize) -> Vec<Vec<u64>> {
        let journal = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
        let branch = BranchId::main("lake".parse().unwrap());
        let event = |kind: &str| NewEvent::new(kind.parse().unwrap(), "{}");
        for _ in 0..notes {
            let events = vec![event("note.made"), event("note.lost")];
            journal.append(vec![Part::new(branch.clone(), events)]).await.unwrap();
        }
        let mut of_kind = OfKind::new(&journal, &branch, "note.made".parse().unwrap());
        of_kind = of_kind.after(Seq(after)).at_once(at_once);
        let mut pages = Vec::new();
        while let Some(page) = of_kind.next().await.unwrap() {
            pages.push(page.iter().map(|event| event.seq.0).collect());
        }
        assert_eq!(of_kind.next().await.unwrap(), None, "it stays over");
        pages
    }

    #[tokio::test]
    async fn every_event_of_the_kind_is_on_one_page() {
        for (after, at_once, expected) in [
            (0, 2, vec![vec![1, 3], vec![5, 7]]),
            (0, 3, vec![vec![1, 3, 5], vec![7]]),
            (0, 0, vec![vec![1], vec![3], vec![5], vec![7]]),
            (3, 5, vec![vec![5, 7]]),
            (7, 2, vec![]),
        ] {
            assert_eq!(pages(4, after, at_once).await, expected, "{at_once} after {after}");
        }
    }

    #[tokio::test]
    async fn a_page_is_as_long_as_a_journal_allows_and_not_the_last_for_it() {
        let lengths: Vec<usize> = pages(PAGE_MAX + 1, 0, usize::MAX).await.iter().map(Vec::len).collect();
        assert_eq!(lengths, [PAGE_MAX, 1]);
    }
}
