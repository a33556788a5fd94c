//! The client side of MCP: which tools a server offers.
//!
//! Servers are strangers. What they write is bounded before it is read, what they start ends with them, and a tool's
//! definition is kept as the text it arrived as, because a pin that covers only the fields we know would let the others
//! change unseen.
//!
//! ```
//! use weir_mcp::{Error, Options, Server, list_tools};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = Server::Stdio { argv: vec!["./no-such-server".to_owned()] };
//! let options = Options {
//!     directory: ".".into(),
//!     environment: Default::default(),
//!     timeout: std::time::Duration::from_secs(10),
//! };
//! assert!(matches!(list_tools(&server, &options).await, Err(Error::NotStarted { .. })));
//! # });
//! ```

mod server;

mod connect;
mod error;
mod http;
mod list;
mod stdio;
mod trouble;
mod whole;

pub use connect::Options;
pub use error::Error;
pub use list::{Definition, TOOLS_MAX, list_tools};
pub use server::Server;
