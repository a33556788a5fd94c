//! Whether what a snapshot says about who may do and spend what is what the events say.
//!
//! The seal of a snapshot keeps others from making one. This does not rely on it: whose a session is, whether
//! it may go on, whether its run is over, what work its purses have not been told of, what someone approved
//! for all of it and with which groups is looked up in the events, and a snapshot that says something else
//! is dropped. Unfinished runs and open calls are never part of a snapshot. Each look-up goes by an index: what it costs
//! does not grow with the session.

use std::fmt;

use weir_events::{
    About, ApprovalGranted, ApprovalRequested, Body, BranchForked, ModelRequested, Payload, ResumeReason,
    RunCancelled, RunErrored, RunFinished, RunStarted, Scope, SessionClosed, SessionCreated, SessionHalted,
    SessionResumed, Trigger,
};
use weir_journal::{Journal, OfKind, PAGE_MAX, ReadError, newest_of_kind};
use weir_kernel::{At, Lifecycle, Session, StandingApproval};
use weir_types::{BranchId, CallId, Event, Kind, RunId, Seq};

use crate::draft::event_of;

/// How many requests are looked at for the newest one at whose end purses were told something. Others were
/// withdrawn, because purses had too little left.
const REQUESTS_MAX: usize = 8;

/// What a snapshot claims and the events do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contradiction {
    /// Another agent, build or principal, or more groups.
    Created,
    /// It was closed or halted, and nobody resumed it.
    Lifecycle,
    /// Nobody approved such calls for the whole session.
    Standing,
    /// A person who approved something had other groups.
    Approvers,
    /// A run is not over.
    Run,
    /// Purses were not told of so much work.
    Settled,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "the session began in another way",
            Self::Lifecycle => "the session was stopped",
            Self::Standing => "the approval for the whole session was not given",
            Self::Approvers => "a person who approved something had other groups",
            Self::Run => "the run is not over",
            Self::Settled => "purses were told of less work",
        })
    }
}

/// What a session that is not [unfinished](Session::is_unfinished), as a snapshot has it, claims and the
/// events do not say; nothing, if all is well.
pub(crate) async fn contradiction(
    journal: &dyn Journal,
    branch: &BranchId,
    session: &Session,
) -> Result<Option<Contradiction>, ReadError> {
    let evidence = Evidence { journal, branch, until: session.seq };
    if !evidence.supports_beginning(session.created.as_ref()).await? {
        return Ok(Some(Contradiction::Created));
    }
    if !evidence.supports_lifecycle(&session.lifecycle).await? {
        return Ok(Some(Contradiction::Lifecycle));
    }
    if !evidence.supports_rest().await? {
        return Ok(Some(Contradiction::Run));
    }
    if !evidence.supports_settled(session).await? {
        return Ok(Some(Contradiction::Settled));
    }
    for standing in &session.standing {
        if !evidence.supports_standing(standing).await? {
            return Ok(Some(Contradiction::Standing));
        }
    }
    for (by, groups) in &session.approvers {
        if !evidence.supports_approver(by, groups).await? {
            return Ok(Some(Contradiction::Approvers));
        }
    }
    Ok(None)
}

/// The events of a branch up to one of them.
struct Evidence<'a> {
    journal: &'a dyn Journal,
    branch: &'a BranchId,
    until: Seq,
}

