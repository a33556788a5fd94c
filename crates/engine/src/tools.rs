//! The seam to the tools: `authorize` has no effect, `execute` is the only door to the world, and a [`Permit`] is only
//! made once the event that says the call starts is durable.

mod functions;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use weir_kernel::{Call, Outcome, Verdict};
use weir_types::{Block, Json, Timestamp};

use crate::address::Address;

pub use functions::{Function, Functions, get_time};

/// What stands between a call and the world.
pub trait Tools: Send + Sync + 'static {
    /// Whether a call may run. Has no effect.
    fn authorize<'a>(&'a self, asked: Asked<'a>) -> BoxFuture<'a, Decision>;

    /// Runs a call that may.
    fn execute(&self, permit: Permit) -> BoxFuture<'static, Result<Done, Failed>>;
}

/// A call, and who wants it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The call.
    pub call: &'a Call,
    /// The session it is made in.
    pub address: &'a Address,
    /// The agent that makes it.
    pub agent: &'a str,
    /// On whose behalf.
    pub principal: &'a str,
    /// Who approved it, if someone did, with exactly these arguments.
    pub approved_by: Option<&'a str>,
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether.
    pub verdict: Verdict,
    /// Which rule said so.
    pub rule: Option<String>,
    /// Why, and what would change it.
    pub because: String,
    /// Whether it only pretends.
    pub stub: bool,
    /// When a request for approval becomes void.
    pub expires: Option<Timestamp>,
}

impl Decision {
    /// It may.
    pub fn allow(because: impl Into<String>) -> Self {
        Self { verdict: Verdict::Allow, rule: None, because: because.into(), stub: false, expires: None }
    }

    /// It may not.
    pub fn deny(because: impl Into<String>) -> Self {
        Self { verdict: Verdict::Deny, ..Self::allow(because) }
    }

    /// It may if someone says so.
    pub fn ask(rule: impl Into<String>, because: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ask, rule: Some(rule.into()), ..Self::allow(because) }
    }
}

/// Leave to run one call once. Only the engine makes one, and only from a durable `tool.started`.
#[derive(Debug)]
pub struct Permit {
    pub(crate) address: Address,
    pub(crate) principal: String,
    pub(crate) tool: String,
    pub(crate) source: String,
    pub(crate) input: Json,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) stub: bool,
    pub(crate) cancelled: CancellationToken,
}

impl Permit {
    /// The session the call is made in.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// On whose behalf.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The tool.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Where the tool comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The arguments.
    pub fn input(&self) -> &Json {
        &self.input
    }

    /// The same for every attempt of the call: what makes repeating it harmless.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// From 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether it must only pretend.
    pub fn is_stub(&self) -> bool {
        self.stub
    }

    /// Becomes cancelled when the run is. The future is dropped soon after.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }
}

/// What a call answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The answer: text and images.
    pub content: Vec<Block>,
    /// Files it changed.
    pub changed_files: Vec<String>,
}

impl Done {
    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], changed_files: Vec::new() }
    }
}

/// Why a call did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// A word for how.
    pub class: String,
    /// What the model is told.
    pub message: String,
    /// What is known about its effect.
    pub outcome: Outcome,
}

impl Failed {
    /// It had no effect.
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class: class.into(), message: message.into(), outcome: Outcome::Failed }
    }
}
