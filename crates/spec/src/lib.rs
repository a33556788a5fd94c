//! The files of a project, read: YAML in, typed values out, and every problem of every file found in one pass. And what a
//! project is built into: the [`Manifest`].
//!
//! [`read()`] is the only way in for what people write: a file means something within its project, and a project of one file
//! is a project too. What programs write is read by itself: [`Lock::read`], [`Manifest::from_bytes`].
//!
//! Problems are data ([`Diagnostic`]): a code, a place, what is wrong and what to do. Nothing here touches a disk, a
//! clock or the network, and no bytes make it panic. What each file may say is described once (`shape`): the reader
//! checks by it, the help quotes it, and the JSON Schema ([`schema()`]) is made of it.
//!
//! ```
//! use std::collections::BTreeMap;
//! use weir_types::Catalog;
//!
//! let spec = b"name: helper\nmodel: offline/echo\nlimits: { iteratons: 5 }\n".to_vec();
//! let files = BTreeMap::from([("agents/helper/spec.yaml".to_owned(), spec)]);
//! let reading = weir_spec::read(&files, &Catalog::default());
//!
//! assert_eq!(reading.sources.agents["helper"].spec.model.value, "offline/echo");
//! let [problem] = reading.diagnostics.as_slice() else { panic!("one problem") };
//! assert_eq!(problem.to_string(), "agents/helper/spec.yaml:3:11: `limits` has no field `iteratons`");
//! assert_eq!(problem.help, "did you mean `iterations`?");
//! ```

mod access;
mod agent;
pub mod canonical;
mod check;
mod codes;
mod diagnostic;
mod diff;
mod document;
mod duration;
mod fields;
mod format;
mod json;
pub mod lock;
mod loops;
mod loose;
pub mod manifest;
mod node;
mod principal;
mod project;
mod read;
#[cfg(test)]
mod reference;
mod resolve;
mod rules;
#[cfg(test)]
mod sample;
mod scenario;
mod schema;
mod script;
mod secret;
mod server;
mod shape;
mod slip;
mod source;
mod sources;
mod terms;
mod yaml;

pub use access::{Access, Acl, Approval, Credential, CredentialKind, Role};
pub use agent::{
    AclEntry, AgentSpec, BUILTIN_TOOLS, ITERATIONS_DEFAULT, Limits, SCRIPT_CPU, Skill, SkillRef,
    TOOL_TIMEOUT, ToolEntry, ToolSource, builtin_names,
};
pub use codes::CODES;
pub use diagnostic::{Diagnostic, Related, Severity, Span, Spanned, sort};
pub use diff::{Change, diff};
pub use duration::{DurationError, parse_duration};
pub use lock::Lock;
pub use loops::{Concurrency, LoopSpec, Missed, WhenFull};
pub use loose::read_yaml;
pub use manifest::Manifest;
pub use principal::{BUILTIN_GROUPS, Principal, PrincipalError};
pub use project::{Group, Project, RulePlaces, ServerCredentials, ToolGrant};
pub use read::read;
pub use rules::{
    Budget, Condition, Example, Examples, Hold, Hook, HookAction, Hooks, Lane, Mode, PRE_APPEND, Rollback,
    Routing, Rule, Scope, Test, Verdict,
};
pub use scenario::{Expect, ExpectedCall, Scenario, Step, TestModel, TestSpec};
pub use schema::{Document, schema};
pub use script::{Call, Reply, Script, When};
pub use secret::{check_secrets, find_secrets, mask};
pub use server::{Launcher, McpServer, ServerError, is_loopback};
pub use source::FILE_BYTES_MAX;
pub use sources::{AgentSource, Identity, Model, Reading, Sources};
pub use weir_types::{SecretRef, SecretRefError};
