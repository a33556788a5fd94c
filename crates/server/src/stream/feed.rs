//! The items of a stream, in the one order that everybody sees: a function of the durable events.
//!
//! What is said live is told early, and never differently: all of an answer comes after its request and before whatever was
//! appended meanwhile. So an attempt that is over in the journal and has no answer is not told at all; whoever has heard of it while it
//! was open is told that it is gone.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_engine::{Address, Engine, EngineError, LiveDelta, Update, Updates};
use weir_events::{Body, ModelRequested};
use weir_journal::{Journal, PAGE_MAX, ReadError};
use weir_models::Channel;
use weir_types::{Event, Purpose, RunId, Seq};

use super::answer::Answer;
use super::frame::{FrameId, Place};
use super::item::{Asked, End, Item, Piece, Reset, Told};
use super::progress::{Progress, Standing};
use super::respond::Source;

/// What a stream is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One run, to its end.
    Run(RunId),
    /// Everything that happens to a session.
    Session,
}

/// The items of a stream.
pub(crate) struct Feed {
    engine: Engine,
    journal: Arc<dyn Journal>,
    address: Address,
    scope: Scope,
    updates: Updates,
    /// The newest event there was when the stream began.
    head: Seq,
    /// The newest event read.
    seen: Seq,
    /// The newest event told.
    told: Seq,
    begun: bool,
    progress: Progress,
    /// Where the run was found to rest, and nobody had to decide after all.
    awake_at: Option<Seq>,
    answer: Option<Answer>,
    /// The first event that came while the answer was being given, and is told after it.
    held: Option<Seq>,
    /// Such events, from the journal: after the first and up to the second.
    backlog: Option<(Seq, Seq)>,
    /// Told before the event it names.
    reset: Option<Reset>,
    /// What a client has seen, as it says.
    resume: Option<FrameId>,
    ready: VecDeque<Item>,
    over: bool,
}

impl Feed {
    /// Follows a session from after an event on. No answer may be under way there.
    pub(crate) async fn new(
        engine: &Engine,
        journal: &Arc<dyn Journal>,
        source: &Source,
    ) -> Result<Self, EngineError> {
        let Source { address, scope, after, seen, ahead, .. } = source.clone();
        let ahead = ahead.take().filter(|_| seen.is_none());
        let (updates, head, first) = match ahead {
            // Whoever was there before it began has missed nothing.
            Some((updates, started)) => (updates, started.seq, Some(started)),
            None => {
                // Whoever listens first and looks then knows of everything that has ended before.
                let updates = engine.watch(&address, after);
                let head = journal.head(&address.branch_id()).await?.map_or(after, |head| head.seq);
                (updates, head, None)
            }
        };
        let mut feed = Self {
            engine: engine.clone(),
            journal: Arc::clone(journal),
            address,
            scope,
            updates,
            head,
            seen: after,
            told: after,
            begun: scope == Scope::Session,
            progress: Progress::default(),
            awake_at: None,
            answer: None,
            held: None,
            backlog: None,
            reset: None,
            resume: seen,
            ready: VecDeque::new(),
            over: false,
        };
        if let Some(started) = first {
            feed.event(started);
        }
        Ok(feed)
    }

