//! The server side of MCP: what an [`Offer`] has, spoken to any client over HTTP.
//!
//! A [`Door`] is one endpoint. It knows the protocol and its sessions, and that a session belongs to whoever began it; what is
//! offered, and to whom, is said by its caller, request by request.

mod content;
mod door;
mod fixtures;
mod offer;
mod sessions;
mod speak;

pub use door::{Door, Lifecycle, Reply, Rules};
pub use fixtures::conformance_fixtures;
pub use offer::{About, Ask, Asking, Given, Hints, Incoming, Offer, Offered, Progress, Refusal};
pub use sessions::Owner;
