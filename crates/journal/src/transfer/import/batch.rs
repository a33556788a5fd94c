//! Events on their way into the journal, as the parts of one append.

use weir_types::{BranchId, Seq};

use crate::append::{Expected, NewEvent, Part};
use crate::lines::KeyLine;
use crate::listing::{Attrs, Status};

/// Enough to make the cost of a sync small.
const EVENTS: u64 = 1_000;

/// Little enough to be held in memory without a thought.
const BYTES: usize = 4 * 1024 * 1024;

#[derive(Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    events: u64,
    bytes: usize,
}

impl Batch {
    /// Adds an event that comes after event `after` of its branch.
    pub(super) fn push(&mut self, branch: BranchId, after: Seq, key: Option<&KeyLine>, event: NewEvent) {
        self.events += 1;
        self.bytes += event.payload().len();
        let starts = key.filter(|key| key.first == after.next()).map(|key| key.key.clone());
        if let Some(part) = self.parts.last_mut()
            && starts.is_none()
            && part.branch == branch
            && (part.key.is_none() || part.key.as_ref() == key.map(|key| &key.key))
        {
            part.events.push(event);
            return;
        }
        // A part whose start was there already cannot have its key any more.
        let attrs = is_session(&branch).then(|| Attrs::new(Status::Halted));
        let expected = Expected::Exactly(after);
        self.parts.push(Part { expected, key: starts, attrs, ..Part::new(branch, vec![event]) });
    }

    pub(super) fn touches(&self, branch: &BranchId) -> bool {
        self.parts.iter().any(|part| part.branch == *branch)
    }

    pub(super) fn has_room(&self, events: u64) -> bool {
        self.events == 0 || self.events + events <= EVENTS
    }

    pub(super) fn is_full(&self) -> bool {
        self.events >= EVENTS || self.bytes >= BYTES
    }

    /// The parts and the number of their events; the batch is empty afterwards.
    pub(super) fn take(&mut self) -> (Vec<Part>, u64) {
        let Self { parts, events, .. } = std::mem::take(self);
        (parts, events)
    }
}

fn is_session(branch: &BranchId) -> bool {
    branch.stream.as_str().starts_with("session:")
}
