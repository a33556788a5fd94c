//! What people decide about calls: who may, whether it fits what is asked, and where that is.
//!
//! A yes is checked twice: here, before it is written down, so that whoever gives it learns what is wrong with it; and by the
//! session's task when it takes it up, because days may lie in between.

mod error;

use std::sync::Arc;

use weir_events::{
    ApprovalDenied, ApprovalExpired, ApprovalGranted, AskedBecause, Body, Escalates, Payload, RunsAs,
    SessionCreated,
};
use weir_journal::{Journal, ListAfter, ListFilter, Listed, OfKind, PAGE_MAX, Status};
use weir_kernel::{Call, CallState, Lifecycle, Session};
use weir_tools::{Asked, Decision};
use weir_types::{BranchId, CallId, Effect, GateStep, Hash, Json, Seq, Timestamp, Verdict, Who};

use crate::address::Address;
use crate::draft::event_of;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::family;
use crate::input;
use crate::setup::Runnable;
use crate::shared::Shared;
use crate::snapshots::SealedJournal;
use crate::store;
use crate::tools::Tools;

pub use self::error::{ApprovalError, How};

/// What stands for the rule where an interrupted call is asked about.
pub(crate) const ON_INTERRUPT: &str = "on_interrupt: ask";

/// What stands for the rule where a call waits for the session behind it.
pub(crate) const CHILD: &str = "child";

/// How many sessions are looked at together, at least: most of them may be none that somebody sees.
const ROWS_AT_ONCE: usize = 100;

/// A call that someone has to decide about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The call.
    pub id: CallId,
    /// The session that makes it.
    pub address: Address,
    /// The agent that makes it.
    pub agent: String,
    /// The build that its session began with.
    pub build: Hash,
    /// On whose behalf.
    pub asker: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub input: Json,
    /// What identifies them; a yes names it.
    pub input_hash: Hash,
    /// Why it is asked.
    pub why: String,
    /// When it is too late.
    pub expires: Option<Timestamp>,
    /// Who may approve, too, from when on.
    pub escalates: Option<Escalates>,
    /// Whether it is a dry run, as it was asked for.
    pub stub: bool,
}

/// A decision that was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The session whose call it is about.
    pub address: Address,
    /// The event.
    pub seq: Seq,
    /// The call was asked for as one that really happens; run from here, it would only pretend.
    pub pretends: bool,
}

/// What becomes of a yes to a call that would be a dry run: nobody approves something for nothing, unless they say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pretence {
    /// It is refused if the call would be a dry run here, where it runs.
    Refused,
    /// It is refused if the call was a dry run where it was asked for: another process runs it.
    RefusedElsewhere,
    /// A dry run is what is wanted: it is refused if the call would really happen here.
    Wanted,
    /// A dry run is what is wanted, of whichever process runs it.
    WantedElsewhere,
    /// A live write is what is wanted, of whichever process runs it.
    LiveElsewhere,
    /// It is taken either way.
    Allowed,
}

impl Pretence {
    /// What is approved. The process that runs the call asks again if it would do something else.
    fn runs(self) -> Option<RunsAs> {
        match self {
            Self::Refused | Self::RefusedElsewhere | Self::LiveElsewhere => Some(RunsAs::Live),
            Self::Wanted | Self::WantedElsewhere => Some(RunsAs::DryRun),
            Self::Allowed => None,
        }
    }
}

/// A page of what sessions ask people.
#[derive(Debug)]
pub struct ApprovalsPage {
    /// What they ask.
    pub approvals: Vec<Approval>,
    /// Sessions that may ask something and cannot be read.
    pub damaged: Vec<DamagedSession>,
    /// Where the next page begins; nothing on the last one.
    pub next: Option<AskedAfter>,
}

/// A session that cannot be read.
#[derive(Debug)]
pub struct DamagedSession {
    /// Which.
    pub address: Address,
    /// What is wrong with it.
    pub what: String,
}

/// Where a page of [`Engine::all_approvals`] ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedAfter {
    /// Sessions of this status are looked at.
    pub status: Status,
    /// After this one.
    pub after: Option<ListAfter>,
}

