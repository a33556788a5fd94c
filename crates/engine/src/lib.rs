//! The half of the loop that acts: sessions, effects, recovery.
//!
//! An [`Engine`] runs sessions: it folds their events, asks the kernel what to do, writes the intent down, does it, and
//! writes down what came of it. Nothing that happens to the process between two steps loses, repeats or wedges a
//! session: whoever takes it up folds again and decides again.

mod address;
mod engine;
mod error;
mod outcome;
mod owners;
mod setup;
mod tools;
mod watch;

mod actor;
mod adopt;
mod draft;
mod input;
mod live;
mod rebuild;
mod replay;
mod shared;
mod store;

pub use address::{Address, stream_of};
pub use engine::{Engine, New, Said};
pub use error::{EngineError, Explained};
pub use live::LiveDelta;
pub use outcome::{Approval, Outcome, StopReason};
pub use owners::{LockFiles, Owners, Standing};
pub use rebuild::Rebuilt;
pub use replay::recorded;
pub use setup::{Adopt, Agents, Options, Runnable, Setup};
pub use tools::{Asked, Decision, Done, Failed, Function, Functions, Permit, Tools, get_time};
pub use watch::{Update, Updates};
