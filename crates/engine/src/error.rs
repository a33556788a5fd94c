//! Why the engine did not do what it was asked to.

use std::borrow::Cow;
use std::sync::Arc;

use weir_blobs::{GetError, PutError};
use weir_events::{Allowance, Limit};
use weir_journal::{AppendError, ForkError, ReadError};
use weir_kernel::FoldError;
use weir_models::ModelError;
use weir_types::{Explain, Fault, StreamName};

use crate::address::Address;
use crate::approvals::ApprovalError;
use crate::errands::ErrandError;
use crate::outcome::amount;
use crate::unstored::Unstored;

/// Any error that can explain itself and travel between tasks.
pub type Explained = Arc<dyn Explain + Send + Sync>;

/// Why the engine did not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// Another process runs the session.
    #[error("session {address} is being run by {}", show_pid(*.pid))]
    Owned {
        /// The session.
        address: Address,
        /// That process, if it is on this machine.
        pid: Option<u32>,
    },
    /// There is no such session or branch.
    #[error("there is no session {0}")]
    NoSession(Address),
    /// A session with that id exists.
    #[error("session {0} exists already")]
    Exists(Address),
    /// It was closed.
    #[error("session {0} is closed")]
    Closed(Address),
    /// It was halted.
    #[error("session {0} is halted")]
    Halted(Address),
    /// There is nothing to go on with.
    #[error("session {0} has nothing to go on with")]
    NothingToResume(Address),
    /// A run of it is under way.
    #[error("session {0} is at work")]
    Busy(Address),
    /// Someone may not do this.
    #[error("{0}")]
    Denied(String),
    /// Somebody who is asked before something from outside is written down said no.
    #[error("`{hook}` refuses this {kind}: {why}")]
    Refused {
        /// What was to be written down.
        kind: String,
        /// Who says no.
        hook: String,
        /// In its words.
        why: String,
    },
    /// A decision about a call does not fit.
    #[error("{0}")]
    Approval(#[from] ApprovalError),
    /// A call that someone outside asks for cannot be taken up.
    #[error("{0}")]
    Errand(#[from] ErrandError),
    /// Its agent cannot be had.
    #[error("{0}")]
    Agent(Explained),
    /// A request cannot be made for this model.
    #[error("{0}")]
    Model(Arc<ModelError>),
    /// The journal refused.
    #[error("{0}")]
    Append(Arc<AppendError>),
    /// The journal cannot be read.
    #[error("{0}")]
    Read(Arc<ReadError>),
    /// The branch cannot be made.
    #[error("{0}")]
    Fork(Arc<ForkError>),
    /// A blob cannot be stored.
    #[error("{0}")]
    PutBlob(Arc<PutError>),
    /// A blob cannot be read.
    #[error("{0}")]
    GetBlob(Arc<GetError>),
    /// An event makes no sense.
    #[error("session {address} cannot be read: {source}")]
    Unreadable {
        /// The session.
        address: Address,
        /// The event.
        source: Arc<FoldError>,
    },
    /// An event of a purse makes no sense.
    #[error("the purse `{stream}` cannot be read: {source}")]
    Purse {
        /// Its stream.
        stream: StreamName,
        /// The event.
        source: Arc<FoldError>,
    },
    /// No limit had stopped it.
    #[error("session {0} was not stopped by a limit that a budget could raise")]
    NothingToRaise(Address),
    /// A limit of its run had stopped it, and nobody gave it more.
    #[error("session {address} was stopped by a limit of its run, and goes on only with more: {}", amounts(.budget))]
    NeedsBudget {
        /// The session.
        address: Address,
        /// As much again.
        budget: Allowance,
    },
    /// The file that shows this process to be alive cannot be made.
    #[error("cannot register this process in `{path}`")]
    Register {
        /// The directory.
        path: String,
        /// Why.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// There is no such request.
    #[error("session {address} has made {count} model requests; there is no request {n}")]
    NoRequest {
        /// The session.
        address: Address,
        /// As asked for.
        n: usize,
        /// How many there are.
        count: usize,
    },
    /// The session stopped because its newest events could not be stored.
    #[error("{0}")]
    Unstored(Arc<Unstored>),
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    Stopping,
}

/// What a budget gives, in words.
fn amounts(budget: &Allowance) -> String {
    let named = [
        (Limit::Usd, budget.nano.map(|nano| nano.0)),
        (Limit::Tokens, budget.tokens),
        (Limit::ModelCalls, budget.model_calls),
        (Limit::WallClock, budget.wall_clock_ms),
    ];
    let given = named.into_iter().filter_map(|(limit, number)| Some(amount(limit, number?)));
    given.collect::<Vec<_>>().join(", ")
}

fn show_pid(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl Explain for EngineError {
    fn code(&self) -> &'static str {
        match self {
            Self::Owned { .. } => "engine::owned",
            Self::NoSession(_) => "engine::no-session",
            Self::Exists(_) => "engine::exists",
            Self::Closed(_) => "engine::closed",
            Self::Halted(_) => "engine::halted",
            Self::NothingToResume(_) => "engine::nothing-to-resume",
            Self::Busy(_) => "engine::busy",
            Self::Denied(_) => "engine::denied",
            Self::Refused { .. } => "engine::refused",
            Self::Unreadable { .. } => "engine::unreadable",
            Self::Purse { .. } => "engine::purse",
            Self::NothingToRaise(_) => "engine::nothing-to-raise",
            Self::NeedsBudget { .. } => "engine::needs-budget",
            Self::Register { .. } => "engine::register",
            Self::NoRequest { .. } => "engine::no-request",
            Self::Unstored(error) => error.code(),
            Self::Stopping => "engine::stopping",
            Self::Approval(error) => error.code(),
            Self::Errand(error) => error.code(),
            Self::Agent(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::Append(error) => error.code(),
            Self::Read(error) => error.code(),
            Self::Fork(error) => error.code(),
            Self::PutBlob(error) => error.code(),
            Self::GetBlob(error) => error.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Owned { address, .. } => format!(
                "wait for it, say something to it with `weir session message {address} TEXT`, or stop it with \
                 `weir session cancel {address}`"
            )
            .into(),
            Self::NoSession(_) => "see `weir session list`".into(),
            Self::Exists(_) => "leave the id out to get a new one".into(),
            Self::Closed(_) => "begin a new session, or fork this one at an event before it was closed".into(),
            Self::Halted(address) => format!("go on with `weir session resume {address}`").into(),
            Self::NothingToResume(address) => format!("say something: `weir chat AGENT --session {address}`").into(),
            Self::Busy(address) => format!(
                "wait until it rests, or stop it with `weir session cancel {address}`; if a crash has cut it off, go on with \
                 `weir session resume {address}`"
            )
            .into(),
            Self::Denied(_) => "ask an administrator of the data directory; nothing was done".into(),
            Self::Refused { .. } => {
                "mend what it says, or the hook under `hooks.pre_append` in weir.yaml; nothing was written down".into()
            }
            Self::NothingToRaise(address) => format!("see why it stopped with `weir session show {address}`, and resume it without giving it more").into(),
            Self::NeedsBudget { address, .. } => format!(
                "an administrator of the data directory may give it: `weir session resume {address} --budget NAME=AMOUNT`, or \
                 `{{\"budget\": …}}` over HTTP"
            )
            .into(),
            Self::Unreadable { .. } | Self::Purse { .. } => {
                "it was written by a newer version, or damaged: update weir, or run `weir verify`".into()
            }
            Self::Register { .. } => "check free space and permissions with `weir doctor`".into(),
            Self::NoRequest { address, .. } => format!("see `weir session show {address}`").into(),
            Self::Unstored(error) => error.help(),
            Self::Stopping => "see what is stored with `weir session list`; what was under way goes on with `weir session resume ID`, or when a server starts".into(),
            Self::Approval(error) => error.help(),
            Self::Errand(error) => error.help(),
            Self::Agent(error) => error.help(),
            Self::Model(error) => error.help(),
            Self::Append(error) => error.help(),
            Self::Read(error) => error.help(),
            Self::Fork(error) => error.help(),
            Self::PutBlob(error) => error.help(),
            Self::GetBlob(error) => error.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Owned { .. }
            | Self::Exists(_)
            | Self::Closed(_)
            | Self::Halted(_)
            | Self::Busy(_)
            | Self::NeedsBudget { .. } => Fault::Conflict,
            Self::Denied(_) | Self::Refused { .. } => Fault::Denied,
            Self::NoSession(_)
            | Self::NothingToResume(_)
            | Self::NothingToRaise(_)
            | Self::NoRequest { .. } => Fault::Missing,
            Self::Unreadable { .. } | Self::Purse { .. } => Fault::Damaged,
            Self::Register { .. } | Self::Stopping => Fault::Storage,
            Self::Unstored(error) => error.fault(),
            Self::Approval(error) => error.fault(),
            Self::Errand(error) => error.fault(),
            Self::Agent(error) => error.fault(),
            Self::Model(error) => error.fault(),
            Self::Append(error) => error.fault(),
            Self::Read(error) => error.fault(),
            Self::Fork(error) => error.fault(),
            Self::PutBlob(error) => error.fault(),
            Self::GetBlob(error) => error.fault(),
        }
    }
}

impl EngineError {
    /// Whether what is stored of a session, or of something that it needs, is damaged: other sessions can be read all the same.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Unreadable { .. } | Self::Purse { .. } => true,
            Self::Read(error) => error.is_damage(),
            _ => false,
        }
    }
}

macro_rules! from_error {
    ($($variant:ident($error:ty),)*) => { $(
        impl From<$error> for EngineError {
            fn from(error: $error) -> Self {
                Self::$variant(Arc::new(error))
            }
        }
    )* };
}

from_error! {
    Model(ModelError),
    Append(AppendError),
    Read(ReadError),
    Fork(ForkError),
    PutBlob(PutError),
    GetBlob(GetError),
}
