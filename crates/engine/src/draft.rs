//! Events that have been decided or have happened, and are not written down yet. An event that guards nothing travels
//! with the next one that does.

use bytes::Bytes;
use weir_blobs::{Blobs, PutError};
use weir_events::{About, Body};
use weir_journal::{NewEvent, Part, mint, now};
use weir_kernel::{At, Session};
use weir_types::{CallId, EventId, Hash, Meta};

use crate::budgets;

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
}

struct Drafted {
    event: NewEvent,
    body: Body,
    about: About,
    nature: Nature,
    /// What goes to other streams in the same append, such as the beginning of a child.
    beside: Vec<Part>,
    /// A blob that the event names, and that has to be there before it.
    content: Option<Bytes>,
    /// What purses are told about it.
    settled: Vec<Part>,
}

/// What goes to other streams in the same append, and the id of the event it goes with.
pub(crate) struct Beside {
    pub(crate) id: EventId,
    pub(crate) parts: Vec<Part>,
}

impl Draft {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many facts are in it. They keep their order, however often the draft is made again.
    pub(crate) fn facts(&self) -> usize {
        self.events.iter().filter(|drafted| drafted.nature == Nature::Fact).count()
    }

    /// What happened and is not stored.
    pub(crate) fn unstored_facts(&self) -> impl Iterator<Item = &Body> {
        self.events.iter().filter(|drafted| drafted.nature == Nature::Fact).map(|drafted| &drafted.body)
    }

    /// The events, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = (&Body, &About)> {
        self.events.iter().map(|drafted| (&drafted.body, &drafted.about))
    }

    /// How many events there are up to the nth fact, from 1.
    pub(crate) fn up_to_fact(&self, nth: usize) -> Option<usize> {
        let mut facts = self.events.iter().enumerate().filter(|(_, drafted)| drafted.nature == Nature::Fact);
        facts.nth(nth.checked_sub(1)?).map(|(at, _)| at + 1)
    }

    /// Adds an event and folds it. Its time is fixed here, so that the fold is the same as a later reader's.
    pub(crate) fn add(&mut self, session: &mut Session, body: Body, about: About, nature: Nature) {
        self.add_beside(session, body, about, nature, None);
    }

    /// The same, with what goes to another stream in the same append.
    pub(crate) fn add_beside(
        &mut self,
        session: &mut Session,
        body: Body,
        about: About,
        nature: Nature,
        beside: Option<Part>,
    ) {
        let beside = Beside { id: id_of(&body), parts: beside.into_iter().collect() };
        self.add_with(session, body, about, nature, beside);
    }

    /// The same, where what goes to other streams names the event.
    pub(crate) fn add_with(
        &mut self,
        session: &mut Session,
        body: Body,
        about: About,
        nature: Nature,
        beside: Beside,
    ) {
        let Beside { id, parts: beside } = beside;
        let event = event_as(id, &body, &about);
        let ts = event.at().unwrap_or_default().max(session.ts);
        // INVARIANT: this is the one place where the end of a request is noticed, whatever ends it, so that what was set aside
        // for it is settled in the same append.
        let pending = session.pending();
        session.apply_body(At { seq: session.seq.next(), ts, id, held_us: about.held_us }, &body);
        let told = pending.map(|pending| pending.ended_by(&body, session)).unwrap_or_default();
        let settled = told.iter().filter_map(|told| settlement(told, &about)).collect();
        self.events.push(Drafted { event, body, about, nature, beside, content: None, settled });
    }

    /// Keeps the content of a blob that the event which was added last names, until [`Draft::store_contents`].
    pub(crate) fn attach(&mut self, content: Bytes) {
        if let Some(last) = self.events.last_mut() {
            last.content = Some(content);
        }
    }

    /// Stores the blobs that came with events. It may be called as often as storing fails.
    pub(crate) async fn store_contents(&self, blobs: &dyn Blobs) -> Result<(), PutError> {
        for content in self.events.iter().filter_map(|drafted| drafted.content.as_ref()) {
            blobs.put_bytes(content.clone()).await?;
        }
        Ok(())
    }

    /// Whether it holds a decision about a call.
    pub(crate) fn decides(&self, call: CallId) -> bool {
        let decides = |body: &Body| matches!(body, Body::ToolDecided(decided) if decided.call == call);
        self.events.iter().any(|drafted| decides(&drafted.body))
    }

    /// Adds what has to come before anything else.
    pub(crate) fn preface(&mut self, session: &mut Session, bodies: Vec<Body>) {
        for body in bodies {
            self.add(session, body, About::default(), Nature::Decision);
        }
    }

    /// The events, and what goes to other streams with them, as they are appended.
    pub(crate) fn to_append(&self) -> (Vec<NewEvent>, Vec<Part>) {
        let events = self.events.iter().map(|drafted| drafted.event.clone()).collect();
        let others = self.events.iter().flat_map(|drafted| drafted.settled.iter().chain(&drafted.beside));
        (events, others.cloned().collect())
    }

    /// Takes over what happened from a draft whose session has moved on. What was only decided is decided again.
    pub(crate) fn take_facts(&mut self, session: &mut Session, old: Self) {
        for fact in old.events.into_iter().filter(|drafted| drafted.nature == Nature::Fact) {
            let beside = Beside { id: id_of(&fact.body), parts: fact.beside };
            self.add_with(session, fact.body, fact.about, Nature::Fact, beside);
            if let Some(content) = fact.content {
                self.attach(content);
            }
        }
    }
}

/// What a purse is told, as a part of an append.
pub(crate) fn settlement(told: &Body, about: &About) -> Option<Part> {
    let scope = match told {
        Body::BudgetSettled(told) => &told.scope,
        Body::BudgetReleased(told) => &told.scope,
        _ => return None,
    };
    let about = About { duration_ms: None, ..about.clone() };
    Some(budgets::beside(scope, new_event(told, &about)))
}

/// An event that has no place yet, stamped with the time it is made at.
pub(crate) fn new_event(body: &Body, about: &About) -> NewEvent {
    event_as(id_of(body), body, about)
}

fn event_as(id: EventId, body: &Body, about: &About) -> NewEvent {
    #[expect(
        clippy::expect_used,
        reason = "bodies hold text, numbers and JSON; none of their maps has other keys"
    )]
    let payload = body.encode().expect("a body can always be written as JSON");
    // Only an absurd actor or trace makes meta too long; the event matters more than its label.
    let meta = about.encode().unwrap_or_else(|_| Meta::default());
    NewEvent::new(body.kind(), payload).with_meta(meta).with_refs(refs(body)).with_identity(id, now())
}

/// A call is found by its id alone: the event that asks for it has the same.
fn id_of(body: &Body) -> EventId {
    match body {
        Body::ToolRequested(asked) => event_of(asked.call),
        _ => mint(),
    }
}

/// The event that asked for a call.
pub(crate) fn event_of(call: CallId) -> EventId {
    EventId::from_u128(u128::from_be_bytes(call.to_bytes()))
}

/// The blobs an event needs.
fn refs(body: &Body) -> Vec<Hash> {
    match body {
        Body::ModelRequested(body) => vec![body.prompt, body.tools],
        Body::FileWritten(body) => vec![body.hash],
        Body::MemoryStored(body) => vec![body.hash],
        Body::ToolCompleted(body) => body.whole.into_iter().collect(),
        _ => Vec::new(),
    }
}
