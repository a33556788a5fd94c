//! A tool as an agent has it: what the model sees, where it comes from, and how strict to be with it.

use std::sync::Arc;
use std::time::Duration;

use weir_types::{Effect, Json, Level, Risk, ToolDefinition};

use crate::builtin::Builtin;
use crate::script::Bundle;

/// A tool as an agent has it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What the model sees.
    pub definition: ToolDefinition,
    /// Where it comes from, as specs name it: `bash`, `tools/…`, `weir://…`, `mcp://…`.
    pub source: String,
    /// What it is.
    pub kind: Kind,
    /// The highest level its entry offers.
    pub access: Level,
    /// What repeating a call does, at worst.
    pub effect: Effect,
    /// How bad a wrong call can be.
    pub risk: Risk,
    /// The hosts it may reach, where that is for us to say.
    pub hosts: Vec<String>,
    /// How long one call may take, if not as long as the calls of other tools.
    pub timeout: Option<Duration>,
    /// How much processor time one call of a script may use; all of its time, if absent.
    pub cpu: Option<Duration>,
}

/// The four kinds of tools.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Comes with the program.
    Builtin(Builtin),
    /// A script of the project.
    Script(Arc<Bundle>),
    /// A tool of an MCP server.
    Server {
        /// What the server calls it.
        remote_name: String,
    },
    /// Another agent.
    Agent(String),
}

impl Kind {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Builtin(_) => "builtin",
            Self::Script(_) => "script",
            Self::Server { .. } => "mcp",
            Self::Agent(_) => "agent",
        }
    }
}

impl Offer {
    /// What repeating this very call does.
    pub fn effect_of(&self, input: &Json) -> Effect {
        match &self.kind {
            // An entry that offers reading says what its tool may be used for, not what every call of it does.
            Kind::Builtin(Builtin::Http) if self.access == Level::Read => {
                Builtin::Http.effect_of(input).unwrap_or(Effect::Write)
            }
            Kind::Builtin(builtin) => builtin.effect_of(input).unwrap_or(self.effect),
            Kind::Script(_) | Kind::Server { .. } | Kind::Agent(_) => self.effect,
        }
    }

    /// The agent behind it, if there is one.
    pub fn callee(&self) -> Option<&str> {
        match &self.kind {
            Kind::Agent(callee) => Some(callee),
            Kind::Builtin(_) | Kind::Script(_) | Kind::Server { .. } => None,
        }
    }

    /// Whether a call of it can change anything but its own session, which is versioned and can be thrown away. What an
    /// agent's session does passes the gate there.
    pub fn is_contained(&self) -> bool {
        match &self.kind {
            Kind::Builtin(builtin) => builtin.is_contained(),
            Kind::Agent(_) => true,
            Kind::Script(_) | Kind::Server { .. } => false,
        }
    }
}
