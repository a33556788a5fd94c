//! The tools of one agent behind the one gate: `authorize` and `execute`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_types::{Effect, GateStep, Json, Risk, Verdict, Who};

use crate::bound::{bound, bound_failure, head};
use crate::builtin::{Builtin, Running};
use crate::call::{Asked, Done, Failed, NoResult, Permit, Started};
use crate::decision::Decision;
use crate::gate::{Gate, Request};
use crate::live::{CallsForReal, Live};
use crate::net::Net;
use crate::offer::{Kind, Offer};
use crate::sandbox::{Enforcement, Sandbox};
use crate::schema::Schema;
use crate::script;
use crate::servers::{Redact, ServerCall, Servers};

/// The deepest an agent may call an agent that calls an agent.
pub const DEPTH_MAX: u32 = 8;

/// Most tools that are named to a model that asked for one it does not have. It was told about all of them before.
const LISTED_MAX: usize = 50;

/// Most of a key that is repeated to the model.
const KEY_BYTES_MAX: usize = 100;

/// Most of the arguments that a stub repeats.
const REPEATED_BYTES_MAX: usize = 2 * 1024;

/// What all toolboxes of a process share.
#[derive(Clone)]
pub struct Setup {
    /// Who may do what.
    pub gate: Arc<dyn Gate>,
    /// Which writes really happen.
    pub live: Live,
    /// Calls that really happen whatever that says.
    pub for_real: CallsForReal,
    /// MCP servers.
    pub servers: Arc<dyn Servers>,
    /// What takes secrets out of what tools answer.
    pub redact: Arc<dyn Redact>,
    /// What confines children.
    pub sandbox: Arc<Sandbox>,
    /// The network, as far as tools may reach it.
    pub net: Net,
    /// How long one call may take, unless its offer says otherwise.
    pub deadline: Duration,
}

/// The tools of one agent.
pub struct Toolbox {
    setup: Setup,
    tools: BTreeMap<String, Arc<Tool>>,
}

struct Tool {
    offer: Offer,
    schema: Schema,
}

impl Toolbox {
    /// These tools, and no others.
    pub fn new(setup: Setup, offers: impl IntoIterator<Item = Offer>) -> Self {
        let tools = offers.into_iter().map(|offer| {
            let schema = Schema::new(&offer.definition.schema.to_value());
            (offer.definition.name.clone(), Arc::new(Tool { offer, schema }))
        });
        Self { setup, tools: tools.collect() }
    }

    /// A tool, as the agent has it.
    pub fn offer(&self, name: &str) -> Option<&Offer> {
        self.tools.get(name).map(|tool| &tool.offer)
    }

