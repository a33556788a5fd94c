//! What is done to a session: said, told, stopped, gone on with, forked.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::Address;
use weir_kernel::Allowance;
use weir_types::{BranchName, NanoUsd, Seq};

use super::BranchQuery;
use super::chat::said;
use super::content::Content;
use super::views::ChangedView;
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, Query};
use crate::idempotency::Claimed;

/// The longest name of a signal, and the longest reason, in characters.
const WORDS_CHARS_MAX: usize = 1_000;

/// Something said that nobody waits for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Post {
    message: Content,
}

/// Something that happened outside.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Signal {
    /// What.
    #[schema(min_length = 1, max_length = 1000)]
    name: String,
    /// The details; null if left out.
    #[schema(value_type = Value, required = false)]
    data: Option<weir_types::Json>,
}

/// Why something is done.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Reason {
    #[schema(max_length = 1000)]
    reason: Option<String>,
}

/// Nothing to say.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What a session gets to go on with.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Resume {
    /// More than the limit that stopped it had left; only administrators can give it.
    budget: Option<Budget>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Budget {
    model_calls: Option<u64>,
    tokens: Option<u64>,
    #[schema(minimum = 0)]
    usd: Option<f64>,
    wall_clock_ms: Option<u64>,
}

/// Where a new branch begins.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fork {
    /// The last event that both share; the newest, if left out.
    #[schema(minimum = 1)]
    at: Option<u64>,
    /// The name of the new branch; a free one, if left out.
    #[schema(min_length = 1, max_length = 255)]
    name: Option<String>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(fork_session))
        .routes(routes!(cancel_session))
        .routes(routes!(halt_session))
        .routes(routes!(resume_session))
        .routes(routes!(close_session))
        .routes(routes!(signal_session))
}

/// Say something to a session and do not wait. Whoever runs it, now or later, takes it up.
#[utoipa::path(
    post, path = "/sessions/{id}/messages", tag = "sessions", params(("id" = String, Path), BranchQuery), request_body = Post,
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(super) async fn post_message(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    Json(post): Json<Post>,
) -> Result<Json<ChangedView>, Error> {
    let content = post.message.blocks()?;
    let address = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    change(&address, &claimed, || async {
        Ok(claimed.engine(&app).post(&address, said(&caller, content)).await?)
    })
    .await
}

/// Tell a session that something happened outside.
#[utoipa::path(
    post, path = "/sessions/{id}/signals", tag = "sessions", params(("id" = String, Path), BranchQuery), request_body = Signal,
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn signal_session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    Json(signal): Json<Signal>,
) -> Result<Json<ChangedView>, Error> {
    if signal.name.is_empty() || signal.name.chars().count() > WORDS_CHARS_MAX {
        return Err(Error::bad(
            format!("the name of a signal has 1 to {WORDS_CHARS_MAX} characters"),
            "put details into `data`",
        ));
    }
    let address = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    let data = signal.data.unwrap_or_else(weir_types::Json::null);
    change(&address, &claimed, || async {
        Ok(claimed.engine(&app).signal(&address, &signal.name, data, &caller.principal).await?)
    })
    .await
}

/// Ask the run of a session to stop.
#[utoipa::path(
    post, path = "/sessions/{id}/cancel", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Nothing>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn cancel_session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    _: Option<Json<Nothing>>,
) -> Result<Json<ChangedView>, Error> {
    let address = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    change(&address, &claimed, || async {
        Ok(claimed.engine(&app).cancel(&address, &caller.principal).await?)
    })
    .await
}

/// Stop a session until it is resumed.
#[utoipa::path(
    post, path = "/sessions/{id}/halt", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Reason>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn halt_session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    reason: Option<Json<Reason>>,
) -> Result<Json<ChangedView>, Error> {
    let reason = words(reason, "halted over HTTP")?;
    let address = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    change(&address, &claimed, || async {
        Ok(claimed.engine(&app).halt(&address, &reason, &caller.principal).await?)
    })
    .await
}

