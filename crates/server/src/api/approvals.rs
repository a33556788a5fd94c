//! `/approvals`: what agents ask people, and what people say.

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::{Address, Approval, AskedAfter, DamagedSession};
use weir_events::{RunsAs, Scope};
use weir_journal::{ListAfter, Listed, Status};
use weir_types::{BranchId, BranchName, CallId, Seq, StreamName};

use super::page::{cursor, limit, place};
use super::streams::present;
use super::{Asking, BranchQuery};
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::decisions::{self, Answer};
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, Query};
use crate::idempotency::Claimed;

/// The most sessions that someone sees of which one page tells the calls; it may have fewer calls than its limit, and even none.
///
/// Those they do not see are passed by in between, and how many is not bounded: a page that ended at one of them would have to name it. That is
/// rows of an index, of sessions that wait or run, for approvers alone; whoever decides about nobody else's calls is not led past any.
const SEEN_MAX: usize = 500;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ApprovalsQuery {
    /// Only calls of this agent.
    agent: Option<String>,
    /// Only calls of this session, and of those that its agents began.
    session: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// About so many; a session's calls come together.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Calls that wait for someone's decision.
#[derive(Serialize, ToSchema)]
struct Approvals {
    approvals: Vec<ApprovalView>,
    /// Sessions that may ask something, and cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    damaged: Vec<DamagedView>,
    /// Where the next page begins; null on the last one.
    #[schema(required = true)]
    next: Option<String>,
}

/// A session that cannot be read.
#[derive(Serialize, ToSchema)]
#[schema(as = DamagedSession)]
struct DamagedView {
    /// The session, with its branch if that is not `main`.
    session: String,
    /// What is wrong with it.
    damage: String,
}

/// A call that waits for someone's decision.
#[derive(Serialize, ToSchema)]
#[schema(as = Approval)]
struct ApprovalView {
    /// The call.
    id: String,
    /// The session that makes it, with its branch if that is not `main`.
    session: String,
    agent: String,
    tool: String,
    /// The arguments.
    #[schema(value_type = Value)]
    input: weir_types::Json,
    /// Why it is asked.
    why: String,
    /// When it is too late.
    #[schema(required = true, format = DateTime)]
    expires: Option<String>,
    /// Who may approve, too, and from when on.
    #[schema(required = true)]
    escalates: Option<EscalatesView>,
    /// Whether it was asked for as a dry run: then it is approved as one with `dry_run`, or where writes are live.
    dry_run: bool,
}

/// Who may approve, too, when nobody has decided for a while.
#[derive(Serialize, ToSchema)]
#[schema(as = Escalates)]
struct EscalatesView {
    /// The group, as `group:…`.
    to: String,
    /// From when on.
    #[schema(format = DateTime)]
    at: String,
}

impl From<Approval> for ApprovalView {
    fn from(approval: Approval) -> Self {
        Self {
            id: approval.id.to_string(),
            session: approval.address.to_string(),
            agent: approval.agent,
            tool: approval.tool,
            input: approval.input,
            why: approval.why,
            expires: approval.expires.map(|expires| expires.to_string()),
            escalates: approval
                .escalates
                .map(|escalates| EscalatesView { to: escalates.to, at: escalates.at.to_string() }),
            dry_run: approval.stub,
        }
    }
}

/// What someone says about a call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Decide {
    decision: Word,
    /// Arguments to run instead, with `allow`. They must be allowed, and the agent is told. `null` is one that no tool takes;
    /// leave the field out to approve the call as it is.
    #[schema(value_type = Value, required = false)]
    #[serde(default, deserialize_with = "present")]
    input: Option<weir_types::Json>,
    /// Why, with `deny`; the agent is told.
    #[schema(max_length = 4000)]
    message: Option<String>,
    /// With `allow`: for this call, or for later ones of this tool and for the same reason, too.
    #[schema(inline)]
    scope: Option<ScopeWord>,
    /// With `allow`: the call is to be a dry run, and the approval used up by it. Refused where it would really happen.
    dry_run: Option<bool>,
}

/// What someone says about a call, in the words of a gate.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Gate {
    /// The call; the only one that waits, if left out.
    call: Option<String>,
    decision: Word,
    /// Why, with `deny`; the agent is told.
    #[schema(max_length = 4000)]
    deny_message: Option<String>,
    /// With `allow`: the call is to be a dry run, and the approval used up by it.
    dry_run: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DecisionWord)]
