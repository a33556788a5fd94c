//! MCP, on rmcp. The client side: which tools a server offers, and calling them. The server side: [`serving`].
//!
//! Servers are strangers. What they write is bounded before it is read, what they start ends with them, and a tool's
//! definition is kept as the text it arrived as, because a pin that covers only the fields we know would let the others
//! change unseen. A server that hangs, floods, dies in mid-call or talks nonsense costs the one call it was asked for.
//!
//! ```
//! use weir_mcp::{Error, Options, Server, list_tools};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = Server::Stdio { argv: vec!["./no-such-server".to_owned()] };
//! let options = Options {
//!     directory: ".".into(),
//!     environment: Default::default(),
//!     headers: Default::default(),
//!     launcher: vec![],
//!     timeout: std::time::Duration::from_secs(10),
//! };
//! assert!(matches!(list_tools(&server, &options).await, Err(Error::NotStarted { .. })));
//! # });
//! ```

mod server;
mod target;

mod connections;

mod call;
mod slot;

mod connection;

mod ask;
mod connect;
mod list;

mod answer;
mod call_error;
mod error;
mod headers;
mod http;
mod inbound;
mod ledger;
mod plain;
mod skim;
mod stdio;
mod trouble;
mod verbatim;

pub mod serving;

pub use answer::Answered;
pub use call::{Accepts, Call, KEY_FIELD};
pub use call_error::CallError;
pub use connect::Options;
pub use connections::Connections;
pub use error::Error;
pub use headers::{HeaderError, Headers};
pub use list::{Definition, TOOLS_MAX, list_tools};
pub use server::Server;
pub use target::Target;
