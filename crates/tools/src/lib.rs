//! Tools: the one gate between an agent and the world.
//!
//! [`Toolbox::authorize`] decides whether a call may run and has no effect. [`Toolbox::execute`] is the only door: it takes
//! a [`Permit`], and a permit is only made from the journal's acknowledgement of the event that says the call starts. What
//! tools need of a session (its files, its memory, other agents, servers) they ask for through the traits of [`World`]
//! and [`Servers`], which the engine implements.

mod call;
mod decision;
mod offer;
mod toolbox;

mod bound;
mod gate;
mod live;
mod schema;

mod agents;
mod files;
mod memory;
mod results;
mod servers;

mod builtin;
mod hook;
pub mod net;
mod sandbox;
mod script;

pub use agents::Agents;
pub use builtin::Builtin;
pub use call::{Asked, Done, Failed, NoResult, Permit, Started, Trace, Whole, World};
pub use decision::Decision;
pub use files::{Edit, FileInfo, Files, FilesError};
pub use gate::{Gate, Request, Stored, StoredKind};
pub use hook::{Asking, HookError};
pub use live::{CallsForReal, Live};
pub use memory::{Memory, MemoryError, Note, Remembered};
pub use net::Net;
pub use offer::{Kind, Offer};
pub use results::Results;
pub use sandbox::{
    Captured, End, Enforcement, Job, Limits, Ran, Room, SUBCOMMAND, Sandbox, SandboxError, Stop, Support,
    sandbox_exec,
};
pub use script::{Bundle, Module, judge};
pub use servers::{NoSecrets, Redact, ServerCall, Servers};
pub use toolbox::{DEPTH_MAX, Setup, Toolbox};
pub use weir_types::Level;
