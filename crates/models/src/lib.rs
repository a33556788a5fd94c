//! Language models behind one trait: four wires over the network, and three models that need none.
//!
//! A [`Model`] makes one attempt and reports; retries, deadlines and budgets are the engine's. It keeps every block as
//! its provider sent it, beside a neutral view that every provider can be given, so that history goes back unchanged
//! to whoever wrote it and still makes sense to anyone else.
//!
//! ```
//! use futures_util::TryStreamExt;
//! use weir_models::{Echo, Model, Piece};
//! use weir_types::{Block, Message, Purpose, Request, Role, text_of};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let hello = Message { role: Role::User, content: vec![Block::text("hello")] };
//! let request = Request {
//!     model: "echo".into(),
//!     system: String::new(),
//!     tools: vec![],
//!     messages: vec![hello],
//!     output_tokens_max: 100,
//!     purpose: Purpose::Turn,
//! };
//! let body = Echo.encode(&request)?;
//! let pieces: Vec<Piece> = Echo.stream(body, 1).try_collect().await?;
//! let Some(Piece::Done(answer)) = pieces.last() else { unreachable!("a stream ends with its answer") };
//! assert_eq!(text_of(&answer.content), "hello");
//! # Ok::<(), weir_models::ModelError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connect;
mod error;
mod failure;
mod fields;
mod http;
mod model;
mod offline;
mod remote;
mod wires;

pub use connect::connect;
pub use error::ModelError;
pub use http::{Endpoint, HttpClient, Limits, USUAL_KEY_ENVS, usual_key_env};
pub use model::{Channel, Delta, Model, Piece};
pub use offline::scripted;
pub use offline::{Echo, Recorded, Replay, Scripted};
