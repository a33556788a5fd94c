//! Asking the model: when, for what, and what stands against it.

use weir_events::{Limit, Parked, Reserve};
use weir_types::{FailureClass, Purpose, Timestamp};

use super::Next;
use crate::agent::Agent;
use crate::fold::Now;
use crate::session::{Run, Session, Spent};
use crate::{compact, window};

/// Most attempts of one model call.
const ATTEMPTS_MAX: u32 = 5;

/// Most attempts of one summary: the turn can go on without.
const SUMMARY_ATTEMPTS_MAX: u32 = 2;

/// Whether a failed attempt is followed by another.
pub fn retries(purpose: Purpose, class: FailureClass, attempt: u32) -> bool {
    let max = match purpose {
        Purpose::Turn => ATTEMPTS_MAX,
        Purpose::Summary => SUMMARY_ATTEMPTS_MAX,
    };
    class.is_transient() && attempt < max
}

/// How many milliseconds of work a run has left, if that is limited and it is at work.
pub fn time_left_ms(session: &Session, agent: &Agent, now: impl Into<Now>) -> Option<u64> {
    let run = session.active_run().filter(|_| !session.is_waiting())?;
    let max = wall_clock_ms(run, agent)?;
    Some(max.saturating_sub(worked_ms(session, run, now.into())))
}

/// How long a run may work, as its agent says, or whoever resumed it.
fn wall_clock_ms(run: &Run, agent: &Agent) -> Option<u64> {
    agent.limits.wall_clock_ms.map(|limit| run.granted.wall_clock_ms.unwrap_or(limit))
}

/// Work since someone last resumed the run. Whatever has happened since the newest event is work, too.
fn worked_ms(session: &Session, run: &Run, now: Now) -> u64 {
    let since = session.micros_until(now);
    run.spent.micros.saturating_sub(run.excused.micros).saturating_add(since) / 1_000
}

/// A run that is about to ask the model something.
pub(super) struct Step<'a> {
    pub(super) session: &'a Session,
    pub(super) run: &'a Run,
    pub(super) agent: &'a Agent,
    pub(super) now: Now,
}

impl Step<'_> {
    /// Asks for an answer, or first for a summary if the conversation has become too long.
    pub(super) fn ask(&self) -> Next {
        if self.run.compaction.failed { self.call(None) } else { self.compact(1, None) }
    }

    pub(super) fn after_failure(
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
    pub(super) fn compact(&self, attempt: u32, not_before: Option<Timestamp>) -> Next {
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
        let stuck = self.run.repeats.stuck().map(|(tool, count)| Parked::Loop { tool, count });
        let why = stuck.or_else(|| self.limit_reached().map(|(limit, max)| Parked::Limit { limit, max }))?;
        Some(Next::Park { why, closing: Vec::new() })
    }

    /// Nothing is waited for beyond the run's time.
    pub(super) fn out_of_time(&self) -> Option<Parked> {
        let max = wall_clock_ms(self.run, self.agent)?;
        let left = time_left_ms(self.session, self.agent, self.now)?;
        (left == 0).then_some(Parked::Limit { limit: Limit::WallClock, max })
    }

    /// The first limit that the next call would break. What is reserved for it counts as spent.
    fn limit_reached(&self) -> Option<(Limit, u64)> {
        let (limits, run) = (&self.agent.limits, self.run);
        let or_granted =
            |limit: Option<u64>, granted: Option<u64>| limit.map(|limit| granted.unwrap_or(limit));
        let since = |of: fn(&Spent) -> u64| of(&run.spent).saturating_sub(of(&run.excused));
        let needed = limits.tokens.is_some() || limits.usd.is_some();
        let reserve = if needed { window::reserve(self.session, self.agent) } else { Reserve::default() };
        let iterations = since(|spent| spent.iterations) + u64::from(!run.open);
        let tokens = since(|spent| spent.usage.total().saturating_add(spent.reserved_tokens));
        let cost = since(|spent| spent.cost.0);
        let checks = [
            (Limit::Iterations, Some(limits.iterations), iterations),
            (
                Limit::ModelCalls,
                or_granted(limits.model_calls, run.granted.model_calls),
                since(|spent| spent.model_calls).saturating_add(1),
            ),
            (
                Limit::Tokens,
                or_granted(limits.tokens, run.granted.tokens),
                tokens.saturating_add(reserve.tokens),
            ),
            (
                Limit::Usd,
                or_granted(limits.usd.map(|usd| usd.0), run.granted.nano.map(|nano| nano.0)),
                cost.saturating_add(reserve.nano.0),
            ),
            (Limit::WallClock, wall_clock_ms(run, self.agent), worked_ms(self.session, run, self.now)),
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
