//! The pure half of the loop: `fold(events)` is the state of a session, `decide(state)` is what it does next.
//!
//! Nothing here performs I/O, reads a clock, draws randomness or waits. Time and ids arrive inside events. Crash,
//! restart, fork, replay and audit are all *fold again and decide again*.
//!
//! ```
//! use weir_events::{Body, UserMessage};
//! use weir_kernel::{Agent, At, Limits, Next, Session, decide};
//! use weir_types::{Block, Catalog, EventId, Seq, Timestamp};
//!
//! let (model, card) = Catalog::default().find("offline/echo")?;
//! let agent = Agent {
//!     name: "parrot".into(), model, card, system: String::new(), tools: vec![], limits: Limits::default(),
//! };
//! let mut session = Session::default();
//! assert_eq!(decide(&session, &agent, Timestamp::default()), Next::Rest);
//!
//! let said = UserMessage { content: vec![Block::text("hello")], runtime: Default::default(), history: None };
//! let at = At { seq: Seq(1), ts: Timestamp::default(), id: EventId::from_u128(1), held_us: None };
//! session.apply_body(at, &Body::from(said));
//! assert_eq!(decide(&session, &agent, Timestamp::default()), Next::StartRun);
//! # Ok::<(), weir_types::CatalogError>(())
//! ```

mod agent;
mod decide;
mod fold;
mod purse;
mod repeats;
mod session;
#[cfg(test)]
mod story;

pub mod app;
pub mod compact;
pub mod render;
pub mod system;
pub mod tokens;
pub mod window;

pub use agent::{Agent, Limits, Tool};
pub use decide::{Closing, Next, ToolUse, decide, retries, time_left_ms};
pub use fold::{At, CUT_OFF, ERRANDS_MAX, FoldError, Now};
pub use purse::{Pending, Purse};
pub use repeats::Repeats;
pub use session::{
    Activity, AssistantEntry, Call, CallResult, CallState, Compaction, Ended, Ending, Entry, InFlight,
    Lifecycle, Phase, Run, Session, Spent, StandingApproval, Summary, Transcript, UserEntry,
};

/// Raised whenever the fold or the shape of [`Session`] changes, so that no snapshot of another version is used.
pub const FOLD_VERSION: u32 = 6;
