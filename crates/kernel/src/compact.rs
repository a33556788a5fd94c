//! When the oldest part of the conversation becomes a summary, which part, and how the model is asked for it.

#[cfg(test)]
mod tests;

use weir_events::Files;
use weir_types::{Block, Message, Purpose, Request, Role, Seq};

use crate::agent::Agent;
use crate::render::{self, Cut, Unit};
use crate::session::{Activity, Compaction, Entry, Run, Session};
use crate::tokens::{self, OVERHEAD_TOKENS};
use crate::window;

/// Begin when this much of the budget is used, so that the window never has to be trimmed …
const BEGIN_PERCENT: u64 = 85;

/// … and keep this much of it word for word.
const KEEP_PERCENT: u64 = 40;

/// Less than this is not worth a call, unless the window would be trimmed without it.
const WORTH_PERCENT: u64 = 5;

/// Longest summary, in tokens.
const SUMMARY_TOKENS_MAX: u64 = 4_096;

/// Shortest summary that is worth asking for, in tokens.
const SUMMARY_TOKENS_MIN: u64 = 64;

/// What to summarise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The first entry.
    pub from: Seq,
    /// The last entry.
    pub through: Seq,
    /// What they take, with the summary before them, as estimated.
    pub tokens: u64,
    /// How much of one result or message the summariser sees.
    pub cut: Cut,
    /// Most tokens of the summary.
    pub output_tokens_max: u64,
}

/// What to summarise before the next call, if anything.
pub fn plan(session: &Session, run: &Run, agent: &Agent) -> Option<Plan> {
    let usual = window::cut(agent);
    let budget = window::budget(session, agent);
    let sizes: Vec<u64> = render::units(session).iter().map(|unit| unit.tokens(usual)).collect();
    let before = render::tokens_before(&session.transcript, usual);
    let total = before + sizes.iter().sum::<u64>();
    if total <= percent(budget, BEGIN_PERCENT) {
        return None;
    }
    let keep = percent(budget, KEEP_PERCENT);
    let cut = summariser_cut(session, run, agent)?;
    let worth = if total > budget { 0 } else { percent(budget, WORTH_PERCENT) }.max(SUMMARY_TOKENS_MIN);
    let count = covered(session, &sizes, total.saturating_sub(keep), worth, cut);
    let tokens: u64 = sizes[..count].iter().sum();
    if tokens < worth {
        return None;
    }
    let entries = &session.transcript.entries;
    Some(Plan {
        from: entries.first()?.seq(),
        through: entries.get(count.checked_sub(1)?)?.seq(),
        tokens: tokens
            + session.transcript.summary.as_ref().map_or(0, |summary| tokens::of_text(&summary.text)),
        cut,
        output_tokens_max: SUMMARY_TOKENS_MAX.min(agent.output_tokens_max()).min(cut.share_tokens),
    })
}

const fn percent(of: u64, percent: u64) -> u64 {
    of.saturating_mul(percent) / 100
}

/// How many of the oldest entries to cover: so many that the rest fits, but no more than one request can show, unless
/// that would not be worth it.
fn covered(session: &Session, sizes: &[u64], wanted: u64, worth: u64, cut: Cut) -> usize {
    let entries = &session.transcript.entries;
    let (mut covered, mut shown) = (0, 0);
    for (count, entry) in entries[..coverable(entries)].iter().enumerate() {
        shown += tokens::of_text(&render::plain(Unit::from(entry), cut));
        if covered >= wanted || (covered >= worth && shown > conversation_tokens(cut)) {
            return count;
        }
        covered += sizes[count];
    }
    coverable(entries)
}

/// The newest entry always stays, and whatever the user said since the newest answer.
fn coverable(entries: &[Entry]) -> usize {
    let answer = entries.iter().rposition(|entry| entry.as_assistant().is_some());
    match answer {
        Some(answer) if answer + 1 < entries.len() => answer + 1,
        Some(answer) => answer,
        None => 0,
    }
}

/// How much of one result or message a summariser sees: a sixth of what it can be shown. The conversation gets three
/// such shares, the summary before it two, and the facts one.
fn summariser_cut(session: &Session, run: &Run, agent: &Agent) -> Option<Cut> {
    let free = agent.context_tokens().saturating_sub(SUMMARY_TOKENS_MAX.min(agent.output_tokens_max()));
    let room = session.gauge.estimated(free);
    let room = match run.compaction {
        Compaction { overflows: 1.., overflow_tokens, .. } => room.min(overflow_tokens) / 2,
        _ => room,
    };
    let room = room.saturating_sub(tokens::of_text(INSTRUCTIONS) + FRAME_TOKENS);
    let share_tokens = (room / 6).min(window::cut(agent).share_tokens);
    (share_tokens >= window::SHARE_TOKENS_MIN).then_some(Cut { share_tokens })
}

