//! Agents and loops, resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_types::{ApprovalTerms, Effect, Json, NanoUsd, OnInterrupt, Risk, SandboxProfile};

use crate::agent::{self, AclEntry};
use crate::loops::{Concurrency, LoopSpec, Missed};
use crate::{Access, Acl, Approval, Principal, Role, SecretRef};

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Its model, by its full name; its card is among the manifest's models.
    pub model: String,
    /// What it is told to be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Who it is: its identity files, in the order of its prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identity: Vec<Identity>,
    /// Its skills, by their names among the manifest's skills, in the order of its spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// The tools it may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// What a run of it may use.
    #[serde(default)]
    pub limits: Limits,
    /// Who may talk to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub acl: Acl,
    /// Who may approve what it does.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub approvers: BTreeSet<Principal>,
    /// Where its model has to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// One identity file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Its name, such as `SOUL.md`.
    pub file: String,
    /// What it says.
    pub text: String,
}

/// One tool of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name the model sees; unique within its agent.
    pub name: String,
    /// Where it comes from, as the spec lists it: `bash`, `tools/…`, `weir://…`, `mcp://…`.
    pub source: String,
    /// The tool's name at its server, where the model sees another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_name: Option<String>,
    /// What it does and when to use it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Json,
    /// The highest level it is offered at.
    pub access: Access,
    /// What repeating a call does.
    pub effect: Effect,
    /// How bad a wrong call can be.
    pub risk: Risk,
    /// What happens to a write that a crash interrupted.
    #[serde(default)]
    pub on_interrupt: OnInterrupt,
    /// Whether calls need approval, whatever the rules say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How long an approval of its calls is waited for, where no rule says so.
    #[serde(default, skip_serializing_if = "ApprovalTerms::is_default")]
    pub approval_terms: ApprovalTerms,
    /// The hosts that `http` or a script may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The environment of a server that is started here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, SecretRef>,
    /// How a server that is started here is confined.
    #[serde(default, skip_serializing_if = "SandboxProfile::is_off")]
    pub sandbox: SandboxProfile,
    /// How long one call may take; as the program says, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How much processor time one call of a script may use; as the program says, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}

/// What a run may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Rounds of model and tools.
    pub iterations: u64,
    /// Money, in billionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<NanoUsd>,
    /// Time, without waiting for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock_ms: Option<u64>,
    /// Tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens of one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Tokens of all requests and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self::from(&agent::Limits::default())
    }
}

impl From<&agent::Limits> for Limits {
    fn from(limits: &agent::Limits) -> Self {
        let agent::Limits { iterations, usd, wall_clock, output_tokens, context_tokens, tokens, model_calls } =
            limits;
        Self {
            iterations: *iterations,
            usd: usd.as_ref().map(|usd| usd.value),
            wall_clock_ms: wall_clock.map(millis),
            output_tokens: *output_tokens,
            context_tokens: *context_tokens,
            tokens: *tokens,
            model_calls: *model_calls,
        }
    }
}

/// One loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// When it fires: a cron expression.
    pub schedule: String,
    /// The time zone of its schedule.
    pub timezone: String,
    /// The agent it talks to.
    pub agent: String,
    /// Who it acts as.
    pub run_as: Principal,
    /// What it says.
    pub instruction: String,
    /// Who may trigger and see it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub acl: Acl,
    /// What happens to firings that nobody was there for.
    pub missed: Missed,
    /// How many of its runs go on at once.
    pub concurrency: Concurrency,
    /// How long a run may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How often a failed run is tried again.
    #[serde(default)]
    pub retries: u64,
}

impl From<&LoopSpec> for Loop {
    fn from(spec: &LoopSpec) -> Self {
        Self {
            schedule: spec.schedule.value.clone(),
            timezone: spec.timezone.clone(),
            agent: spec.agent.value.clone(),
            run_as: spec.run_as.value.clone(),
            instruction: spec.instruction.clone(),
            acl: acl(&spec.acl),
            missed: spec.missed,
            concurrency: spec.concurrency,
            timeout_ms: spec.timeout.map(millis),
            retries: spec.retries,
        }
    }
}

/// Who has which role; of several, the highest.
pub(crate) fn acl(entries: &[AclEntry<Role>]) -> Acl {
    let mut acl = Acl::new();
    for entry in entries {
        let role = acl.entry(entry.principal.value.clone()).or_insert(entry.role);
        *role = entry.role.max(*role);
    }
    acl
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