impl Approval {
    /// Whether nobody can approve it any more at this time.
    pub fn is_late(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// What a session asks by itself, in the order of its calls.
    pub(crate) fn of(address: &Address, session: &Session) -> Vec<Self> {
        let Some(created) = &session.created else { return Vec::new() };
        let asked = session.all_calls().filter_map(|call| match &call.state {
            CallState::Awaiting { input_hash, expires, because, escalates, .. } => {
                Some((call, *input_hash, *expires, *because, escalates))
            }
            _ => None,
        });
        asked
            .map(|(call, input_hash, expires, because, escalates)| Self {
                id: call.id,
                address: address.clone(),
                agent: created.agent.clone(),
                build: created.manifest,
                asker: created.principal.clone(),
                tool: call.tool.clone(),
                input: call.input_to_run().clone(),
                input_hash,
                why: why_asked(&call.tool, because, &call.because),
                expires,
                escalates: escalates.clone(),
                stub: call.stub,
            })
            .collect()
    }
}

/// Why someone is asked about a call of a tool, in words. `said` is what the decision about it says.
pub fn why_asked(tool: &str, because: AskedBecause, said: &str) -> String {
    let reason = match (because, said) {
        (AskedBecause::Interrupted, _) => {
            ": it was cut off and may have taken effect; a yes repeats it".to_owned()
        }
        (AskedBecause::Rule | AskedBecause::Child, "") => String::new(),
        (AskedBecause::Rule | AskedBecause::Child, said) => format!(": {said}"),
    };
    format!("tool '{tool}' requires approval{reason}")
}

/// What a session and those behind it ask.
pub(crate) async fn of_family(
    journal: SealedJournal<'_>,
    address: &Address,
    session: &Session,
) -> Result<Vec<Approval>, EngineError> {
    let mut asked = Approval::of(address, session);
    for child in family::below(journal, address, session).await? {
        asked.extend(Approval::of(&child.address, &child.session));
    }
    Ok(asked)
}

/// Whether decisions among these bodies fit what the session asks now.
pub(crate) fn check_all(
    address: &Address,
    session: &Session,
    bodies: &[Body],
    now: Timestamp,
) -> Result<(), EngineError> {
    for body in bodies {
        match body {
            Body::ApprovalGranted(granted) => {
                check(address, session, granted.call, Some(granted.input_hash), now)?;
            }
            Body::ApprovalDenied(denied) => check(address, session, denied.call, None, now)?,
            _ => {}
        }
    }
    Ok(())
}

/// Whether a decision fits what the session asks at this time. The time of a session never goes back, whatever a clock says.
fn check(
    address: &Address,
    session: &Session,
    call: CallId,
    approved: Option<Hash>,
    now: Timestamp,
) -> Result<(), EngineError> {
    let now = now.max(session.ts);
    match session.lifecycle {
        Lifecycle::Open => {}
        Lifecycle::Halted(_) => return Err(EngineError::Halted(address.clone())),
        Lifecycle::Closed(_) => return Err(EngineError::Closed(address.clone())),
    }
    let asked = session.all_calls().find(|asked| asked.id == call).map(|asked| &asked.state);
    let Some(CallState::Awaiting { input_hash, expires, .. }) = asked else {
        return Err(ApprovalError::NotAsked { address: address.clone(), call }.into());
    };
    if let Some(at) = expires.filter(|at| now >= *at) {
        return Err(ApprovalError::Late { address: address.clone(), call, at }.into());
    }
    if approved.is_some_and(|approved| approved != *input_hash) {
        return Err(ApprovalError::OtherArguments { call }.into());
    }
    Ok(())
}

/// The group that may approve, too, by now.
pub fn escalated(escalates: Option<&Escalates>, now: Timestamp) -> Option<&str> {
    escalates.filter(|escalates| now >= escalates.at).map(|escalates| escalates.to.as_str())
}

/// Whether someone may approve what an agent does for someone. `through` is a group that may, too, since nobody has decided for a
/// while. What a policy forbids, such as four eyes, stays forbidden.
pub(crate) fn may_approve(
    tools: &dyn Tools,
    by: Who<'_>,
    asker: &str,
    agent: &str,
    through: Option<&str>,
) -> Decision {
    let may = tools.may_approve(by, asker, agent);
    let lacks_role = may.verdict == Verdict::Deny && may.step == Some(GateStep::Grant);
    match through.filter(|group| lacks_role && tools.is_member(by, group)) {
        Some(group) => {
            Decision::allow(format!("`{}` is in `{group}`, which may approve it by now", by.principal))
        }
        None => may,
    }
}

impl Engine {
    /// Says yes to a call of a session, or of one behind it.
    ///
    /// # Errors
    /// When `by` may not, nobody is asked about that call (any more), it is asked about with other arguments, it is too late,
    /// the arguments to run instead would be refused, or it would pretend and must not. Then nothing was written down.
    pub async fn approve(
        &self,
        address: &Address,
        granted: ApprovalGranted,
        pretence: Pretence,
    ) -> Result<Answered, EngineError> {
        let asked = self.asked(address, granted.call, Who::new(&granted.by, &granted.groups)).await?;
        // What a call would do is only of interest while it waits.
        let now = (self.0.setup.options.clock)();
        if let Err(error) = check(&asked.address, &asked.session, granted.call, Some(granted.input_hash), now)
        {
            return Err(self.why_refused(error).await?);
        }
        let pretends = asked.would_pretend(&granted)?;
        let tool = || asked.call.tool.clone();
        match pretence {
            Pretence::Refused if pretends => return Err(ApprovalError::WouldPretend { tool: tool() }.into()),
            Pretence::RefusedElsewhere if asked.call.stub => {
                return Err(ApprovalError::WouldPretend { tool: tool() }.into());
            }
            Pretence::Wanted if !pretends => return Err(ApprovalError::WouldHappen { tool: tool() }.into()),
            Pretence::Refused
            | Pretence::RefusedElsewhere
            | Pretence::Wanted
            | Pretence::WantedElsewhere
            | Pretence::LiveElsewhere
            | Pretence::Allowed => {}
        }
        let granted = ApprovalGranted { runs: pretence.runs().or(granted.runs), ..granted };
        self.answer(asked.address, granted.by.clone(), granted.into(), pretends).await
    }

