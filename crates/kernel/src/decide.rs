//! What a session does next. A pure function of its state, its agent and the time: so every branch of it is a unit
//! test, and every recorded session a regression test.

#[cfg(test)]
mod tests;

use weir_types::{CallId, Effect, FailureClass, Json, OnInterrupt, Purpose, Stop, Timestamp};

use crate::agent::Agent;
use crate::body::{Limit, Outcome, Parked, Reserve};
use crate::compact::{self, Plan};
use crate::fold::{EXPIRED, INTERRUPTED};
use crate::session::{AssistantEntry, Call, CallState, Lifecycle, Phase, Run, Session, Spent};
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
    let step = Step { session, run, agent, now };
    match &run.phase {
        Phase::Calling(_) => Next::Busy,
        Phase::Tools => match session.transcript.last_assistant() {
            Some(entry) => deal_with_calls(entry, now),
            None => step.ask(),
        },
        Phase::Interrupted { purpose: Purpose::Turn, .. } => step.ask(),
        Phase::Interrupted { purpose: Purpose::Summary, attempt } => step.compact(attempt + 1, None),
        Phase::Failed { purpose, attempt, class, message, until } => {
            step.after_failure(*purpose, *attempt, *class, message, *until)
        }
        Phase::Ready => match answered(session, run) {
            Some(stop) => Next::Finish { stop },
            None => step.ask(),
        },
    }
}

/// Whether the newest thing said is an answer of this run.
fn answered(session: &Session, run: &Run) -> Option<Stop> {
    let entry = session.transcript.last_assistant()?;
    (!run.open && run.iteration > 0 && session.transcript.is_answered()).then_some(entry.stop)
}

/// Whether a failed attempt is followed by another.
pub(crate) fn retries(purpose: Purpose, class: FailureClass, attempt: u32) -> bool {
    let max = match purpose {
        Purpose::Turn => ATTEMPTS_MAX,
        Purpose::Summary => SUMMARY_ATTEMPTS_MAX,
    };
    class.is_transient() && attempt < max
}

/// A run that is about to ask the model something.
struct Step<'a> {
    session: &'a Session,
    run: &'a Run,
    agent: &'a Agent,
    now: Timestamp,
}

impl Step<'_> {
    /// Asks for an answer, or first for a summary if the conversation has become too long.
    fn ask(&self) -> Next {
        if self.run.compaction.failed { self.call(None) } else { self.compact(1, None) }
    }

    fn after_failure(
        &self,
        purpose: Purpose,
        attempt: u32,
        class: FailureClass,
        message: &str,
        until: Timestamp,
    ) -> Next {
        let too_long = class == FailureClass::ContextOverflow && self.run.compaction.overflows == 1;
        match purpose {
            // One that is not tried again has left this phase: the turn goes on without a summary.
            Purpose::Summary => self.compact(attempt + 1, Some(until)),
            Purpose::Turn if retries(purpose, class, attempt) => self.call(Some(until)),
            // Too long for the provider, whatever we estimated: make it shorter, once.
            Purpose::Turn if too_long => self.compact(1, None),
            Purpose::Turn => Next::Fail { class, message: message.to_owned() },
        }
    }

    /// Asks for a summary, if there is something to summarise; else for an answer.
    fn compact(&self, attempt: u32, not_before: Option<Timestamp>) -> Next {
        let Some(plan) = compact::plan(self.session, self.run, self.agent) else { return self.call(None) };
        if let Some(parked) = self.limit() {
            return parked;
        }
        Next::Compact { begin: self.begin(), attempt, not_before, plan }
    }

    /// Asks for an answer, if a limit does not forbid it and there is anything that can be shown.
    fn call(&self, not_before: Option<Timestamp>) -> Next {
        if let Some(parked) = self.limit() {
            return parked;
        }
        if window::select(self.session, self.agent).is_none() {
            return Next::Fail { class: FailureClass::Invalid, message: self.does_not_fit() };
        }
        let begin = self.begin();
        let attempt = if begin.is_some() { 1 } else { self.run.attempts + 1 };
        Next::CallModel { begin, attempt, not_before }
    }

    fn begin(&self) -> Option<u32> {
        (!self.run.open).then_some(self.run.iteration + 1)
    }

    fn limit(&self) -> Option<Next> {
        let (limit, max) = self.limit_reached()?;
        Some(Next::Park { why: Parked::Limit { limit, max }, closing: Vec::new() })
    }

    /// The first limit that the next call would break. What is reserved for it counts as spent.
    fn limit_reached(&self) -> Option<(Limit, u64)> {
        let (limits, run) = (&self.agent.limits, self.run);
        let since = |of: fn(&Spent) -> u64| of(&run.spent).saturating_sub(of(&run.excused));
        let needed = limits.tokens.is_some() || limits.usd.is_some();
        let reserve = if needed { window::reserve(self.session, self.agent) } else { Reserve::default() };
        let iterations = since(|spent| spent.iterations) + u64::from(!run.open);
        let tokens = since(|spent| spent.usage.total().saturating_add(spent.reserved_tokens));
        let cost = since(|spent| spent.cost.0);
        let waited = u64::try_from(self.now.as_micros() - self.session.ts.as_micros()).unwrap_or_default();
        let micros = since(|spent| spent.micros).saturating_add(waited);
        let checks = [
            (Limit::Iterations, Some(limits.iterations), iterations),
            (Limit::ModelCalls, limits.model_calls, since(|spent| spent.model_calls).saturating_add(1)),
            (Limit::Tokens, limits.tokens, tokens.saturating_add(reserve.tokens)),
            (Limit::Usd, limits.usd.map(|usd| usd.0), cost.saturating_add(reserve.nano.0)),
            (Limit::WallClock, limits.wall_clock_ms, micros / 1_000),
        ];
        checks
            .into_iter()
            .find_map(|(limit, max, used)| max.filter(|max| used > *max).map(|max| (limit, max)))
    }

    /// What to do about a window in which not even the user's latest message fits.
    fn does_not_fit(&self) -> String {
        if self.session.transcript.last_user().is_none() && self.session.inbox.is_empty() {
            return "there is no message to answer: send one".to_owned();
        }
        let (window, output) = (self.agent.context_tokens(), self.agent.output_tokens_max());
        format!(
            "the latest message does not fit: of {window} tokens the system prompt and the tools take about {} and \
             {output} are kept for the answer; shorten the prompt, offer fewer tools, lower `limits.output_tokens`, \
             raise `limits.context_tokens`, or choose a model with a larger window",
            self.agent.fixed_tokens()
        )
    }
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
    let refuse = |class: &str, why: &str| {
        let blocked = format!("tool '{}' blocked: {why}", call.tool);
        match call.may_have_happened() {
            true => close(class, format!("{blocked}; {}", unknown(call)), Outcome::Unknown),
            false => close(class, blocked, Outcome::Denied),
        }
    };
    match &call.state {
        CallState::Refused { class, message } => refuse(class, message),
        CallState::Awaiting { expires: Some(expires), .. } if now >= *expires => refuse("expired", EXPIRED),
        CallState::Interrupted if !repeatable(call) && call.on_interrupt == OnInterrupt::Report => {
            close("interrupted", unknown(call), Outcome::Unknown)
        }
        _ => None,
    }
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
        let (message, outcome) = if call.may_have_happened() {
            let message = "outcome unknown: the run was stopped while it was running; it may or may not have \
                           taken effect";
            (message, Outcome::Unknown)
        } else {
            (INTERRUPTED, Outcome::Interrupted)
        };
        Closing { call: call.id, class: "cancelled".to_owned(), message: message.to_owned(), outcome }
    })
    .collect()
}
