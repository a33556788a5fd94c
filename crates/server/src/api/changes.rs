//! What is done to a session: said, told, stopped, gone on with, forked.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::{Address, Engine, EngineError};
use weir_events::Allowance;
use weir_types::{NanoUsd, Seq, Who};

use super::content::Content;
use super::views::ChangedView;
use super::{Asking, BranchQuery};
use crate::access::{self, Reached};
use crate::app::App;
use crate::auth::Caller;
use crate::branches;
use crate::error::{Error, ErrorBody};
use crate::extract::Json;
use crate::idempotency::Claimed;
use crate::saying::said;

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

/// A session to which somebody who may does something.
pub(super) struct Changing {
    caller: Caller,
    address: Address,
    /// Whom it is with.
    agent: Option<String>,
    claimed: Claimed,
    /// Through which it is done, so that it is found again by the request.
    engine: Engine,
}

impl FromRequestParts<App> for Changing {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let Asking { caller, claimed, id, branch } = Asking::from_request_parts(parts, app).await?;
        let Reached { address, agent } =
            access::session_to_change(app, &caller, &id, branch.as_deref()).await?;
        let engine = claimed.engine(app);
        Ok(Self { caller, address, agent, claimed, engine })
    }
}

impl Changing {
    fn actor(&self) -> &str {
        &self.caller.principal
    }

    /// Does something to it, unless the same request has done it before.
    async fn once(
        &self,
        doing: impl Future<Output = Result<Seq, EngineError>>,
    ) -> Result<Json<ChangedView>, Error> {
        let (address, seq) = match self.claimed.earlier() {
            Some(earlier) => earlier,
            None => (self.address.clone(), doing.await?),
        };
        Ok(Json(ChangedView::new(&address, seq)))
    }
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
    at: Changing,
    Json(post): Json<Post>,
) -> Result<Json<ChangedView>, Error> {
    access::still_talks(&app, &at.caller, at.agent.as_deref())?;
    let said = said(&at.caller, post.message.blocks()?);
    at.once(at.engine.post(&at.address, said)).await
}

/// Tell a session that something happened outside.
#[utoipa::path(
    post, path = "/sessions/{id}/signals", tag = "sessions", params(("id" = String, Path), BranchQuery), request_body = Signal,
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn signal_session(
    State(app): State<App>,
    at: Changing,
    Json(signal): Json<Signal>,
) -> Result<Json<ChangedView>, Error> {
    access::still_talks(&app, &at.caller, at.agent.as_deref())?;
    if signal.name.is_empty() || signal.name.chars().count() > WORDS_CHARS_MAX {
        return Err(Error::bad(
            format!("the name of a signal has 1 to {WORDS_CHARS_MAX} characters"),
            "put details into `data`",
        ));
    }
    let data = signal.data.unwrap_or_else(weir_types::Json::null);
    at.once(at.engine.signal(&at.address, &signal.name, data, at.actor())).await
}

/// Ask the run of a session to stop.
#[utoipa::path(
    post, path = "/sessions/{id}/cancel", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Nothing>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn cancel_session(at: Changing, _: Option<Json<Nothing>>) -> Result<Json<ChangedView>, Error> {
    at.once(at.engine.cancel(&at.address, at.actor())).await
}

/// Stop a session until it is resumed.
#[utoipa::path(
    post, path = "/sessions/{id}/halt", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Reason>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn halt_session(at: Changing, reason: Option<Json<Reason>>) -> Result<Json<ChangedView>, Error> {
    let reason = words(reason, "halted over HTTP")?;
    at.once(at.engine.halt(&at.address, &reason, at.actor())).await
}

/// End a session for good.
#[utoipa::path(
    post, path = "/sessions/{id}/close", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Reason>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn close_session(at: Changing, reason: Option<Json<Reason>>) -> Result<Json<ChangedView>, Error> {
    let reason = words(reason, "closed over HTTP")?;
    at.once(at.engine.close(&at.address, &reason, at.actor())).await
}

/// Go on with a run that was parked, halted or cut off, or that failed. Does not wait for what comes of it.
#[utoipa::path(
    post, path = "/sessions/{id}/resume", tag = "sessions", params(("id" = String, Path), BranchQuery),
    request_body(content = Option<Resume>),
    responses((status = 200, body = ChangedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn resume_session(
    State(app): State<App>,
    at: Changing,
    resume: Option<Json<Resume>>,
) -> Result<Json<ChangedView>, Error> {
    access::still_talks(&app, &at.caller, at.agent.as_deref())?;
    match resume.and_then(|Json(resume)| resume.budget) {
        Some(budget) => {
            let budget = allowance(&budget)?;
            let groups = access::groups(&app, &at.caller);
            at.once(at.engine.resume_with(&at.address, budget, Who::new(at.actor(), &groups))).await
        }
        None => at.once(at.engine.resume_for(&at.address, at.actor())).await,
    }
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
    at: Changing,
    fork: Option<Json<Fork>>,
) -> Result<Json<ChangedView>, Error> {
    let fork = fork.map(|Json(fork)| fork).unwrap_or_default();
    let from = at.address.branch_id();
    let head = app.journal.head(&from).await?.map_or(Seq(0), |head| head.seq);
    let shared = fork.at.map_or(head, Seq);
    let make = |name| at.engine.fork(&at.address, shared, name);
    let branch = branches::fork(&app, &at.claimed, &from, shared, fork.name.as_deref(), make).await?;
    let to = Address { session: at.address.session, branch };
    let seq = app.engine.state(&to, None).await?.seq;
    Ok(Json(ChangedView::new(&to, seq)))
}

fn words(reason: Option<Json<Reason>>, usual: &str) -> Result<String, Error> {
    let reason = reason.and_then(|Json(reason)| reason.reason).unwrap_or_else(|| usual.to_owned());
    match reason.chars().count() {
        ..=WORDS_CHARS_MAX => Ok(reason),
        _ => Err(Error::bad(format!("a reason has at most {WORDS_CHARS_MAX} characters"), "be brief")),
    }
}
