//! A world that outlives its processes: a journal, dead and living owners, and what tools have done to it.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Notify;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_engine::{
    Address, Agents, AsksFirst, Budgets, Engine, Explained, Function, Functions, Hooks, New, Options, Owners,
    Runnable, Said, Setup, SnapshotSeal, Standing, Tools, get_time,
};
use weir_journal::{
    Answer, AppendError, Appended, Branch, Expected, Fork, ForkError, Head, Journal, KeyedPart, ListAfter,
    ListFilter, Listed, MemoryJournal, NewEvent, Part, ReadError, Report, Snapshot, StorageError,
    StorageFailure, StreamSummary, Tail, VerifyProgress, mint_owner,
};
use weir_kernel::{Agent, Limits, Session};
use weir_models::scripted::{Call, Reply, Script, When};
use weir_models::{Model, ModelError, Piece, Scripted};
use weir_tools::{
    Asked, Builtin, Decision, Done, Failed, Kind as ToolKind, Level, Live, Net, NoResult, Offer, Permit,
    ServerCall, Servers, Setup as ToolSetup, Toolbox,
};
use weir_types::{
    Block, BranchId, Catalog, Effect, Event, EventId, Hash, Json, Kind, ModelCard, OwnerId, Position,
    Request, Risk, Saw, Seq, StreamName, Who, Wire, text_of,
};

/// Longest any test waits for anything, in the paused clock or the real one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// What outlives a process.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) agents: Arc<Catalogue>,
    pub(crate) deeds: Arc<Mutex<Vec<Deed>>>,
    pub(crate) dead: Arc<Mutex<HashSet<OwnerId>>>,
    pub(crate) seal: SnapshotSeal,
}

/// Something a tool has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    pub(crate) tool: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
}

/// Agents by name, which of them have real tools, and what the others may.
#[derive(Default)]
pub(crate) struct Catalogue(
    pub(crate) Mutex<BTreeMap<String, Arc<Runnable>>>,
    pub(crate) Mutex<HashSet<String>>,
    pub(crate) Arc<Rights>,
    pub(crate) Mutex<Option<Arc<dyn Hooks>>>,
);

impl AsksFirst for Catalogue {
    fn hooks(&self, _build: Option<Hash>) -> BoxFuture<'_, Result<Option<Arc<dyn Hooks>>, Explained>> {
        let hooks = self.3.lock().unwrap().clone();
        async move { Ok(hooks) }.boxed()
    }
}

impl Agents for Catalogue {
    fn asks_first(&self) -> Option<&dyn AsksFirst> {
        Some(self)
    }

    fn agent<'a>(
        &'a self,
        name: &'a str,
        _build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        let found = self.0.lock().unwrap().get(name).cloned();
        let missing = || {
            let error = Catalog::default().find(name).unwrap_err();
            Arc::new(error) as Explained
        };
        async move { found.ok_or_else(missing) }.boxed()
    }
}

/// The agents as one process has them: with tools that stop when it does.
struct Neighbourhood {
    agents: Arc<Catalogue>,
    functions: Functions,
}

impl Agents for Neighbourhood {
    fn asks_first(&self) -> Option<&dyn AsksFirst> {
        self.agents.asks_first()
    }

    fn agent<'a>(
        &'a self,
        name: &'a str,
        build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        async move {
            let mut runnable = (*self.agents.agent(name, build).await?).clone();
            if self.agents.1.lock().unwrap().contains(name) {
                return Ok(Arc::new(runnable));
            }
            let listed: Vec<&str> =
                runnable.agent.tools.iter().map(|tool| tool.definition.name.as_str()).collect();
            let agents = runnable.agent.tools.iter().filter_map(|tool| tool.agent.as_deref());
            let others = Functions::new(agents.map(Function::agent));
            runnable.tools = Arc::new(Gate(self.functions.only(&listed), others, Arc::clone(&self.agents.2)));
            Ok(Arc::new(runnable))
        }
        .boxed()
    }
}

/// One process, which may have been declared dead.
pub(crate) struct Process {
    pub(crate) engine: Engine,
    pub(crate) fuse: Arc<Fuse>,
    pub(crate) me: OwnerId,
    world: World,
}