    /// All tools, by name.
    pub fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.tools.values().map(|tool| &tool.offer)
    }

    /// Whether calls of a tool only pretend.
    pub fn is_stubbed(&self, offer: &Offer, effect: Effect) -> bool {
        let writes = effect != Effect::Read;
        writes && !offer.is_contained() && !self.setup.live.covers(&offer.definition.name, &offer.source)
    }

    /// Whether calls of a tool change files, and so take turns.
    pub fn changes_files(&self, tool: &str) -> bool {
        self.offer(tool).is_some_and(takes_turns)
    }

    /// Whether a cancelled call of a tool ends by itself and says what it came to: a confined command, whose processes are all
    /// known to be gone by then.
    pub fn reports_its_end(&self, tool: &str) -> bool {
        let is_command =
            self.offer(tool).is_some_and(|offer| matches!(offer.kind, Kind::Builtin(Builtin::Bash)));
        is_command && self.setup.sandbox.enforcement() == Enforcement::Required
    }

    /// How strict to be with this very call.
    pub fn strictness(&self, tool: &str, input: &Json) -> Option<(Effect, Risk)> {
        let offer = self.offer(tool)?;
        let effect = offer.effect_of(input);
        Some((effect, risk_of(offer, effect)))
    }

    /// Whether someone may talk to the agent at all. Has no effect.
    pub fn admit<'a>(&self, who: impl Into<Who<'a>>, agent: &str) -> Decision {
        self.setup.gate.admit(who.into(), agent)
    }

    /// Whether `by` may decide about calls that the agent makes on behalf of `asker`. Has no effect.
    pub fn may_approve<'a>(&self, by: impl Into<Who<'a>>, asker: &str, agent: &str) -> Decision {
        self.setup.gate.may_approve(by.into(), asker, agent)
    }

    /// Whether a call may run: allowlist, schema, grant, rules, budget, and whether it is a stub. Has no effect.
    pub fn authorize(&self, asked: &Asked<'_>) -> Decision {
        self.decide(asked, Arguments::Given)
    }

    /// The same of a call whose arguments are not known yet: its schema is not asked. Such a call never runs.
    pub fn authorize_any(&self, asked: &Asked<'_>) -> Decision {
        self.decide(asked, Arguments::Unknown)
    }

    /// Whether someone is in a group, `group:…`. Has no effect.
    pub fn is_member<'a>(&self, who: impl Into<Who<'a>>, group: &str) -> bool {
        self.setup.gate.groups_of(who.into()).iter().any(|name| name == group)
    }

    fn decide(&self, asked: &Asked<'_>, arguments: Arguments) -> Decision {
        let tool = self.tools.get(asked.tool);
        let mut decision = match tool {
            Some(tool) => self.listed(asked, tool, arguments),
            None => self.unlisted(asked),
        };
        if decision.saw.groups.is_empty() {
            decision.saw.groups = self.setup.gate.groups_of(Who::new(asked.principal, asked.groups));
        }
        decision.saw.access = tool.map(|tool| tool.offer.access);
        decision.saw.principal = asked.principal.to_owned();
        decision.saw.approved_by = asked.approved_by.map(str::to_owned);
        decision
    }

    fn listed(&self, asked: &Asked<'_>, tool: &Tool, arguments: Arguments) -> Decision {
        let offer = &tool.offer;
        if arguments == Arguments::Given
            && let Some(unfit) = unfit(asked.input, tool)
        {
            return unfit;
        }
        if let (Kind::Agent(callee), true) = (&offer.kind, asked.depth >= DEPTH_MAX) {
            let reason = format_args!(
                "`{callee}` would be {} agents deep, and {DEPTH_MAX} is the most",
                asked.depth + 1
            );
            return Decision::refuse(GateStep::Budget, reason, "answer with what you have");
        }
        if let Kind::Builtin(Builtin::ResultRead) = offer.kind {
            return Decision::allow("it reads on in a result that this session was given");
        }
        let effect = offer.effect_of(asked.input);
        let mut decision = self.setup.gate.decide(&self.request(asked, offer, effect));
        let is_for_real = self.setup.for_real.has(asked.call);
        decision.stub = decision.verdict != Verdict::Deny && self.is_stubbed(offer, effect) && !is_for_real;
        decision
    }

    fn request<'a>(&self, asked: &Asked<'a>, offer: &'a Offer, effect: Effect) -> Request<'a> {
        Request {
            principal: asked.principal,
            groups: asked.groups,
            agent: asked.agent,
            tool: asked.tool,
            source: &offer.source,
            callee: offer.callee(),
            input: asked.input,
            effect,
            risk: risk_of(offer, effect),
            access: offer.access,
            approved_by: asked.approved_by,
        }
    }

    fn unlisted(&self, asked: &Asked<'_>) -> Decision {
        let mut listed: Vec<&str> = self.tools.keys().map(String::as_str).collect();
        let more = listed.len().saturating_sub(LISTED_MAX);
        listed.truncate(LISTED_MAX);
        let listed = match (listed.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => listed.join(", "),
            (false, more) => format!("{} and {more} more", listed.join(", ")),
        };
        Decision::refuse(
            GateStep::Allowlist,
            format_args!("agent `{}` does not list it (it lists: {listed})", asked.agent),
            "an entry under `tools` in the agent's spec would allow it",
        )
    }

    /// Runs a call that has started. The only door to the world.
    ///
    /// # Cancel safety
    /// Dropping the future stops what it runs; whether a write took effect is then unknown.
    pub fn execute(&self, permit: Permit) -> impl Future<Output = Result<Done, NoResult>> + Send + use<> {
        let started = permit.into_started();
        let tool = self.tools.get(&started.tool).cloned();
        let mut setup = self.setup.clone();
        async move {
            let Some(tool) = tool else {
                return Err(Failed::new("missing", format!("there is no tool `{}`", started.tool)).into());
            };
            setup.deadline = tool.offer.timeout.unwrap_or(setup.deadline);
            if started.stub {
                return Ok(pretend(&tool.offer, &started));
            }
            if takes_turns(&tool.offer) {
                tokio::select! {
                    () = started.world.files.turn() => {}
                    () = started.cancelled.cancelled() => return Err(Failed::before_it_began().into()),
                }
            }
            let (effect, deadline) =
                (lost_effect(&tool.offer, &started), deadline(&tool.offer, setup.deadline));
            let redact = Arc::clone(&setup.redact);
            let work = run(setup, tool, started);
            let done = match deadline {
                Some(deadline) => tokio::time::timeout(deadline, work)
                    .await
                    .unwrap_or_else(|_| Err(Failed::late(effect, deadline).into())),
                None => work.await,
            };
            match done {
                Ok(done) => Ok(bound(redacted(done, &*redact))),
                Err(NoResult::Failed(failed)) => {
                    Err(bound_failure(redacted_failure(failed, &*redact)).into())
                }
                Err(NoResult::WaitsForApproval) => Err(NoResult::WaitsForApproval),
            }
        }
    }
}

