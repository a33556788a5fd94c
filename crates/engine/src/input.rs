//! What comes to a session from outside: from this process through its task, from anywhere else through the journal.

use std::sync::Arc;

use tokio::sync::oneshot;
use weir_events::{About, Body, RunCancelRequested};
use weir_journal::{AppendError, Appended, Expected, Key, Ownership, Part};
use weir_kernel::{Lifecycle, Session};
use weir_types::{EventId, RunId, Seq, StopReason, Timestamp};

use crate::actor::{Command, Reply, Standing, attrs};
use crate::address::Address;
use crate::approvals;
use crate::draft::{Draft, Nature};
use crate::errands;
use crate::error::EngineError;
use crate::hooks;
use crate::outcome::Outcome;
use crate::shared::{Handle, Shared};
use crate::store;

/// How often an input is tried again when others append at the same moment.
const TRIES_MAX: usize = 100;

/// Who something comes from, and what led to it.
#[derive(Clone, Debug)]
pub(crate) struct By {
    /// Who.
    pub(crate) actor: String,
    /// What led to it.
    pub(crate) cause: Option<EventId>,
}

impl By {
    pub(crate) fn about(&self, about: About) -> About {
        About { actor: Some(self.actor.clone()), causation: self.cause.or(about.causation), ..about }
    }
}

/// Sends a command to the session's task, started if need be, and waits until it is durable.
pub(crate) async fn command(
    shared: &Arc<Shared>,
    address: &Address,
    command: impl Fn(Reply) -> Command,
) -> Result<Seq, EngineError> {
    loop {
        let handle = shared.activate(address)?;
        if let Some(answer) = send(&handle, &command).await {
            return answer;
        }
        // The task was about to end; the next one takes the command.
        tokio::task::yield_now().await;
    }
}

/// Nothing, if the task ended before it took the command.
async fn send(handle: &Handle, command: impl Fn(Reply) -> Command) -> Option<Result<Seq, EngineError>> {
    let (reply, answer) = oneshot::channel();
    handle.commands.send(command(reply)).await.ok()?;
    match answer.await {
        Ok(Err(EngineError::Stopping)) | Err(_) => None,
        Ok(answer) => Some(answer),
    }
}

/// Appends an input without running the session: whoever owns it takes it up.
pub(crate) async fn post(
    shared: &Arc<Shared>,
    address: &Address,
    body: Body,
    by: &By,
) -> Result<Seq, EngineError> {
    post_all(shared, address, vec![body], by).await
}

/// The same with several, together or not at all.
pub(crate) async fn post_all(
    shared: &Arc<Shared>,
    address: &Address,
    bodies: Vec<Body>,
    by: &By,
) -> Result<Seq, EngineError> {
    hooks::ask(shared, address, &bodies, &by.actor).await?;
    if let Some(handle) = shared.find(address) {
        let input = |reply| Command::Input { bodies: bodies.clone(), by: by.clone(), reply };
        if !bodies.iter().any(decides)
            && let Some(answer) = send(&handle, input).await
        {
            return answer;
        }
    }
    Ok(append_at_head(shared, address, &bodies, by, None).await?.last)
}

/// Asks a run to stop, unless it is over by then. It is appended right after what it was checked against, and not when the session's
/// task comes to it: that may be at the next run.
pub(crate) async fn cancel_run(
    shared: &Shared,
    address: &Address,
    run: RunId,
    by: &By,
) -> Result<Option<Seq>, EngineError> {
    let bodies = [RunCancelRequested {}.into()];
    hooks::ask(shared, address, &bodies, &by.actor).await?;
    let is_there = |session: &Session| session.run.as_ref().is_some_and(|there| there.id == run);
    let appended = append_if(shared, address, &bodies, by, None, is_there).await?;
    Ok(appended.map(|appended| appended.last))
}

/// Appends right after what it was checked against, however often others come first.
pub(crate) async fn append_at_head(
    shared: &Shared,
    address: &Address,
    bodies: &[Body],
    by: &By,
    key: Option<&Key>,
) -> Result<Appended, EngineError> {
    let appended = append_if(shared, address, bodies, by, key, |_| true).await?;
    appended.ok_or_else(|| EngineError::NoSession(address.clone()))
}

