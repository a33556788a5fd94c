//! What several crates need in the same way and no library does as Weir needs it.
//!
//! - [`http`]: the policy of every HTTP client.
//! - [`causes`]: an error and its causes in one line.
//! - [`new_file`]: files that appear complete or not at all.
//! - [`sse`]: a bounded reader of server-sent events.
//!
//! ```
//! let error = std::io::Error::other("disk on fire");
//! assert_eq!(weir_support::causes(&error), "disk on fire");
//! ```
//!
//! **Invariant:** this crate knows nothing about sessions, events or agents.

mod causes;
pub mod http;
pub mod new_file;
pub mod sse;

pub use self::causes::{causes, innermost};