impl Process {
    /// The process is gone: it does nothing any more, and everybody knows.
    pub(crate) fn die(&self) {
        self.fuse.blow();
        self.world.dead.lock().unwrap().insert(self.me);
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
        let journal = Arc::new(MemoryJournal::new(Arc::clone(&blobs)));
        let (agents, deeds, dead) = Default::default();
        Self { journal, blobs, agents, deeds, dead, seal: SnapshotSeal::in_memory().unwrap() }
    }

    /// Adds an agent with these tools that answers from a script.
    pub(crate) fn agent(&self, name: &str, replies: Vec<Reply>, tools: &[&str]) -> &Self {
        self.agent_with(name, replies, tools, |_| {})
    }

    pub(crate) fn agent_with(
        &self,
        name: &str,
        replies: Vec<Reply>,
        tools: &[&str],
        change: impl FnOnce(&mut Agent),
    ) -> &Self {
        let model: Arc<dyn Model> = Arc::new(Scripted::new(Script { replies }).unwrap());
        self.agent_on(name, model, tools, change)
    }

    pub(crate) fn agent_on(
        &self,
        name: &str,
        model: Arc<dyn Model>,
        tools: &[&str],
        change: impl FnOnce(&mut Agent),
    ) -> &Self {
        // No model is asked before the journal says so.
        let model: Arc<dyn Model> = Arc::new(Witness { model, journal: Arc::clone(&self.journal) });
        self.add(name, model, tools, change)
    }

    /// Adds an agent whose model nobody watches.
    pub(crate) fn add(
        &self,
        name: &str,
        model: Arc<dyn Model>,
        tools: &[&str],
        change: impl FnOnce(&mut Agent),
    ) -> &Self {
        let known = self.functions(&Arc::new(Fuse::default()));
        let (full, card): (String, ModelCard) = Catalog::default().find("scripted/test").unwrap();
        let agent_tool = |name: &str| Functions::new([Function::agent(name)]).tool(name).unwrap();
        let tool = |name: &&str| known.tool(name).unwrap_or_else(|| agent_tool(name));
        let mut agent = Agent {
            name: name.to_owned(),
            model: full,
            card,
            system: format!("You are {name}."),
            tools: tools.iter().map(tool).collect(),
            limits: Limits::default(),
        };
        change(&mut agent);
        // Each process has tools of its own; see `Neighbourhood`.
        let tools = Arc::new(Functions::default());
        let (manifest, budgets) = (Hash::of(name.as_bytes()), Budgets::default());
        let runnable = Runnable { agent, model, tools, manifest, budgets };
        self.agents.0.lock().unwrap().insert(name.to_owned(), Arc::new(runnable));
        self
    }

    /// Lets the project of an agent allow so much and no more.
    pub(crate) fn allow(&self, name: &str, budgets: Budgets) -> &Self {
        let mut agents = self.agents.0.lock().unwrap();
        let mut runnable = (*agents[name]).clone();
        runnable.budgets = budgets;
        runnable.budgets.raised_by = vec!["user:admin".to_owned()];
        agents.insert(name.to_owned(), Arc::new(runnable));
        self
    }

    /// Adds an agent with real tools behind the real gate.
    pub(crate) fn equip(
        &self,
        name: &str,
        replies: Vec<Reply>,
        offers: Vec<Offer>,
        change: impl FnOnce(&mut Agent, &mut ToolSetup),
    ) -> &Self {
        let mut setup = ToolSetup {
            gate: gate(&[], &["user:test"]),
            live: Live::Nothing,
            for_real: Default::default(),
            servers: Arc::new(NoServers),
            redact: Arc::new(weir_tools::NoSecrets),
            sandbox: Arc::default(),
            net: Net::default(),
            deadline: Duration::from_secs(120),
        };
        let tools = offers.iter().map(|offer| weir_kernel::Tool {
            definition: offer.definition.clone(),
            source: offer.source.clone(),
            effect: offer.effect,
            risk: offer.risk,
            on_interrupt: weir_types::OnInterrupt::Report,
            agent: offer.callee().map(str::to_owned),
            approval: Default::default(),
        });
        let tools: Vec<weir_kernel::Tool> = tools.collect();
        self.agent_with(name, replies, &[], |agent| {
            agent.tools = tools;
            change(agent, &mut setup);
        });
        let mut agents = self.agents.0.lock().unwrap();
        let mut runnable = (*agents[name]).clone();
        runnable.tools = Arc::new(Toolbox::new(setup, offers));
        agents.insert(name.to_owned(), Arc::new(runnable));
        self.agents.1.lock().unwrap().insert(name.to_owned());
        self
    }