impl Evidence<'_> {
    /// Whether the session began like that. An import takes groups and purses away, and nothing gives them.
    async fn supports_beginning(&self, claimed: Option<&SessionCreated>) -> Result<bool, ReadError> {
        let told = self.newest(SessionCreated::kind()).await?;
        let told = told.as_ref().and_then(|event| match body(event) {
            Some(Body::SessionCreated(told)) => Some(told),
            _ => None,
        });
        Ok(match (told, claimed) {
            (Some(told), Some(claimed)) => *claimed == told || *claimed == told.without_authority(),
            (told, claimed) => told.is_none() && claimed.is_none(),
        })
    }

    /// Whether the session may go on as far as the snapshot lets it.
    async fn supports_lifecycle(&self, claimed: &Lifecycle) -> Result<bool, ReadError> {
        if let Lifecycle::Closed(_) = claimed {
            return Ok(true);
        }
        if self.newest(SessionClosed::kind()).await?.is_some() {
            return Ok(false);
        }
        if let Lifecycle::Halted(_) = claimed {
            return Ok(true);
        }
        let Some(halted) = self.newest(SessionHalted::kind()).await? else { return Ok(true) };
        let is_asked = |event: &Event| matches!(body(event), Some(Body::SessionResumed(resumed)) if resumed.reason == ResumeReason::Asked);
        Ok(self.first(SessionResumed::kind(), halted.seq, is_asked).await?.is_some())
    }

    /// Whether the newest run has ended.
    async fn supports_rest(&self) -> Result<bool, ReadError> {
        let Some(started) = self.newest(RunStarted::kind()).await? else { return Ok(true) };
        for ends in [RunFinished::kind(), RunErrored::kind(), RunCancelled::kind(), BranchForked::kind()] {
            if self.first(ends, started.seq, |_| true).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether at least that work has still to be told to purses that was done since they were told the last
    /// time.
    async fn supports_settled(&self, session: &Session) -> Result<bool, ReadError> {
        let Some(untold) = session.totals.micros.checked_sub(session.settled_micros) else {
            return Ok(false);
        };
        let paid = |event: &Event| match body(event) {
            Some(Body::ModelRequested(asked)) => !asked.purses.is_empty(),
            _ => false,
        };
        let mut until = self.until;
        for _ in 0..REQUESTS_MAX {
            let requests = ModelRequested::kind();
            let asked = newest_of_kind(self.journal, self.branch, &requests, until, paid).await?;
            let Some(asked) = asked else {
                // Purses paid for nothing. A fork begins as if they had been told of everything.
                return Ok(session.settled_micros == 0 || self.newest(BranchForked::kind()).await?.is_some());
            };
            if let Some(least) = self.untold_since(&asked).await? {
                return Ok(untold >= least);
            }
            until = Seq(asked.seq.0.saturating_sub(1));
        }
        Ok(false)
    }

    /// How much work purses were not told of since this request ended; nothing, if they were told nothing at
    /// its end.
    async fn untold_since(&self, asked: &Event) -> Result<Option<u64>, ReadError> {
        // Work is counted in the same way whatever happened before the request, as long as it was made in a
        // run.
        let held_us = About::decode(&asked.meta).held_us;
        let before = At { seq: Seq(asked.seq.0 - 1), ts: asked.ts, id: asked.id, held_us };
        let run = RunStarted { run: RunId::from_u128(0), trigger: Trigger::Input, lane: String::new() };
        let mut since = Session { settled_micros: u64::MAX, ..Session::default() };
        since.apply_body(before, &run.into());
        while since.seq < self.until {
            let limit = usize::try_from(self.until.0 - since.seq.0).unwrap_or(PAGE_MAX).min(PAGE_MAX);
            let page = self.journal.read(self.branch, since.seq, limit).await?;
            if page.is_empty() || !page.iter().all(|event| since.apply(event).is_ok()) {
                return Ok(None);
            }
        }
        let told = Some(since.settled_micros).filter(|told| *told != u64::MAX);
        Ok(told.map(|told| since.totals.micros.saturating_sub(told)))
    }

    /// Whether someone approved such calls for the whole session, and nothing has ended that since.
    async fn supports_standing(&self, claimed: &StandingApproval) -> Result<bool, ReadError> {
        let Some(seq) = claimed.granted.filter(|seq| *seq > Seq(0) && *seq <= self.until) else {
            return Ok(false);
        };
        let page = self.journal.read(self.branch, Seq(seq.0 - 1), 1).await?;
        let Some(granted) = page.first().and_then(granted_by_its_actor) else { return Ok(false) };
        if granted.scope != Scope::Session || granted.by != claimed.by || granted.runs != claimed.runs {
            return Ok(false);
        }
        let Some(asked_at) = self.asked_for(granted.call, &claimed.tool).await? else { return Ok(false) };
        let rule = self.rule_asked_under(granted.call, asked_at, seq).await?;
        if rule.as_deref() != Some(&claimed.rule) {
            return Ok(false);
        }
        for ends in [SessionHalted::kind(), BranchForked::kind()] {
            if self.first(ends, seq, |_| true).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether someone had these groups when they approved something the last time. An import takes them away.
    async fn supports_approver(&self, by: &str, groups: &[String]) -> Result<bool, ReadError> {
        let is_theirs = |event: &Event| granted_by_its_actor(event).is_some_and(|granted| granted.by == by);
        let granted = ApprovalGranted::kind();
        let granted = newest_of_kind(self.journal, self.branch, &granted, self.until, is_theirs).await?;
        let Some(granted) = granted else { return Ok(false) };
        if granted_by_its_actor(&granted).is_none_or(|told| told.groups != groups) {
            return Ok(false);
        }
        let is_imported =
            |event: &Event| matches!(body(event), Some(Body::SessionHalted(halted)) if halted.imported);
        Ok(self.first(SessionHalted::kind(), granted.seq, is_imported).await?.is_none())
    }

    /// Where a call of that tool was asked for, if it was.
    async fn asked_for(&self, call: CallId, tool: &str) -> Result<Option<Seq>, ReadError> {
        let Some(event) = self.journal.by_id(event_of(call)).await? else { return Ok(None) };
        let is_that = matches!(body(&event), Some(Body::ToolRequested(asked)) if asked.call == call && asked.tool == tool);
        Ok((is_that && event.stream == self.branch.stream).then_some(event.seq))
    }

    /// The rule under which a call waited when it was granted.
    async fn rule_asked_under(
        &self,
        call: CallId,
        asked_at: Seq,
        granted: Seq,
    ) -> Result<Option<String>, ReadError> {
        let mut rule = None;
        let requests = ApprovalRequested::kind();
        let mut pages = OfKind::new(self.journal, self.branch, requests).after(asked_at);
        while let Some(page) = pages.next().await? {
            for event in &page {
                if event.seq >= granted {
                    return Ok(rule);
                }
                if let Some(Body::ApprovalRequested(asked)) = body(event)
                    && asked.call == call
                {
                    rule = Some(asked.rule);
                }
            }
        }
        Ok(rule)
    }

    async fn newest(&self, kind: Kind) -> Result<Option<Event>, ReadError> {
        newest_of_kind(self.journal, self.branch, &kind, self.until, |_| true).await
    }

    /// The first event of a kind after another that is as wanted. It is soon found, or there are few of that kind.
    async fn first(
        &self,
        kind: Kind,
        mut after: Seq,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Event>, ReadError> {
        let mut limit = 4;
        loop {
            let page = self.journal.by_kind(self.branch, &kind, after, limit).await?;
            let (is_last, end) = (page.len() < limit, page.last().map(|last| last.seq));
            let mut known = page.into_iter().take_while(|event| event.seq <= self.until);
            if let Some(found) = known.find(|event| is_wanted(event)) {
                return Ok(Some(found));
            }
            match end.filter(|end| !is_last && *end < self.until) {
                Some(end) => (after, limit) = (end, (limit * 4).min(PAGE_MAX)),
                None => return Ok(None),
            }
        }
    }
}

fn body(event: &Event) -> Option<Body> {
    Body::decode(&event.kind, &event.payload).ok()?
}

/// What someone said yes to, if it was they who wrote it down.
fn granted_by_its_actor(event: &Event) -> Option<ApprovalGranted> {
    let Some(Body::ApprovalGranted(granted)) = body(event) else { return None };
    (About::decode(&event.meta).actor.as_deref() == Some(&granted.by)).then_some(granted)
}
