//! Events that have been decided or have happened, and are not written down yet. An event that guards nothing travels
//! with the next one that does.

use weir_journal::{NewEvent, Part, mint, now};
use weir_kernel::{About, At, Body, Session};
use weir_types::{Hash, Kind, Meta};

/// Whether an event can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// It happened outside: an input, an answer, a result. It must be written down, whatever else has happened.
    Fact,
    /// We want it so. If the session has moved on, it is decided again.
    Decision,
}

/// Events that are not written down yet, already folded into the session.
#[derive(Default)]
pub(crate) struct Draft {
    events: Vec<Drafted>,
    /// Sessions that begin in the same append.
    children: Vec<Part>,
}

struct Drafted {
    event: NewEvent,
    body: Body,
    about: About,
    nature: Nature,
}

impl Draft {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds an event and folds it. Its time is fixed here, so that the fold is the same as a later reader's.
    pub(crate) fn add(&mut self, session: &mut Session, body: Body, about: About, nature: Nature) {
        let event = new_event(&body, &about);
        let ts = event.at().unwrap_or_default().max(session.ts);
        session.apply_body(At { seq: session.seq.next(), ts, id: event.id() }, &body);
        self.events.push(Drafted { event, body, about, nature });
    }

    pub(crate) fn add_child(&mut self, part: Part) {
        self.children.push(part);
    }

    /// The events and the children's parts, as they are appended.
    pub(crate) fn to_append(&self) -> (Vec<NewEvent>, Vec<Part>) {
        (self.events.iter().map(|drafted| drafted.event.clone()).collect(), self.children.clone())
    }

    /// Takes over what happened from a draft whose session has moved on. What was only decided is decided again.
    pub(crate) fn take_facts(&mut self, session: &mut Session, old: Self) {
        for fact in old.events.into_iter().filter(|drafted| drafted.nature == Nature::Fact) {
            self.add(session, fact.body, fact.about, Nature::Fact);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// An event that has no place yet, stamped with the time it is made at.
pub(crate) fn new_event(body: &Body, about: &About) -> NewEvent {
    #[expect(
        clippy::expect_used,
        reason = "bodies hold text, numbers and JSON; none of their maps has other keys"
    )]
    let payload = body.encode().expect("a body can always be written as JSON");
    #[expect(clippy::expect_used, reason = "every kind of the table is a valid name")]
    let kind: Kind = body.kind_str().parse().expect("every kind is a valid name");
    // Only an absurd actor or trace makes meta too long; the event matters more than its label.
    let meta = about.encode().unwrap_or_else(|_| Meta::default());
    NewEvent::new(kind, payload).with_meta(meta).with_refs(refs(body)).with_identity(mint(), now())
}

/// The blobs an event needs.
fn refs(body: &Body) -> Vec<Hash> {
    match body {
        Body::ModelRequested(body) => vec![body.prompt, body.tools],
        Body::FileWritten(body) => vec![body.hash],
        Body::MemoryStored(body) => vec![body.hash],
        _ => Vec::new(),
    }
}
