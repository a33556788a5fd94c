//! A call on its way: asked for, permitted, done or failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use weir_journal::Appended;
use weir_types::{Block, BranchName, CallId, Effect, Hash, Json, Outcome, SessionId, text_of};

use crate::agents::Agents;
use crate::files::Files;
use crate::memory::Memory;
use crate::results::Results;

/// A call, and who wants it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The call.
    pub call: CallId,
    /// The tool, by the name the model was given.
    pub tool: &'a str,
    /// The arguments to run with.
    pub input: &'a Json,
    /// The session it is made in.
    pub session: SessionId,
    /// How many sessions above that one wait for it: 0 for one that a person began.
    pub depth: u32,
    /// The agent that makes it.
    pub agent: &'a str,
    /// On whose behalf.
    pub principal: &'a str,
    /// The groups they came with, besides those of the build.
    pub groups: &'a [String],
    /// Who approved it, if someone did, with exactly these arguments.
    pub approved_by: Option<&'a str>,
}

/// What a durable `tool.started` says, and what the call may reach.
#[derive(Clone)]
pub struct Started {
    /// The call.
    pub call: CallId,
    /// The session it is made in.
    pub session: SessionId,
    /// The branch.
    pub branch: BranchName,
    /// On whose behalf.
    pub principal: String,
    /// The groups they came with, besides those of the build.
    pub groups: Vec<String>,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub input: Json,
    /// The same for every attempt of the call: what makes repeating it harmless.
    pub key: String,
    /// From 1.
    pub attempt: u32,
    /// Whether it must only pretend.
    pub stub: bool,
    /// The session that does it, if an agent does.
    pub child: Option<SessionId>,
    /// Becomes cancelled when the run is. The future is dropped soon after.
    pub cancelled: CancellationToken,
    /// What of its session the call may reach.
    pub world: World,
}

/// Leave to run one call once.
///
/// INVARIANT: it is made from the journal's acknowledgement of the append that holds the call's `tool.started`, and of
/// nothing else; it is not `Clone`, and [`crate::Toolbox::execute`] uses it up.
pub struct Permit {
    started: Started,
}

impl Permit {
    /// The permit for a call whose `tool.started` the journal has acknowledged.
    pub fn new(_acknowledged: &Appended, started: Started) -> Self {
        Self { started }
    }

    /// What was started.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Uses the permit up.
    pub fn into_started(self) -> Started {
        self.started
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Started { call, tool, attempt, stub, .. } = &self.started;
        write!(f, "Permit({tool}, {call}, attempt {attempt}, stub: {stub})")
    }
}

/// What a call may reach of the session it is made in.
#[derive(Clone)]
pub struct World {
    /// Its files.
    pub files: Arc<dyn Files>,
    /// What its agent remembers.
    pub memory: Arc<dyn Memory>,
    /// Earlier results that were too long to be shown.
    pub results: Arc<dyn Results>,
    /// Other agents.
    pub agents: Arc<dyn Agents>,
}

/// What a call answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The answer: text and images.
    pub content: Vec<Block>,
    /// What it did to the session, in order. Each becomes an event, in the same append as the result.
    pub traces: Vec<Trace>,
    /// The whole answer, when `content` has only its beginning. It becomes a blob when the result becomes an event.
    pub whole: Option<Whole>,
    /// What it wrote to its console; for people, not for the model.
    pub log: Vec<String>,
}

impl Done {
    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// With what it did to the session.
    #[must_use]
    pub fn with_traces(mut self, traces: impl IntoIterator<Item = Trace>) -> Self {
        self.traces.extend(traces);
        self
    }

    /// Its words.
    pub fn words(&self) -> String {
        text_of(&self.content)
    }
}

/// The whole of an answer that is too long to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    hash: Hash,
    content: Bytes,
}

impl Whole {
    /// The whole answer.
    pub fn new(content: Bytes) -> Self {
        Self { hash: Hash::of(&content), content }
    }

    /// The name of its blob.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// What the blob has to hold.
    pub fn into_content(self) -> Bytes {
        self.content
    }
}

/// What a call did to its session, with the fields of the events it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// `file.written`.
    FileWritten {
        /// Where.
        path: String,
        /// The content's blob.
        hash: Hash,
        /// Its permissions.
        mode: u32,
        /// How many bytes.
        size: u64,
    },
    /// `file.deleted`.
    FileDeleted {
        /// Where it was.
        path: String,
    },
    /// `memory.stored`.
    MemoryStored {
        /// The document.
        doc: String,
        /// Its title.
        title: String,
        /// Its tags.
        tags: Vec<String>,
        /// Its content's blob.
        hash: Hash,
    },
    /// `memory.retrieved`.
    MemoryRetrieved {
        /// What was asked.
        query: String,
        /// What was found.
        docs: Vec<String>,
    },
}

/// Why a call did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// A word for how.
    pub class: String,
    /// What the model is told.
    pub message: String,
    /// What is known about its effect.
    pub outcome: Outcome,
    /// What it wrote to its console.
    pub log: Vec<String>,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// It failed.
    Failed(Failed),
    /// The session behind it waits for a person, and so does the call.
    WaitsForApproval,
}

impl From<Failed> for NoResult {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl Failed {
    /// It had no effect.
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class: class.into(), message: message.into(), outcome: Outcome::Failed, log: Vec::new() }
    }

    /// It did not answer in time.
    pub fn late(effect: Effect, deadline: Duration) -> Self {
        let message = format!("no result within {} s", deadline.as_secs_f64());
        match effect {
            Effect::Read => Self::new("timeout", message),
            Effect::Idempotent | Effect::Write => Self::unknown("timeout", message),
        }
    }

    /// It was cancelled while it waited.
    pub(crate) fn before_it_began() -> Self {
        let cancelled = Self::new("cancelled", "it was cancelled before it began; it changed nothing");
        Self { outcome: Outcome::Interrupted, ..cancelled }
    }

    /// Nobody knows whether it had an effect.
    pub fn unknown(class: impl Into<String>, message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Unknown, ..Self::new(class, message) }
    }
}
