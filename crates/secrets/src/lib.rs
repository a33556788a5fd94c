//! Secrets: found at the last moment, never printed, and taken out of whatever comes back.
//!
//! [`Places`] looks up what a `SecretRef` stands for, each time anew. A [`weir_types::Secret`] is what it finds: it does not print and
//! cannot be serialized. A [`Redactor`] knows the secrets that are in use and takes them out of texts, blocks and JSON.
//!
//! What this crate leaves to others: where secrets of servers are kept, and who may use them.
//!
//! ```
//! use std::collections::BTreeMap;
//! use weir_secrets::{Places, Redactor};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let variables = BTreeMap::from([("TOKEN".to_owned(), "s3cr3t-t0ken".to_owned())]);
//! let places = Places { variables, directory: ".".into() };
//! let secret = places.look_up(&"env:TOKEN".parse()?).await?;
//! assert_eq!(secret.to_string(), "***");
//!
//! let redactor = Redactor::default();
//! redactor.learn(&secret);
//! assert_eq!(redactor.redact("you sent s3cr3t-t0ken"), "you sent [secret]");
//! # Ok(())
//! # }
//! ```

mod places;
mod redactor;

pub use places::{LookUpError, Places, SECRET_BYTES_MAX};
pub use redactor::{REDACTED, Redactor, SHORT_BYTES};
