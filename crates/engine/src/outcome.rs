//! What came of a session's latest run, in the words of the command line and the API.

use serde::Serialize;
use weir_kernel::{CallState, Ending, Lifecycle, Limit, Parked, Session};
use weir_types::{CallId, FailureClass, Json, NanoUsd, RunId, Stop, StopReason, Usage};

/// What came of a session's latest run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The run; none if there has been no run yet.
    pub run: Option<RunId>,
    /// Its answer.
    pub answer: Option<String>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What went wrong, or what it waits for.
    pub message: Option<String>,
    /// How it failed, if it did.
    pub class: Option<FailureClass>,
    /// What the run used.
    pub usage: Usage,
    /// What it cost.
    pub cost: NanoUsd,
    /// What someone has to decide.
    pub approvals: Vec<Approval>,
}

/// A call that someone has to decide about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Approval {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub input: Json,
    /// Why it is asked.
    pub why: String,
}

impl Outcome {
    /// What came of the latest run of a session that is not busy.
    pub fn of(session: &Session) -> Self {
        match (&session.run, &session.ended) {
            (Some(run), _) => {
                let (stop, message) = paused(session, run.parked.as_ref());
                Self {
                    run: Some(run.id),
                    answer: None,
                    stop,
                    message,
                    class: None,
                    usage: run.spent.usage,
                    cost: run.spent.cost,
                    approvals: approvals(session),
                }
            }
            (None, Some(ended)) => {
                let base = Self {
                    run: Some(ended.run),
                    usage: ended.spent.usage,
                    cost: ended.spent.cost,
                    ..Self::nothing(session)
                };
                over(base, &ended.how)
            }
            (None, None) => Self::nothing(session),
        }
    }

    fn nothing(session: &Session) -> Self {
        let stop = match session.lifecycle {
            Lifecycle::Open | Lifecycle::Closed(_) => StopReason::End,
            Lifecycle::Halted(_) => StopReason::Halted,
        };
        Self {
            run: None,
            answer: None,
            stop,
            message: None,
            class: None,
            usage: Usage::default(),
            cost: NanoUsd::default(),
            approvals: Vec::new(),
        }
    }
}

fn over(base: Outcome, how: &Ending) -> Outcome {
    match how {
        Ending::Finished { stop, answer } => {
            let stop = match stop {
                Stop::End | Stop::ToolUse | Stop::Paused => StopReason::End,
                Stop::MaxTokens => StopReason::MaxTokens,
                Stop::Refused => StopReason::Refused,
            };
            Outcome { stop, answer: answer.clone(), ..base }
        }
        Ending::Errored { class, message } => {
            Outcome { stop: StopReason::Failed, class: Some(*class), message: Some(message.clone()), ..base }
        }
        Ending::Cancelled | Ending::Abandoned => Outcome { stop: StopReason::Cancelled, ..base },
    }
}

fn paused(session: &Session, parked: Option<&Parked>) -> (StopReason, Option<String>) {
    match parked {
        None if session.is_waiting() => (StopReason::Approval, None),
        None => (StopReason::Halted, Some("the run was interrupted".to_owned())),
        Some(Parked::Limit { limit: Limit::Iterations, max }) => {
            (StopReason::Iterations, Some(format!("the run reached its limit of {max} iterations")))
        }
        Some(Parked::Limit { limit, max }) => (StopReason::Budget, Some(limit_words(*limit, *max))),
        Some(Parked::Halted) => {
            let why = match &session.lifecycle {
                Lifecycle::Halted(reason) => reason.clone(),
                Lifecycle::Open | Lifecycle::Closed(_) => "the session was halted".to_owned(),
            };
            (StopReason::Halted, Some(why))
        }
        Some(Parked::Crashes { count }) => {
            (StopReason::Halted, Some(format!("the process went down {count} times in the same iteration")))
        }
        Some(Parked::Storage { message }) => (StopReason::Halted, Some(message.clone())),
    }
}

fn limit_words(limit: Limit, max: u64) -> String {
    match limit {
        Limit::Usd => format!("the next call would take the run over its limit of {}", NanoUsd(max)),
        Limit::Tokens => format!("the next call would take the run over its limit of {max} tokens"),
        Limit::ModelCalls => format!("the run reached its limit of {max} model calls"),
        Limit::WallClock => format!("the run reached its limit of {} s", max / 1_000),
        Limit::Iterations => format!("the run reached its limit of {max} iterations"),
    }
}

fn approvals(session: &Session) -> Vec<Approval> {
    let awaiting = session.calls().iter().filter(|call| matches!(call.state, CallState::Awaiting { .. }));
    awaiting
        .map(|call| Approval {
            id: call.id,
            tool: call.tool.clone(),
            input: call.input_to_run().clone(),
            why: format!("tool '{}' requires approval", call.tool),
        })
        .collect()
}
