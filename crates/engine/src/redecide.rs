//! Recorded decisions made again, by other tools than those that made them. The journal is read once from its beginning, page
//! by page, and little of it is held.

use std::collections::HashMap;
use std::sync::Arc;

use weir_events::{
    About, ApprovalGranted, ApprovalRequested, Body, Payload, SessionCreated, ToolCompleted, ToolDecided,
    ToolFailed, ToolRequested,
};
use weir_journal::{Journal, OfKind, PAGE_MAX};
use weir_tools::{Asked, Decision};
use weir_types::{CallId, Event, GateStep, Hash, Json, Position, Seq, SessionId, Timestamp, Verdict, Who};

use crate::address::Address;
use crate::error::EngineError;
use crate::tools::Tools;

/// Some megabytes.
const REMEMBERED_MAX: usize = 20_000;

/// What decides again: the tools of an agent by its name; none, if there is no such agent.
pub type OtherTools<'a> = Box<dyn FnMut(&str) -> Option<Arc<dyn Tools>> + Send + Sync + 'a>;

/// Recorded decisions, made again.
pub struct Redecisions<'a> {
    journal: &'a dyn Journal,
    tools: OtherTools<'a>,
    which: Which,
    after: Position,
    sessions: HashMap<SessionId, Arc<SessionCreated>>,
    calls: HashMap<CallId, Known>,
    /// What came of those so far.
    pub counts: Counts,
    /// How many sessions, and how many open calls, are remembered. What was forgotten is looked up when it is needed.
    pub remembered_max: usize,
}

/// Which decisions are made again.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// Those at or after this time.
    pub since: Option<Timestamp>,
    /// Those of sessions that act on behalf of this one.
    pub principal: Option<String>,
}

/// What came of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that were looked at.
    pub decisions: u64,
    /// Those with another outcome.
    pub changed: u64,
    /// Those with the same outcome, by another rule.
    pub by_another_rule: u64,
    /// Those that no policy made: calls that were not repeated because writes were no longer live.
    pub not_policy: u64,
    /// Those about calls that the journal does not have.
    pub unknown: u64,
}

/// A decision that comes out differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redecided {
    /// The session.
    pub address: Address,
    /// The event that says how it was decided.
    pub seq: Seq,
    /// When.
    pub ts: Timestamp,
    /// The agent.
    pub agent: String,
    /// On whose behalf.
    pub principal: String,
    /// The tool.
    pub tool: String,
    /// Then.
    pub before: ToolDecided,
    /// Now.
    pub after: Decision,
}

/// What is known about an open call.
#[derive(Clone, Debug)]
struct Known {
    tool: String,
    /// The arguments it would run with.
    input: Json,
    /// The arguments somebody is asked about, and until when.
    awaiting: Option<(Hash, Option<Timestamp>)>,
    granted_by: Option<String>,
    /// The groups that one came with.
    granted_groups: Vec<String>,
}

impl<'a> Redecisions<'a> {
    /// Begins at the beginning of a journal.
    pub fn new(journal: &'a dyn Journal, which: Which, tools: OtherTools<'a>) -> Self {
        Self {
            journal,
            tools,
            which,
            after: Position(0),
            sessions: HashMap::new(),
            calls: HashMap::new(),
            counts: Counts::default(),
            remembered_max: REMEMBERED_MAX,
        }
    }

    /// How far it is.
    pub fn position(&self) -> Position {
        self.after
    }

    /// What changes among the next decisions; nothing, once there are no more.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Redecided>>, EngineError> {
        let page = self.journal.read_all(self.after, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = last.position;
        let mut changed = Vec::new();
        for event in &page {
            changed.extend(self.take(event).await?);
        }
        Ok(Some(changed))
    }

