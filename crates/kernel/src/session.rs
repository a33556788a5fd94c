//! The state of a session: what all its events amount to. Made by [`fold`](crate::Session::apply), read by
//! [`decide`](crate::decide()), and small: what a summary covers is no longer in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_events::{
    Allowance, AskedBecause, Draw, Escalates, Parked, Reserve, RunsAs, SessionCreated, present,
};
use weir_types::{
    Block, CallId, Effect, EventId, FailureClass, Hash, Json, NanoUsd, OnInterrupt, Outcome, Purpose, Risk,
    RunId, Seq, SessionId, Stop, Timestamp, Usage, View,
};

use crate::repeats::Repeats;
use crate::tokens::Gauge;

/// Everything a session is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The newest event folded.
    pub seq: Seq,
    /// When that was.
    pub ts: Timestamp,
    /// How long whoever runs it had done so by their newest event, if they count that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_us: Option<u64>,
    /// How it began; `None` before its first event.
    pub created: Option<SessionCreated>,
    /// What to call it.
    pub title: Option<String>,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
    /// Whether it can go on.
    pub lifecycle: Lifecycle,
    /// The run in progress, waiting or parked.
    pub run: Option<Run>,
    /// How the run before it ended.
    pub ended: Option<Ended>,
    /// What the model has been told and has said.
    pub transcript: Transcript,
    /// What the model has not been told yet: during a run, what came in since it began or was last asked; else what the
    /// next run is for.
    pub inbox: Vec<UserEntry>,
    /// The application's own state.
    pub app: Value,
    /// What summaries must name.
    pub activity: Activity,
    /// What was used and spent, on this branch's lineage.
    pub totals: Spent,
    /// How much of the work purses have been told of.
    #[serde(default)]
    pub settled_micros: u64,
    /// How our estimates compare with the provider's count.
    pub gauge: Gauge,
    /// Results that only their beginning was shown of: the newest, the oldest first.
    #[serde(default)]
    pub long_results: Vec<Hash>,
    /// What someone has said yes to for as long as this branch goes on.
    #[serde(default)]
    pub standing: Vec<StandingApproval>,
    /// Calls that someone outside asks for, until they are done. They are no part of the conversation: the model is told neither
    /// of them nor of what comes of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errands: Vec<Call>,
    /// The groups that whoever said yes came with, as of their latest yes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub approvers: BTreeMap<String, Vec<String>>,
}

/// A yes to every call of a tool that the same rule asks about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingApproval {
    /// The tool.
    pub tool: String,
    /// The rule that asked.
    pub rule: String,
    /// Who said yes.
    pub by: String,
    /// To live writes, or to dry runs; to either, if that was not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunsAs>,
    /// The event that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Seq>,
}

/// Whether a session can go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// It can.
    #[default]
    Open,
    /// When someone resumes it.
    Halted(String),
    /// Never again.
    Closed(String),
}

/// What was used and spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Tokens. An attempt whose end is unknown counts in [`Spent::reserved_tokens`] instead.
    pub usage: Usage,
    /// Tokens of attempts whose end is unknown, as reserved.
    pub reserved_tokens: u64,
    /// Money, attempts whose end is unknown included, as reserved.
    pub cost: NanoUsd,
    /// Model calls begun.
    pub model_calls: u64,
    /// Iterations begun.
    pub iterations: u64,
    /// Microseconds of work; waiting for people and being down do not count.
    pub micros: u64,
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The iteration, from 1; 0 before the first.
    pub iteration: u32,
    /// Whether that iteration still lacks its answer.
    pub open: bool,
    /// How often that answer was asked for.
    pub attempts: u32,
    /// What is going on.
    pub phase: Phase,
    /// What it used and spent.
    pub spent: Spent,
    /// What it had spent of each when someone last gave it more of that: its limit counts from there.
    pub excused: Spent,
    /// What it may use from there on, instead of its limits.
    #[serde(default, skip_serializing_if = "Allowance::is_unlimited")]
    pub granted: Allowance,
    /// How often its calls came to the same.
    #[serde(default)]
    pub repeats: Repeats,
    /// How often the process went down in this iteration.
    pub crashes: u32,
    /// Whether someone wants it to stop.
    pub cancelling: bool,
    /// Why it pauses, if it does.
    pub parked: Option<Parked>,
    /// What was tried to make the conversation fit, in this iteration.
    pub compaction: Compaction,
}

