//! The files of a project, read: YAML in, typed values out, and every problem of a file found in one pass.
//!
//! Problems are data ([`Diagnostic`]): a code, a place, what is wrong and what to do. Nothing here touches a disk, a
//! clock or the network, and no bytes make it panic. Fields that a later version will honour are refused by name: a
//! spec that reads is a spec whose every word has an effect.
//!
//! ```
//! use weir_spec::AgentSpec;
//!
//! let spec = AgentSpec::read("agents/helper/spec.yaml", b"name: helper\nmodel: offline/echo\n").unwrap();
//! assert_eq!((spec.model.value.as_str(), spec.limits.iterations), ("offline/echo", 10));
//!
//! let problems = AgentSpec::read("agents/helper/spec.yaml", b"name: helper\nmodle: offline/echo\n").unwrap_err();
//! assert_eq!(problems[0].to_string(), "agents/helper/spec.yaml:2:1: an agent has no field `modle`");
//! assert_eq!(problems[0].help, "did you mean `model`?");
//! ```

mod agent;
mod diagnostic;
mod duration;
mod fields;
mod json;
mod node;
mod project;
mod script;
mod slip;
mod source;
mod values;
mod yaml;

pub use agent::{AgentSpec, BUILTIN_TOOLS, ITERATIONS_DEFAULT, Limits, ToolEntry};
pub use diagnostic::{Diagnostic, Related, Span, Spanned};
pub use duration::{DurationError, parse_duration};
pub use project::Project;
pub use script::{Call, Reply, Script, When};
pub use source::FILE_BYTES_MAX;