    async fn take(&mut self, event: &Event) -> Result<Option<Redecided>, EngineError> {
        if !MINDED.contains(&event.kind.as_str()) {
            return Ok(None);
        }
        let branch = weir_types::BranchId { stream: event.stream.clone(), branch: event.branch.clone() };
        let Some(address) = Address::of(&branch) else { return Ok(None) };
        // What cannot be read was decided by a later version.
        let Ok(Some(body)) = Body::decode(&event.kind, &event.payload) else { return Ok(None) };
        match body {
            Body::SessionCreated(created) => self.remember(address.session, Arc::new(created)),
            Body::ToolDecided(decided) => return self.again(address, event, decided).await,
            Body::ToolCompleted(body) => drop(self.calls.remove(&body.call)),
            Body::ToolFailed(body) => drop(self.calls.remove(&body.call)),
            Body::ToolRequested(body) => {
                if self.calls.len() >= self.remembered_max {
                    self.calls.clear();
                }
                self.calls.insert(body.call, Known::of(body));
            }
            Body::ApprovalRequested(body) => self.of_call(body.call, |known| known.requested(&body)),
            Body::ApprovalGranted(body) => self.of_call(body.call, |known| known.granted(&body, event)),
            _ => {}
        }
        Ok(None)
    }

    fn remember(&mut self, session: SessionId, created: Arc<SessionCreated>) {
        if self.sessions.len() >= self.remembered_max {
            self.sessions.clear();
        }
        self.sessions.insert(session, created);
    }

    fn of_call(&mut self, call: CallId, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.calls.get_mut(&call) {
            change(known);
        }
    }

    /// Makes a decision again; what has changed, if something has.
    async fn again(
        &mut self,
        address: Address,
        event: &Event,
        before: ToolDecided,
    ) -> Result<Option<Redecided>, EngineError> {
        if self.which.since.is_some_and(|since| event.ts < since) {
            return Ok(None);
        }
        let created = self.created(address.session).await?;
        let Some(created) = created else { return Ok(self.unknown()) };
        if self.which.principal.as_ref().is_some_and(|principal| *principal != created.principal) {
            return Ok(None);
        }
        self.counts.decisions += 1;
        if before.decided_by() == Some(GateStep::Stub) {
            self.counts.not_policy += 1;
            return Ok(None);
        }
        let known = match self.calls.get(&before.call) {
            Some(known) => Some(known.clone()),
            None => self.looked_up(&address, before.call, event.seq).await?,
        };
        let Some(known) = known else { return Ok(self.unknown()) };
        let after = self.decide(&address, &created, &known, &before);
        if after.verdict == before.outcome {
            // What runs under somebody's yes is written down with the rule that asked for it.
            let is_approved = before.saw.as_ref().is_some_and(|saw| saw.approved_by.is_some());
            self.counts.by_another_rule += u64::from(!is_approved && after.rule != before.rule);
            return Ok(None);
        }
        self.counts.changed += 1;
        let (seq, ts, agent) = (event.seq, event.ts, created.agent.clone());
        let (principal, tool) = (principal_of(&before, &created).to_owned(), known.tool);
        Ok(Some(Redecided { address, seq, ts, agent, principal, tool, before, after }))
    }

    fn unknown(&mut self) -> Option<Redecided> {
        self.counts.unknown += 1;
        None
    }

    /// As a run does it: whoever may not talk to the agent has no calls, and a yes counts only of somebody who may give it.
    fn decide(
        &mut self,
        address: &Address,
        created: &SessionCreated,
        known: &Known,
        before: &ToolDecided,
    ) -> Decision {
        let (agent, principal) = (created.agent.as_str(), principal_of(before, created));
        let Some(tools) = (self.tools)(agent) else {
            return Decision::refuse(
                GateStep::Allowlist,
                format_args!("there is no agent `{agent}`"),
                "it would have to be there",
            );
        };
        let who = Who::new(principal, &created.groups);
        let admitted = tools.admit(who, agent);
        if admitted.verdict != Verdict::Allow {
            return admitted;
        }
        let approved_by = match &before.saw {
            Some(saw) => saw.approved_by.as_deref(),
            // Decisions from before there was a record of what they saw.
            None => known.granted_by.as_deref(),
        };
        let may = |by: &&str| {
            let is_theirs = known.granted_by.as_deref() == Some(*by);
            let groups = if is_theirs { known.granted_groups.as_slice() } else { &[] };
            tools.may_approve(Who::new(by, groups), principal, agent).verdict == Verdict::Allow
        };
        tools.authorize(&Asked {
            call: before.call,
            tool: &known.tool,
            input: &known.input,
            session: address.session,
            depth: created.parent.as_ref().map_or(0, |parent| parent.depth),
            agent,
            principal,
            groups: who.groups,
            approved_by: approved_by.filter(may),
        })
    }

