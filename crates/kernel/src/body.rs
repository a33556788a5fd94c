//! What each kind of event says: the payloads of page 6 of the design, one struct per kind.
//!
//! Fields that a later version adds are ignored by this one; what this one writes, it reads back unchanged.

mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use weir_types::{
    Block, BranchName, CallId, Effect, EventId, FailureClass, GateStep, Hash, Json, Kind, NanoUsd,
    OnInterrupt, OwnerId, Risk, Role, RunId, Saw, Seq, SessionId, Stop, Timestamp, Usage,
};

pub use self::words::*;
use self::words::{is_false, is_zero};
use crate::purse::{Amount, Held, Void};

/// The kind of that name, which is one of [`Body::KINDS`].
#[expect(clippy::expect_used, reason = "every kind of the table is a valid name")]
pub fn kind(name: &'static str) -> Kind {
    debug_assert!(Body::KINDS.contains(&name), "`{name}` is none of our kinds");
    name.parse().expect("every kind of the table is a valid name")
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $kind:literal $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

            impl $name {
                /// Its kind.
                pub const KIND: &'static str = $kind;
            }

            impl From<$name> for Body {
                fn from(body: $name) -> Self {
                    Self::$name(body)
                }
            }
        )*

        /// What an event says.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body { $($(#[$doc])* $name($name),)* }

        impl Body {
            /// Every kind there is.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Its kind.
            pub const fn kind_str(&self) -> &'static str {
                match self { $(Self::$name(_) => $kind,)* }
            }

            /// The payload, as it is stored.
            ///
            /// # Errors
            /// Never for a body that holds valid values; serde cannot promise it.
            pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
                match self { $(Self::$name(body) => serde_json::to_vec(body),)* }
            }

            /// What a stored payload says; `None` for a kind that is not ours.
            ///
            /// # Errors
            /// When the payload of a known kind cannot be read.
            pub fn decode(kind: &Kind, payload: &[u8]) -> Result<Option<Self>, serde_json::Error> {
                match kind.as_str() {
                    $($kind => serde_json::from_slice(payload).map(|body| Some(Self::$name(body))),)*
                    _ => Ok(None),
                }
            }
        }
    };
}

