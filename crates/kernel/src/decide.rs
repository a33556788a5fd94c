//! What a session does next. A pure function of its state, its agent and the time: so every branch of it is a unit
//! test, and every recorded session a regression test.

#[cfg(test)]
mod tests;

use weir_types::{CallId, Effect, FailureClass, Json, OnInterrupt, Purpose, Stop, Timestamp};

use crate::agent::Agent;
use crate::body::{Limit, Outcome, Parked, Reserve};
use crate::compact::{self, Plan};
use crate::session::{AssistantEntry, Call, CallState, Lifecycle, Phase, Run, Session};
use crate::window;

/// Most attempts of one model call.
const ATTEMPTS_MAX: u32 = 5;

/// Most attempts of one summary: the turn can go on without.
const SUMMARY_ATTEMPTS_MAX: u32 = 2;

/// A run whose iteration took the process down this often is not tried again.
const CRASHES_MAX: u32 = 3;

/// What a session does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until someone says something.
    Rest,
    /// Nothing, until what is under way is done.
    Busy,
    /// Nothing, until someone approves, or until then.
    Wait {
        /// When the first approval expires.
        due: Option<Timestamp>,
    },
    /// Begin a run.
    StartRun,
    /// Ask the model.
    CallModel {
        /// The iteration to begin first, if a new one begins.
        begin: Option<u32>,
        /// From 1.
        attempt: u32,
        /// Not before then.
        not_before: Option<Timestamp>,
    },
    /// Ask the model for a summary.
    Compact {
        /// The iteration to begin first, if a new one begins.
        begin: Option<u32>,
        /// From 1.
        attempt: u32,
        /// Not before then.
        not_before: Option<Timestamp>,
        /// Of what.
        plan: Plan,
    },
    /// Take up calls that the model asked for.
    RequestTools(Vec<ToolUse>),
    /// Decide whether these calls may run.
    Authorise(Vec<CallId>),
    /// Run these calls.
    Execute(Vec<CallId>),
    /// Ask someone whether these interrupted calls are to be repeated.
    AskAgain(Vec<CallId>),
    /// These calls end without an answer.
    Close(Vec<Closing>),
    /// Stop what is under way, close these calls, and end the run.
    Cancel(Vec<Closing>),
    /// End the run with the newest answer.
    Finish {
        /// Why the model stopped.
        stop: Stop,
    },
    /// End the run with an error.
    Fail {
        /// How.
        class: FailureClass,
        /// In words.
        message: String,
    },
    /// Stop what is under way, close these calls, and pause the run.
    Park {
        /// Why.
        why: Parked,
        /// What must not be left open.
        closing: Vec<Closing>,
    },
}

/// A call that the model asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// The provider's id.
    pub provider_id: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub input: Json,
}

/// How a call ends without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The call.
    pub call: CallId,
    /// A word for why.
    pub class: String,
    /// What the model is told.
    pub message: String,
    /// What is known about its effect.
    pub outcome: Outcome,
}

/// What a session does next.
pub fn decide(session: &Session, agent: &Agent, now: Timestamp) -> Next {
    let idle = || if session.inbox.is_empty() { Next::Rest } else { Next::StartRun };
    if session.run.as_ref().is_some_and(|run| run.cancelling) {
        return Next::Cancel(closings(session));
    }
    match (&session.lifecycle, session.active_run()) {
        (Lifecycle::Closed(_), Some(_)) => Next::Cancel(closings(session)),
        (Lifecycle::Halted(_), Some(_)) => Next::Park { why: Parked::Halted, closing: closings(session) },
        (Lifecycle::Closed(_) | Lifecycle::Halted(_), None) => Next::Rest,
        (Lifecycle::Open, None) => idle(),
        (Lifecycle::Open, Some(run)) if run.crashes >= CRASHES_MAX => {
            Next::Park { why: Parked::Crashes { count: run.crashes }, closing: closings(session) }
        }
        (Lifecycle::Open, Some(run)) => go_on(session, run, agent, now),
    }
}