async fn run(setup: Setup, tool: Arc<Tool>, started: Started) -> Result<Done, NoResult> {
    let offer = &tool.offer;
    match &offer.kind {
        Kind::Builtin(builtin) => Ok(builtin.run(Running { started, offer: offer.clone(), setup }).await?),
        Kind::Script(bundle) => Ok(script::call(bundle, offer, &started, &setup).await?),
        Kind::Server { remote_name } => {
            let call = ServerCall {
                server: offer.source.clone(),
                tool: remote_name.clone(),
                shown_as: offer.definition.name.clone(),
                principal: started.principal,
                groups: started.groups,
                arguments: started.input,
                key: started.key,
                deadline: setup.deadline,
                cancelled: started.cancelled,
            };
            Ok(setup.servers.call(call).await?)
        }
        Kind::Agent(_) => match started.child {
            Some(child) => started.world.agents.attend(child).await,
            None => Err(Failed::new("child", "no session was begun for it; this is a bug in weir").into()),
        },
    }
}

/// Whether the arguments of a call are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    Given,
    Unknown,
}

/// Why arguments do not fit a tool, if they do not.
fn unfit(input: &Json, tool: &Tool) -> Option<Decision> {
    if let Some(key) = input.repeated_key() {
        let key = head(&key, KEY_BYTES_MAX);
        let reason =
            format_args!("the arguments have the key `{key}` twice, and not everybody reads the same one");
        return Some(Decision::refuse(GateStep::Schema, reason, "call it again with each key once"));
    }
    let faults = tool.schema.faults(&input.to_value()).err()?;
    let remedy = "call it again with arguments that fit its schema";
    let reason = format_args!("the arguments do not fit: {faults}");
    Some(Decision::refuse(GateStep::Schema, reason, remedy))
}

/// A server may echo the credential that it was given; nobody after us is to see it.
fn redacted(done: Done, redact: &dyn Redact) -> Done {
    let log = done.log.into_iter().map(|line| redact.words(line)).collect();
    Done { content: redact.blocks(done.content), log, ..done }
}

fn redacted_failure(failed: Failed, redact: &dyn Redact) -> Failed {
    let log = failed.log.into_iter().map(|line| redact.words(line)).collect();
    Failed { message: redact.words(failed.message), log, ..failed }
}

/// A call of a built-in tool that only reads does little harm, whatever else its tool can do. A server may ask for confirmation of
/// a read.
fn risk_of(offer: &Offer, effect: Effect) -> Risk {
    match offer.kind {
        Kind::Builtin(_) if effect == Effect::Read => Risk::Low,
        Kind::Builtin(_) | Kind::Script(_) | Kind::Server { .. } | Kind::Agent(_) => offer.risk,
    }
}

/// Calls that change files go one after another.
fn takes_turns(offer: &Offer) -> bool {
    matches!(&offer.kind, Kind::Builtin(builtin) if builtin.changes_files())
}

/// What a call may have done that was given up. What changes only its own session does so with its result, or not at all.
fn lost_effect(offer: &Offer, started: &Started) -> Effect {
    if offer.is_contained() { Effect::Read } else { offer.effect_of(&started.input) }
}

/// Another agent has limits of its own, and may wait for a person.
fn deadline(offer: &Offer, usual: Duration) -> Option<Duration> {
    match offer.kind {
        Kind::Agent(_) => None,
        Kind::Builtin(_) | Kind::Script(_) | Kind::Server { .. } => Some(usual),
    }
}

/// What the model reads instead of a result, so that it does not believe that something happened.
fn pretend(offer: &Offer, started: &Started) -> Done {
    let input = started.input.as_str();
    let shown = head(input, REPEATED_BYTES_MAX);
    let more = if shown.len() < input.len() { "…" } else { "" };
    Done::text(format!(
        "DRY RUN: nothing happened. `{}` changes things outside of this session, and such calls are stubbed here. It would \
         have been called with {shown}{more}. Do not claim that it was done. A person can let it happen with `--live-writes` or \
         `--live-writes={}`.",
        offer.definition.name, offer.definition.name,
    ))
}
