//! Who may do what, decided by Cedar. Pure: the same policies and the same request always give the same decision.
//!
//! [`compile`] turns what a project says into Cedar text and tells everything that is wrong with it; [`Policies`] are read
//! from that text and asked. Access (roles and grants) is plain permits. Rules about calls are permits that say in annotations
//! what happens, and in which order they come: the first that matches decides. A `forbid` always wins; what cannot be
//! evaluated denies.
//!
//! ```
//! use std::collections::BTreeMap;
//! use weir_policy::{Agent, AgentRole, Parts, Policies, Source, compile};
//!
//! let acl = vec![("group:engineering".to_owned(), AgentRole::Execute)];
//! let helper = Agent { acl, ..Agent::default() };
//! let source = Source { agents: [("helper".to_owned(), helper)].into(), ..Source::default() };
//! let compiled = compile(&source).unwrap();
//!
//! let groups = BTreeMap::from([("engineering".to_owned(), ["user:ada".to_owned()].into())]);
//! let parts = Parts { text: &compiled.text, written: &BTreeMap::new(), groups: &groups, admins: &[] };
//! let policies = Policies::new(&parts).unwrap();
//! assert!(policies.admit("user:ada", "helper").allowed);
//! assert!(!policies.admit("user:eve", "helper").allowed);
//! ```

mod compile;
mod policies;
mod problem;
mod schema;
mod source;

mod fact;
mod names;
mod principal;
mod text;
mod write;
mod written;

pub use compile::{Compiled, compile};
pub use policies::{Answer, Call, LoadError, Observed, Parts, Permission, Policies, Stored, StoredKind};
pub use problem::{Kind, Place, Problem};
pub use schema::SCHEMA;
pub use source::{
    Agent, AgentRole, Condition, Example, Level, LoopRole, Outcome, Rule, Sample, Source, Test,
};