    /// Tools that leave a mark in the world when they run.
    pub(crate) fn functions(&self, fuse: &Arc<Fuse>) -> Functions {
        let effects = [
            ("ask", Effect::Write),
            ("hurry", Effect::Write),
            ("look", Effect::Read),
            ("place", Effect::Idempotent),
            ("put", Effect::Idempotent),
            ("send", Effect::Write),
            ("slow", Effect::Write),
            ("tick", Effect::Read),
        ];
        let marking = effects.map(|(name, effect)| {
            let (world, fuse) = (self.clone(), Arc::clone(fuse));
            Function::new(name, "leaves a mark", move |permit| mark(world.clone(), Arc::clone(&fuse), permit))
                .with(|tool| (tool.effect, tool.risk) = (effect, Risk::Medium))
        });
        Functions::new(marking.into_iter().chain([get_time()]))
    }

    /// A process on this world.
    pub(crate) async fn start(&self) -> Process {
        self.start_with(Fuse::default(), |_| {}).await
    }

    pub(crate) async fn start_with(&self, fuse: Fuse, change: impl FnOnce(&mut Options)) -> Process {
        let fuse = Arc::new(fuse);
        let me = mint_owner();
        let mut options = Options { retry_delay: Duration::from_millis(10), ..Options::default() };
        change(&mut options);
        let setup = Setup {
            journal: Arc::new(Fused { inner: Arc::clone(&self.journal), fuse: Arc::clone(&fuse) }),
            blobs: Arc::clone(&self.blobs),
            agents: Arc::new(Neighbourhood {
                agents: Arc::clone(&self.agents),
                functions: self.functions(&fuse),
            }),
            owners: Arc::new(Household { me, dead: Arc::clone(&self.dead) }),
            seal: self.seal.clone(),
            options,
        };
        let engine = Engine::start(setup).await.unwrap();
        Process { engine, fuse, me, world: self.clone() }
    }

    pub(crate) async fn events(&self, address: &Address) -> Vec<Event> {
        let branch = address.branch_id();
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(Seq(0), |event| event.seq);
            let page = self.journal.read(&branch, after, 1_000).await.unwrap();
            if page.is_empty() {
                return events;
            }
            events.extend(page);
        }
    }

    /// Waits until the newest event is of this kind.
    pub(crate) async fn until(&self, address: &Address, kind: &str) -> Event {
        let mut tail = self.journal.tail(&address.branch_id(), Seq(0));
        let found = async {
            while let Some(event) = tail.next().await {
                let event = event.unwrap();
                if event.kind.as_str() == kind {
                    return (*event).clone();
                }
            }
            unreachable!("a tail never ends")
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no {kind} came"))
    }

    pub(crate) async fn kinds(&self, address: &Address) -> Vec<String> {
        self.events(address).await.iter().map(|event| event.kind.to_string()).collect()
    }

    /// The state, folded from the first event.
    pub(crate) async fn state(&self, address: &Address) -> Session {
        let mut session = Session::default();
        for event in self.events(address).await {
            session.apply(&event).unwrap();
        }
        session
    }

    /// The state as it would be without summaries: everything that was ever said is in it.
    pub(crate) async fn history(&self, address: &Address) -> Session {
        let mut session = Session::default();
        for event in self.events(address).await {
            if event.kind.as_str() != "context.compacted" {
                session.apply(&event).unwrap();
            }
        }
        session
    }
}

async fn mark(world: World, fuse: Arc<Fuse>, permit: Permit) -> Result<Done, Failed> {
    fuse.unless_blown().await;
    let permit = permit.into_started();
    // No tool runs before the journal says so.
    let started = [permit.key.as_str(), &format!("\"attempt\":{}", permit.attempt)];
    assert!(says(&*world.journal, "tool.started", &started).await, "{started:?} is not written down");
    let deed = |tool: &str| Deed { tool: tool.to_owned(), key: permit.key.clone(), attempt: permit.attempt };
    world.deeds.lock().unwrap().push(deed(&permit.tool));
    if permit.tool == "slow" {
        tokio::time::sleep(Duration::from_secs(5)).await;
        fuse.unless_blown().await;
        world.deeds.lock().unwrap().push(deed("slow, to its end"));
    }
    fuse.unless_blown().await;
    if permit.tool == "tick" {
        // Never the same twice.
        return Ok(Done::text(format!("tick {}", world.deeds.lock().unwrap().len())));
    }
    Ok(Done::text(format!("{} {}", permit.tool, permit.input.as_str())))
}