bodies! {
    /// A session begins.
    "session.created" SessionCreated {
        /// The agent, by name.
        agent: String,
        /// The build it runs.
        manifest: Hash,
        /// On whose behalf.
        principal: String,
        /// The groups they came with, as `group:…`: what a token or a trusted proxy said of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<String>,
        /// What to call it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// For people and filters.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// The call that started it, if another session did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
        /// Where its turns run.
        lane: String,
    }
    /// Its title or labels change.
    "session.updated" SessionUpdated {
        /// The new title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Labels to set; an empty value removes one.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
    }
    /// A process takes it up. What was under way when this is appended was interrupted.
    "session.resumed" SessionResumed {
        /// Why.
        reason: ResumeReason,
        /// The process.
        owner: OwnerId,
        /// What it may use beyond the limit that had stopped it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<Allowance>,
        /// Whether the run's limits stay as they are, but for what `budget` gives and for its iterations. Before this was
        /// recorded, all of them began anew.
        #[serde(default, skip_serializing_if = "is_false")]
        keeps_limits: bool,
    }
    /// The process that has it stops in good order, and lets go of it. What is under way is cut off, and goes on elsewhere.
    "session.released" SessionReleased {
        /// Why.
        reason: String,
    }
    /// Someone stops it; it can be resumed.
    "session.halted" SessionHalted {
        /// Why.
        reason: String,
        /// It was imported: what the file says about groups, approvers and purses does not count here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        imported: bool,
    }
    /// Someone ends it for good.
    "session.closed" SessionClosed {
        /// Why.
        reason: String,
    }
    /// A branch begins. What was open at the fork point is closed here.
    "branch.forked" BranchForked {
        /// The parent.
        from: BranchName,
        /// The last shared event.
        at: Seq,
        /// This branch.
        name: BranchName,
    }
    /// Another branch's files come in.
    "branch.merged" BranchMerged {
        /// The other branch.
        from: BranchName,
        /// Its event.
        at: Seq,
        /// The resulting tree.
        tree: Hash,
        /// Paths that need a decision.
        conflicts: Vec<String>,
    }
    /// Someone says something.
    "user.message" UserMessage {
        /// What.
        content: Vec<Block>,
        /// What the runtime tells the model along with it, such as the time.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        runtime: BTreeMap<String, String>,
        /// Who is said to have said it, if it is told as what was said before the session began. It is someone's word, whoever
        /// they name: it starts no run, costs nothing, and no call or approval can come of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        history: Option<Role>,
    }
    /// Something outside happened.
    "external.signal" ExternalSignal {
        /// What.
        name: String,
        /// The details.
        data: Json,
    }
    /// A run begins.
    "run.started" RunStarted {
        /// Its id.
        run: RunId,
        /// What set it off.
        trigger: Trigger,
        /// Where it runs.
        lane: String,
    }
    /// The next model call, and the tools it asks for, begin.
    "iteration.started" IterationStarted {
        /// From 1.
        n: u32,
    }
    /// A request is about to be sent.
    "model.requested" ModelRequested {
        /// The model, by its full name.
        model: String,
        /// From 1, within the iteration and purpose.
        attempt: u32,
        /// The blob with the system prompt.
        prompt: Hash,
        /// The blob with the tool definitions.
        tools: Hash,
        /// The entries it shows, as ranges of their seqs.
        window: Vec<[Seq; 2]>,
        /// What else it was made of.
        params: Params,
        /// SHA-256 of its bytes.
        request_hash: Hash,
        /// The most it may use and cost.
        reserve: Reserve,
        /// The purses in which that is set aside.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        purses: Vec<Draw>,
        /// What of the conversation it leaves out, because not all of it fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<LeftOut>,
    }
    /// An attempt failed.
    "model.failed" ModelFailed {
        /// How.
        class: FailureClass,
        /// Which.
        attempt: u32,
        /// How long until the next one; absent if it is repeated at once, or not at all.
        #[serde(default, skip_serializing_if = "is_zero")]
        delay_ms: u64,
        /// In the provider's words.
        message: String,
        /// What it used nevertheless.
        #[serde(default)]
        usage: Usage,
        /// What that cost.
        #[serde(default)]
        cost: NanoUsd,
    }
    /// A piece of an answer that is being streamed.
    "text.delta" TextDelta {
        /// `text`, `thinking` or `tool_input`.
        channel: String,
        /// The block it belongs to.
        block: u32,
        /// The attempt it belongs to.
        attempt: u32,
        /// Where it starts in the attempt's output, in bytes over all blocks.
        offset: u64,
        /// The piece.
        delta: String,
    }
    /// The model answered.
    "assistant.message" AssistantMessage {
        /// What.
        content: Vec<Block>,
        /// Why it ended.
        stop: Stop,
        /// What it used.
        usage: Usage,
        /// What that cost.
        cost: NanoUsd,
        /// The model, by its full name.
        model: String,
        /// The provider's id of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_id: Option<String>,
    }
    /// The application's state changes.
    "state.patched" StatePatched {
        /// A JSON Patch.
        patch: Json,
    }
    /// The oldest part of the conversation is replaced by a summary, in requests.
    "context.compacted" ContextCompacted {
        /// The last entry it covers.
        through: Seq,
        /// What was said.
        summary: String,
        /// Estimated size of what it replaces.
        tokens_before: u64,
        /// Estimated size of the summary.
        tokens_after: u64,
        /// Files read and changed until then.
        files: Files,
        /// Tool calls that failed until then.
        failures: Vec<String>,
        /// Who summarised.
        model: String,
        /// What that used.
        #[serde(default)]
        usage: Usage,
        /// What that cost.
        #[serde(default)]
        cost: NanoUsd,
    }
    /// A run ends with an answer.
    "run.finished" RunFinished {
        /// Why.
        stop: Stop,
        /// The answer's text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// What the run used.
        usage: Usage,
        /// What it cost.
        cost: NanoUsd,
    }
    /// A run ends without one.
    "run.errored" RunErrored {
        /// How.
        class: FailureClass,
        /// In words.
        message: String,
    }
    /// Someone wants it to stop.
    "run.cancel_requested" RunCancelRequested {}
    /// It stopped.
    "run.cancelled" RunCancelled {
        /// What the model had said of the answer that was cut off, as far as it is text; empty if it had said nothing yet,
        /// absent if it was not asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
    }
    /// It pauses until someone resumes it.
    "run.parked" RunParked {
        /// Why.
        why: Parked,
    }
    /// The model asked for a tool.
    "tool.requested" ToolRequested {
        /// Our id of the call.
        call: CallId,
        /// The provider's.
        provider_id: String,
        /// The tool.
        tool: String,
        /// Where it comes from.
        source: String,
        /// The arguments.
        input: Json,
        /// What repeating it does.
        effect: Effect,
        /// How bad it can be.
        risk: Risk,
        /// What a crash in the middle of it means.
        #[serde(default)]
        on_interrupt: OnInterrupt,
        /// Of an errand: a call that the model did not ask for, but someone outside. Asked for again with the same key, it is the
        /// same call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    }
    /// Whether it may run.
    "tool.decided" ToolDecided {
        /// The call.
        call: CallId,
        /// Whether.
        outcome: Verdict,
        /// Which rule; the name of the step, if it was no rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Which step decided. [`ToolDecided::decided_by`] also knows it of decisions from before it was recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<GateStep>,
        /// Why.
        because: String,
        /// Whether it only pretends.
        stub: bool,
        /// What that depended on beside the call. Decisions from before there was a record of it have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saw: Option<Saw>,
    }
    /// It is about to run.
    "tool.started" ToolStarted {
        /// The call.
        call: CallId,
        /// From 1.
        attempt: u32,
        /// The idempotency key, the same for each attempt.
        key: String,
        /// SHA-256 of the arguments it runs with.
        input_hash: Hash,
        /// The session that does it, if an agent does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<SessionId>,
    }
    /// It answered.
    "tool.completed" ToolCompleted {
        /// The call.
        call: CallId,
        /// The answer.
        content: Vec<Block>,
        /// Files it changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed_files: Vec<String>,
        /// Whether it only pretended.
        stub: bool,
        /// The blob with the whole answer, when only its beginning is here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<Hash>,
        /// What it wrote to its console.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        log: Vec<String>,
        /// What the session behind it used, if an agent did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bill: Option<Bill>,
    }
    /// It did not.
    "tool.failed" ToolFailed {
        /// The call.
        call: CallId,
        /// A word for how.
        class: String,
        /// What the model is told.
        message: String,
        /// What is known about its effect.
        outcome: Outcome,
        /// What it wrote to its console.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        log: Vec<String>,
        /// What the session behind it used, if an agent did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bill: Option<Bill>,
    }
    /// Someone has to say yes.
    "approval.requested" ApprovalRequested {
        /// The call.
        call: CallId,
        /// SHA-256 of the arguments.
        input_hash: Hash,
        /// Which rule asks.
        rule: String,
        /// When it is too late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<Timestamp>,
        /// Why it is asked. [`ApprovalRequested::asked_because`] also knows it of requests from before it was recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<AskedBecause>,
        /// Who may approve, too, from when on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalates: Option<Escalates>,
    }
    /// Someone said yes.
    "approval.granted" ApprovalGranted {
        /// The call.
        call: CallId,
        /// Who.
        by: String,
        /// The groups they came with, as `group:…`: what a token or a trusted proxy said of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<String>,
        /// To which arguments.
        input_hash: Hash,
        /// The arguments to run instead.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        input: Option<Json>,
        /// For how long.
        scope: Scope,
        /// Whether they approved a live write or a dry run; events from before it was recorded do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runs: Option<RunsAs>,
    }
    /// Someone said no.
    "approval.denied" ApprovalDenied {
        /// The call.
        call: CallId,
        /// Who.
        by: String,
        /// The groups they came with, as `group:…`: what a token or a trusted proxy said of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    }
    /// Nobody said anything in time.
    "approval.expired" ApprovalExpired {
        /// The call.
        call: CallId,
    }
    /// Something was put into memory.
    "memory.stored" MemoryStored {
        /// The document.
        doc: String,
        /// Its title.
        title: String,
        /// Its tags.
        tags: Vec<String>,
        /// Its content.
        hash: Hash,
    }
    /// Something was looked up there.
    "memory.retrieved" MemoryRetrieved {
        /// What was asked.
        query: String,
        /// What was found.
        docs: Vec<String>,
    }
    /// A file of the workspace has new content.
    "file.written" FileWritten {
        /// Where.
        path: String,
        /// What.
        hash: Hash,
        /// Its permissions.
        mode: u32,
        /// How many bytes.
        size: u64,
    }
    /// A file of the workspace is gone.
    "file.deleted" FileDeleted {
        /// Where it was.
        path: String,
    }
    /// The workspace gets a name.
    "snapshot.taken" SnapshotTaken {
        /// The name.
        name: String,
        /// The tree.
        tree: Hash,
    }
    /// Money is set aside, if the purse has so much left. It has not, if what was settled and what is held make more than the
    /// limit together with it: then it is void, and counts nothing.
    "budget.reserved" BudgetReserved {
        /// From which purse.
        scope: String,
        /// For which request: the id of its event.
        call: EventId,
        /// How much.
        nano: NanoUsd,
        /// Tokens.
        #[serde(default, skip_serializing_if = "is_zero")]
        tokens: u64,
        /// Model calls.
        #[serde(default, skip_serializing_if = "is_zero")]
        model_calls: u64,
        /// What the purse may hold.
        #[serde(default)]
        limit: Allowance,
    }
    /// It was spent.
    "budget.settled" BudgetSettled {
        /// From which purse.
        scope: String,
        /// For which request.
        call: EventId,
        /// How much.
        nano: NanoUsd,
        /// Tokens.
        #[serde(default, skip_serializing_if = "is_zero")]
        tokens: u64,
        /// Model calls.
        #[serde(default, skip_serializing_if = "is_zero")]
        model_calls: u64,
        /// Microseconds of work, since the request before it.
        #[serde(default, skip_serializing_if = "is_zero")]
        micros: u64,
    }
    /// It was not; or someone puts more in.
    "budget.released" BudgetReleased {
        /// To which purse.
        scope: String,
        /// Of which request; or the event by which someone puts more in.
        call: EventId,
        /// How much.
        nano: NanoUsd,
        /// Tokens.
        #[serde(default, skip_serializing_if = "is_zero")]
        tokens: u64,
        /// Model calls.
        #[serde(default, skip_serializing_if = "is_zero")]
        model_calls: u64,
        /// Microseconds of work.
        #[serde(default, skip_serializing_if = "is_zero")]
        micros: u64,
        /// Whether it is put in beyond the limit.
        #[serde(default, skip_serializing_if = "is_false")]
        raises: bool,
    }
    /// What the events of a purse up to one of them come to: a reader begins there instead of at the first
    /// event.
    "budget.carried" BudgetCarried {
        /// The version of the fold that made it. Another version is ignored.
        version: u32,
        /// Which purse.
        scope: String,
        /// The newest event that is in it. Those between it and this one are not.
        through: Seq,
        /// What was spent.
        settled: Amount,
        /// What was put in beyond the limit.
        raised: Amount,
        /// The limit of the newest reservation.
        limit: Allowance,
        /// What is set aside, by request.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        held: Vec<Held>,
        /// The newest reservations that were void, oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        void: Vec<Void>,
    }
    /// A purse has too little left.
    "budget.exceeded" BudgetExceeded {
        /// Which.
        scope: String,
        /// What it may hold.
        limit: u64,
        /// What was spent, or set aside for others.
        spent: u64,
        /// In which unit.
        #[serde(default = "usd")]
        which: Limit,
        /// What was asked for.
        #[serde(default, skip_serializing_if = "is_zero")]
        need: u64,
        /// How long the call waits for others to give back what they have set aside; absent if it does not.
        #[serde(default, skip_serializing_if = "is_zero")]
        waits_ms: u64,
        /// The request that is therefore not made, if it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<EventId>,
    }
    /// Where turns run.
    "lane.chosen" LaneChosen {
        /// The lane.
        lane: String,
        /// Why.
        why: String,
    }
    /// Where they no longer run.
    "lane.rolled_back" LaneRolledBack {
        /// The lane.
        lane: String,
        /// Why.
        why: String,
    }
    /// A schedule came due.
    "loop.fired" LoopFired {
        /// Which.
        r#loop: String,
        /// When it was due.
        scheduled_for: Timestamp,
        /// The session it started.
        session: SessionId,
    }
    /// A firing was left out.
    "loop.skipped" LoopSkipped {
        /// Of which loop.
        r#loop: String,
        /// When it was due.
        scheduled_for: Timestamp,
        /// Why.
        why: String,
    }
    /// A firing's run ended.
    "loop.finished" LoopFinished {
        /// The run.
        run: RunId,
        /// How.
        status: String,
    }
}

/// Kinds that anyone with the right to speak to a session may append, not only its owner.
pub const INPUT_KINDS: [&str; 8] = [
    "user.message",
    "external.signal",
    "approval.granted",
    "approval.denied",
    "approval.expired",
    "run.cancel_requested",
    "session.halted",
    "session.closed",
];

impl ToolDecided {
    /// The step that decided; none, if nothing was said against the call, nor for it by name.
    pub fn decided_by(&self) -> Option<GateStep> {
        const STEPS: [GateStep; 6] = [
            GateStep::Allowlist,
            GateStep::Schema,
            GateStep::Grant,
            GateStep::Budget,
            GateStep::Stub,
            GateStep::Credentials,
        ];
        self.step.or_else(|| {
            let rule = self.rule.as_deref()?;
            // Before the step was recorded, one that refused said its name twice; a rule of that name did not.
            let says =
                |step: &GateStep| rule == step.as_str() && self.because.starts_with(&format!("{step}: "));
            Some(STEPS.into_iter().find(says).unwrap_or(GateStep::Rules))
        })
    }
}

impl ApprovalRequested {
    /// Why it is asked.
    pub fn asked_because(&self) -> AskedBecause {
        self.because.unwrap_or(match self.rule.as_str() {
            // What these were told apart by before it was recorded.
            "child" => AskedBecause::Child,
            "on_interrupt: ask" => AskedBecause::Interrupted,
            _ => AskedBecause::Rule,
        })
    }
}

/// Purses are about money first.
fn usd() -> Limit {
    Limit::Usd
}

/// Reads an optional JSON value of which `null` is one; only a field that is absent is none.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
