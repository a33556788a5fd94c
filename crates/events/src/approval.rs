//! Approvals of calls.

use serde::{Deserialize, Deserializer, Serialize};
use weir_types::{CallId, Hash, Json, Timestamp};

/// Someone has to say yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The call.
    pub call: CallId,
    /// SHA-256 of the arguments.
    pub input_hash: Hash,
    /// Which rule asks.
    pub rule: String,
    /// When it is too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Why it is asked. [`ApprovalRequested::asked_because`] also knows it of requests from before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<AskedBecause>,
    /// Who may approve, too, from when on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalates: Option<Escalates>,
}

/// Someone said yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGranted {
    /// The call.
    pub call: CallId,
    /// Who.
    pub by: String,
    /// The groups they came with, as `group:…`: what a token or a trusted proxy said of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// To which arguments.
    pub input_hash: Hash,
    /// The arguments to run instead.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub input: Option<Json>,
    /// For how long.
    pub scope: Scope,
    /// Whether they approved a live write or a dry run; events from before it was recorded do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunsAs>,
}

/// Someone said no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDenied {
    /// The call.
    pub call: CallId,
    /// Who.
    pub by: String,
    /// The groups they came with, as `group:…`: what a token or a trusted proxy said of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Nobody said anything in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalExpired {
    /// The call.
    pub call: CallId,
}

/// Why someone is asked about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedBecause {
    /// A rule asks, or the tool's entry.
    #[default]
    Rule,
    /// It was cut off, and its entry says `on_interrupt: ask`.
    Interrupted,
    /// The session behind it waits for someone.
    Child,
}

/// Who may approve, too, from when on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalates {
    /// The group, as `group:…`.
    pub to: String,
    /// From when on.
    pub at: Timestamp,
}

/// How long an approval holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For this call.
    Once,
    /// For calls like it in this session.
    Session,
}

/// What a call that is approved does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunsAs {
    /// It happens.
    Live,
    /// It only pretends.
    DryRun,
}

impl RunsAs {
    /// Whether a call that is a dry run, or is not, is what was approved.
    pub fn fits(self, stub: bool) -> bool {
        stub == (self == Self::DryRun)
    }
}

impl ApprovalRequested {
    /// Why it is asked.
    pub fn asked_because(&self) -> AskedBecause {
        self.because.unwrap_or(match self.rule.as_str() {
            // What these were told apart by before it was recorded.
            "child" => AskedBecause::Child,
            "on_interrupt: ask" => AskedBecause::Interrupted,
            _ => AskedBecause::Rule,
        })
    }
}

/// Reads an optional JSON value of which `null` is one; only a field that is absent is none.
pub fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