    async fn created(&mut self, session: SessionId) -> Result<Option<Arc<SessionCreated>>, EngineError> {
        if let Some(created) = self.sessions.get(&session) {
            return Ok(Some(Arc::clone(created)));
        }
        let first = self.journal.read(&Address::main(session).branch_id(), Seq(0), 1).await?;
        let body = first.first().and_then(|event| Body::decode(&event.kind, &event.payload).ok().flatten());
        let Some(Body::SessionCreated(created)) = body else { return Ok(None) };
        let created = Arc::new(created);
        self.remember(session, Arc::clone(&created));
        Ok(Some(created))
    }

    /// A call that was forgotten, as it was when it was decided.
    async fn looked_up(
        &self,
        address: &Address,
        call: CallId,
        before: Seq,
    ) -> Result<Option<Known>, EngineError> {
        let branch = address.branch_id();
        let mut about: Vec<(Seq, Event, Body)> = Vec::new();
        for kind in [ToolRequested::kind(), ApprovalRequested::kind(), ApprovalGranted::kind()] {
            let mut pages = OfKind::new(self.journal, &branch, kind);
            while let Some(page) = pages.next().await? {
                for event in page {
                    let body = Body::decode(&event.kind, &event.payload).ok().flatten();
                    if let Some(body) = body.filter(|body| event.seq < before && call_of(body) == Some(call))
                    {
                        about.push((event.seq, event, body));
                    }
                }
            }
        }
        about.sort_by_key(|(seq, ..)| *seq);
        let mut known: Option<Known> = None;
        for (_, event, body) in about {
            match (body, &mut known) {
                (Body::ToolRequested(body), _) => known = Some(Known::of(body)),
                (Body::ApprovalRequested(body), Some(known)) => known.requested(&body),
                (Body::ApprovalGranted(body), Some(known)) => known.granted(&body, &event),
                _ => {}
            }
        }
        Ok(known)
    }
}

/// The kinds of events that say something about a decision.
const MINDED: [&str; 7] = [
    SessionCreated::KIND,
    ToolRequested::KIND,
    ToolDecided::KIND,
    ToolCompleted::KIND,
    ToolFailed::KIND,
    ApprovalRequested::KIND,
    ApprovalGranted::KIND,
];

fn call_of(body: &Body) -> Option<CallId> {
    match body {
        Body::ToolRequested(body) => Some(body.call),
        Body::ApprovalRequested(body) => Some(body.call),
        Body::ApprovalGranted(body) => Some(body.call),
        _ => None,
    }
}

fn principal_of<'a>(decided: &'a ToolDecided, created: &'a SessionCreated) -> &'a str {
    decided.saw.as_ref().map_or(created.principal.as_str(), |saw| saw.principal.as_str())
}

impl Known {
    fn of(body: ToolRequested) -> Self {
        Self {
            tool: body.tool,
            input: body.input,
            awaiting: None,
            granted_by: None,
            granted_groups: Vec::new(),
        }
    }

    fn requested(&mut self, body: &ApprovalRequested) {
        self.awaiting = Some((body.input_hash, body.expires));
    }

    /// As the kernel has it: a grant counts for the arguments that are asked about, of whoever gave it, and in time.
    fn granted(&mut self, body: &ApprovalGranted, event: &Event) {
        let Some((input_hash, expires)) = self.awaiting else { return };
        let is_late = expires.is_some_and(|expires| event.ts >= expires);
        let is_theirs = About::decode(&event.meta).actor.as_deref() == Some(&body.by);
        if input_hash != body.input_hash || is_late || !is_theirs {
            return;
        }
        if let Some(input) = &body.input {
            self.input = input.clone();
        }
        (self.awaiting, self.granted_by) = (None, Some(body.by.clone()));
        self.granted_groups.clone_from(&body.groups);
    }
}
