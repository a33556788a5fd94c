//! Which part of the conversation a request shows: the longest recent part that fits, and always a valid one.
//!
//! A *unit* is a message of the user, or an answer of the model with the results of its calls: calls and results are
//! in or out together. The user's latest message is always in; a summary, if there is one, comes first.

#[cfg(test)]
mod tests;

use weir_events::{LeftOut, Reserve};
use weir_types::{NanoUsd, Seq};

use crate::agent::Agent;
use crate::render::{self, Cut, Unit};
use crate::session::{Compaction, Session};

/// The smallest share that is worth showing.
pub(crate) const SHARE_TOKENS_MIN: u64 = 16;

/// However little was too much for the provider, a message and a summary must still fit.
const OVERFLOW_TOKENS_MIN: u64 = 256;

/// What a request shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The entries shown, as ranges of their seqs, in order.
    pub ranges: Vec<[Seq; 2]>,
    /// How much of one result or message is shown.
    pub cut: Cut,
    /// Units that did not fit.
    pub dropped: usize,
    /// What those would have taken, as estimated.
    pub dropped_tokens: u64,
    /// The most that the shown ones take, with the summary, as estimated.
    pub tokens: u64,
}

impl Window {
    /// What does not fit, as a request's event records it.
    pub fn left_out(&self) -> Option<LeftOut> {
        let left_out = LeftOut { messages: self.dropped as u64, tokens: self.dropped_tokens };
        (self.dropped > 0).then_some(left_out)
    }
}

/// What the conversation may take, in estimated tokens: the window without system prompt, tools and answer.
pub fn budget(session: &Session, agent: &Agent) -> u64 {
    let free = agent.context_tokens().saturating_sub(agent.output_tokens_max());
    let budget = session.gauge.estimated(free).saturating_sub(agent.fixed_tokens());
    match session.run.as_ref().map(|run| run.compaction) {
        // The provider counts more than we think: what is sent next must be smaller, even if no summary can be had.
        Some(Compaction { overflows: 1.., overflow_tokens, .. }) => {
            let half = overflow_tokens.saturating_sub(agent.fixed_tokens()) / 2;
            budget.min(half.max(OVERFLOW_TOKENS_MIN))
        }
        Some(_) | None => budget,
    }
}

/// How much of one result or message is shown. It depends on the agent alone, so that what was sent once is sent the
/// same way again; only where not even the newest would fit, [`select`] cuts more.
pub fn cut(agent: &Agent) -> Cut {
    let free = agent.context_tokens().saturating_sub(agent.output_tokens_max());
    Cut { share_tokens: (free.saturating_sub(agent.fixed_tokens()) / 6).max(SHARE_TOKENS_MIN) }
}

/// Selects what the next request shows; `None` if not even the user's latest message fits, or if there is none.
pub fn select(session: &Session, agent: &Agent) -> Option<Window> {
    let units = render::units(session);
    let latest = units.iter().rposition(|unit| unit.is_user());
    let preceded = session.transcript.summary.is_some() || session.transcript.pinned.is_some();
    if latest.is_none() && session.transcript.pinned.is_none() {
        return None;
    }
    let budget = budget(session, agent);
    let cut = fitting(session, &units, latest, budget, cut(agent))?;
    let sizes: Vec<u64> = units.iter().map(|unit| unit.tokens(cut)).collect();
    let before = render::tokens_before(&session.transcript, cut);
    // Everything from `start` on is shown, and the latest message of the user even if it is older.
    let mut used = before + latest.map_or(0, |latest| sizes[latest]);
    let mut start = units.len();
    for (index, size) in sizes.iter().enumerate().rev() {
        let size = if latest == Some(index) { 0 } else { *size };
        if used + size > budget {
            break;
        }
        (used, start) = (used + size, index);
    }
    start = first_valid(&units, start, latest, preceded);
    let (shown, dropped): (Vec<usize>, Vec<usize>) =
        (0..units.len()).partition(|index| *index >= start || latest == Some(*index));
    let tokens_of = |of: &[usize]| of.iter().map(|index| sizes[*index]).sum::<u64>();
    Some(Window {
        ranges: ranges(&units, &shown),
        cut,
        dropped: dropped.len(),
        dropped_tokens: tokens_of(&dropped),
        tokens: before + tokens_of(&shown),
    })
}

/// The usual share, or half of it, or half of that …: until the user's latest message and the newest step fit, or at
/// least that message.
fn fitting(
    session: &Session,
    units: &[Unit<'_>],
    latest: Option<usize>,
    budget: u64,
    usual: Cut,
) -> Option<Cut> {
    let cuts = || {
        std::iter::successors(Some(usual), |cut| {
            let half = Cut { share_tokens: cut.share_tokens / 2 };
            (half.share_tokens >= SHARE_TOKENS_MIN).then_some(half)
        })
    };
    let size = |index: Option<usize>, cut| index.map_or(0, |index| units[index].tokens(cut));
    let message = |cut: &Cut| render::tokens_before(&session.transcript, *cut) + size(latest, *cut);
    let newest = units.len().checked_sub(1).filter(|newest| latest != Some(*newest));
    let both = |cut: &Cut| message(cut) + size(newest, *cut);
    cuts().find(|cut| both(cut) <= budget).or_else(|| cuts().find(|cut| message(cut) <= budget))
}

/// The conversation begins with the user: an answer can only be first if a summary or an older message precedes it.
fn first_valid(units: &[Unit<'_>], start: usize, latest: Option<usize>, preceded: bool) -> usize {
    if preceded || latest.is_some_and(|latest| latest < start) {
        return start;
    }
    let user = (start..units.len()).find(|index| units[*index].is_user());
    user.unwrap_or(units.len())
}

fn ranges(units: &[Unit<'_>], shown: &[usize]) -> Vec<[Seq; 2]> {
    let mut ranges: Vec<[Seq; 2]> = Vec::new();
    let mut previous = None;
    for index in shown {
        let seq = units[*index].seq();
        match ranges.last_mut() {
            Some(range) if previous == index.checked_sub(1) => range[1] = seq,
            _ => ranges.push([seq, seq]),
        }
        previous = Some(*index);
    }
    ranges
}

/// The most the next call may use and cost: its input as the provider counts, with a margin, and a full answer.
pub fn reserve(session: &Session, agent: &Agent) -> Reserve {
    let conversation = select(session, agent).map_or(0, |window| window.tokens);
    reserve_for(session, agent, agent.fixed_tokens() + conversation, agent.output_tokens_max())
}

/// The most a request of this estimated size may use and cost.
pub fn reserve_for(session: &Session, agent: &Agent, estimated: u64, output_tokens_max: u64) -> Reserve {
    let input_tokens = session.gauge.corrected(estimated).saturating_mul(5) / 4;
    let nano = agent.card.price.map_or(NanoUsd(0), |price| price.at_most(input_tokens, output_tokens_max));
    Reserve { tokens: input_tokens.saturating_add(output_tokens_max), nano }
}
