//! The words of who may do what, and of where secrets are. Shared by the files and the manifest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::SecretRef;

use crate::Principal;

/// The highest level at which a tool may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Looking.
    #[default]
    Read,
    /// Changing.
    Write,
}

impl Access {
    /// The words for it.
    pub(crate) const WORDS: &[(&'static str, Self)] = &[("read", Self::Read), ("write", Self::Write)];
}

/// What someone may do with an agent or a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See a loop and its history.
    Read,
    /// Talk to the agent; trigger the loop.
    Execute,
    /// Say yes to calls of the agent.
    Approve,
}

/// Who has which role.
pub type Acl = BTreeMap<Principal, Role>;

/// When a person has to approve a call, whatever the rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Each time.
    Always,
}

/// How a service is convinced of who is asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// What is sent.
    #[serde(rename = "type")]
    pub kind: CredentialKind,
    /// Where the secret is; what `weir auth add` stored, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SecretRef>,
    /// The header that carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

/// What a credential sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// `Authorization: Bearer …`.
    Bearer,
    /// A token that is fetched and renewed.
    Oauth,
    /// `Authorization: Basic …`; the secret is `user:password`.
    Basic,
    /// A header of its own.
    Header,
}
