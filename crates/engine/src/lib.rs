//! The half of the loop that acts: sessions, effects, recovery.
//!
//! An [`Engine`] runs sessions: it folds their events, asks the kernel what to do, writes the intent down, does it, and
//! writes down what came of it. Nothing that happens to the process between two steps loses, repeats or wedges a
//! session: whoever takes it up folds again and decides again.
//!
//! ```
//! use std::sync::Arc;
//! use futures_util::FutureExt;
//! use futures_util::future::BoxFuture;
//! use weir_blobs::{Blobs, MemoryBlobs};
//! use weir_engine::{Agents, Budgets, Engine, Explained, Functions, LockFiles, New, Options, Runnable, Said, Setup, SnapshotSeal};
//! use weir_journal::MemoryJournal;
//! use weir_kernel::{Agent, Limits};
//! use weir_models::Echo;
//! use weir_types::{Block, Catalog, Hash};
//!
//! struct Parrot(Arc<Runnable>);
//!
//! impl Agents for Parrot {
//!     fn agent<'a>(&'a self, _name: &'a str, _build: Option<Hash>) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
//!         std::future::ready(Ok(Arc::clone(&self.0))).boxed()
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let (model, card) = Catalog::default().find("offline/echo")?;
//! let system = "You repeat what you hear.".to_owned();
//! let agent = Agent { name: "parrot".into(), model, card, system, tools: vec![], limits: Limits::default() };
//! let tools = Arc::new(Functions::default());
//! let (manifest, budgets) = (Hash::of(b"parrot"), Budgets::default());
//! let parrot = Runnable { agent, model: Arc::new(Echo), tools, manifest, budgets };
//! let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
//! let engine = Engine::start(Setup {
//!     journal: Arc::new(MemoryJournal::new(Arc::clone(&blobs))),
//!     blobs,
//!     agents: Arc::new(Parrot(Arc::new(parrot))),
//!     owners: Arc::new(LockFiles::register(directory.path())?),
//!     seal: SnapshotSeal::open(&directory.path().join("key"))?,
//!     options: Options::default(),
//! })
//! .await?;
//!
//! let session = engine.new_address();
//! let new = New { agent: "parrot".into(), principal: "user:you".into(), ..New::default() };
//! let said = Said { content: vec![Block::text("hello")], actor: "user:you".into(), ..Said::default() };
//! engine.begin(&session, new, said).await?; // durable from here on
//! assert_eq!(engine.settle(&session).await?.answer.as_deref(), Some("hello"));
//! # Ok(())
//! # }
//! ```

mod address;
mod approvals;
mod audit;
mod budgets;
pub mod conversation;
mod credentials;
mod deployments;
mod engine;
mod errands;
mod error;
mod expiry;
mod outcome;
mod owners;
mod poke;
pub mod provision;
mod servers;
mod setup;
mod tools;
mod watch;
mod workshop;

mod actor;
mod adopt;
mod alive;
mod draft;
mod evidence;
mod family;
mod files;
mod gate;
mod holds;
mod hooks;
mod input;
mod live;
mod log;
mod lost;
mod memory;
mod purses;
mod rebuild;
mod redecide;
mod replay;
mod shared;
mod snapshots;
mod store;
mod unstored;

pub use actor::status;
pub use address::{Address, stream_of};
pub use approvals::{
    Answered, Approval, ApprovalError, ApprovalsPage, AskedAfter, DamagedSession, How, Pretence, escalated,
    why_asked,
};
pub use audit::audit;
pub use budgets::{Budgets, day, scope_words};
pub use credentials::{
    CredentialError, CredentialFile, CredentialFileError, Credentials, Entry, Given, Holder, HolderError,
    Resolved, is_header_name,
};
pub use deployments::{Deploy, DeployError, Deployments};
pub use engine::{Engine, New, Said};
pub use errands::{Became, Called, Errand, ErrandError};
pub use error::{EngineError, Explained};
pub use hooks::{HOOK_DEADLINE, HookMeans, Hooks, ProjectHooks, Refusal, describe};
pub use live::LiveDelta;
pub use outcome::{Outcome, amount, budget_flag, parked_words, stop_of};
pub use owners::{LockFiles, Owners, Standing};
pub use purses::{Balance, balances};
pub use rebuild::Rebuilt;
pub use redecide::{Counts, OtherTools, Redecided, Redecisions, Which};
pub use replay::recorded;
pub use servers::{MayStart, Program};
pub use setup::{Adopt, Agents, AsksFirst, Options, Runnable, Setup};
pub use snapshots::{SnapshotCheck, SnapshotError, SnapshotSeal, check_snapshot};
pub use tools::{Function, Functions, Tools, get_time};
pub use unstored::{NOT_STORED, Unstored};
pub use watch::{Update, Updates};
pub use weir_types::StopReason;
pub use workshop::{Equipped, Workshop};
