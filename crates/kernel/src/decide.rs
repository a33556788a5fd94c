//! What a session does next. A pure function of its state, its agent and the time: so every branch of it is a unit
//! test, and every recorded session a regression test.

mod asking;
mod calls;
#[cfg(test)]
mod tests;

use weir_events::Parked;
use weir_types::{CallId, FailureClass, Json, Outcome, Purpose, Stop, Timestamp};

use self::asking::Step;
pub use self::asking::{retries, time_left_ms};
use self::calls::{closings, deal_with, errands};
use crate::agent::Agent;
use crate::compact::Plan;
use crate::fold::Now;
use crate::session::{Lifecycle, Phase, Run, Session};

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
    /// Stop what is under way, although there is no run, and close these calls.
    Drop(Vec<Closing>),
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

/// What a session does next: first what its errands need, then its run.
pub fn decide(session: &Session, agent: &Agent, now: impl Into<Now>) -> Next {
    let now = now.into();
    let Some(errands) = errands(session, now.at) else { return decide_run(session, agent, now) };
    match (errands, decide_run(session, agent, now)) {
        // Whatever stops a run stops them as well, and closes them.
        (_, next @ (Next::Cancel(_) | Next::Park { .. })) => next,
        (Next::Busy, Next::Rest | Next::Wait { .. }) => Next::Busy,
        // The end of a run lets go of the session, which what is under way needs.
        (Next::Busy, Next::Finish { .. } | Next::Fail { .. }) => Next::Busy,
        (Next::Wait { due }, Next::Rest) => Next::Wait { due },
        (Next::Wait { due: one }, Next::Wait { due: other }) => {
            Next::Wait { due: one.into_iter().chain(other).min() }
        }
        (Next::Busy | Next::Wait { .. }, next) => next,
        (next, _) => next,
    }
}

fn decide_run(session: &Session, agent: &Agent, now: Now) -> Next {
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

fn go_on(session: &Session, run: &Run, agent: &Agent, now: Now) -> Next {
    let step = Step { session, run, agent, now };
    let at_work = matches!(run.phase, Phase::Calling(_) | Phase::Tools);
    if let Some(why) = step.out_of_time().filter(|_| at_work) {
        return Next::Park { why, closing: closings(session) };
    }
    match &run.phase {
        Phase::Calling(_) => Next::Busy,
        Phase::Tools => match session.transcript.last_assistant() {
            Some(entry) => deal_with(entry, now.at),
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
