//! Who is asked before something from outside is written down. Results and decisions are not: what happened stays so.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use weir_events::{Body, is_refusable_kind};
use weir_spec::manifest::{Manifest, Source};
use weir_spec::{Hook, HookAction, PRE_APPEND};
use weir_tools::{Asking, Bundle, HookError, judge};
use weir_types::{BranchId, Hash, Json, SandboxProfile, Seq};

use crate::address::Address;
use crate::error::EngineError;
use crate::provision;
use crate::servers::{MayStart, Program};
use crate::shared::Shared;

/// How long a hook may take, unless it says otherwise.
pub const HOOK_DEADLINE: Duration = Duration::from_secs(5);

/// The longest words of a hook that are passed on.
const WORDS_CHARACTERS_MAX: usize = 1_000;

/// Who is asked before something from outside is written down.
pub trait Hooks: Send + Sync {
    /// Why an event of this kind may not be written down, and who says so; nothing, if it may.
    fn refusal<'a>(&'a self, kind: &'a str, event: &'a Json) -> BoxFuture<'a, Option<Refusal>>;
}

/// A no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who says it: the program, or the script.
    pub hook: String,
    /// In its words.
    pub why: String,
}

/// The hooks of a project.
pub struct ProjectHooks {
    hooks: Vec<Asked>,
    means: HookMeans,
}

/// What hooks are asked with.
#[derive(Clone)]
pub struct HookMeans {
    /// The project.
    pub directory: PathBuf,
    /// What starts programs, in front of their own words.
    pub launcher: Vec<String>,
    /// Which programs may be started for a project.
    pub may_start: Arc<dyn MayStart>,
}

struct Asked {
    hook: Hook,
    /// What a script is made of.
    bundle: Option<Arc<Bundle>>,
}

impl ProjectHooks {
    /// The hooks of a build that are asked before an append; none, if there are none.
    pub fn of(manifest: &Manifest, means: HookMeans) -> Option<Arc<dyn Hooks>> {
        let asked = |hook: &Hook| Asked { hook: hook.clone(), bundle: bundle(manifest, &hook.action) };
        let hooks: Vec<Asked> = manifest.hooks.pre_append.iter().map(asked).collect();
        (!hooks.is_empty()).then(|| Arc::new(Self { hooks, means }) as Arc<dyn Hooks>)
    }

    async fn ask(&self, asked: &Asked, event: &Json) -> Result<(), HookError> {
        let deadline = asked.hook.timeout_ms.map_or(HOOK_DEADLINE, Duration::from_millis);
        match (&asked.hook.action, &asked.bundle) {
            (HookAction::Run(argv), _) => {
                let (env, sandbox) = (BTreeMap::new(), SandboxProfile::Off);
                let program = Program { server: PRE_APPEND, argv, env: &env, sandbox };
                if let Some(why) = self.means.may_start.refusal(program).await {
                    return Err(HookError::Broken(why));
                }
                let HookMeans { directory, launcher, .. } = self.means.clone();
                Asking { launcher, argv: argv.clone(), directory, deadline }.about(event).await
            }
            (HookAction::Script(_), Some(bundle)) => judge(bundle, event, deadline).await,
            (HookAction::Script(path), None) => {
                Err(HookError::Broken(format!("the build has no script `{path}`")))
            }
        }
    }
}

impl Hooks for ProjectHooks {
    fn refusal<'a>(&'a self, kind: &'a str, event: &'a Json) -> BoxFuture<'a, Option<Refusal>> {
        async move {
            for asked in &self.hooks {
                let kinds = &asked.hook.kinds;
                if !kinds.is_empty() && !kinds.iter().any(|minded| minded == kind) {
                    continue;
                }
                if let Err(error) = self.ask(asked, event).await {
                    let why = error.to_string().chars().take(WORDS_CHARACTERS_MAX).collect();
                    return Some(Refusal { hook: name(&asked.hook.action), why });
                }
            }
            None
        }
        .boxed()
    }
}

fn name(action: &HookAction) -> String {
    match action {
        HookAction::Run(argv) => argv.join(" "),
        HookAction::Script(path) => path.clone(),
    }
}

fn bundle(manifest: &Manifest, action: &HookAction) -> Option<Arc<Bundle>> {
    let HookAction::Script(path) = action else { return None };
    match manifest.sources.get(path) {
        Some(Source::Script(script)) => Some(Arc::new(provision::bundle(script))),
        _ => None,
    }
}

/// Asks about everything among these that can be refused, one after the other.
pub(crate) async fn ask(
    shared: &Shared,
    address: &Address,
    bodies: &[Body],
    actor: &str,
) -> Result<(), EngineError> {
    let Some(asks_first) = shared.setup.agents.asks_first() else { return Ok(()) };
    if !bodies.iter().any(|body| is_refusable_kind(body.kind_str())) {
        return Ok(());
    }
    let build = build_of(shared, address, bodies).await?;
    let hooks = asks_first.hooks(build).await.map_err(EngineError::Agent)?;
    let Some(hooks) = hooks else { return Ok(()) };
    for body in bodies.iter().filter(|body| is_refusable_kind(body.kind_str())) {
        let kind = body.kind_str();
        let refused = |hook: String, why: String| EngineError::Refused { kind: kind.to_owned(), hook, why };
        let payload = body.encode().map_err(|error| refused(PRE_APPEND.to_owned(), error.to_string()))?;
        let event = describe(&address.branch_id(), kind, &payload, actor);
        if let Some(Refusal { hook, why }) = hooks.refusal(kind, &event).await {
            return Err(refused(hook, why));
        }
    }
    Ok(())
}

/// Asks about an event that is none of the engine's own, as the newest build wants it.
pub(crate) async fn ask_about(
    shared: &Shared,
    branch: &BranchId,
    kind: &str,
    payload: &[u8],
    actor: &str,
) -> Result<(), EngineError> {
    let Some(asks_first) = shared.setup.agents.asks_first() else { return Ok(()) };
    let Some(hooks) = asks_first.hooks(None).await.map_err(EngineError::Agent)? else { return Ok(()) };
    match hooks.refusal(kind, &describe(branch, kind, payload, actor)).await {
        Some(Refusal { hook, why }) => Err(EngineError::Refused { kind: kind.to_owned(), hook, why }),
        None => Ok(()),
    }
}

/// The build that a session began with.
async fn build_of(shared: &Shared, address: &Address, bodies: &[Body]) -> Result<Option<Hash>, EngineError> {
    let created = |body: &Body| match body {
        Body::SessionCreated(created) => Some(created.manifest),
        _ => None,
    };
    if let Some(build) = bodies.iter().find_map(created) {
        return Ok(Some(build));
    }
    let branch = address.branch_id();
    if shared.setup.journal.head(&branch).await?.is_none() {
        return Err(EngineError::NoSession(address.clone()));
    }
    let first = shared.setup.journal.read(&branch, Seq(0), 1).await?;
    let body = first.first().and_then(|event| Body::decode(&event.kind, &event.payload).ok().flatten());
    Ok(body.as_ref().and_then(created))
}

/// An event as hooks are told of it, before it has an id and a place.
pub fn describe(branch: &BranchId, kind: &str, payload: &[u8], actor: &str) -> Json {
    let mut event = json!({
        "stream": branch.stream.as_str(),
        "branch": branch.branch.as_str(),
        "kind": kind,
        "meta": {"actor": actor},
    });
    match serde_json::from_slice::<serde_json::Value>(payload) {
        Ok(payload) => event["payload"] = payload,
        Err(_) => event["payload_base64"] = STANDARD.encode(payload).into(),
    }
    Json::of(&event)
}