    /// Whether everything is told that there was when the stream began.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.seen >= self.head && self.backlog.is_none() && self.ready.is_empty() && !self.may_rest()
    }

    /// Whether it is to be found out that the stream ends here.
    fn may_rest(&self) -> bool {
        let is_news = self.begun && self.told >= self.head && self.awake_at != Some(self.told);
        let may = || matches!(self.progress.standing(), Standing::Waiting | Standing::Parked(_));
        self.scope != Scope::Session && !self.over && is_news && may()
    }

    /// The request that is being answered.
    pub(crate) fn answering(&self) -> Option<Seq> {
        self.answer.as_ref().map(|answer| answer.request)
    }

    /// The next item; none once there is nothing more to tell.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Item>, EngineError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.over {
                return Ok(None);
            }
            if let Some((after, through)) = self.backlog {
                let page = self.journal.read(&self.address.branch_id(), after, PAGE_MAX).await?;
                self.tell_held(page, through);
                continue;
            }
            if let Some(end) = self.rests().await? {
                self.end(end);
                continue;
            }
            match self.updates.next().await? {
                Some(Update::Event(event)) => self.event(event),
                Some(Update::Delta(piece)) => self.piece(&piece),
                None => self.over = true,
            }
        }
    }

    /// Why the stream ends here, if it does.
    async fn rests(&mut self) -> Result<Option<End>, EngineError> {
        if !self.may_rest() {
            return Ok(None);
        }
        match self.progress.standing() {
            Standing::Going | Standing::Over => Ok(None),
            Standing::Parked(why) => Ok(Some(End::Parked(why))),
            Standing::Waiting => {
                let asked = self.engine.approvals(&self.address).await?;
                if asked.is_empty() {
                    // Someone has decided since.
                    self.awake_at = Some(self.told);
                    return Ok(None);
                }
                let of = |asked: weir_engine::Approval| {
                    let is_own = asked.address == self.address;
                    let behind = || self.progress.call_behind(asked.address.session);
                    let call = if is_own { Some(asked.id) } else { behind() };
                    Asked {
                        id: asked.id,
                        call: call.or_else(|| self.progress.any_suspended()).unwrap_or(asked.id),
                        why: asked.why,
                    }
                };
                Ok(Some(End::Waiting(asked.into_iter().map(of).collect())))
            }
        }
    }

    fn end(&mut self, end: End) {
        self.over = true;
        self.ready.push_back(Item::End(end));
    }

    fn event(&mut self, event: Arc<Event>) {
        self.seen = event.seq;
        let body = Body::decode(&event.kind, &event.payload).ok().flatten();
        let Some(answer) = &mut self.answer else {
            return self.tell(event, body);
        };
        match &body {
            Some(Body::TextDelta(delta)) if delta.attempt == answer.attempt => {
                if let Some(channel) = channel(&delta.channel) {
                    answer.hear(delta.offset, delta.block, channel, &delta.delta);
                }
                self.tell_untold();
            }
            Some(Body::TextDelta(_)) => {}
            Some(Body::AssistantMessage(message)) => {
                let (request, attempt) = (answer.request, answer.attempt);
                let start = FrameId::answer(request, attempt, 0, 0);
                let is_unlike = answer.complete(&message.content).is_err();
                if is_unlike || self.resume == Some(start) {
                    self.ready.push_back(Item::Reset(Reset { request, attempt, id: start }));
                }
                let rest = answer.untold();
                self.say(rest);
                self.answered(event, body);
            }
            Some(body_of) if ends_attempt(body_of) => {
                let reset = Reset {
                    request: answer.request,
                    attempt: answer.attempt,
                    id: FrameId::event(event.seq, 0),
                };
                let is_known = match self.resume {
                    Some(FrameId { seq, place: Place::Answer { .. } }) => seq == reset.request,
                    Some(id) => id == reset.id,
                    None => false,
                };
                self.reset = (answer.told > 0 || is_known).then_some(reset);
                self.answered(event, body);
            }
            _ => {
                self.held.get_or_insert(event.seq);
                self.tell_untold();
            }
        }
    }

    /// An attempt is over. What came meanwhile is told now.
    fn answered(&mut self, event: Arc<Event>, body: Option<Body>) {
        self.answer = None;
        match self.held.take() {
            Some(first) => self.backlog = Some((Seq(first.0 - 1), event.seq)),
            None => self.tell(event, body),
        }
    }

    fn tell_held(&mut self, page: Vec<Event>, through: Seq) {
        self.backlog = match page.last() {
            Some(last) if last.seq < through => Some((last.seq, through)),
            _ => None,
        };
        for event in page.into_iter().filter(|event| event.seq <= through) {
            let body = Body::decode(&event.kind, &event.payload).ok().flatten();
            self.tell(Arc::new(event), body);
        }
    }

    fn piece(&mut self, piece: &LiveDelta) {
        let Some(answer) = self.answer.as_mut().filter(|answer| answer.request == piece.request) else {
            return;
        };
        let delta = &piece.delta;
        answer.hear(piece.offset, delta.block, delta.channel, &delta.text);
        self.tell_untold();
    }

    /// Tells what has been said, if it is certain that the attempt is not over.
    fn tell_untold(&mut self) {
        if self.seen < self.head {
            return;
        }
        if let Some(answer) = &mut self.answer {
            let untold = answer.untold();
            self.say(untold);
        }
    }

    fn say(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            let (first, second) = cut(piece, self.resume);
            self.ready.extend([Some(first), second].into_iter().flatten().map(Item::Piece));
        }
    }

    fn tell(&mut self, event: Arc<Event>, body: Option<Body>) {
        if let Scope::Run(run) = self.scope
            && !self.takes_part(run, &event, body.as_ref())
        {
            return;
        }
        if let Some(Body::TextDelta(_)) = body {
            return;
        }
        if let Some(reset) = self.reset.take_if(|reset| reset.id.seq == event.seq) {
            self.ready.push_back(Item::Reset(reset));
        }
        self.told = event.seq;
        if let Some(Body::ModelRequested(ModelRequested { attempt, params, .. })) = &body
            && params.purpose == Purpose::Turn
        {
            self.answer = Some(Answer::new(event.seq, *attempt));
        }
        let standing = self.progress.standing();
        let rests = matches!(standing, Standing::Waiting | Standing::Parked(_));
        self.ready.push_back(Item::Event(Told { event, body: body.map(Box::new), rests }));
        if standing == Standing::Over {
            self.end(End::Over);
        }
    }

    /// Whether an event belongs to the run. One that begins something else ends it.
    fn takes_part(&mut self, run: RunId, event: &Event, body: Option<&Body>) -> bool {
        if !self.begun {
            self.begun = matches!(body, Some(Body::RunStarted(started)) if started.run == run);
            return self.begun;
        }
        if let Some(body) = body {
            self.progress.apply(run, event, body);
            if matches!(body, Body::RunStarted(_) | Body::BranchForked(_))
                && self.progress.standing() == Standing::Over
            {
                self.end(End::Over);
                return false;
            }
        }
        true
    }
}