enum Word {
    Allow,
    Deny,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ScopeWord {
    Once,
    Session,
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::Once => Self::Once,
            ScopeWord::Session => Self::Session,
        }
    }
}

/// A decision that was written down.
#[derive(Serialize, ToSchema)]
struct Decided {
    call: String,
    /// `approved` or `denied`.
    decision: String,
    session: String,
    branch: String,
    /// The event.
    seq: u64,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_approvals))
        .routes(routes!(decide))
        .routes(routes!(gate))
        .routes(routes!(gate_alias))
}

/// The calls that wait for a decision, as far as they are yours, or yours to decide about.
#[utoipa::path(
    get, path = "/approvals", tag = "approvals", params(ApprovalsQuery),
    responses((status = 200, body = Approvals), (status = 404, body = ErrorBody))
)]
async fn list_approvals(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ApprovalsQuery>,
) -> Result<Json<Approvals>, Error> {
    let limit = limit(query.limit)?;
    if let Some(session) = &query.session {
        let address = access::session_to_decide(&app, &caller, session, None).await?;
        let mut asked = app.engine.approvals(&address).await?;
        asked.retain(|approval| query.agent.as_ref().is_none_or(|agent| *agent == approval.agent));
        asked.retain(|approval| access::sees_approval(&app, &caller, approval));
        return Ok(Json(Approvals {
            approvals: asked.into_iter().map(ApprovalView::from).collect(),
            damaged: Vec::new(),
            next: None,
        }));
    }
    let inbox = access::Inbox::of(&app, &caller);
    let among = inbox.among(query.agent);
    let mut after = query.after.as_deref().map(after).transpose()?;
    let (mut approvals, mut damaged, mut seen) = (Vec::new(), Vec::new(), 0);
    loop {
        let sees = |listed: &Listed| inbox.has(listed);
        let page = app.engine.approvals_among(among.clone(), sees, after.take(), limit).await?;
        // The rows have said whose sessions these are; their events have the last word.
        let asked =
            page.approvals.into_iter().filter(|approval| access::sees_approval(&app, &caller, approval));
        approvals.extend(asked.map(ApprovalView::from));
        damaged.extend(page.damaged.into_iter().map(|DamagedSession { address, what }| DamagedView {
            session: address.to_string(),
            damage: what,
        }));
        seen += limit;
        after = page.next;
        if after.is_none() || approvals.len() >= limit || seen >= SEEN_MAX {
            break;
        }
    }
    let next = after.and_then(|AskedAfter { status, after }| {
        cursor(&(status, after.map(|after| (after.branch.stream, after.branch.branch))))
    });
    Ok(Json(Approvals { approvals, damaged, next }))
}

fn after(text: &str) -> Result<AskedAfter, Error> {
    let (status, branch): (Status, Option<(StreamName, BranchName)>) = place(text)?;
    let after = branch.map(|(stream, branch)| ListAfter { branch: BranchId { stream, branch }, due: None });
    Ok(AskedAfter { status, after })
}