    /// Whether a call would be a dry run if it ran here after this yes. Writes nothing down.
    ///
    /// # Errors
    /// Those of [`Engine::approve`] that can be told before.
    pub async fn would_pretend(
        &self,
        address: &Address,
        granted: &ApprovalGranted,
    ) -> Result<bool, EngineError> {
        let asked = self.asked(address, granted.call, Who::new(&granted.by, &granted.groups)).await?;
        asked.would_pretend(granted)
    }

    /// Says no to a call of a session, or of one behind it.
    ///
    /// # Errors
    /// When `by` may not, or nobody is asked about that call (any more). Then nothing was written down.
    pub async fn deny(&self, address: &Address, denied: ApprovalDenied) -> Result<Answered, EngineError> {
        let asked = self.asked(address, denied.call, Who::new(&denied.by, &denied.groups)).await?;
        self.answer(asked.address, denied.by.clone(), denied.into(), false).await
    }

    /// What a session and those behind it ask people.
    ///
    /// # Errors
    /// When there is no such session, or it cannot be read.
    pub async fn approvals(&self, address: &Address) -> Result<Vec<Approval>, EngineError> {
        let session = self.state(address, None).await?;
        of_family(self.0.journal(), address, &session).await
    }

    /// What all sessions ask people, a page of at most so many sessions at a time, and where the next page begins. Calls that
    /// nobody can approve any more are left out, also where their expiry is not written down yet.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn all_approvals(
        &self,
        agent: Option<String>,
        after: Option<AskedAfter>,
        limit: usize,
    ) -> Result<ApprovalsPage, EngineError> {
        let filter = ListFilter { agent, ..ListFilter::default() };
        self.approvals_among(filter, |_| true, after, limit).await
    }