/// Whether the journal has an event of this kind that contains all of these words.
async fn says(journal: &dyn Journal, kind: &str, words: &[&str]) -> bool {
    let mut after = Position(0);
    loop {
        let page = journal.read_all(after, 1_000).await.unwrap();
        let Some(last) = page.last() else { return false };
        after = last.position;
        let matches = |event: &Event| {
            let payload = String::from_utf8_lossy(&event.payload);
            event.kind.as_str() == kind && words.iter().all(|word| payload.contains(word))
        };
        if page.iter().any(matches) {
            return true;
        }
    }
}

/// A model that looks into the journal before it answers.
struct Witness {
    model: Arc<dyn Model>,
    journal: Arc<dyn Journal>,
}

impl Model for Witness {
    fn wire(&self) -> Wire {
        self.model.wire()
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        self.model.encode(request)
    }

    fn stream(&self, body: Bytes, attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>> {
        let (journal, hash) = (Arc::clone(&self.journal), Hash::of(&body).to_string());
        let pieces = self.model.stream(body, attempt);
        let look = async move {
            let asked = [hash.as_str(), &format!("\"attempt\":{attempt}")];
            assert!(says(&*journal, "model.requested", &asked).await, "the request is not written down");
            pieces
        };
        look.flatten_stream().boxed()
    }
}

pub(crate) fn new(agent: &str) -> New {
    New { agent: agent.to_owned(), principal: "user:test".to_owned(), ..New::default() }
}

pub(crate) fn said(text: &str) -> Said {
    Said { content: vec![Block::text(text)], runtime: BTreeMap::new(), actor: "user:test".to_owned() }
}

/// Answers the user.
pub(crate) fn on_user(pattern: &str, say: &str) -> Reply {
    let when = When { user: Some(pattern.to_owned()), ..When::default() };
    Reply { when: Some(when), say: Some(say.to_owned()), ..Reply::default() }
}

/// Answers a tool's result.
pub(crate) fn on_tool(tool: &str, say: &str) -> Reply {
    let when = When { tool: Some(tool.to_owned()), ..When::default() };
    Reply { when: Some(when), say: Some(say.to_owned()), ..Reply::default() }
}

pub(crate) fn calling(reply: Reply, calls: &[(&str, &str)]) -> Reply {
    let call =
        |(tool, input): &(&str, &str)| Call { tool: (*tool).to_owned(), input: Json::parse(input).unwrap() };
    Reply { call: calls.iter().map(call).collect(), ..reply }
}

/// What was said, in short: who, what, and what came of the calls.
pub(crate) fn conversation(session: &Session) -> Vec<String> {
    use weir_kernel::{CallState, Entry};
    let mut lines = Vec::new();
    for entry in &session.transcript.entries {
        match entry {
            Entry::User(entry) => lines.push(format!("user: {}", text_of(&entry.content))),
            Entry::Assistant(entry) => {
                lines.push(format!("assistant: {}", text_of(&entry.content)));
                for call in &entry.calls {
                    let result = match &call.state {
                        CallState::Done(result) => {
                            format!("{:?} {}", result.failed, text_of(&result.content))
                        }
                        open => format!("{open:?}"),
                    };
                    lines.push(format!("{}: {result}", call.tool));
                }
            }
        }
    }
    lines
}

/// A tool that comes with the program, as an agent's entry offers it.
pub(crate) fn builtin(builtin: Builtin) -> Offer {
    let reads = builtin.name().starts_with("fs_") || builtin == Builtin::GetTime;
    Offer {
        definition: builtin.definition(),
        source: builtin.name().to_owned(),
        kind: ToolKind::Builtin(builtin),
        access: Level::Write,
        effect: if reads { Effect::Read } else { Effect::Idempotent },
        risk: Risk::Low,
        hosts: Vec::new(),
        timeout: None,
        cpu: None,
    }
}

/// Another agent, as an agent's entry offers it.
pub(crate) fn callee(agent: &str) -> Offer {
    let definition = weir_types::ToolDefinition {
        name: agent.to_owned(),
        description: "Another agent.".to_owned(),
        schema: Json::of(&serde_json::json!({ "type": "object" })),
    };
    let (source, kind) = (format!("weir://{agent}"), ToolKind::Agent(agent.to_owned()));
    let (access, effect, risk) = (Level::Write, Effect::Write, Risk::High);
    Offer { definition, source, kind, access, effect, risk, hosts: Vec::new(), timeout: None, cpu: None }
}

struct NoServers;

impl Servers for NoServers {
    fn call(&self, _call: ServerCall) -> BoxFuture<'static, Result<Done, Failed>> {
        async { Err(Failed::new("mcp", "there are no servers here")) }.boxed()
    }
}