/// The same, if the session is still as it should be; nothing is appended if it is not.
pub(crate) async fn append_if(
    shared: &Shared,
    address: &Address,
    bodies: &[Body],
    by: &By,
    key: Option<&Key>,
    fits: impl Fn(&Session) -> bool,
) -> Result<Option<Appended>, EngineError> {
    let mut last = None;
    for _ in 0..TRIES_MAX {
        // Boxed, because whoever does anything to a session would carry the room for all of it.
        match Box::pin(append(shared, address, bodies, by, key, &fits)).await {
            Err(EngineError::Append(error)) if matches!(*error, AppendError::Conflict { .. }) => {
                last = Some(EngineError::Append(error));
            }
            answer => return answer,
        }
    }
    Err(last.unwrap_or_else(|| EngineError::NoSession(address.clone())))
}

async fn append(
    shared: &Shared,
    address: &Address,
    bodies: &[Body],
    by: &By,
    key: Option<&Key>,
    fits: impl Fn(&Session) -> bool,
) -> Result<Option<Appended>, EngineError> {
    let journal = shared.journal();
    let loaded = store::load(journal, address).await?;
    let Some(loaded) = loaded.filter(|loaded| loaded.session.created.is_some()) else {
        return Err(EngineError::NoSession(address.clone()));
    };
    let head = loaded.session.seq;
    let (mut session, mut draft) = (loaded.session, Draft::default());
    draft.preface(&mut session, loaded.preface);
    acceptable(address, &session, bodies, (shared.setup.options.clock)())?;
    if !fits(&session) {
        return Ok(None);
    }
    let run = session.run.as_ref().map(|run| run.id);
    let about = by.about(About { run, ..About::default() });
    for body in bodies {
        draft.add(&mut session, body.clone(), about.clone(), Nature::Fact);
    }
    let (events, others) = draft.to_append();
    let part = Part {
        branch: address.branch_id(),
        expected: Expected::Exactly(head),
        key: key.cloned(),
        owner: Ownership::Unchecked,
        events,
        attrs: Some(attrs(&session)),
    };
    let appended = journal.append(std::iter::once(part).chain(others).collect()).await?;
    appended.into_iter().next().map(Some).ok_or_else(|| EngineError::NoSession(address.clone()))
}

/// Whether a session that is there takes this from outside. The same whether its task is in memory or not.
pub(crate) fn acceptable(
    address: &Address,
    session: &Session,
    bodies: &[Body],
    now: Timestamp,
) -> Result<(), EngineError> {
    match session.lifecycle {
        Lifecycle::Closed(_) => return Err(EngineError::Closed(address.clone())),
        Lifecycle::Halted(_) if bodies.iter().any(|body| matches!(body, Body::UserMessage(_))) => {
            return Err(EngineError::Halted(address.clone()));
        }
        Lifecycle::Halted(_) | Lifecycle::Open => {}
    }
    let at_work = session.active_run().is_some() || session.has_errands_to_run();
    if bodies.iter().any(changes_files) && at_work {
        return Err(EngineError::Busy(address.clone()));
    }
    approvals::check_all(address, session, bodies, now)?;
    errands::check_all(address, session, bodies)
}

/// Whether it decides about a call. Of two who do, the first one counts and the second one is told, whoever runs the session: it
/// is appended right after what it was checked against, and not when the session's task comes to it.
fn decides(body: &Body) -> bool {
    matches!(body, Body::ApprovalGranted(_) | Body::ApprovalDenied(_))
}

/// Whether it is about files, which nobody else changes while a run may: a call that is to be repeated would find others.
fn changes_files(body: &Body) -> bool {
    matches!(body, Body::FileWritten(_) | Body::FileDeleted(_))
}

/// Waits until the session has nothing to do, running it if need be, and says what came of it.
pub(crate) async fn settle(shared: &Arc<Shared>, address: &Address) -> Result<Outcome, EngineError> {
    let mut standing = shared.activate(address)?.standing;
    let mut is_stale = true;
    loop {
        let now = standing.borrow_and_update().clone();
        match now {
            // Someone may have decided since, here or in a session behind it.
            Standing::Resting(outcome) if is_stale && outcome.stop == StopReason::Approval => {
                command(shared, address, |reply| Command::Look { reply }).await?;
                standing = shared.activate(address)?.standing;
                is_stale = false;
                continue;
            }
            Standing::Resting(outcome) => return Ok((*outcome).clone()),
            Standing::Failed(error) => return Err(error),
            Standing::Working | Standing::WaitingForStorage => is_stale = false,
        }
        if standing.changed().await.is_err() {
            // The task ended between two looks.
            standing = shared.activate(address)?.standing;
        }
    }
}