/// Decide about a call of a session, or of one that its agents began.
#[utoipa::path(
    post, path = "/sessions/{id}/approvals/{call}", tag = "approvals",
    params(("id" = String, Path), ("call" = String, Path), BranchQuery), request_body = Decide,
    responses((status = 200, body = Decided), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn decide(
    deciding: Deciding,
    Path(Call { call }): Path<Call>,
    Json(decide): Json<Decide>,
) -> Result<Json<Decided>, Error> {
    let call = call.parse().map_err(|_| Error::missing("call"))?;
    deciding.make(call, decide).await
}

/// The same for whoever calls it a gate.
#[utoipa::path(
    post, path = "/sessions/{id}/gate", tag = "approvals", params(("id" = String, Path), BranchQuery), request_body = Gate,
    responses((status = 200, body = Decided), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn gate(deciding: Deciding, Json(gate): Json<Gate>) -> Result<Json<Decided>, Error> {
    deciding.at_gate(gate).await
}

/// The same, where the reference has it.
#[utoipa::path(
    post, path = "/api/sessions/{id}/gate", tag = "approvals", params(("id" = String, Path), BranchQuery), request_body = Gate,
    responses((status = 200, body = Decided), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn gate_alias(deciding: Deciding, Json(gate): Json<Gate>) -> Result<Json<Decided>, Error> {
    deciding.at_gate(gate).await
}

/// The only call that waits.
fn only(asked: &[Approval]) -> Result<CallId, Error> {
    match asked {
        [] => Err(Error::new(
            StatusCode::NOT_FOUND,
            "engine::no-approval",
            "the session asks nobody about a call",
            "see `GET /approvals` for what waits",
        )),
        [one] => Ok(one.id),
        _ => Err(Error::new(
            StatusCode::CONFLICT,
            "server::which-call",
            format!("{} calls of the session wait", asked.len()),
            "say which with `call`; `GET /approvals` lists them",
        )),
    }
}

/// The call that a path names.
#[derive(Deserialize)]
struct Call {
    call: String,
}

/// A decision to be made about a call of a session.
struct Deciding {
    app: App,
    caller: Caller,
    claimed: Claimed,
    address: Address,
}

impl FromRequestParts<App> for Deciding {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let Asking { caller, claimed, id, branch } = Asking::from_request_parts(parts, app).await?;
        let address = access::session_to_decide(app, &caller, &id, branch.as_deref()).await?;
        Ok(Self { app: app.clone(), caller, claimed, address })
    }
}

impl Deciding {
    async fn at_gate(&self, gate: Gate) -> Result<Json<Decided>, Error> {
        let Gate { call, decision, deny_message, dry_run } = gate;
        let call = match call {
            Some(call) => call.parse().map_err(|_| Error::missing("call"))?,
            // What the same request has decided before does not wait any more.
            None if self.claimed.earlier().is_some() => CallId::from_u128(0),
            None => {
                let mut asked = self.app.engine.approvals(&self.address).await?;
                asked.retain(|approval| access::sees_approval(&self.app, &self.caller, approval));
                only(&asked)?
            }
        };
        self.make(call, Decide { decision, input: None, message: deny_message, scope: None, dry_run }).await
    }

    async fn make(&self, call: CallId, decide: Decide) -> Result<Json<Decided>, Error> {
        if let Some((address, seq)) = self.claimed.earlier() {
            return self.earlier(&address, seq).await;
        }
        let Decide { decision, input, message, scope, dry_run } = decide;
        let (word, answer) = match decision {
            Word::Allow if message.is_some() => {
                return Err(Error::bad("`message` goes with `deny`", "leave it out"));
            }
            Word::Deny if input.is_some() || scope.is_some() || dry_run.is_some() => {
                return Err(Error::bad("`input`, `scope` and `dry_run` go with `allow`", "leave them out"));
            }
            Word::Allow => {
                let scope = scope.map_or(Scope::Once, Scope::from);
                ("approved", {
                    let runs = if dry_run == Some(true) { RunsAs::DryRun } else { RunsAs::Live };
                    Answer::Yes { input, scope, runs }
                })
            }
            Word::Deny => ("denied", Answer::No { message }),
        };
        let (engine, address) = (self.claimed.engine(&self.app), &self.address);
        let asked = engine.approvals(address).await?;
        let made = decisions::decide(&engine, &self.caller, address, call, &asked, answer).await?;
        Ok(Json(decided(call, word, &made.address, made.seq)))
    }

    /// What the same request has decided before.
    async fn earlier(&self, address: &Address, seq: Seq) -> Result<Json<Decided>, Error> {
        let events = self.app.journal.read(&address.branch_id(), Seq(seq.0.saturating_sub(1)), 1).await?;
        let body = events
            .first()
            .and_then(|event| weir_events::Body::decode(&event.kind, &event.payload).ok().flatten());
        match body {
            Some(weir_events::Body::ApprovalGranted(body)) => {
                Ok(Json(decided(body.call, "approved", address, seq)))
            }
            Some(weir_events::Body::ApprovalDenied(body)) => {
                Ok(Json(decided(body.call, "denied", address, seq)))
            }
            _ => Err(Error::missing("call")),
        }
    }
}

fn decided(call: CallId, decision: &str, address: &Address, seq: Seq) -> Decided {
    Decided {
        call: call.to_string(),
        decision: decision.to_owned(),
        session: address.session.to_string(),
        branch: address.branch.to_string(),
        seq: seq.0,
    }
}
