//! The server: every client people already have can talk to a Weir agent.
//!
//! It turns protocols into calls of the engine, and errors into replies. It decides nothing by itself: who asks is found out
//! by [`auth`], what they may see by `access`, and everything else by the engine and the policy of the build.

mod app;
mod error;
mod extract;
#[cfg(test)]
mod fixture;
mod router;

mod access;
mod api;
pub mod auth;
mod branches;
mod compat;
mod decisions;
pub mod formats;
mod guard;
mod idempotency;
pub mod ingest;
mod mcp;
mod media;
mod metrics;
mod percent;
mod saying;
mod serve;
mod stream;
mod ui;

pub use app::{App, Build, Builds, Parts, Settings};
pub use error::Error;
pub use guard::{is_host, is_origin};
pub use mcp::{BridgeSecretError, bridge_token, check_bridge_secret};
pub use router::{document, router};
pub use serve::serve;
