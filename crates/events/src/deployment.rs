//! Deployments of builds, in the stream `engine:deployments`.

use serde::{Deserialize, Serialize};
use weir_types::Hash;

/// A build is deployed: from here on, new sessions begin with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentMade {
    /// The build.
    pub manifest: Hash,
    /// What was deployed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Hash>,
    /// Who deployed it.
    pub by: String,
    /// Whether it goes back to what was there before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback: bool,
}