/// What was tried to make the conversation fit, in one iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The summariser failed: go on with a trimmed window.
    pub failed: bool,
    /// How often the provider said that the request was too long.
    pub overflows: u32,
    /// What that request took, as estimated.
    pub overflow_tokens: u64,
}

/// What is going on in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The next step can begin.
    Ready,
    /// A request is out.
    Calling(InFlight),
    /// A request was out when the process ended, or the run was paused.
    Interrupted {
        /// What it was for.
        purpose: Purpose,
        /// Which attempt.
        attempt: u32,
    },
    /// It failed.
    Failed {
        /// What it was for.
        purpose: Purpose,
        /// Which attempt.
        attempt: u32,
        /// How.
        class: FailureClass,
        /// In words.
        message: String,
        /// When to try again.
        until: Timestamp,
    },
    /// The calls of the newest answer are being dealt with.
    Tools,
}

/// A request that is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// The event that says so.
    pub seq: Seq,
    /// Its id.
    pub id: EventId,
    /// Which attempt.
    pub attempt: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// The most it may use and cost.
    pub reserve: Reserve,
    /// The purses in which that is set aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purses: Vec<Draw>,
    /// Its size, as estimated.
    pub estimated_tokens: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Which run.
    pub run: RunId,
    /// How.
    pub how: Ending,
    /// What it used and spent.
    pub spent: Spent,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With an answer.
    Finished {
        /// Why the model stopped.
        stop: Stop,
        /// The answer.
        answer: Option<String>,
    },
    /// With an error.
    Errored {
        /// How.
        class: FailureClass,
        /// In words.
        message: String,
    },
    /// Someone stopped it.
    Cancelled,
    /// The branch was forked off in the middle of it, or a new run took its place.
    Abandoned,
}

/// What the model has been told and has said, since the last summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// What came before.
    pub summary: Option<Summary>,
    /// The user's latest message, if the summary covers it: the model must still see it word for word.
    pub pinned: Option<UserEntry>,
    /// The rest, in the order of the conversation.
    pub entries: Vec<Entry>,
}

/// What came before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The event that brought it.
    pub seq: Seq,
    /// The text.
    pub text: String,
}

/// One step of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The user's.
    User(UserEntry),
    /// The model's, with the calls it asked for.
    Assistant(AssistantEntry),
}

/// What the user, or the world, said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserEntry {
    /// The event that said it.
    pub seq: Seq,
    /// What.
    pub content: Vec<Block>,
    /// What the runtime adds.
    pub runtime: BTreeMap<String, String>,
}

/// What the model said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantEntry {
    /// The event that said it.
    pub seq: Seq,
    /// What.
    pub content: Vec<Block>,
    /// Why it stopped.
    pub stop: Stop,
    /// The ids that its calls have in requests, in order: the provider's, or ours where the provider's is not unique.
    pub wire_ids: Vec<String>,
    /// The calls it asked for, in order, as far as they have been taken up.
    pub calls: Vec<Call>,
    /// Whether the model was asked to go on after it, without anything new to say.
    pub continued: bool,
    /// Whether someone only says that the model said so, before the session began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Our id.
    pub id: CallId,
    /// The id it has in requests: the provider's, or ours where the provider's is not unique.
    pub wire_id: String,
    /// The tool.
    pub tool: String,
    /// Where it comes from.
    pub source: String,
    /// The arguments the model gave.
    pub input: Json,
    /// The arguments an approver gave instead.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub edited: Option<Json>,
    /// What repeating it does.
    pub effect: Effect,
    /// How bad it can be.
    pub risk: Risk,
    /// What a crash in the middle of it means.
    pub on_interrupt: OnInterrupt,
    /// How often it was started.
    pub attempt: u32,
    /// The session that does it.
    pub child: Option<SessionId>,
    /// Whether it only pretends.
    pub stub: bool,
    /// Why it may run, or may not, or is asked about, in the words of the newest decision.
    #[serde(default)]
    pub because: String,
    /// Who said yes to these arguments, once that was taken up.
    #[serde(default)]
    pub approved_by: Option<String>,
    /// Whether the newest yes is to a live write or to a dry run, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_as: Option<RunsAs>,
    /// The group that could say yes, too, when someone did: as `group:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_to: Option<String>,
    /// How far it is.
    pub state: CallState,
}

