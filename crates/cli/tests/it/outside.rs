//! What is outside of weir, as far as a tool could touch it: a canary behind HTTP, an MCP server that is started, and the
//! project whose agents have them as tools. What counts is what these saw, not what weir says about it.

mod asking;
mod canary;
mod project;

pub(crate) use self::canary::Canary;

pub(crate) use self::asking::{Desk, without_why};
pub(crate) use self::project::{Project, field, script};

/// The definition of a tool that takes a number, as a server gives it.
pub(crate) fn tool(name: &str) -> serde_json::Value {
    let schema = serde_json::json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    serde_json::json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema})
}
