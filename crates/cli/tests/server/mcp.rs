//! MCP: agents as servers, and the bridge.

mod agent;
mod bridge;
mod wire;

pub(crate) use self::wire::Mcp;
