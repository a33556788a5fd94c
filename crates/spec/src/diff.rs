//! What the agents of one build may do that those of another may not.

use serde::Serialize;

/// One difference between two manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it is about, such as `agent helper` or `grant bash`.
    pub subject: String,
    /// What is different there, such as `tool bash` or `limit usd`.
    pub what: String,
    /// As it was; absent when it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// As it is; absent when it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether someone may now do more than before. What cannot be compared counts as more.
    pub widens: bool,
}
