//! The vocabulary of the journal: every kind of event that the runtime writes, and the payload of each.
//!
//! [`KINDS`] lists the kinds, with their writers and payloads. Each payload is a struct with the trait [`Payload`],
//! in a module per topic. [`Body`] is any payload that the state of a session or a purse is folded from.
//!
//! Payloads are stored. This version ignores fields that a later one adds. A new field is optional and is left out
//! where it says nothing, so that an old payload is written the same again.
//!
//! Nothing here performs I/O, reads a clock or decides anything.
//!
//! ```
//! use weir_events::{Body, Payload, RunErrored, is_reserved_kind};
//! use weir_types::FailureClass;
//!
//! let errored = RunErrored { class: FailureClass::Transport, message: "it hung up".into() };
//! assert_eq!(RunErrored::KIND, "run.errored");
//! assert!(is_reserved_kind(&RunErrored::kind()));
//! let stored = errored.encode()?;
//! assert_eq!(stored, br#"{"class":"transport","message":"it hung up"}"#);
//! assert_eq!(Body::decode(&RunErrored::kind(), &stored)?, Some(Body::from(errored)));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod about;
mod skip;
mod table;

pub mod approval;
pub mod blob;
pub mod budget;
pub mod conversation;
pub mod deployment;
pub mod files;
pub mod ingested;
pub mod memory;
pub mod model;
pub mod request;
pub mod run;
pub mod schedule;
pub mod session;
pub mod token;
pub mod tool;

pub use about::About;
pub use approval::*;
pub use blob::*;
pub use budget::*;
pub use conversation::*;
pub use deployment::*;
pub use files::*;
pub use ingested::*;
pub use memory::*;
pub use model::*;
pub use request::*;
pub use run::*;
pub use schedule::*;
pub use session::*;
pub use table::{
    Body, HookRight, KINDS, KindEntry, Payload, Writer, is_input_kind, is_refusable_kind, is_reserved_kind,
    refusable_kinds,
};
pub use token::*;
pub use tool::*;
