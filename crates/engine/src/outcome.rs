//! What came of a session's latest run, in the words of the command line and the API.

use weir_events::{Allowance, Body, Limit, Parked};
use weir_kernel::{Ending, Lifecycle, Run, Session};
use weir_types::{FailureClass, NanoUsd, RunId, StopReason, Usage};

use crate::address::Address;
use crate::approvals::Approval;
use crate::budgets::{only, scope_words};

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
    /// What someone has to decide: first what the session asks itself, then what those behind it do.
    pub approvals: Vec<Approval>,
    /// What would let it go on, if a limit had stopped it or a purse had too little left.
    pub budget: Option<Allowance>,
}

impl Outcome {
    /// What came of the latest run of a session that is not busy. What sessions behind it ask is not in it.
    pub fn of(address: &Address, session: &Session) -> Self {
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
                    approvals: Approval::of(address, session),
                    budget: budget(run),
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
            budget: None,
        }
    }
}

fn over(base: Outcome, how: &Ending) -> Outcome {
    match how {
        Ending::Finished { stop, answer } => Outcome { stop: (*stop).into(), answer: answer.clone(), ..base },
        Ending::Errored { class, message } => {
            Outcome { stop: StopReason::Failed, class: Some(*class), message: Some(message.clone()), ..base }
        }
        Ending::Cancelled | Ending::Abandoned => Outcome { stop: StopReason::Cancelled, ..base },
    }
}

fn paused(session: &Session, parked: Option<&Parked>) -> (StopReason, Option<String>) {
    match (parked, &session.lifecycle) {
        (None, _) if session.is_waiting() => (StopReason::Approval, None),
        (None, _) => (StopReason::Halted, Some("the run was interrupted".to_owned())),
        (Some(Parked::Halted), Lifecycle::Halted(reason)) => (StopReason::Halted, Some(reason.clone())),
        (Some(why), _) => {
            let (stop, words) = parked_words(why);
            (stop, Some(words))
        }
    }
}

/// Why a run stops, if it does with this event: for good, or until someone allows more.
pub fn stop_of(body: &Body) -> Option<StopReason> {
    match body {
        Body::RunFinished(finished) => Some(finished.stop.into()),
        Body::RunErrored(_) => Some(StopReason::Failed),
        Body::RunCancelled(_) => Some(StopReason::Cancelled),
        Body::RunParked(parked) => Some(parked_words(&parked.why).0),
        _ => None,
    }
}

/// Why a run pauses, in a word and in a sentence.
pub fn parked_words(why: &Parked) -> (StopReason, String) {
    match why {
        Parked::Limit { limit: Limit::Iterations, max } => {
            (StopReason::Iterations, format!("the run reached its limit of {max} iterations"))
        }
        Parked::Limit { limit, max } => (StopReason::Budget, limit_words(*limit, *max)),
        Parked::Budget { scope, limit, max, spent, need, .. } => {
            (StopReason::Budget, budget_words(scope, *limit, [*max, *spent, *need]))
        }
        Parked::Loop { tool, count } => {
            let words = format!(
                "the run is going round in circles: it called `{tool}` {count} times with the same arguments and the same result"
            );
            (StopReason::Halted, words)
        }
        Parked::Halted => (StopReason::Halted, "the session was halted".to_owned()),
        Parked::Crashes { count } => {
            (StopReason::Halted, format!("the process went down {count} times in the same iteration"))
        }
        Parked::Storage { message } => (StopReason::Halted, message.clone()),
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

/// What would let a run go on that a limit or a purse stopped: as much again, or as much as the call needs.
pub(crate) fn budget(run: &Run) -> Option<Allowance> {
    match run.parked.as_ref()? {
        Parked::Limit { limit: Limit::Iterations, .. } => None,
        Parked::Limit { limit, max } => Some(only(*limit, *max)),
        Parked::Budget { limit, max, raised, need, .. } => {
            Some(only(*limit, max.saturating_sub(*raised).max(*need)))
        }
        Parked::Loop { .. } | Parked::Halted | Parked::Crashes { .. } | Parked::Storage { .. } => None,
    }
}

/// Which purse has too little left, of how much, and for what.
fn budget_words(scope: &str, limit: Limit, [max, spent, need]: [u64; 3]) -> String {
    let whose = scope_words(scope);
    match limit {
        Limit::WallClock => {
            format!("the budget of {whose} is used up: {} of {}", amount(limit, spent), amount(limit, max))
        }
        Limit::Usd | Limit::Tokens | Limit::ModelCalls | Limit::Iterations => format!(
            "the budget of {whose} is too small: of {} {} are spent or set aside, and the next call may take {}",
            amount(limit, max),
            amount(limit, spent),
            amount(limit, need),
        ),
    }
}

/// An amount in the unit of its limit.
pub fn amount(limit: Limit, amount: u64) -> String {
    match limit {
        Limit::Usd => NanoUsd(amount).to_string(),
        Limit::Tokens => format!("{amount} tokens"),
        Limit::ModelCalls if amount == 1 => "1 model call".to_owned(),
        Limit::ModelCalls => format!("{amount} model calls"),
        Limit::WallClock => format!("{} s", amount / 1_000),
        Limit::Iterations => format!("{amount} iterations"),
    }
}

/// An amount as it is typed: `usd=5,tokens=100`.
pub fn budget_flag(given: &Allowance) -> String {
    let usd = given.nano.map(|nano| format!("usd={}", nano.to_string().trim_start_matches('$')));
    let tokens = given.tokens.map(|tokens| format!("tokens={tokens}"));
    let model_calls = given.model_calls.map(|calls| format!("model_calls={calls}"));
    let wall_clock = given.wall_clock_ms.map(|millis| match millis % 1_000 {
        0 => format!("wall_clock={}s", millis / 1_000),
        _ => format!("wall_clock={millis}ms"),
    });
    let parts: Vec<String> = [usd, tokens, model_calls, wall_clock].into_iter().flatten().collect();
    parts.join(",")
}
