//! Why a call that someone outside asks for was not taken up.

use std::borrow::Cow;

use weir_types::{Explain, Fault};

use crate::address::Address;

/// Why a call that someone outside asks for was not taken up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrandError {
    /// Its run pauses.
    #[error("session {0} is parked")]
    Parked(Address),
    /// Enough of them are under way.
    #[error("session {0} has as many calls from outside under way as it may have")]
    TooMany(Address),
    /// The key stands for something else.
    #[error("the key `{}` was used for another call", .key.escape_debug())]
    Reused {
        /// Which.
        key: String,
    },
}

impl Explain for ErrandError {
    fn code(&self) -> &'static str {
        match self {
            Self::Parked(_) => "engine::parked",
            Self::TooMany(_) => "engine::too-many-calls",
            Self::Reused { .. } => "engine::key-reused",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Parked(address) => format!("see why, and go on: `weir session resume {address}`").into(),
            Self::TooMany(_) => "wait until some of them are done, or were approved".into(),
            Self::Reused { .. } => "use a new key for each call, and the same one only to repeat it".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Parked(_) | Self::TooMany(_) => Fault::Conflict,
            Self::Reused { .. } => Fault::Input,
        }
    }
}
