//! The table of all kinds, and what is derived from it.
//!
//! `cargo xtask tidy` reads the names in this file and finds them as text anywhere else in the sources.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_types::Kind;

use crate::approval::*;
use crate::blob::*;
use crate::budget::*;
use crate::conversation::*;
use crate::deployment::*;
use crate::files::*;
use crate::ingested::*;
use crate::memory::*;
use crate::model::*;
use crate::request::*;
use crate::run::*;
use crate::schedule::*;
use crate::session::*;
use crate::token::*;
use crate::tool::*;

/// What the events of one kind say.
pub trait Payload: Clone + Debug + PartialEq + Serialize + DeserializeOwned {
    /// The name of the kind.
    const KIND: &'static str;

    /// The kind.
    #[expect(clippy::expect_used, reason = "a test reads every name of the table")]
    fn kind() -> Kind {
        Self::KIND.parse().expect("every kind of the table is a valid name")
    }

    /// The payload, as it is stored.
    ///
    /// # Errors
    /// Never for valid values; serde cannot promise it.
    fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

/// Who may write events of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The runtime alone; a session's events are written by the process that owns it.
    Runtime,
    /// The runtime, in any process, for each caller who may speak to the session.
    Speaker,
    /// The runtime, and each client in its own streams. The kind counts only in the runtime's stream.
    Anyone,
}

/// Whether `hooks.pre_append` may refuse events of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookRight {
    /// It says what comes from outside, so a hook may refuse it.
    MayRefuse,
    /// It says what happened, or what was decided or stopped. That stays so.
    NotAsked,
}

/// One kind of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindEntry {
    /// Its name.
    pub name: &'static str,
    /// The name of its payload's type.
    pub payload: &'static str,
    /// Who may write it.
    pub writer: Writer,
    /// Whether a hook may refuse it.
    pub hook: HookRight,
}

macro_rules! kinds {
    (
        bodies { $($kind:literal $name:ident $writer:ident $hook:ident;)* }
        others { $($other_kind:literal $other_name:ident $other_writer:ident $other_hook:ident;)* }
    ) => {
        /// Every kind that the runtime writes.
        pub const KINDS: &[KindEntry] = &[
            $(entry($kind, stringify!($name), Writer::$writer, HookRight::$hook),)*
            $(entry($other_kind, stringify!($other_name), Writer::$other_writer, HookRight::$other_hook),)*
        ];

        $(impl Payload for $name {
            const KIND: &'static str = $kind;
        })*

        $(impl Payload for $other_name {
            const KIND: &'static str = $other_kind;
        })*

        $(impl From<$name> for Body {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        })*

        /// What an event of a session, a purse or a loop says.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body {
            $(#[doc = concat!("`", $kind, "`")] $name($name),)*
        }

        impl Body {
            /// Every kind of these.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The name of its kind.
            pub const fn kind_str(&self) -> &'static str {
                match self { $(Self::$name(_) => $kind,)* }
            }

            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$name(_) => $name::kind(),)* }
            }

            /// The payload, as it is stored.
            ///
            /// # Errors
            /// Never for a body that holds valid values; serde cannot promise it.
            pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
                match self { $(Self::$name(body) => body.encode(),)* }
            }

            /// What a stored payload says; `None` for a kind that is not one of these.
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