impl Call {
    /// The arguments it runs with.
    pub fn input_to_run(&self) -> &Json {
        self.edited.as_ref().unwrap_or(&self.input)
    }

    /// What identifies those arguments.
    pub fn input_hash(&self) -> Hash {
        Hash::of(self.input_to_run().as_str().as_bytes())
    }

    /// Whether it may have had an effect that nobody knows: it was started, and did not answer.
    pub fn may_have_happened(&self) -> bool {
        self.attempt > 0 && self.effect != Effect::Read
    }

    /// The key that makes repeating an idempotent call harmless: the same for each attempt.
    pub fn key(&self) -> String {
        self.id.to_string()
    }
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Nobody has decided yet.
    Requested,
    /// It may run.
    Allowed,
    /// Someone has to say yes.
    Awaiting {
        /// To these arguments.
        input_hash: Hash,
        /// Until then.
        expires: Option<Timestamp>,
        /// Because of this rule.
        rule: String,
        /// Why.
        #[serde(default)]
        because: AskedBecause,
        /// Who may approve, too, from when on.
        #[serde(default)]
        escalates: Option<Escalates>,
    },
    /// Someone did; it is to be decided again with that.
    Granted {
        /// Who.
        by: String,
        /// To these arguments.
        input_hash: Hash,
    },
    /// It may not run; the model has not been told yet.
    Refused {
        /// A word for why.
        class: String,
        /// In words.
        message: String,
    },
    /// It runs.
    Running,
    /// The session that does it waits for someone, and so does it.
    Suspended,
    /// The process that ran it is gone.
    Interrupted,
    /// It answered, or did not.
    Done(CallResult),
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The answer, or what the model is told instead.
    pub content: Vec<Block>,
    /// What is known about its effect, if it did not answer.
    pub failed: Option<Outcome>,
}

/// What summaries must name, however long ago it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Files read, most recent last.
    pub read: Vec<String>,
    /// Files written or deleted, most recent last.
    pub changed: Vec<String>,
    /// Calls that failed, most recent last, in a line each.
    pub failures: Vec<String>,
}

impl Run {
    /// It may use so much from here on, and have as many iterations again. What is not given stays as it was.
    pub(crate) fn grant(&mut self, given: Allowance) {
        let (spent, excused) = (self.spent, &mut self.excused);
        excused.iterations = spent.iterations;
        if given.nano.is_some() {
            (excused.cost, self.granted.nano) = (spent.cost, given.nano);
        }
        if given.tokens.is_some() {
            (excused.usage, excused.reserved_tokens) = (spent.usage, spent.reserved_tokens);
            self.granted.tokens = given.tokens;
        }
        if given.model_calls.is_some() {
            (excused.model_calls, self.granted.model_calls) = (spent.model_calls, given.model_calls);
        }
        if given.wall_clock_ms.is_some() {
            (excused.micros, self.granted.wall_clock_ms) = (spent.micros, given.wall_clock_ms);
        }
    }
}

impl Session {
    /// The calls of the newest answer, while they are being dealt with.
    pub fn calls(&self) -> &[Call] {
        match self.run.as_ref().map(|run| &run.phase) {
            Some(Phase::Tools) => self.transcript.last_assistant().map_or(&[], |entry| &entry.calls),
            _ => &[],
        }
    }

