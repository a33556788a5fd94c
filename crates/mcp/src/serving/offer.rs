//! What a server of ours offers, in our own words.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    ElicitRequestParams, ElicitationAction, ElicitationSchema, ErrorCode, ErrorData,
    ProgressNotificationParam, ProgressToken,
};
use rmcp::{Peer, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weir_types::{Block, Json};

/// What a server offers to one client.
pub trait Offer: Send + Sync + 'static {
    /// Who it is.
    fn about(&self) -> About;

    /// Its tools.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Offered>, Refusal>>;

    /// Does what a client asks for.
    fn call(&self, incoming: Incoming) -> BoxFuture<'_, Result<Given, Refusal>>;
}

/// Who a server is.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How it is to be used.
    pub instructions: Option<String>,
}

/// A tool.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What its arguments look like.
    pub input_schema: Json,
    /// What the structured part of its results looks like.
    pub output_schema: Option<Json>,
    /// What can be said about its effect.
    pub hints: Hints,
}

/// What can be said about the effect of a tool; nothing, where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Doing it twice does no more than doing it once.
    pub idempotent: Option<bool>,
    /// It deals with the world outside.
    pub open_world: Option<bool>,
}

/// A call that a client makes.
pub struct Incoming {
    /// The tool.
    pub tool: String,
    /// The arguments, an object.
    pub arguments: Json,
    /// What makes repeating the call harmless.
    pub key: Option<String>,
    /// Told while it works.
    pub progress: Progress,
    /// Cancelled when the client asks to stop. That it is gone is not to ask, unless its version of the protocol says so.
    pub cancelled: CancellationToken,
    /// Whoever sits before the client, if they can be asked something.
    pub asking: Option<Asking>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// What a call came to.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Words, pictures and documents.
    pub content: Vec<Block>,
    /// The same for programs.
    pub structured: Option<Value>,
    /// Whether it failed.
    pub failed: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The code of JSON-RPC.
    pub code: i32,
    /// In words.
    pub message: String,
    /// More for programs.
    pub data: Option<Value>,
}

impl Refusal {
    /// A refusal without more to say.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Arguments that do not fit.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS.0, message)
    }

    /// Something of ours that broke.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR.0, message)
    }
}

impl From<Refusal> for ErrorData {
    fn from(refusal: Refusal) -> Self {
        Self::new(ErrorCode(refusal.code), refusal.message, refusal.data)
    }
}

/// Tells a client how far its call is, if it wants to know.
#[derive(Clone)]
pub struct Progress(Option<Arc<Listener>>);

struct Listener {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    told: AtomicU32,
}

impl Progress {
    pub(crate) fn new(peer: &Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self(token.map(|token| Arc::new(Listener { peer: peer.clone(), token, told: AtomicU32::new(0) })))
    }

    /// Whether anybody listens.
    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Says what is being done. Each time the number is larger than before; nobody knows how many there will be.
    pub async fn tell(&self, message: impl Into<String>) {
        let Some(listener) = &self.0 else { return };
        let n = listener.told.fetch_add(1, Ordering::SeqCst) + 1;
        let param =
            ProgressNotificationParam::new(listener.token.clone(), f64::from(n)).with_message(message);
        // Whoever no longer listens misses nothing that the answer would not tell.
        let _ = listener.peer.notify_progress(param).await;
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.is_wanted()).finish()
    }
}

/// Whoever sits before the client.
#[derive(Clone)]
pub struct Asking(Peer<RoleServer>);

/// What they are asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// In words.
    pub message: String,
    /// The fields of the answer, as a flat JSON Schema.
    pub schema: Value,
    /// How long they have.
    pub patience: Duration,
}

impl Asking {
    pub(crate) fn new(peer: &Peer<RoleServer>) -> Self {
        Self(peer.clone())
    }

    /// Their answer; nothing, if they declined, left it, or could not be asked.
    pub async fn ask(&self, ask: Ask) -> Option<Value> {
        let requested_schema: ElicitationSchema = serde_json::from_value(ask.schema).ok()?;
        let params =
            ElicitRequestParams::FormElicitationParams { meta: None, message: ask.message, requested_schema };
        let asked = self.0.create_elicitation_with_timeout(params, Some(ask.patience)).await.ok()?;
        match asked.action {
            ElicitationAction::Accept => asked.content,
            _ => None,
        }
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}
