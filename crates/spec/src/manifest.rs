//! What a project is built into: one document with everything that a server needs, and nothing that it does not.
//!
//! A manifest is canonical JSON, so that the same project is the same bytes and the same hash on every machine. Money is
//! in billionths of a dollar and time in milliseconds: there is no float of ours in it. Secrets are only ever named.

mod agent;
mod error;
mod source;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_types::{Hash, ModelCard};

pub(crate) use self::agent::millis;
pub use self::agent::{Agent, Identity, Limits, Loop, Tool};
pub use self::error::ManifestError;
pub use self::source::{Definition, McpSource, Module, ScriptTool, Skill, SkillTool, Source, Transport};
use crate::canonical;
use crate::rules::{Budget, Hooks, Routing, Rule, Scope};
use crate::script::Script;
use crate::{Access, Credential, Principal};

/// The version that this crate reads and writes.
pub const VERSION: u32 = 1;

/// The largest manifest that is read.
pub const BYTES_MAX: usize = 256 * 1024 * 1024;

/// A project, resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this format.
    pub version: u32,
    /// The project's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What identifies everything it was made of.
    pub input: Hash,
    /// The agents, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, Agent>,
    /// The models of the agents, by their full names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelCard>,
    /// What scripted models answer from, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scripts: BTreeMap<String, Script>,
    /// The loops, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loops: BTreeMap<String, Loop>,
    /// Where tools come from, as agents list it: `mcp://…`, `tools/…`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, Source>,
    /// The skills of the agents, as agents list them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skills: BTreeMap<String, Skill>,
    /// Identities that are nobody's.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub service_accounts: BTreeSet<String>,
    /// Groups and their members; absent when groups come from somewhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeMap<String, BTreeSet<Principal>>>,
    /// Who may use which tool, up to which level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grants: BTreeMap<String, BTreeMap<Principal, Access>>,
    /// How servers are convinced of who is asking.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, BTreeMap<Principal, Credential>>,
    /// What happens to calls; the first that matches decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// What may be used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub budgets: BTreeMap<Scope, Budget>,
    /// Whether nobody approves what they asked for themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
    /// What happens around every append.
    #[serde(default)]
    pub hooks: Hooks,
    /// Files that agents can search.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub knowledge: BTreeSet<String>,
    /// Where turns run.
    #[serde(default)]
    pub routing: Routing,
    /// Hand-written policies, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// Who may do what, compiled: Cedar text, to be read beside the hand-written policies.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
}

/// A manifest without anything in it.
impl Default for Manifest {
    fn default() -> Self {
        Self {
            version: VERSION,
            project: None,
            input: Hash::ZERO,
            agents: BTreeMap::new(),
            models: BTreeMap::new(),
            scripts: BTreeMap::new(),
            loops: BTreeMap::new(),
            sources: BTreeMap::new(),
            skills: BTreeMap::new(),
            service_accounts: BTreeSet::new(),
            groups: None,
            grants: BTreeMap::new(),
            credentials: BTreeMap::new(),
            rules: Vec::new(),
            budgets: BTreeMap::new(),
            four_eyes: false,
            hooks: Hooks::default(),
            knowledge: BTreeSet::new(),
            routing: Routing::default(),
            policies: BTreeMap::new(),
            policy: String::new(),
        }
    }
}

impl Manifest {
    /// Its one spelling.
    ///
    /// # Errors
    /// When a definition in it is nested too deep to be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ManifestError> {
        canonical::of(self).map(String::into_bytes).map_err(ManifestError::Unwritable)
    }

    /// What identifies it: the hash of its bytes.
    ///
    /// # Errors
    /// As [`Manifest::to_bytes`].
    pub fn hash(&self) -> Result<Hash, ManifestError> {
        self.to_bytes().map(|bytes| Hash::of(&bytes))
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// When the bytes are no manifest, or one of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ManifestError> {
        /// Read first: another version may differ in everything else.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        if bytes.len() > BYTES_MAX {
            return Err(ManifestError::TooLarge { bytes: bytes.len() });
        }
        canonical::check_depth(bytes).map_err(ManifestError::Unreadable)?;
        let head: Head = serde_json::from_slice(bytes).map_err(ManifestError::Unreadable)?;
        if head.version != VERSION {
            return Err(ManifestError::Version { found: head.version });
        }
        serde_json::from_slice(bytes).map_err(ManifestError::Unreadable)
    }
}