/// Asks before `ask`, `place` and `hurry` run, the latter for a moment only, and lets everything else run: functions, then agents.
/// Arguments that say `"bad"` are never allowed. Anyone may approve who is not called Eve or has lost that right.
struct Gate(Functions, Functions, Arc<Rights>);

/// What the gate may be told while sessions wait.
#[derive(Default)]
pub(crate) struct Rights {
    /// Who may no longer approve.
    pub(crate) no_approvers: Mutex<HashSet<String>>,
    /// Which tools nobody may use any more.
    pub(crate) revoked: Mutex<HashSet<String>>,
    /// Which tools only pretend from now on.
    pub(crate) pretending: Mutex<HashSet<String>>,
}

impl Gate {
    fn whose(&self, tool: &str) -> &Functions {
        if self.0.tool(tool).is_some() { &self.0 } else { &self.1 }
    }
}

impl Tools for Gate {
    fn admit(&self, who: Who<'_>, agent: &str) -> Decision {
        self.0.admit(who, agent)
    }

    fn may_approve(&self, by: Who<'_>, asker: &str, agent: &str) -> Decision {
        let by = by.principal;
        if ["user:eve", "user:mallory"].contains(&by) || self.2.no_approvers.lock().unwrap().contains(by) {
            let step = Some(weir_types::GateStep::Grant);
            let because = format!("`{by}` may not approve what `{agent}` does for `{asker}`");
            return Decision { step, ..Decision::deny(because) };
        }
        Decision::allow("almost anyone may")
    }

    fn authorize(&self, asked: &Asked<'_>) -> Decision {
        if asked.input.as_str().contains("bad") {
            return Decision::deny("the arguments are bad");
        }
        if self.2.revoked.lock().unwrap().contains(asked.tool) {
            return Decision::deny("the grant was taken back");
        }
        let saw = Saw { principal: asked.principal.to_owned(), ..Saw::default() };
        match (asked.tool, asked.approved_by) {
            ("ask" | "place", None) => Decision { saw, ..Decision::ask("ask-first", "it needs a yes") },
            ("hurry", None) => {
                let terms = weir_types::ApprovalTerms { within_ms: Some(1), escalate: None };
                Decision { terms, saw, ..Decision::ask("ask-first", "it needs a yes") }
            }
            (tool, _) => {
                let stub = self.2.pretending.lock().unwrap().contains(tool);
                Decision { stub, ..self.whose(tool).authorize(asked) }
            }
        }
    }

    /// Eve works at night.
    fn is_member(&self, who: Who<'_>, group: &str) -> bool {
        (who.principal, group) == ("user:eve", "group:night")
    }

    fn execute(&self, permit: Permit) -> BoxFuture<'static, Result<Done, NoResult>> {
        self.whose(&permit.started().tool).execute(permit)
    }
}

/// Owners that tests declare dead.
struct Household {
    me: OwnerId,
    dead: Arc<Mutex<HashSet<OwnerId>>>,
}

impl Owners for Household {
    fn me(&self) -> OwnerId {
        self.me
    }

    fn standing(&self, owner: OwnerId) -> BoxFuture<'_, std::io::Result<Standing>> {
        let dead = self.dead.lock().unwrap().contains(&owner);
        let standing = if dead { Standing::Dead } else { Standing::Alive { pid: Some(1) } };
        async move { Ok(standing) }.boxed()
    }
}

