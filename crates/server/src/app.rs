//! What every handler works with.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_blobs::Blobs;
use weir_engine::{Engine, Explained, provision};
use weir_journal::Journal;
use weir_spec::Manifest;
use weir_tools::Gate;
use weir_types::Hash;

use crate::api::Readiness;
use crate::auth::Auth;
use crate::idempotency::Requests;
use crate::mcp::Doors;
use crate::metrics::Metrics;

/// What a server is made of. `cli` puts it together.
pub struct Parts {
    /// Runs sessions.
    pub engine: Engine,
    /// The truth.
    pub journal: Arc<dyn Journal>,
    /// Large content.
    pub blobs: Arc<dyn Blobs>,
    /// What is deployed.
    pub builds: Arc<dyn Builds>,
    /// Who asks.
    pub auth: Auth,
    /// How it behaves.
    pub settings: Settings,
}

/// What is deployed, now and for sessions that began with something else.
pub trait Builds: Send + Sync + 'static {
    /// What new sessions begin with; nothing, where the persistence layer is served alone.
    fn current(&self) -> Option<Arc<Build>>;

    /// The build that a session began with.
    fn of(&self, hash: Hash) -> BoxFuture<'_, Result<Arc<Build>, Explained>>;
}

/// A manifest, and the policy in it.
pub struct Build {
    /// What identifies it.
    pub hash: Hash,
    /// What it says.
    pub manifest: Manifest,
    /// Who may do what.
    pub gate: Arc<dyn Gate>,
}

/// How a server behaves. Every limit is a default that suits a small machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hosts that requests may name, besides loopback ones; with a port, only that.
    pub hosts: Vec<String>,
    /// The origins whose pages may call, besides its own.
    pub origins: Vec<String>,
    /// The longest body of a request, in bytes. Blobs have a limit of their own.
    pub body_bytes_max: usize,
    /// The longest blob.
    pub blob_bytes_max: usize,
    /// The most connections at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// The most connections of one address at once; further ones are closed. Loopback addresses and trusted proxies have no
    /// such limit.
    pub address_connections_max: usize,
    /// The most requests under way at once; further ones are told to come back.
    pub requests_max: usize,
    /// How long a request may take to arrive.
    pub arrival: std::time::Duration,
    /// How long a client may take nothing of what is sent to it.
    pub stall: std::time::Duration,
    /// How often a stream that has nothing to say says so.
    pub keep_alive: std::time::Duration,
    /// How long a chat that is not streamed waits for its answer; the run goes on after that.
    pub chat_patience: std::time::Duration,
    /// How long shutting down may take.
    pub farewell: std::time::Duration,
    /// What the tokens of the bridge are derived from; the bridge is closed without it.
    pub bridge_secret: Option<weir_types::Secret>,
    /// Serves the fixtures of the MCP conformance suite, for tests.
    pub mcp_fixtures: bool,
}

impl Default for Settings {
    fn default() -> Self {
        use std::time::Duration;
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            body_bytes_max: 4 * 1024 * 1024,
            blob_bytes_max: 64 * 1024 * 1024,
            connections_max: 4_096,
            address_connections_max: 256,
            requests_max: 4_096,
            arrival: Duration::from_secs(30),
            stall: Duration::from_secs(120),
            keep_alive: Duration::from_secs(15),
            chat_patience: Duration::from_secs(300),
            farewell: Duration::from_secs(10),
            bridge_secret: None,
            mcp_fixtures: false,
        }
    }
}

/// What every handler works with. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

#[doc(hidden)]
pub struct Inner {
    pub(crate) engine: Engine,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) builds: Arc<dyn Builds>,
    pub(crate) auth: Auth,
    /// What decides where there is no build.
    pub(crate) bare: Arc<dyn Gate>,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    /// Those that must not be handled twice.
    pub(crate) requests: Requests,
    /// Told when the server is about to stop: what would go on by itself, such as a stream, comes to its end.
    pub(crate) stopping: CancellationToken,
    pub(crate) mcp: Doors,
    /// What goes on whether the client that asked for it waits or not. A server that stops waits for it as for requests.
    pub(crate) tasks: TaskTracker,
}

impl App {
    /// Puts a server together.
    pub fn new(parts: Parts) -> Self {
        let Parts { engine, journal, blobs, builds, auth, settings } = parts;
        let bare = provision::bare_gate(auth.admins.clone());
        let stopping = CancellationToken::new();
        let mcp = Doors::new(&settings, &stopping);
        Self(Arc::new(Inner {
            engine,
            journal,
            blobs,
            builds,
            auth,
            bare,
            settings,
            metrics: Metrics::default(),
            readiness: Readiness::default(),
            requests: Requests::default(),
            stopping,
            mcp,
            tasks: TaskTracker::new(),
        }))
    }
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}