    /// A call of the newest answer, or an errand.
    pub fn call(&self, id: CallId) -> Option<&Call> {
        let calls = self.transcript.last_assistant().map_or(&[][..], |entry| &entry.calls);
        calls.iter().chain(&self.errands).find(|call| call.id == id)
    }

    /// An errand.
    pub fn errand(&self, id: CallId) -> Option<&Call> {
        self.errands.iter().find(|call| call.id == id)
    }

    /// The calls of the newest answer, while they are being dealt with, and all errands.
    pub fn all_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls().iter().chain(&self.errands)
    }

    /// Whether an errand has something to do but to wait for people.
    pub fn has_errands_to_run(&self) -> bool {
        !self.errands.iter().all(is_for_people)
    }

    /// Whether a call of the newest answer, or an errand, has not come to anything yet.
    fn has_open_calls(&self) -> bool {
        let calls = self.transcript.last_assistant().map_or(&[][..], |entry| &entry.calls);
        calls.iter().chain(&self.errands).any(|call| !matches!(call.state, CallState::Done(_)))
    }

    /// Whether a run has not ended, or a call has not come to anything yet. What such a session may still do
    /// and spend is always folded from its events: there are no snapshots of it.
    pub fn is_unfinished(&self) -> bool {
        self.run.is_some() || self.has_open_calls()
    }

    /// Whether everything that is left to do is for people to do.
    pub fn is_waiting(&self) -> bool {
        let open = |call: &&Call| !matches!(call.state, CallState::Done(_));
        let mut open = self.calls().iter().filter(open).peekable();
        open.peek().is_some() && open.all(is_for_people)
    }

    /// The run, if it is neither parked nor over.
    pub fn active_run(&self) -> Option<&Run> {
        self.run.as_ref().filter(|run| run.parked.is_none())
    }
}

/// Whether only people can bring it further.
fn is_for_people(call: &Call) -> bool {
    matches!(call.state, CallState::Awaiting { .. } | CallState::Suspended)
}

impl Transcript {
    /// The newest answer.
    pub fn last_assistant(&self) -> Option<&AssistantEntry> {
        self.entries.iter().rev().find_map(Entry::as_assistant)
    }

    /// Whether the newest thing said is an answer that asks for nothing more.
    pub fn is_answered(&self) -> bool {
        match self.entries.last() {
            Some(Entry::Assistant(entry)) => entry.uses().next().is_none() && entry.stop != Stop::Paused,
            Some(Entry::User(_)) => false,
            None => self.pinned.is_none(),
        }
    }

    pub(crate) fn last_assistant_mut(&mut self) -> Option<&mut AssistantEntry> {
        self.entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::Assistant(entry) => Some(entry),
            Entry::User(_) => None,
        })
    }

    /// The user's latest message that the model has been told.
    pub fn last_user(&self) -> Option<&UserEntry> {
        self.entries.iter().rev().find_map(Entry::as_user).or(self.pinned.as_ref())
    }
}

impl Entry {
    /// The event behind it.
    pub const fn seq(&self) -> Seq {
        match self {
            Self::User(entry) => entry.seq,
            Self::Assistant(entry) => entry.seq,
        }
    }

    /// The model's, if it is.
    pub const fn as_assistant(&self) -> Option<&AssistantEntry> {
        match self {
            Self::Assistant(entry) => Some(entry),
            Self::User(_) => None,
        }
    }

    /// The user's, if it is.
    pub const fn as_user(&self) -> Option<&UserEntry> {
        match self {
            Self::User(entry) => Some(entry),
            Self::Assistant(_) => None,
        }
    }
}

impl AssistantEntry {
    /// The calls it asks for: provider's id, tool and arguments.
    pub fn uses(&self) -> impl Iterator<Item = (&str, &str, &Json)> {
        self.content.iter().filter_map(|block| match &block.view {
            View::ToolUse { id, name, input } => Some((id.as_str(), name.as_str(), input)),
            _ => None,
        })
    }
}
