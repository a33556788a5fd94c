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

/// In how many events [`newest_of_kind`] looks first.
const LOOKED_FIRST: u64 = 512;

/// How many events [`newest_of_kind`] reads at once.
const LOOKED_AT_ONCE: usize = 16;

/// The newest event of a kind up to `until` that is wanted. It is looked for from there backwards, in ranges
/// that grow: what that takes depends on how far back it is, and not on how much happened before it.
///
/// # Errors
/// Those of [`Journal::by_kind`].
pub async fn newest_of_kind(
    journal: &dyn Journal,
    branch: &BranchId,
    kind: &Kind,
    mut until: Seq,
    is_wanted: impl Fn(&Event) -> bool,
) -> Result<Option<Event>, ReadError> {
    let mut range = LOOKED_FIRST;
    while until > Seq(0) {
        let after = Seq(until.0.saturating_sub(range));
        let (mut newest, mut read) = (None, after);
        let mut pages = OfKind::new(journal, branch, kind.clone()).after(after).at_once(LOOKED_AT_ONCE);
        while read < until
            && let Some(page) = pages.next().await?
        {
            read = page.last().map_or(until, |last| last.seq);
            newest = page.into_iter().rfind(|event| event.seq <= until && is_wanted(event)).or(newest);
        }
        if newest.is_some() {
            return Ok(newest);
        }
        (until, range) = (after, range.saturating_mul(4));
    }
    Ok(None)
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
    async fn the_newest_of_a_kind_is_found_however_far_back_it_is() {
        let journal = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
        let branch = BranchId::main("lake".parse().unwrap());
        let event = |kind: &str| NewEvent::new(kind.parse().unwrap(), "{}");
        let made = |n: u64| if [3, 700, 701, 5_000].contains(&n) { "note.made" } else { "note.lost" };
        let events: Vec<NewEvent> = (1..=6_000).map(|n| event(made(n))).collect();
        journal.append(vec![Part::new(branch.clone(), events)]).await.unwrap();
        let newest = async |kind: &str, until: u64, wanted: &dyn Fn(u64) -> bool| {
            let kind = kind.parse().unwrap();
            let found =
                newest_of_kind(&journal, &branch, &kind, Seq(until), |event| wanted(event.seq.0)).await;
            found.unwrap().map(|event| event.seq.0)
        };
        let any = |_: u64| true;
        for (until, expected) in [
            (6_000, Some(5_000)),
            (5_000, Some(5_000)),
            (4_999, Some(701)),
            (701, Some(701)),
            (700, Some(700)),
            (699, Some(3)),
            (3, Some(3)),
            (2, None),
            (0, None),
        ] {
            assert_eq!(newest("note.made", until, &any).await, expected, "until {until}");
        }
        assert_eq!(newest("note.made", 6_000, &|seq| seq % 2 == 1).await, Some(701));
        assert_eq!(newest("note.made", 6_000, &|_| false).await, None);
        assert_eq!(newest("note.lost", 5_000, &any).await, Some(4_999));
        assert_eq!(newest("note.burnt", 6_000, &any).await, None);
    }

    #[tokio::test]
    async fn a_page_is_as_long_as_a_journal_allows_and_not_the_last_for_it() {
        let lengths: Vec<usize> = pages(PAGE_MAX + 1, 0, usize::MAX).await.iter().map(Vec::len).collect();
        assert_eq!(lengths, [PAGE_MAX, 1]);
    }
}
