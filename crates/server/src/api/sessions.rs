//! `/sessions`: which there are, and what is in them.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::conversation::{Line, Reader};
use weir_engine::{Address, Outcome};
use weir_journal::{ListAfter, ListFilter, Listed, Status};
use weir_kernel::Session;
use weir_types::{BranchId, BranchName, Seq, StreamName};

use super::events::{EventsQuery, EventsView};
use super::page::{cursor, limit, place};
use super::views::{self, FileView, StopView, UsageView};
use super::{BranchQuery, at};
use crate::access::{self, Reached};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, Query};

/// How many events one page of messages is made of.
const EVENTS_PER_PAGE: usize = 500;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SessionsQuery {
    /// Only those that do this.
    #[param(inline)]
    status: Option<StatusView>,
    /// Only those of this agent.
    agent: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// What a session does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SessionStatus)]
enum StatusView {
    Idle,
    Running,
    Waiting,
    Halted,
    Closed,
}

impl From<Status> for StatusView {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Halted => Self::Halted,
            Status::Closed => Self::Closed,
        }
    }
}

impl From<StatusView> for Status {
    fn from(status: StatusView) -> Self {
        match status {
            StatusView::Idle => Self::Idle,
            StatusView::Running => Self::Running,
            StatusView::Waiting => Self::Waiting,
            StatusView::Halted => Self::Halted,
            StatusView::Closed => Self::Closed,
        }
    }
}

/// What a session does, or that it cannot be read.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ListedSessionStatus)]
enum RowStatusView {
    Idle,
    Running,
    Waiting,
    Halted,
    Closed,
    /// What is stored of it is damaged; `damage` says what.
    Damaged,
}

impl From<Status> for RowStatusView {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Halted => Self::Halted,
            Status::Closed => Self::Closed,
        }
    }
}

/// A page of sessions, in a stable order.
#[derive(Serialize, ToSchema)]
struct Sessions {
    sessions: Vec<SessionRow>,
    /// Where the next page begins; null on the last one.
    #[schema(required = true)]
    next: Option<String>,
}

/// A branch of a session.
#[derive(Serialize, ToSchema)]
struct SessionRow {
    id: String,
    branch: String,
    #[schema(required = true)]
    agent: Option<String>,
    status: RowStatusView,
    #[schema(required = true)]
    title: Option<String>,
    #[schema(required = true)]
    principal: Option<String>,
    #[schema(format = DateTime)]
    updated: String,
    usage: UsageView,
    cost_usd: f64,
    /// What is wrong with it, if it is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    damage: Option<String>,
}

/// A session.
#[derive(Serialize, ToSchema)]
struct SessionView {
    id: String,
    branch: String,
    #[schema(required = true)]
    agent: Option<String>,
    /// The build it began with.
    #[schema(required = true)]
    manifest: Option<String>,
    #[schema(required = true)]
    principal: Option<String>,
    #[schema(required = true)]
    title: Option<String>,
    labels: BTreeMap<String, String>,
    status: StatusView,
    #[schema(format = DateTime)]
    began: String,
    #[schema(format = DateTime)]
    updated: String,
    /// Its newest event.
    seq: u64,
    branches: Vec<String>,
    /// Why the latest run stopped; null while one runs, or if there was none.
    #[schema(required = true)]
    stop: Option<StopView>,
    usage: UsageView,
    cost_usd: f64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MessagesQuery {
    /// Only what was said after this event; `next` of the page before.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// The branch; `main` if left out.
    branch: Option<String>,
}

/// What was said and done, a page at a time.
#[derive(Serialize, ToSchema)]
struct Messages {
    #[schema(value_type = Vec<MessageView>)]
    messages: Vec<Line>,
    /// Where the next page begins; null, if nothing follows at the moment.
    #[schema(required = true)]
    next: Option<u64>,
}

/// Something that was said or done.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionMessage)]
struct MessageView {
    /// The event that says so.
    seq: u64,
    #[schema(format = DateTime)]
    ts: String,
    r#type: MessageType,
    /// Who said it, if that was a person.
    #[schema(nullable = false)]
    actor: Option<String>,
    /// The tool, if it is about one.
    #[schema(nullable = false)]
    tool: Option<String>,
    /// The arguments of a call.
    #[schema(value_type = Value, required = false)]
    input: serde_json::Value,
    /// In words.
    text: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SessionMessageType)]
#[expect(dead_code, reason = "describes what the engine writes")]
enum MessageType {
    User,
    Signal,
    Assistant,
    Thinking,
    Call,
    Result,
    Failure,
    Summary,
    Note,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AtQuery {
    /// As of this event, or of the last one at or before this time (RFC 3339); now, if left out.
    pub(super) at: Option<String>,
    /// The branch; `main` if left out.
    pub(super) branch: Option<String>,
}

/// The state of a session, as its events fold to it, with its files. Its fields are those of this version.
#[derive(Serialize, ToSchema)]
#[schema(as = SessionState)]
struct StateView {
    /// The newest event in it.
    seq: u64,
    #[schema(value_type = Object)]
    state: Session,
    files: Vec<FileView>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_sessions))
        .routes(routes!(session))
        .routes(routes!(session_messages, super::changes::post_message))
        .routes(routes!(session_state))
        .routes(routes!(session_events))
}