/// End a session for good.
#[utoipa::path(
    post, path = "/sessions/{id}/close", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Reason>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn close_session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    reason: Option<Json<Reason>>,
) -> Result<Json<ChangedView>, Error> {
    let reason = words(reason, "closed over HTTP")?;
    let address = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    change(&address, &claimed, || async {
        Ok(claimed.engine(&app).close(&address, &reason, &caller.principal).await?)
    })
    .await
}

/// Go on with a run that was parked, halted or cut off, or that failed. Does not wait for what comes of it.
#[utoipa::path(
    post, path = "/sessions/{id}/resume", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Resume>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn resume_session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    resume: Option<Json<Resume>>,
) -> Result<Json<ChangedView>, Error> {
    let budget = resume.and_then(|Json(resume)| resume.budget).as_ref().map(allowance).transpose()?;
    let address = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    change(&address, &claimed, || async {
        let engine = claimed.engine(&app);
        match budget {
            Some(budget) => Ok(engine.resume_with(&address, budget, &caller.principal).await?),
            None => Ok(engine.resume_for(&address, &caller.principal).await?),
        }
    })
    .await
}

fn allowance(budget: &Budget) -> Result<Allowance, Error> {
    let Budget { model_calls, tokens, usd, wall_clock_ms } = *budget;
    let nano = usd.map(|usd| {
        // A float becomes exact here, once; what is more than there is money is refused.
        let nano = (usd * NanoUsd::PER_USD as f64).round();
        let is_sane = (0.0..=1e18).contains(&nano);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was just checked")]
        is_sane.then_some(NanoUsd(nano as u64))
    });
    let nano = match nano {
        Some(None) => return Err(Error::bad("`usd` is not an amount of money", "write a number like 0.5")),
        Some(nano) => nano,
        None => None,
    };
    let allowance = Allowance { model_calls, tokens, nano, wall_clock_ms };
    if allowance.is_unlimited() {
        return Err(Error::bad("the budget gives nothing", "say how much: `{\"budget\":{\"usd\":0.5}}`"));
    }
    Ok(allowance)
}

/// Go another way from an event on. The new branch shares everything before; the old one is not touched.
#[utoipa::path(
    post, path = "/sessions/{id}/fork", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Fork>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn fork_session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    fork: Option<Json<Fork>>,
) -> Result<Json<ChangedView>, Error> {
    let fork = fork.map(|Json(fork)| fork).unwrap_or_default();
    let from = access::session(&app, &caller, &id, query.branch.as_deref()).await?;
    let head = app.journal.head(&from.branch_id()).await?.map_or(Seq(0), |head| head.seq);
    let at = fork.at.map_or(head, Seq);
    let name = super::new_branch(&app, &from.branch_id().stream, fork.name.as_deref(), &claimed).await?;
    let to = Address { session: from.session, branch: name.clone() };
    if !super::is_forked(&app, &from.branch_id(), at, &name, &claimed).await? {
        claimed.engine(&app).fork(&from, at, name).await?;
    }
    let seq = app.engine.state(&to, None).await?.seq;
    Ok(Json(ChangedView::new(&to, seq)))
}

/// Does something to a session, unless the same request has done it before.
async fn change<F>(
    address: &Address,
    claimed: &Claimed,
    doing: impl FnOnce() -> F,
) -> Result<Json<ChangedView>, Error>
where
    F: Future<Output = Result<Seq, Error>>,
{
    let (address, seq) = match claimed.earlier() {
        Some(earlier) => earlier,
        None => (address.clone(), doing().await?),
    };
    Ok(Json(ChangedView::new(&address, seq)))
}

fn words(reason: Option<Json<Reason>>, usual: &str) -> Result<String, Error> {
    let reason = reason.and_then(|Json(reason)| reason.reason).unwrap_or_else(|| usual.to_owned());
    match reason.chars().count() {
        ..=WORDS_CHARS_MAX => Ok(reason),
        _ => Err(Error::bad(format!("a reason has at most {WORDS_CHARS_MAX} characters"), "be brief")),
    }
}

/// A name for a new branch.
pub(super) fn branch_name(name: &str) -> Result<BranchName, Error> {
    name.parse().map_err(|error: weir_types::NameError| Error::bad(error.to_string(), "choose another name"))
}
