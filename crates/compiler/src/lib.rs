//! From a project to a manifest: what its files say, what its servers offer, what its skills add, put together into one
//! document that is the same bytes on every machine.
//!
//! Building is safe on a project that was just cloned. None of its code runs; no command of it starts unless this user
//! approved it on this machine; nothing is read from outside of it. And it tells everything at once: a pass goes on with
//! what the ones before it could find.
//!
//! ```
//! use weir_compiler::{Nobody, Options, compile};
//! use weir_types::Catalog;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let project = tempfile::tempdir().unwrap();
//! std::fs::create_dir_all(project.path().join("agents/helper")).unwrap();
//! std::fs::write(project.path().join("agents/helper/spec.yaml"), "name: helper\nmodel: offline/echo\ndescription: Helps.\n").unwrap();
//!
//! let compiled = compile(project.path(), &Catalog::builtin().unwrap(), &Options::check(), &Nobody, &()).await;
//! assert_eq!(compiled.diagnostics, []);
//! assert_eq!(compiled.built.unwrap().manifest.agents["helper"].model, "offline/echo");
//! # });
//! ```

mod compile;
mod options;
mod save;

mod approve;
mod assemble;
mod builtin;
mod codes;
mod difference;
mod environment;
mod lock;
mod place;
mod policy;
mod script;
mod secrets;
mod servers;
mod skill;
mod skills;
mod tree;

pub use approve::{Approve, Command, CoveredCode, Nobody, approvals_file, refusal};
pub use codes::CODES;
pub use compile::{Built, Compiled, compile};
pub use options::{Credentials, Event, Launch, Mode, Options, Progress};
pub use save::{Loaded, SaveError, Which, keep, latest, load, save};