    /// The same of the sessions among which to look, whatever they do, as far as somebody sees them. A page ends with one that they
    /// see: where it ends tells them nothing about others. So `limit` bounds the sessions they see; those they do not see are passed by,
    /// however many of them wait or run.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn approvals_among(
        &self,
        filter: ListFilter,
        sees: impl Fn(&Listed) -> bool + Send,
        after: Option<AskedAfter>,
        limit: usize,
    ) -> Result<ApprovalsPage, EngineError> {
        let journal = self.0.journal();
        let limit = limit.clamp(1, PAGE_MAX);
        let mut at = after.unwrap_or(AskedAfter { status: Status::Waiting, after: None });
        let mut seen: Vec<Listed> = Vec::new();
        let mut is_over = false;
        while !is_over && seen.len() < limit {
            let filter = ListFilter { status: Some(at.status), ..filter.clone() };
            let rows = limit.max(ROWS_AT_ONCE);
            let page = journal.list(filter, at.after.take(), rows).await?;
            let next = page.last().filter(|_| page.len() == rows).map(Listed::after);
            let room = limit - seen.len();
            seen.extend(page.into_iter().filter(|listed| sees(listed)).take(room));
            if seen.len() == limit {
                break;
            }
            // A session that asks about one call may be busy with another.
            (at, is_over) = match (next, at.status) {
                (Some(next), status) => (AskedAfter { status, after: Some(next) }, false),
                (None, Status::Waiting) => (AskedAfter { status: Status::Running, after: None }, false),
                (None, _) => (at, true),
            };
        }
        let last = seen.last().filter(|_| !is_over).map(Listed::after);
        let next = last.map(|after| AskedAfter { status: at.status, after: Some(after) });
        let now = (self.0.setup.options.clock)();
        let (mut approvals, mut damaged) = (Vec::new(), Vec::new());
        for address in seen.iter().filter_map(|listed| Address::of(&listed.branch)) {
            match store::load(journal, &address).await {
                Ok(Some(loaded)) => {
                    let asked = Approval::of(&address, &loaded.state()).into_iter();
                    approvals.extend(asked.filter(|approval| !approval.is_late(now)));
                }
                Ok(None) => {}
                Err(error) if error.is_damage() => {
                    damaged.push(DamagedSession { address, what: error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(ApprovalsPage { approvals, damaged, next })
    }

    /// Whether someone may decide about a call, as its agent is now.
    ///
    /// # Errors
    /// When the agent cannot be had.
    pub async fn may_decide<'a>(
        &self,
        approval: &Approval,
        by: impl Into<Who<'a>>,
    ) -> Result<bool, EngineError> {
        let by = by.into();
        let runnable = self.0.setup.agents.agent(&approval.agent, Some(approval.build)).await;
        let runnable = runnable.map_err(EngineError::Agent)?;
        let through = escalated(approval.escalates.as_ref(), (self.0.setup.options.clock)());
        let may = may_approve(&*runnable.tools, by, &approval.asker, &approval.agent, through);
        Ok(may.verdict == Verdict::Allow)
    }

    /// The session that made a call, if there is one.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn caller(&self, call: CallId) -> Result<Option<Address>, EngineError> {
        let event = self.0.setup.journal.by_id(event_of(call)).await?;
        Ok(event.and_then(|event| Address::of(&event.branch_id())))
    }

    /// The session that a person began, from which a session was called; itself, if it was not.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn root(&self, address: &Address) -> Result<Address, EngineError> {
        family::root_of(self.0.journal(), address).await
    }

    /// Finds the call, and whether that person may decide about it.
    async fn asked(&self, address: &Address, call: CallId, by: Who<'_>) -> Result<Question, EngineError> {
        let (address, session) = find(&self.0, address, call).await?;
        let (Some(created), Some(call)) = (session.created.clone(), session.call(call).cloned()) else {
            return Err(EngineError::NoSession(address));
        };
        let runnable = self.0.agent_of(&created).await?;
        let now = (self.0.setup.options.clock)().max(session.ts);
        let through = match &call.state {
            CallState::Awaiting { escalates, .. } => escalated(escalates.as_ref(), now),
            _ => None,
        };
        let may = may_approve(&*runnable.tools, by, &created.principal, &created.agent, through);
        if may.verdict != Verdict::Allow {
            return Err(EngineError::Denied(may.because));
        }
        Ok(Question { address, session, created, call, runnable })
    }

    async fn answer(
        &self,
        address: Address,
        by: String,
        body: Body,
        pretends: bool,
    ) -> Result<Answered, EngineError> {
        match input::post(&self.0, &address, body, &self.by(&by)).await {
            Ok(seq) => Ok(Answered { address, seq, pretends }),
            Err(error) => Err(self.why_refused(error).await?),
        }
    }

    /// The same refusal, with what was decided before if that is the reason.
    async fn why_refused(&self, error: EngineError) -> Result<EngineError, EngineError> {
        match error {
            EngineError::Approval(ApprovalError::NotAsked { address, call }) => {
                Ok(not_asked(&*self.0.setup.journal, address, call).await?.into())
            }
            error => Ok(error),
        }
    }
}

/// A call that someone may decide about, in its session, and the agent that would run it here.
struct Question {
    address: Address,
    session: Session,
    created: SessionCreated,
    call: Call,
    runnable: Arc<Runnable>,
}

impl Question {
    /// Whether the call would be a dry run if it ran here.
    fn would_pretend(&self, granted: &ApprovalGranted) -> Result<bool, EngineError> {
        let Self { created, call, .. } = self;
        let decision = self.runnable.tools.authorize(&Asked {
            call: call.id,
            tool: &call.tool,
            input: granted.input.as_ref().unwrap_or(&call.input),
            session: self.address.session,
            depth: created.parent.as_ref().map_or(0, |parent| parent.depth),
            agent: &created.agent,
            principal: &created.principal,
            groups: &created.groups,
            approved_by: Some(&granted.by),
        });
        // What the model asked for is decided again when it is taken up, and the model is told. What the approver made of
        // it is the approver's to mend.
        if granted.input.is_some() && decision.verdict == Verdict::Deny {
            return Err(ApprovalError::Edit { because: decision.because }.into());
        }
        Ok(decision.stub && call.effect != Effect::Read)
    }
}

/// The session that makes a call: this one, or one behind it.
async fn find(shared: &Shared, address: &Address, call: CallId) -> Result<(Address, Session), EngineError> {
    let journal = shared.journal();
    let loaded = store::load(journal, address).await?;
    let Some(session) = loaded.map(store::Loaded::state).filter(|session| session.created.is_some()) else {
        return Err(EngineError::NoSession(address.clone()));
    };
    if session.call(call).is_some() {
        return Ok((address.clone(), session));
    }
    for child in family::below(journal, address, &session).await? {
        if child.session.call(call).is_some() {
            return Ok((child.address, child.session));
        }
    }
    Err(not_asked(&*journal, address.clone(), call).await?.into())
}

/// Why nobody is asked about a call: it was decided, or it never was asked about.
async fn not_asked(
    journal: &dyn Journal,
    address: Address,
    call: CallId,
) -> Result<ApprovalError, EngineError> {
    let how = decided(journal, &address.branch_id(), call).await?;
    Ok(match how {
        Some(how) => ApprovalError::Decided { address, call, how },
        None => ApprovalError::NotAsked { address, call },
    })
}

/// The newest decision about a call.
async fn decided(journal: &dyn Journal, branch: &BranchId, call: CallId) -> Result<Option<How>, EngineError> {
    let mut newest: Option<(Seq, How)> = None;
    for kind in [ApprovalGranted::kind(), ApprovalDenied::kind(), ApprovalExpired::kind()] {
        let mut pages = OfKind::new(journal, branch, kind);
        while let Some(page) = pages.next().await? {
            for event in &page {
                let how = match Body::decode(&event.kind, &event.payload) {
                    Ok(Some(Body::ApprovalGranted(body))) if body.call == call => How::Approved(body.by),
                    Ok(Some(Body::ApprovalDenied(body))) if body.call == call => How::Denied(body.by),
                    Ok(Some(Body::ApprovalExpired(body))) if body.call == call => How::Expired,
                    _ => continue,
                };
                if newest.as_ref().is_none_or(|(seq, _)| *seq < event.seq) {
                    newest = Some((event.seq, how));
                }
            }
        }
    }
    Ok(newest.map(|(_, how)| how))
}
