//! When the oldest part of the conversation becomes a summary, which part, and how the model is asked for it.

use weir_types::{Block, Message, Purpose, Request, Role, Seq};

use crate::agent::Agent;
use crate::body::Files;
use crate::render::{self, Cut};
use crate::session::{Activity, Entry, Run, Session};
use crate::{tokens, window};

/// Begin when this much of the budget is used, so that the window never has to be trimmed …
const BEGIN_PERCENT: u64 = 85;

/// … and keep this much of it word for word.
const KEEP_PERCENT: u64 = 40;

/// Longest summary, in tokens, and as a share of what it replaces.
const SUMMARY_TOKENS_MAX: u64 = 4_096;

/// What to summarise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The first entry.
    pub from: Seq,
    /// The last entry.
    pub through: Seq,
    /// What they take, as estimated.
    pub tokens: u64,
    /// How much of one result or message the summariser sees.
    pub cut: Cut,
    /// Most tokens of the summary.
    pub output_tokens_max: u64,
}

/// What to summarise before the next call, if anything.
pub fn plan(session: &Session, run: &Run, agent: &Agent) -> Option<Plan> {
    let cut = window::cut(agent);
    let entries = &session.transcript.entries;
    let sizes: Vec<u64> = entries.iter().map(|entry| render::tokens_of(entry, cut)).collect();
    let inbox: u64 =
        session.inbox.iter().map(|entry| render::tokens_of(&Entry::User(entry.clone()), cut)).sum();
    let before = render::tokens_before(&session.transcript, cut);
    let total = before + inbox + sizes.iter().sum::<u64>();
    let budget = window::budget(session, agent);
    let too_long = run.compaction.overflows > 0 && !run.compaction.forced;
    if !too_long && total <= budget * BEGIN_PERCENT / 100 {
        return None;
    }
    let keep =
        if too_long { (total / 2).min(budget * KEEP_PERCENT / 100) } else { budget * KEEP_PERCENT / 100 };
    let count = covered(&sizes, keep.saturating_sub(before + inbox), room(agent))?;
    let tokens: u64 = sizes[..count].iter().sum();
    Some(Plan {
        from: entries[0].seq(),
        through: entries[count - 1].seq(),
        tokens,
        cut,
        output_tokens_max: output_tokens_max(agent),
    })
}

/// How many of the oldest entries to cover: so many that the rest fits, but no more than one request can show. The
/// newest entry always stays.
fn covered(sizes: &[u64], keep: u64, room: u64) -> Option<usize> {
    let mut rest: u64 = sizes.iter().sum();
    let (mut count, mut shown) = (0, 0);
    while rest > keep && count + 1 < sizes.len() && (count == 0 || shown + sizes[count] <= room) {
        (rest, shown) = (rest - sizes[count], shown + sizes[count]);
        count += 1;
    }
    (count > 0).then_some(count)
}

/// What one request to the summariser can show of the conversation.
fn room(agent: &Agent) -> u64 {
    let free = agent.context_tokens().saturating_sub(output_tokens_max(agent));
    // Half of it: the summary so far and the instructions take their part, and estimates are estimates.
    free / 2
}

fn output_tokens_max(agent: &Agent) -> u64 {
    SUMMARY_TOKENS_MAX.min(agent.output_tokens_max())
}

/// The request for a summary of what is planned.
pub fn request(session: &Session, api_name: &str, plan: &Plan) -> Request {
    let entries = &session.transcript.entries;
    let last = entries.iter().position(|entry| entry.seq() == plan.through);
    let covered = last.map_or(&[][..], |last| &entries[..=last]);
    let mut text = String::new();
    if let Some(summary) = &session.transcript.summary {
        text.push_str(&format!("SUMMARY SO FAR:\n{}\n\n", summary.text));
    }
    text.push_str("CONVERSATION:\n");
    covered.iter().for_each(|entry| text.push_str(&render::plain(entry, plan.cut)));
    text.push_str(&facts(&session.activity));
    text.push_str("\nSummarise all of the above now.");
    Request {
        model: api_name.to_owned(),
        system: INSTRUCTIONS.to_owned(),
        tools: Vec::new(),
        messages: vec![Message { role: Role::User, content: vec![Block::text(text)] }],
        output_tokens_max: plan.output_tokens_max,
        purpose: Purpose::Summary,
    }
}

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

/// Why a summary cannot be used, if it cannot.
pub fn flaw(plan: &Plan, summary: &str) -> Option<&'static str> {
    if summary.trim().is_empty() {
        return Some("the summary is empty");
    }
    let tokens = tokens::of_text(summary);
    // A summary of nearly the size of what it replaces would be made again and again.
    (tokens > plan.tokens / 2 && tokens > 64 || tokens >= plan.tokens)
        .then_some("the summary is too long for what it replaces")
}
