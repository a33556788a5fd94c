//! Other agents, as sessions of their own. The engine implements it.

use futures_util::future::BoxFuture;
use weir_types::SessionId;

use crate::call::{Done, NoResult};

/// The other agents of a project.
pub trait Agents: Send + Sync {
    /// Runs a child session that has begun, or joins it where it is, until it rests.
    fn attend(&self, child: SessionId) -> BoxFuture<'static, Result<Done, NoResult>>;
}