/// Ends a process at an append: before it, or after it but before anyone hears of it.
#[derive(Default)]
pub(crate) struct Fuse {
    at: Option<(u64, Side)>,
    appends: AtomicU64,
    /// One more than the number of appends that there is room for; 0 for any number.
    full_after: AtomicU64,
    /// Somebody else appends just before, every other time, so many times.
    intrusions: AtomicU64,
    blown: AtomicBool,
    notify: Notify,
}

impl Fuse {
    /// Lets the disk be full for the appends after these, until [`Fuse::free_space`].
    pub(crate) fn full_after(appends: u64) -> Self {
        Self { full_after: AtomicU64::new(appends + 1), ..Self::default() }
    }

    pub(crate) fn free_space(&self) {
        self.full_after.store(0, Ordering::SeqCst);
    }

    /// Lets somebody else append just before this process does, each time it tries for the first time.
    pub(crate) fn intruding(times: u64) -> Self {
        Self { intrusions: AtomicU64::new(2 * times), ..Self::default() }
    }

    /// The same from now on.
    pub(crate) fn intrude(&self, times: u64) {
        self.intrusions.store(2 * times, Ordering::SeqCst);
    }

    /// What somebody else appends before these parts.
    fn intrusion(&self, parts: &[Part]) -> Option<Vec<Part>> {
        let part = parts.first().filter(|part| matches!(part.expected, Expected::Exactly(_)))?;
        let left = self.intrusions.load(Ordering::SeqCst);
        self.intrusions.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 0 || left % 2 == 1 {
            return None;
        }
        let signal = NewEvent::new("external.signal".parse().unwrap(), r#"{"name":"tick","data":1}"#);
        Some(vec![Part::new(part.branch.clone(), vec![signal])])
    }

    fn refused(&self) -> Option<AppendError> {
        let limit = self.full_after.load(Ordering::SeqCst);
        let full = limit > 0 && self.appends.load(Ordering::SeqCst) >= limit - 1;
        full.then(|| {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull).into();
            AppendError::Storage(StorageError {
                path: "journal.db".into(),
                what: StorageFailure::Full,
                source,
            })
        })
    }
}

/// On which side of an append a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

impl Fuse {
    pub(crate) fn at(append: u64, side: Side) -> Self {
        Self { at: Some((append, side)), ..Self::default() }
    }

    pub(crate) fn appends(&self) -> u64 {
        self.appends.load(Ordering::SeqCst)
    }

    pub(crate) fn is_blown(&self) -> bool {
        self.blown.load(Ordering::SeqCst)
    }

