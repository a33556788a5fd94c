//! From a project to a manifest.

mod approve;
mod difference;
mod environment;
mod lock;
mod place;
mod script;
mod tree;

pub use approve::{Approve, Command, Nobody, approvals_file};