const fn conversation_tokens(cut: Cut) -> u64 {
    cut.share_tokens.saturating_mul(3)
}

/// The request for a summary of what is planned.
pub fn request(session: &Session, api_name: &str, plan: &Plan) -> Request {
    let entries = &session.transcript.entries;
    let last = entries.iter().position(|entry| entry.seq() == plan.through);
    let covered = last.map_or(&[][..], |last| &entries[..=last]);
    let conversation: String =
        covered.iter().map(|entry| render::plain(Unit::from(entry), plan.cut)).collect();
    let conversation = render::shorten(&conversation, conversation_tokens(plan.cut) + OVERHEAD_TOKENS);
    let facts = render::shorten(&facts(&session.activity), plan.cut.share_tokens);
    let before = session.transcript.summary.as_ref().map_or(String::new(), |summary| {
        format!(
            "SUMMARY SO FAR:\n{}\n\n",
            render::shorten(&summary.text, plan.cut.share_tokens.saturating_mul(2))
        )
    });
    let text = format!("{before}CONVERSATION:\n{conversation}{facts}\nSummarise all of the above now.");
    Request {
        model: api_name.to_owned(),
        system: INSTRUCTIONS.to_owned(),
        tools: Vec::new(),
        messages: vec![Message { role: Role::User, content: vec![Block::text(text)] }],
        output_tokens_max: plan.output_tokens_max,
        purpose: Purpose::Summary,
    }
}

/// What the request's own words take, beside the instructions.
const FRAME_TOKENS: u64 = 40;

const INSTRUCTIONS: &str = "\
You summarise a conversation between a user and an assistant that uses tools, so that the assistant can go on without \
having seen it. Keep: what the user wants, decisions and their reasons, facts that were found, names, numbers and \
identifiers exactly as they were, open tasks, what failed and why, which files were read and changed. Leave out \
pleasantries. Answer with the summary alone, in plain text.";

fn facts(activity: &Activity) -> String {
    let list = |title: &str, items: &[String]| match items {
        [] => String::new(),
        items => format!("\n{title}:\n{}\n", items.join("\n")),
    };
    list("FILES READ", &activity.read)
        + &list("FILES CHANGED", &activity.changed)
        + &list("TOOL CALLS THAT FAILED", &activity.failures)
}

/// Files touched and calls failed so far, as a summary's event records them.
pub fn recorded(activity: &Activity) -> (Files, Vec<String>) {
    (Files { read: activity.read.clone(), changed: activity.changed.clone() }, activity.failures.clone())
}

/// The summary that replaces what is planned: the model's words, and after them the files and failures that it may have left
/// out. What does not fit beside the words is cut.
pub fn with_facts(plan: &Plan, summary: &str, activity: &Activity) -> String {
    let facts = facts(activity);
    let room = summary_tokens_max(plan).saturating_sub(tokens::of_text(summary)).min(plan.cut.share_tokens);
    if facts.is_empty() || room < FACTS_TOKENS_MIN {
        return summary.to_owned();
    }
    // `shorten` marks what it cut, and the mark takes room.
    let shown = render::shorten(&facts, room - FACTS_TOKENS_MIN / 2);
    let whole = format!("{}\n{}", summary.trim_end(), shown.trim_end());
    if tokens::of_text(&whole) > summary_tokens_max(plan) { summary.to_owned() } else { whole }
}

/// Less room than this is too little for files and failures.
const FACTS_TOKENS_MIN: u64 = 32;

/// A summary of nearly the size of what it replaces would be made again and again. Twice the limit that the model was given
/// allows for our estimate being wrong.
fn summary_tokens_max(plan: &Plan) -> u64 {
    (plan.tokens / 2).min(plan.output_tokens_max.saturating_mul(2)).max(SUMMARY_TOKENS_MIN - 1)
}

/// Why a summary cannot be used, if it cannot.
pub fn flaw(plan: &Plan, summary: &str) -> Option<&'static str> {
    if summary.trim().is_empty() {
        return Some("the summary is empty");
    }
    (tokens::of_text(summary) > summary_tokens_max(plan))
        .then_some("the summary is too long for what it replaces")
}