    fn blow(&self) {
        self.blown.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Resolves when the process has ended.
    pub(crate) async fn blown(&self) {
        loop {
            let notified = self.notify.notified();
            if self.is_blown() {
                return;
            }
            notified.await;
        }
    }

    /// Never returns in a process that has ended.
    async fn unless_blown(&self) {
        if self.is_blown() {
            std::future::pending::<()>().await;
        }
    }

    async fn around<T>(&self, append: impl Future<Output = T>) -> T {
        self.unless_blown().await;
        let n = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        if self.at == Some((n, Side::Before)) {
            self.blow();
        }
        self.unless_blown().await;
        let appended = append.await;
        if self.at == Some((n, Side::After)) {
            self.blow();
        }
        self.unless_blown().await;
        appended
    }
}

/// A journal seen from a process that may end.
struct Fused {
    inner: Arc<dyn Journal>,
    fuse: Arc<Fuse>,
}

impl Journal for Fused {
    fn append(&self, parts: Vec<Part>) -> Answer<'_, Vec<Appended>, AppendError> {
        let append = async {
            // A disk takes its time: whatever does not wait for it is seen to.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            if let Some(others) = self.fuse.intrusion(&parts) {
                self.inner.append(others).await.unwrap();
            }
            match self.fuse.refused() {
                Some(error) => Err(error),
                None => self.fuse.around(self.inner.append(parts)).await,
            }
        };
        append.boxed()
    }

    fn fork(&self, fork: Fork) -> Answer<'_, Branch, ForkError> {
        self.inner.fork(fork)
    }

    fn head<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Head>, ReadError> {
        self.inner.head(branch)
    }

    fn read<'a>(
        &'a self,
        branch: &'a BranchId,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        self.inner.read(branch, after, limit)
    }

    fn read_back<'a>(
        &'a self,
        branch: &'a BranchId,
        before: Option<Seq>,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        self.inner.read_back(branch, before, limit)
    }

    fn by_kind<'a>(
        &'a self,
        branch: &'a BranchId,
        kind: &'a Kind,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, Vec<Event>, ReadError> {
        self.inner.by_kind(branch, kind, after, limit)
    }

    fn by_id(&self, id: EventId) -> Answer<'_, Option<Event>, ReadError> {
        self.inner.by_id(id)
    }

    fn children(&self, of: EventId, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError> {
        self.inner.children(of, after, limit)
    }

    fn read_all(&self, after: Position, limit: usize) -> Answer<'_, Vec<Event>, ReadError> {
        self.inner.read_all(after, limit)
    }

    fn end(&self) -> Answer<'_, Position, ReadError> {
        self.inner.end()
    }

    fn tail(&self, branch: &BranchId, after: Seq) -> Tail {
        self.inner.tail(branch, after)
    }

    fn tail_all(&self, after: Position) -> Tail {
        self.inner.tail_all(after)
    }

    fn streams(&self, after: Option<StreamName>, limit: usize) -> Answer<'_, Vec<StreamSummary>, ReadError> {
        self.inner.streams(after, limit)
    }

    fn branches<'a>(&'a self, stream: &'a StreamName) -> Answer<'a, Vec<Branch>, ReadError> {
        self.inner.branches(stream)
    }

    fn list(
        &self,
        filter: ListFilter,
        after: Option<ListAfter>,
        limit: usize,
    ) -> Answer<'_, Vec<Listed>, ReadError> {
        self.inner.list(filter, after, limit)
    }

    fn listed<'a>(&'a self, branch: &'a BranchId) -> Answer<'a, Option<Listed>, ReadError> {
        self.inner.listed(branch)
    }

    fn keys<'a>(&'a self, branch: &'a BranchId, from: Seq, to: Seq) -> Answer<'a, Vec<KeyedPart>, ReadError> {
        self.inner.keys(branch, from, to)
    }

    fn keyed<'a>(
        &'a self,
        branch: &'a BranchId,
        key: &'a weir_journal::Key,
    ) -> Answer<'a, Option<KeyedPart>, ReadError> {
        self.inner.keyed(branch, key)
    }

    fn refers_to(&self, hash: Hash) -> Answer<'_, bool, ReadError> {
        self.inner.refers_to(hash)
    }

    fn referring(
        &self,
        hash: Hash,
        after: Position,
        limit: usize,
    ) -> Answer<'_, Vec<(Position, StreamName)>, ReadError> {
        self.inner.referring(hash, after, limit)
    }

    fn referring_on<'a>(
        &'a self,
        branch: &'a BranchId,
        hash: Hash,
        after: Seq,
        limit: usize,
    ) -> Answer<'a, weir_journal::Looked, ReadError> {
        self.inner.referring_on(branch, hash, after, limit)
    }

    fn put_snapshot(&self, snapshot: Snapshot) -> Answer<'_, (), AppendError> {
        self.inner.put_snapshot(snapshot)
    }

    fn snapshot<'a>(
        &'a self,
        branch: &'a BranchId,
        fold: &'a weir_journal::FoldVersion,
    ) -> Answer<'a, Option<Snapshot>, ReadError> {
        self.inner.snapshot(branch, fold)
    }

    fn verify(&self, stream: Option<StreamName>, progress: VerifyProgress) -> Answer<'_, Report, ReadError> {
        self.inner.verify(stream, progress)
    }
}

/// The gate of a build in which these may talk to these agents, and these are admins.
pub(crate) fn gate(acl: &[(&str, &str)], admins: &[&str]) -> Arc<dyn weir_tools::Gate> {
    let mut source = weir_policy::Source::default();
    for (agent, principal) in acl {
        let role = ((*principal).to_owned(), weir_policy::AgentRole::Execute);
        source.agents.entry((*agent).to_owned()).or_default().acl.push(role);
    }
    let policy = weir_policy::compile(&source).unwrap().text;
    let manifest = weir_spec::Manifest { policy, ..weir_spec::Manifest::default() };
    weir_engine::provision::gate(&manifest, admins.iter().map(|admin| (*admin).to_owned()))
}
