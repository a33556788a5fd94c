//! Why a decision about a call was not written down.

use std::borrow::Cow;
use std::fmt;

use weir_types::{CallId, Explain, Fault, Timestamp};

use crate::address::Address;

/// Why a decision about a call was not written down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// It waits for nobody.
    #[error("session {address} asks nobody about call {call}")]
    NotAsked {
        /// The session.
        address: Address,
        /// The call.
        call: CallId,
    },
    /// Somebody was faster.
    #[error("call {call} {how}")]
    Decided {
        /// The session.
        address: Address,
        /// The call.
        call: CallId,
        /// What was decided.
        how: How,
    },
    /// It waited long enough.
    #[error("call {call} waited until {at}, and nobody approved it in time")]
    Late {
        /// The session.
        address: Address,
        /// The call.
        call: CallId,
        /// When its time was over.
        at: Timestamp,
    },
    /// What was approved is not what would run.
    #[error("call {call} waits with other arguments than those that were approved")]
    OtherArguments {
        /// The call.
        call: CallId,
    },
    /// What the approver wants instead may not run.
    #[error("with these arguments the call would be refused: {because}")]
    Edit {
        /// Why, and what would allow it.
        because: String,
    },
    /// The yes would be used up by a dry run.
    #[error(
        "the call of `{tool}` would be a dry run: nothing would happen, and the approval would be used up"
    )]
    WouldPretend {
        /// Its tool.
        tool: String,
    },
    /// A dry run is wanted, and the call would really happen.
    #[error("the call of `{tool}` would not be a dry run here: it would really happen")]
    WouldHappen {
        /// Its tool.
        tool: String,
    },
}

/// What was decided about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// Someone said yes.
    Approved(String),
    /// Someone said no.
    Denied(String),
    /// Nobody said anything in time.
    Expired,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approved(by) => write!(f, "was approved by `{by}` already"),
            Self::Denied(by) => write!(f, "was denied by `{by}` already"),
            Self::Expired => f.write_str("expired: nobody approved it in time"),
        }
    }
}

impl Explain for ApprovalError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotAsked { .. } => "engine::no-approval",
            Self::Decided { .. } => "engine::approval-decided",
            Self::Late { .. } => "engine::approval-expired",
            Self::OtherArguments { .. } => "engine::approval-arguments",
            Self::Edit { .. } => "engine::approval-edit",
            Self::WouldPretend { .. } => "engine::would-pretend",
            Self::WouldHappen { .. } => "engine::would-happen",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotAsked { .. } => "see `weir approvals` for what waits".into(),
            Self::Decided { address, .. } => format!("see `weir session history {address} --all`").into(),
            Self::Late { address, .. } => {
                format!("the agent is told so when it goes on: `weir session resume {address}`").into()
            }
            Self::OtherArguments { .. } => "look at it again with `weir approvals`, then decide".into(),
            Self::Edit { .. } => {
                "change the arguments, approve it as it is, or deny it; it still waits".into()
            }
            Self::WouldPretend { .. } => {
                "let it happen with `--live-writes`, or approve the dry run with `--dry-run`; it still waits"
                    .into()
            }
            Self::WouldHappen { .. } => "approve it without `--dry-run`; it still waits".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotAsked { .. } => Fault::Missing,
            Self::Decided { .. }
            | Self::Late { .. }
            | Self::OtherArguments { .. }
            | Self::WouldPretend { .. }
            | Self::WouldHappen { .. } => Fault::Conflict,
            Self::Edit { .. } => Fault::Input,
        }
    }
}