/// Your sessions; for administrators, all.
#[utoipa::path(
    get, path = "/sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, body = Sessions))
)]
async fn list_sessions(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<SessionsQuery>,
) -> Result<Json<Sessions>, Error> {
    let limit = limit(query.limit)?;
    let filter = ListFilter {
        status: query.status.map(Status::from),
        principal: access::sessions_of(&app, &caller),
        agent: query.agent,
        due_before: None,
    };
    let mut after = query.after.as_deref().map(after).transpose()?;
    let mut sessions = Vec::new();
    // Only sessions have attributes; should anything else ever have them, it is passed over.
    while sessions.len() < limit {
        let wanted = limit - sessions.len();
        let page = app.journal.list(filter.clone(), after.take(), wanted).await?;
        let is_last = page.len() < wanted;
        after = page.last().map(Listed::after);
        for listed in page {
            if let Some(address) = Address::of(&listed.branch) {
                sessions.push(row(&app, &address, listed).await?);
            }
        }
        if is_last {
            after = None;
            break;
        }
    }
    let next = after.and_then(|after| cursor(&(after.branch.stream, after.branch.branch)));
    Ok(Json(Sessions { sessions, next }))
}

fn after(text: &str) -> Result<ListAfter, Error> {
    let (stream, branch): (StreamName, BranchName) = place(text)?;
    Ok(ListAfter { branch: BranchId { stream, branch }, due: None })
}

async fn row(app: &App, address: &Address, listed: Listed) -> Result<SessionRow, Error> {
    let (spent, damage) = app.engine.totals(address, &listed).await?;
    let status = if damage.is_some() { RowStatusView::Damaged } else { listed.attrs.status.into() };
    Ok(SessionRow {
        id: address.session.to_string(),
        branch: address.branch.to_string(),
        agent: listed.attrs.agent,
        status,
        title: listed.attrs.title,
        principal: listed.attrs.principal,
        updated: listed.head.ts.to_string(),
        usage: spent.usage.into(),
        cost_usd: spent.cost.as_usd(),
        damage,
    })
}

/// One of them.
#[utoipa::path(
    get, path = "/sessions/{id}", tag = "sessions", params(("id" = String, Path), BranchQuery),
    responses((status = 200, body = SessionView), (status = 404, body = ErrorBody))
)]
async fn session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
) -> Result<Json<SessionView>, Error> {
    let Reached { address, .. } = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    let session = app.engine.state(&address, None).await?;
    let first = app.journal.read(&address.branch_id(), Seq(0), 1).await?;
    let began = first.first().map_or(session.ts, |event| event.ts).to_string();
    let branches = app.journal.branches(&address.branch_id().stream).await?;
    let outcome = Outcome::of(&address, &session);
    let status = weir_engine::status(&session);
    let stop = outcome.run.filter(|_| status != Status::Running).map(|_| outcome.stop.into());
    let created = session.created;
    Ok(Json(SessionView {
        id: address.session.to_string(),
        branch: address.branch.to_string(),
        agent: created.as_ref().map(|created| created.agent.clone()),
        manifest: created.as_ref().map(|created| created.manifest.to_string()),
        principal: created.map(|created| created.principal),
        title: session.title,
        labels: session.labels,
        status: status.into(),
        began,
        updated: session.ts.to_string(),
        seq: session.seq.0,
        branches: branches.into_iter().map(|branch| branch.name.to_string()).collect(),
        stop,
        usage: session.totals.usage.into(),
        cost_usd: session.totals.cost.as_usd(),
    }))
}

/// What was said and done in it, in words.
#[utoipa::path(
    get, path = "/sessions/{id}/messages", tag = "sessions", params(("id" = String, Path), MessagesQuery),
    responses((status = 200, body = Messages), (status = 404, body = ErrorBody))
)]
async fn session_messages(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<Messages>, Error> {
    let Reached { address, .. } = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    let (branch, after) = (address.branch_id(), Seq(query.after.unwrap_or(0)));
    let head = app.journal.head(&branch).await?.map_or(Seq(0), |head| head.seq);
    // Results name their tools only by the call, which may be on the page before.
    let mut reader = match after {
        Seq(0) => Reader::default(),
        after => Reader::after(app.engine.state(&address, Some(after.min(head))).await?.calls()),
    };
    let page = app.journal.read(&branch, after, EVENTS_PER_PAGE).await?;
    let next = page.last().filter(|_| page.len() == EVENTS_PER_PAGE).map(|event| event.seq.0);
    let messages = page.iter().flat_map(|event| reader.read(event)).collect();
    Ok(Json(Messages { messages, next }))
}

/// Its state, now or then.
#[utoipa::path(
    get, path = "/sessions/{id}/state", tag = "sessions", params(("id" = String, Path), AtQuery),
    responses((status = 200, body = StateView), (status = 404, body = ErrorBody))
)]
async fn session_state(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<AtQuery>,
) -> Result<Json<StateView>, Error> {
    let Reached { address, .. } = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    let at = at::place(&*app.journal, &address.branch_id(), query.at.as_deref()).await?;
    let state = app.engine.state(&address, at).await?;
    // Both of the same moment, also while the session goes on.
    let files = app.engine.files(&address, Some(state.seq)).await?;
    Ok(Json(StateView { seq: state.seq.0, state, files: views::files(&files) }))
}

/// Its events.
#[utoipa::path(
    get, path = "/sessions/{id}/events", tag = "sessions", params(("id" = String, Path), EventsQuery),
    responses((status = 200, body = EventsView), (status = 404, body = ErrorBody))
)]
async fn session_events(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
) -> Result<Response, Error> {
    let Reached { address, .. } = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    query.page(&app, &caller, &address.branch_id()).await
}