kinds! {
bodies {
    "session.created"         SessionCreated       Runtime  MayRefuse;
    "session.updated"         SessionUpdated       Runtime  MayRefuse;
    "session.resumed"         SessionResumed       Runtime  NotAsked;
    "session.released"        SessionReleased      Runtime  NotAsked;
    "session.halted"          SessionHalted        Speaker  NotAsked;
    "session.closed"          SessionClosed        Speaker  NotAsked;
    "branch.forked"           BranchForked         Runtime  NotAsked;
    "branch.merged"           BranchMerged         Runtime  NotAsked;
    "user.message"            UserMessage          Speaker  MayRefuse;
    "external.signal"         ExternalSignal       Speaker  MayRefuse;
    "run.started"             RunStarted           Runtime  NotAsked;
    "iteration.started"       IterationStarted     Runtime  NotAsked;
    "model.requested"         ModelRequested       Runtime  NotAsked;
    "model.failed"            ModelFailed          Runtime  NotAsked;
    "text.delta"              TextDelta            Runtime  NotAsked;
    "assistant.message"       AssistantMessage     Runtime  NotAsked;
    "state.patched"           StatePatched         Runtime  NotAsked;
    "context.compacted"       ContextCompacted     Runtime  NotAsked;
    "run.finished"            RunFinished          Runtime  NotAsked;
    "run.errored"             RunErrored           Runtime  NotAsked;
    "run.cancel_requested"    RunCancelRequested   Speaker  NotAsked;
    "run.cancelled"           RunCancelled         Runtime  NotAsked;
    "run.parked"              RunParked            Runtime  NotAsked;
    "tool.requested"          ToolRequested        Runtime  NotAsked;
    "tool.decided"            ToolDecided          Runtime  NotAsked;
    "tool.started"            ToolStarted          Runtime  NotAsked;
    "tool.completed"          ToolCompleted        Runtime  NotAsked;
    "tool.failed"             ToolFailed           Runtime  NotAsked;
    "approval.requested"      ApprovalRequested    Runtime  NotAsked;
    "approval.granted"        ApprovalGranted      Speaker  MayRefuse;
    "approval.denied"         ApprovalDenied       Speaker  NotAsked;
    "approval.expired"        ApprovalExpired      Speaker  NotAsked;
    "memory.stored"           MemoryStored         Runtime  NotAsked;
    "memory.retrieved"        MemoryRetrieved      Runtime  NotAsked;
    "file.written"            FileWritten          Runtime  MayRefuse;
    "file.deleted"            FileDeleted          Runtime  MayRefuse;
    "snapshot.taken"          SnapshotTaken        Runtime  NotAsked;
    "budget.reserved"         BudgetReserved       Runtime  NotAsked;
    "budget.settled"          BudgetSettled        Runtime  NotAsked;
    "budget.released"         BudgetReleased       Runtime  NotAsked;
    "budget.carried"          BudgetCarried        Runtime  NotAsked;
    "budget.exceeded"         BudgetExceeded       Runtime  NotAsked;
    "lane.chosen"             LaneChosen           Runtime  NotAsked;
    "lane.rolled_back"        LaneRolledBack       Runtime  NotAsked;
    "loop.fired"              LoopFired            Runtime  NotAsked;
    "loop.skipped"            LoopSkipped          Runtime  NotAsked;
    "loop.finished"           LoopFinished         Runtime  NotAsked;
}
others {
    "deployment.made"         DeploymentMade       Anyone   MayRefuse;
    "token.issued"            TokenIssued          Anyone   MayRefuse;
    "token.revoked"           TokenRevoked         Anyone   MayRefuse;
    "request.received"        RequestReceived      Anyone   MayRefuse;
    "request.answered"        RequestAnswered      Anyone   MayRefuse;
    "request.taken"           RequestTaken         Anyone   MayRefuse;
    "request.released"        RequestReleased      Anyone   MayRefuse;
    "blob.stored"             BlobStored           Anyone   MayRefuse;
    "ingested.begun"          IngestedBegun        Anyone   MayRefuse;
    "ingested.step"           IngestedStep         Anyone   MayRefuse;
    "ingested.text"           IngestedText         Anyone   MayRefuse;
    "ingested.part"           IngestedPart         Anyone   MayRefuse;
    "ingested.called"         IngestedCalled       Anyone   MayRefuse;
    "ingested.answered"       IngestedAnswered     Anyone   MayRefuse;
    "ingested.failed"         IngestedFailed       Anyone   MayRefuse;
    "ingested.asked"          IngestedAsked        Anyone   MayRefuse;
    "ingested.reset"          IngestedReset        Anyone   MayRefuse;
    "ingested.finished"       IngestedFinished     Anyone   MayRefuse;
    "ingested.broken"         IngestedBroken       Anyone   MayRefuse;
    "ingested.event"          IngestedEvent        Anyone   MayRefuse;
}
}

/// Whether clients may not write events of this `kind` by generic append and ingest.
pub fn is_reserved_kind(kind: &Kind) -> bool {
    find(kind.as_str()).is_some_and(|entry| entry.writer != Writer::Anyone)
}

/// Whether a caller who may speak to a session may write events of this `kind` into it, without owning it.
pub fn is_input_kind(kind: &str) -> bool {
    find(kind).is_some_and(|entry| entry.writer == Writer::Speaker)
}

/// Whether a hook may refuse an event of this `kind` that comes from outside.
pub fn is_refusable_kind(kind: &str) -> bool {
    find(kind).is_none_or(|entry| entry.hook == HookRight::MayRefuse)
}

/// The reserved kinds that a hook may refuse.
pub fn refusable_kinds() -> impl Iterator<Item = &'static str> {
    let refusable = |entry: &&KindEntry| entry.writer != Writer::Anyone && entry.hook == HookRight::MayRefuse;
    KINDS.iter().filter(refusable).map(|entry| entry.name)
}

fn find(kind: &str) -> Option<&'static KindEntry> {
    KINDS.iter().find(|entry| entry.name == kind)
}

const fn entry(name: &'static str, payload: &'static str, writer: Writer, hook: HookRight) -> KindEntry {
    KindEntry { name, payload, writer, hook }
}