fn go_on(session: &Session, run: &Run, agent: &Agent, now: Timestamp) -> Next {
    match &run.phase {
        Phase::Calling(_) => Next::Busy,
        Phase::Tools => match session.transcript.last_assistant() {
            Some(entry) => deal_with_calls(entry, now),
            None => ask(session, run, agent),
        },
        Phase::Failed { purpose, attempt, class, message, until } => {
            let failure = Failure { purpose: *purpose, attempt: *attempt, class: *class, message };
            after_failure(session, run, agent, &failure, *until)
        }
        Phase::Ready => match answered(session, run) {
            Some(stop) => Next::Finish { stop },
            None => ask(session, run, agent),
        },
    }
}

/// Whether the newest thing said is an answer.
fn answered(session: &Session, run: &Run) -> Option<Stop> {
    if run.open || run.iteration == 0 {
        return None;
    }
    let entry = session.transcript.entries.last()?.as_assistant()?;
    (entry.calls.is_empty() && entry.stop != Stop::Paused).then_some(entry.stop)
}

/// The next model call, unless a limit forbids it or the conversation has become too long.
fn ask(session: &Session, run: &Run, agent: &Agent) -> Next {
    if let Some((limit, max)) = limit_reached(session, run, agent) {
        return Next::Park { why: Parked::Limit { limit, max }, closing: Vec::new() };
    }
    let begin = (!run.open).then_some(run.iteration + 1);
    if !run.compaction.failed
        && let Some(plan) = compact::plan(session, run, agent)
    {
        return Next::Compact { begin, attempt: 1, not_before: None, plan };
    }
    Next::CallModel { begin, attempt: 1, not_before: None }
}

struct Failure<'a> {
    purpose: Purpose,
    attempt: u32,
    class: FailureClass,
    message: &'a str,
}

/// Whether a failed attempt is followed by another.
pub(crate) fn retries(purpose: Purpose, class: FailureClass, attempt: u32) -> bool {
    let max = match purpose {
        Purpose::Turn => ATTEMPTS_MAX,
        Purpose::Summary => SUMMARY_ATTEMPTS_MAX,
    };
    class.is_transient() && attempt < max
}

fn after_failure(
    session: &Session,
    run: &Run,
    agent: &Agent,
    failure: &Failure<'_>,
    until: Timestamp,
) -> Next {
    if let Some((limit, max)) = limit_reached(session, run, agent) {
        return Next::Park { why: Parked::Limit { limit, max }, closing: Vec::new() };
    }
    let too_long = failure.class == FailureClass::ContextOverflow && run.compaction.overflows == 1;
    let attempt = failure.attempt + 1;
    match failure.purpose {
        Purpose::Turn if retries(failure.purpose, failure.class, failure.attempt) => {
            Next::CallModel { begin: None, attempt, not_before: Some(until) }
        }
        // Too long for the provider, whatever we estimated: make it shorter, once.
        Purpose::Turn if too_long => match compact::plan(session, run, agent) {
            Some(plan) => Next::Compact { begin: None, attempt: 1, not_before: None, plan },
            None => Next::CallModel { begin: None, attempt, not_before: None },
        },
        Purpose::Turn => Next::Fail { class: failure.class, message: failure.message.to_owned() },
        Purpose::Summary => match compact::plan(session, run, agent) {
            Some(plan) => Next::Compact { begin: None, attempt, not_before: Some(until), plan },
            None => Next::CallModel { begin: None, attempt: 1, not_before: None },
        },
    }
}

/// The first limit that the next call would break. What is reserved for it counts as spent.
fn limit_reached(session: &Session, run: &Run, agent: &Agent) -> Option<(Limit, u64)> {
    let limits = &agent.limits;
    let since = |of: fn(&crate::session::Spent) -> u64| of(&run.spent).saturating_sub(of(&run.excused));
    let begins_iteration = u64::from(!run.open);
    if since(|spent| spent.iterations) + begins_iteration > limits.iterations {
        return Some((Limit::Iterations, limits.iterations));
    }
    let needed = limits.tokens.is_some() || limits.usd.is_some();
    let reserve = if needed { window::reserve(session, agent) } else { Reserve::default() };
    let tokens = since(|spent| spent.usage.total().saturating_add(spent.reserved_tokens));
    let checks = [
        (Limit::ModelCalls, limits.model_calls, since(|spent| spent.model_calls).saturating_add(1)),
        (Limit::Tokens, limits.tokens, tokens.saturating_add(reserve.tokens)),
        (Limit::Usd, limits.usd.map(|usd| usd.0), since(|spent| spent.cost.0).saturating_add(reserve.nano.0)),
        (Limit::WallClock, limits.wall_clock_ms, since(|spent| spent.micros) / 1_000),
    ];
    checks.into_iter().find_map(|(limit, max, used)| max.filter(|max| used > *max).map(|max| (limit, max)))
}

