//! MCP servers. The engine implements it, credentials included: no secret comes through here.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use weir_types::{Block, Json};

use crate::call::{Done, Failed};

/// The MCP servers of a project.
pub trait Servers: Send + Sync {
    /// Calls a tool of a server on somebody's behalf.
    fn call(&self, call: ServerCall) -> BoxFuture<'static, Result<Done, Failed>>;
}

/// What takes secrets out of whatever a tool answers, before anything of it is kept or shown.
pub trait Redact: Send + Sync {
    /// Words without secrets.
    fn words(&self, words: String) -> String;

    /// The same for blocks.
    fn blocks(&self, blocks: Vec<Block>) -> Vec<Block>;
}

/// For tools that are given no secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl Redact for NoSecrets {
    fn words(&self, words: String) -> String {
        words
    }

    fn blocks(&self, blocks: Vec<Block>) -> Vec<Block> {
        blocks
    }
}

/// One call of a server's tool.
#[derive(Clone, Debug)]
pub struct ServerCall {
    /// The server, as specs name it.
    pub server: String,
    /// The tool, as the server names it.
    pub tool: String,
    /// The tool, as the model knows it; for messages.
    pub shown_as: String,
    /// On whose behalf.
    pub principal: String,
    /// The groups they came with, besides those of the build.
    pub groups: Vec<String>,
    /// The arguments.
    pub arguments: Json,
    /// The same for every attempt.
    pub key: String,
    /// How long it may take.
    pub deadline: Duration,
    /// Becomes cancelled when the run is.
    pub cancelled: CancellationToken,
}