fn channel(word: &str) -> Option<Channel> {
    [Channel::Text, Channel::Thinking, Channel::ToolInput]
        .into_iter()
        .find(|channel| channel.as_str() == word)
}

/// Whether an attempt that is under way is over with this, without an answer.
fn ends_attempt(body: &Body) -> bool {
    matches!(
        body,
        Body::ModelFailed(_)
            | Body::ModelRequested(_)
            | Body::ContextCompacted(_)
            | Body::BudgetExceeded(_)
            | Body::SessionResumed(_)
            | Body::RunStarted(_)
            | Body::RunFinished(_)
            | Body::RunErrored(_)
            | Body::RunCancelled(_)
            | Body::RunParked(_)
            | Body::BranchForked(_)
    )
}

/// Where to begin so that a frame comes by: before its event, and before the request whose answer was being given then.
pub(super) async fn before_answer(
    journal: &dyn Journal,
    address: &Address,
    seen: FrameId,
) -> Result<Seq, ReadError> {
    let start = Seq(seen.seq.0.saturating_sub(1));
    if let Place::Answer { .. } = seen.place {
        return Ok(start);
    }
    let mut before = seen.seq;
    loop {
        let page = journal.read_back(&address.branch_id(), Some(before), PAGE_MAX).await?;
        for event in &page {
            match Body::decode(&event.kind, &event.payload).ok().flatten() {
                Some(Body::ModelRequested(_)) => return Ok(Seq(event.seq.0 - 1)),
                Some(Body::AssistantMessage(_)) => return Ok(start),
                Some(body) if ends_attempt(&body) => return Ok(start),
                Some(_) | None => {}
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE_MAX => before = last.seq,
            _ => return Ok(start),
        }
    }
}

/// A piece in two, where a client has seen the first part of it.
fn cut(mut piece: Piece, resume: Option<FrameId>) -> (Piece, Option<Piece>) {
    let Some(FrameId { seq, place: Place::Answer { offset, .. } }) = resume else { return (piece, None) };
    let at = usize::try_from(offset.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
    if seq != piece.request || at == 0 || at >= piece.text.len() || !piece.text.is_char_boundary(at) {
        return (piece, None);
    }
    let second = Piece { offset, text: piece.text.split_off(at), ..piece.clone() };
    (piece, Some(second))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_blobs::MemoryBlobs;
    use weir_journal::{MemoryJournal, NewEvent, Part};
    use weir_types::{Hash, SessionId};

    use super::*;

    /// Where a stream begins for somebody who has seen the fourth event: after a request, something said of its answer, and this.
    async fn begins(kind: &str, payload: Value) -> Seq {
        let journal = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
        let address = Address::main(SessionId::from_u128(1));
        let hash = Hash::of(b"");
        let params = json!({
            "purpose": "turn", "api_name": "m", "wire": "w", "output_tokens_max": 1, "share_tokens": 1, "estimated_tokens": 1,
        });
        let request = json!({
            "model": "m", "attempt": 1, "prompt": hash, "tools": hash, "window": [], "params": params, "request_hash": hash,
            "reserve": {"tokens": 1, "nano": 1},
        });
        let said = json!({"channel": "text", "block": 0, "attempt": 1, "offset": 0, "delta": "Hi"});
        let told =
            [("model.requested", request), ("text.delta", said), (kind, payload), ("note.added", json!({}))];
        let events = told.map(|(kind, payload)| {
            let kind = kind.parse().unwrap();
            let payload = payload.to_string();
            let is_ours = weir_events::is_reserved_kind(&kind);
            assert_eq!(Body::decode(&kind, payload.as_bytes()).unwrap().is_some(), is_ours, "{kind}");
            NewEvent::new(kind, payload)
        });
        journal.append(vec![Part::new(address.branch_id(), events.to_vec())]).await.unwrap();
        before_answer(&journal, &address, FrameId::event(Seq(4), 1)).await.unwrap()
    }

    #[tokio::test]
    async fn a_stream_begins_with_the_answer_that_was_being_given() {
        assert_eq!(begins("note.added", json!({})).await, Seq(0));
        for (kind, payload) in [
            ("budget.exceeded", json!({"scope": "day:1", "limit": 1, "spent": 1})),
            ("branch.forked", json!({"from": "main", "at": 1, "name": "b"})),
            ("model.failed", json!({"class": "invalid", "attempt": 1, "delay_ms": 0, "message": "no"})),
        ] {
            assert_eq!(begins(kind, payload).await, Seq(3), "{kind}");
        }
    }
}