fn deal_with_calls(entry: &AssistantEntry, now: Timestamp) -> Next {
    let untaken: Vec<ToolUse> = (entry.uses().skip(entry.calls.len()))
        .map(|(id, tool, input)| ToolUse {
            provider_id: id.to_owned(),
            tool: tool.to_owned(),
            input: input.clone(),
        })
        .collect();
    if !untaken.is_empty() {
        return Next::RequestTools(untaken);
    }
    let select = |wanted: fn(&Call) -> bool| -> Vec<CallId> {
        entry.calls.iter().filter(|call| wanted(call)).map(|call| call.id).collect()
    };
    let undecided = select(|call| matches!(call.state, CallState::Requested | CallState::Granted { .. }));
    if !undecided.is_empty() {
        return Next::Authorise(undecided);
    }
    let ended: Vec<Closing> = entry.calls.iter().filter_map(|call| over(call, now)).collect();
    if !ended.is_empty() {
        return Next::Close(ended);
    }
    let doubtful = select(|call| is_interrupted(call) && !repeatable(call));
    if !doubtful.is_empty() {
        return Next::AskAgain(doubtful);
    }
    let ready = select(|call| call.state == CallState::Allowed || (is_interrupted(call) && repeatable(call)));
    if !ready.is_empty() {
        return Next::Execute(ready);
    }
    if entry.calls.iter().any(|call| call.state == CallState::Running) {
        return Next::Busy;
    }
    let expiry = |call: &Call| match &call.state {
        CallState::Awaiting { expires, .. } => *expires,
        _ => None,
    };
    Next::Wait { due: entry.calls.iter().filter_map(expiry).min() }
}

fn is_interrupted(call: &Call) -> bool {
    call.state == CallState::Interrupted
}

/// Whether running it again does no harm, or its author wants it.
fn repeatable(call: &Call) -> bool {
    match call.effect {
        Effect::Read | Effect::Idempotent => true,
        Effect::Write => call.child.is_some() || call.on_interrupt == OnInterrupt::Retry,
    }
}

/// Calls that are over without having answered.
fn over(call: &Call, now: Timestamp) -> Option<Closing> {
    let close = |class: &str, message: String, outcome| {
        Some(Closing { call: call.id, class: class.to_owned(), message, outcome })
    };
    // A call that was started before has an effect nobody knows, whatever is decided about repeating it.
    let refused = if call.attempt > 0 { Outcome::Unknown } else { Outcome::Denied };
    match &call.state {
        CallState::Refused { class, message } => close(class, blocked(call, message), refused),
        CallState::Awaiting { expires: Some(expires), .. } if now > *expires => {
            close("expired", blocked(call, "nobody approved it in time"), refused)
        }
        CallState::Interrupted if !repeatable(call) && call.on_interrupt == OnInterrupt::Report => {
            close("interrupted", unknown(call), Outcome::Unknown)
        }
        _ => None,
    }
}

fn blocked(call: &Call, why: &str) -> String {
    format!("tool '{}' blocked: {why}", call.tool)
}

fn unknown(call: &Call) -> String {
    format!(
        "outcome unknown: the process ended while `{}` was running; it may or may not have taken effect and was not \
         repeated; find out before you call it again",
        call.tool
    )
}

/// How to close everything that is open, when the run stops here.
fn closings(session: &Session) -> Vec<Closing> {
    let open = session.calls().iter().filter(|call| !matches!(call.state, CallState::Done(_)));
    open.map(|call| {
        let started = matches!(call.state, CallState::Running | CallState::Interrupted);
        let (message, outcome) = if started && call.effect != Effect::Read {
            let message = "outcome unknown: the run was stopped while it was running; it may or may not have \
                           taken effect";
            (message, Outcome::Unknown)
        } else {
            (crate::fold::INTERRUPTED, Outcome::Interrupted)
        };
        Closing { call: call.id, class: "cancelled".to_owned(), message: message.to_owned(), outcome }
    })
    .collect()
}
