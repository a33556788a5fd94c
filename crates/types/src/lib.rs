//! The words every other crate speaks: names, ids, hashes, times and the event envelope.
//!
//! Nothing here performs I/O, reads a clock or draws randomness: a value of one of these types has been checked
//! once, when it was made, and is the proof of that check from then on.
//!
//! ```
//! use weir_types::{BranchId, Hash, StreamName};
//!
//! let stream: StreamName = "session:01J9ZD".parse()?;
//! let main = BranchId::main(stream);
//! assert_eq!(main.to_string(), "session:01J9ZD@main");
//! assert!("tab\there".parse::<StreamName>().is_err());
//! assert_eq!(Hash::of(b"").to_string()[..8], *"e3b0c442");
//! # Ok::<(), weir_types::NameError>(())
//! ```

mod block;
mod catalog;
mod chain;
mod event;
mod explain;
mod failure;
mod hash;
mod id;
mod identity;
mod json;
mod meta;
mod name;
mod request;
mod reserved;
mod sandbox_profile;
mod secret;
mod secret_ref;
mod stop;
mod time;
mod tool;
mod usage;
mod who;
pub mod wildcard;

pub use block::{Block, Sent, Source, View, text_of};
pub use catalog::{Catalog, CatalogError, ModelCard, Wire};
pub use chain::{ChainInput, PAYLOAD_INLINE_MAX};
pub use event::{Event, Position, Seq};
pub use explain::{Explain, Fault};
pub use failure::{FailureClass, FailureClassError};
pub use hash::{Hash, HashError, Hasher};
pub use id::{CallId, EventId, IdError, OwnerId, RunId, SessionId};
pub use identity::IDENTITY_FILES;
pub use json::Json;
pub use meta::{Meta, MetaError};
pub use name::{BranchId, BranchName, Kind, NameError, StreamName};
pub use request::{Answer, Message, Purpose, Request, Role, Stop, ToolDefinition};
pub use reserved::{RESERVED_STREAMS, is_reserved_stream};
pub use sandbox_profile::SandboxProfile;
pub use secret::Secret;
pub use secret_ref::{SecretRef, SecretRefError};
pub use stop::StopReason;
pub use time::{TimeError, Timestamp};
pub use tool::{
    ApprovalTerms, Effect, Escalate, GateStep, Level, Observed, OnInterrupt, Outcome, Risk, Saw, Verdict,
};
pub use usage::{MoneyError, NanoUsd, Price, Usage};
pub use who::{Who, Whose};
