//! The engine as its callers see it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_events::{
    Allowance, Body, ExternalSignal, FileWritten, Payload, RunCancelRequested, SessionClosed, SessionCreated,
    SessionHalted, SessionUpdated, UserMessage,
};
use weir_journal::{Branch, Expected, Fork, Listed, Ownership, Part, ReadError, StreamSummary, mint_session};
use weir_kernel::{Session, Spent};
use weir_types::{Block, BranchId, BranchName, EventId, Json, Message, RunId, Seq, SessionId, Verdict, Who};
use weir_workspace::{Change, Files};

use crate::actor::{Command, Resume, attrs, within_budgets};
use crate::address::Address;
use crate::adopt;
use crate::budgets;
use crate::draft::Draft;
use crate::error::EngineError;
use crate::expiry;
use crate::files;
use crate::hooks;
use crate::input::{self, By};
use crate::outcome::Outcome;
use crate::owners::{Owners, Standing};
use crate::purses::{self, Balance};
use crate::rebuild::{self, Rebuilt};
use crate::setup::{Adopt, Setup};
use crate::shared::Shared;
use crate::store;
use crate::watch::Updates;

/// Runs sessions. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>, Option<EventId>);

/// A session to begin.
#[derive(Clone, Debug, Default)]
pub struct New {
    /// The agent.
    pub agent: String,
    /// On whose behalf.
    pub principal: String,
    /// The groups they come with, as `group:…`, besides those of the build.
    pub groups: Vec<String>,
    /// What to call it.
    pub title: Option<String>,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
    /// The files it begins with. Their contents must be in the blob store.
    pub files: Vec<FileWritten>,
    /// What was said before, as whoever begins it tells it. Whoever they name: it is their word.
    pub history: Vec<Message>,
}

/// What is said to a session.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// What.
    pub content: Vec<Block>,
    /// What the model is told along with it, such as the time.
    pub runtime: BTreeMap<String, String>,
    /// Who says it.
    pub actor: String,
}

impl Engine {
    /// Starts an engine. One that adopts begins by taking up what a crash has interrupted.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn start(setup: Setup) -> Result<Self, EngineError> {
        let shared = Shared::new(setup);
        // Whoever only reads, or finds no room, cannot write it down: the next one can.
        let _ = expiry::note(&shared).await;
        let end = shared.setup.journal.end().await?;
        let tail = shared.setup.journal.tail_all(end);
        shared.tasks.spawn(adopt::listen(Arc::clone(&shared), tail));
        if shared.setup.options.adopt == Adopt::All {
            shared.tasks.spawn(adopt::work(Arc::clone(&shared)));
            shared.tasks.spawn(adopt::tick(Arc::clone(&shared)));
        }
        Ok(Self(shared, None))
    }

    /// The same engine; what comes from outside through it is written down with this event as its cause, by which it can be
    /// found again ([`weir_journal::Journal::children`]).
    #[must_use]
    pub fn because(&self, cause: EventId) -> Self {
        Self(Arc::clone(&self.0), Some(cause))
    }

    pub(crate) fn by(&self, actor: &str) -> By {
        By { actor: actor.to_owned(), cause: self.1 }
    }

    /// Stops. What is under way is interrupted as by a crash, and goes on when an engine takes it up again.
    pub async fn stop(&self, deadline: Duration) {
        self.0.cutting.cancel();
        self.wind_down(deadline).await;
    }

    /// Begins nothing new, and waits until no tool is in the middle of something: what a tool has done is known then, whereas a
    /// model can be asked again. False, if some are still at it; [`Engine::stop`] cuts them off.
    ///
    /// # Cancel safety
    /// Nothing new is begun, whether or not somebody waits.
    pub async fn wind_down(&self, deadline: Duration) -> bool {
        self.0.stopping.cancel();
        self.0.tasks.close();
        tokio::time::timeout(deadline, self.0.tasks.wait()).await.is_ok()
    }

    /// Who this process is, and whether others live.
    pub fn owners(&self) -> &dyn Owners {
        &*self.0.setup.owners
    }

    /// Why events of sessions cannot be stored, for as long as they are held and tried again; nothing while they can be.
    pub fn storage_trouble(&self) -> watch::Receiver<Option<EngineError>> {
        self.0.storage.subscribe()
    }

    /// How many sessions are in memory.
    pub fn active(&self) -> usize {
        self.0.active_count()
    }

    /// An address for a session to begin.
    pub fn new_address(&self) -> Address {
        Address::main(mint_session())
    }

    /// Begins a session with something said. Durable when it returns, at the place it returns; see [`Engine::settle`] for what comes of it.
    ///
    /// # Errors
    /// When the agent cannot be had, or nothing can be written down.
    pub async fn begin(&self, address: &Address, new: New, said: Said) -> Result<Seq, EngineError> {
        let runnable = self.0.setup.agents.agent(&new.agent, None).await.map_err(EngineError::Agent)?;
        let admitted = runnable.tools.admit(Who::new(&new.principal, &new.groups), &new.agent);
        if admitted.verdict != Verdict::Allow {
            return Err(EngineError::Denied(admitted.because));
        }
        let created = SessionCreated {
            agent: new.agent,
            manifest: runnable.manifest,
            principal: new.principal,
            groups: new.groups,
            title: new.title,
            labels: new.labels,
            parent: None,
            lane: "direct".to_owned(),
        };
        let (body, actor) = message(said);
        let files = new.files.into_iter().map(Body::from);
        let history = new.history.into_iter().map(told);
        let bodies: Vec<Body> =
            std::iter::once(created.into()).chain(files).chain(history).chain([body]).collect();
        self.command(address, bodies, &actor).await
    }

    /// Says something to a session and runs it here. Durable when it returns, at the place it returns.
    ///
    /// # Errors
    /// [`EngineError::Owned`] when another process runs it; then nothing was said.
    pub async fn say(&self, address: &Address, said: Said) -> Result<Seq, EngineError> {
        let (body, actor) = message(said);
        self.command(address, vec![body], &actor).await
    }

    async fn command(&self, address: &Address, bodies: Vec<Body>, actor: &str) -> Result<Seq, EngineError> {
        hooks::ask(&self.0, address, &bodies, actor).await?;
        input::command(&self.0, address, |reply| Command::Input {
            bodies: bodies.clone(),
            by: self.by(actor),
            reply,
        })
        .await
    }

    /// Goes on with a run that was parked, halted or interrupted, or that did not answer. Durable when it returns.
    ///
    /// # Errors
    /// When another process runs it, or there is nothing to go on with.
    pub async fn resume(&self, address: &Address) -> Result<Seq, EngineError> {
        self.go_on(address, Resume { cause: self.1, ..Resume::default() }).await
    }

    /// The same, and who asked for it is written down.
    ///
    /// # Errors
    /// Those of [`Engine::resume`].
    pub async fn resume_for(&self, address: &Address, actor: &str) -> Result<Seq, EngineError> {
        let resume = Resume { actor: Some(actor.to_owned()), budget: None, cause: self.1 };
        self.go_on(address, resume).await
    }

    /// The same with more than a limit had left: for the run, or for the purse that had too little.
    ///
    /// # Errors
    /// When the one who gives it may not, or no limit had stopped the session; besides those of [`Engine::resume`].
    pub async fn resume_with<'a>(
        &self,
        address: &Address,
        budget: Allowance,
        actor: impl Into<Who<'a>>,
    ) -> Result<Seq, EngineError> {
        let Who { principal: actor, groups } = actor.into();
        let session = self.state(address, None).await?;
        let Some(created) = &session.created else { return Err(EngineError::NoSession(address.clone())) };
        let runnable = self.0.agent_of(created).await?;
        if !runnable.budgets.raised_by.iter().any(|name| name == actor || groups.contains(name)) {
            let denied =
                format!("`{actor}` may not raise a budget; only an administrator of the data directory may");
            return Err(EngineError::Denied(denied));
        }
        let resume = Resume { actor: Some(actor.to_owned()), budget: Some(budget), cause: self.1 };
        self.go_on(address, resume).await
    }

    async fn go_on(&self, address: &Address, resume: Resume) -> Result<Seq, EngineError> {
        // What a crash cut off goes on as soon as there is a task for it, and may be over before the command gets there.
        let was_cut_off = self.state(address, None).await?.active_run().is_some();
        match input::command(&self.0, address, |reply| Command::Resume { resume: resume.clone(), reply })
            .await
        {
            Err(EngineError::NothingToResume(_)) if was_cut_off => Ok(self.state(address, None).await?.seq),
            resumed => resumed,
        }
    }

    /// The purses that the next call of a session would be paid from, and how they stand.
    ///
    /// # Errors
    /// When there is no such session, or its agent cannot be had.
    pub async fn balances(&self, address: &Address) -> Result<Vec<Balance>, EngineError> {
        let session = self.state(address, None).await?;
        let Some(created) = &session.created else { return Err(EngineError::NoSession(address.clone())) };
        let runnable = self.0.agent_of(created).await?;
        let runnable = within_budgets(runnable);
        let run = session.run.as_ref().map(|run| run.id);
        let shares = budgets::shares(&runnable.budgets, address.session, created, run);
        let paid = budgets::paid_from(&shares, created, (self.0.setup.options.clock)());
        purses::balances_of(&*self.0.setup.journal, paid).await
    }

    /// The purses whose streams are wanted, by name.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn purses(
        &self,
        wanted: impl FnMut(&StreamSummary) -> bool,
    ) -> Result<Vec<Balance>, EngineError> {
        purses::balances(&*self.0.setup.journal, wanted).await
    }

    /// What a session of a list used, and what is wrong with it. Damage is no error here: it costs the other sessions of the list nothing.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn totals(
        &self,
        address: &Address,
        listed: &Listed,
    ) -> Result<(Spent, Option<String>), EngineError> {
        let damage = listed.damage.clone();
        match self.state(address, None).await {
            Ok(session) => Ok((session.totals, damage)),
            Err(error) if error.is_damage() => Ok((Spent::default(), damage.or(Some(error.to_string())))),
            Err(EngineError::NoSession(_)) => {
                let lost = "what finds it by its name is damaged".to_owned();
                Ok((Spent::default(), damage.or(Some(lost))))
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until a session has nothing to do, running it if need be, and says what came of its latest run.
    ///
    /// # Errors
    /// When it cannot go on.
    pub async fn settle(&self, address: &Address) -> Result<Outcome, EngineError> {
        input::settle(&self.0, address).await
    }

    /// Follows a session from an event on.
    pub fn watch(&self, address: &Address, after: Seq) -> Updates {
        Updates::new(&*self.0.setup.journal, address, after, self.0.live.of(address))
    }

    /// Asks whoever is to be asked before an event that is none of the engine's own is written down.
    ///
    /// # Errors
    /// When it is refused, or nobody can be asked.
    pub async fn ask_first(
        &self,
        branch: &BranchId,
        kind: &str,
        payload: &[u8],
        actor: &str,
    ) -> Result<(), EngineError> {
        hooks::ask_about(&self.0, branch, kind, payload, actor).await
    }

    /// Leaves a message for whoever runs the session, now or later.
    ///
    /// # Errors
    /// When there is no such session, or it is closed.
    pub async fn post(&self, address: &Address, said: Said) -> Result<Seq, EngineError> {
        let (body, actor) = message(said);
        input::post(&self.0, address, body, &self.by(&actor)).await
    }

    /// Tells a session that something happened.
    ///
    /// # Errors
    /// When there is no such session, or it is closed.
    pub async fn signal(
        &self,
        address: &Address,
        name: &str,
        data: Json,
        actor: &str,
    ) -> Result<Seq, EngineError> {
        self.input(address, ExternalSignal { name: name.to_owned(), data }, actor).await
    }

    /// Asks a session's run to stop.
    ///
    /// # Errors
    /// When there is no such session, or it is closed.
    pub async fn cancel(&self, address: &Address, actor: &str) -> Result<Seq, EngineError> {
        self.input(address, RunCancelRequested {}, actor).await
    }

    /// Asks this run of a session to stop, if it is not over: another one that has begun since goes on, and nothing is written down.
    ///
    /// # Errors
    /// When there is no such session, or it is closed.
    pub async fn cancel_run(
        &self,
        address: &Address,
        run: RunId,
        actor: &str,
    ) -> Result<Option<Seq>, EngineError> {
        input::cancel_run(&self.0, address, run, &self.by(actor)).await
    }

    /// Stops a session until it is resumed.
    ///
    /// # Errors
    /// When there is no such session, or it is closed.
    pub async fn halt(&self, address: &Address, reason: &str, actor: &str) -> Result<Seq, EngineError> {
        self.input(address, SessionHalted { reason: reason.to_owned(), imported: false }, actor).await
    }

    /// Ends a session for good.
    ///
    /// # Errors
    /// When there is no such session, or it is closed already.
    pub async fn close(&self, address: &Address, reason: &str, actor: &str) -> Result<Seq, EngineError> {
        self.input(address, SessionClosed { reason: reason.to_owned() }, actor).await
    }

    /// Changes a session's title or labels.
    ///
    /// # Errors
    /// When there is no such session, or it is closed.
    pub async fn update(
        &self,
        address: &Address,
        updated: SessionUpdated,
        actor: &str,
    ) -> Result<Seq, EngineError> {
        self.input(address, updated, actor).await
    }

    async fn input(&self, address: &Address, body: impl Into<Body>, actor: &str) -> Result<Seq, EngineError> {
        input::post(&self.0, address, body.into(), &self.by(actor)).await
    }

    /// Forks a session at an event. What was open there is closed on the new branch.
    ///
    /// # Errors
    /// When there is no such event, or the name is taken.
    pub async fn fork(
        &self,
        from: &Address,
        at: Seq,
        name: BranchName,
    ) -> Result<(Address, Branch), EngineError> {
        let journal = &self.0.setup.journal;
        let branch = journal.fork(Fork { from: from.branch_id(), at, name: name.clone() }).await?;
        let address = Address { session: from.session, branch: name };
        let loaded = store::load(self.0.journal(), &address).await?;
        let Some(loaded) = loaded.filter(|loaded| !loaded.preface.is_empty()) else {
            return Ok((address, branch));
        };
        let (mut session, mut draft) = (loaded.session, Draft::default());
        draft.preface(&mut session, loaded.preface);
        let part = Part {
            branch: address.branch_id(),
            expected: Expected::Exactly(at),
            key: None,
            owner: Ownership::Unchecked,
            events: draft.to_append().0,
            attrs: Some(attrs(&session)),
        };
        journal.append(vec![part]).await?;
        Ok((address, branch))
    }

    /// How a session began, as its event says; nothing, if no event does.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn beginning(&self, session: SessionId) -> Result<Option<SessionCreated>, EngineError> {
        let branch = Address::main(session).branch_id();
        let page = match self.0.setup.journal.by_kind(&branch, &SessionCreated::kind(), Seq(0), 4).await {
            Ok(page) => page,
            Err(ReadError::NoStream(_) | ReadError::NoBranch(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let created = page.into_iter().rev().find_map(|event| {
            match Body::decode(&event.kind, &event.payload).ok().flatten() {
                Some(Body::SessionCreated(created)) => Some(created),
                _ => None,
            }
        });
        Ok(created)
    }

    /// The state of a session, now or at a past event.
    ///
    /// # Errors
    /// When there is no such session, or it cannot be read.
    pub async fn state(&self, address: &Address, at: Option<Seq>) -> Result<Session, EngineError> {
        let loaded = store::load_until(self.0.journal(), address, at).await?;
        loaded.map(store::Loaded::state).ok_or_else(|| EngineError::NoSession(address.clone()))
    }

    /// The files of a session, now or at a past event.
    ///
    /// # Errors
    /// When there is no such session, or it cannot be read.
    pub async fn files(&self, address: &Address, at: Option<Seq>) -> Result<Files, EngineError> {
        let (journal, branch) = (self.0.journal(), address.branch_id());
        if journal.head(&branch).await?.is_none() {
            return Err(EngineError::NoSession(address.clone()));
        }
        Ok(files::files_at(journal, &branch, at).await?)
    }

    /// Changes the files of a session that is at rest, without running it. Their contents must be in the blob store.
    ///
    /// # Errors
    /// When there is no such session, it is closed, or a run of it may be changing files itself.
    pub async fn change_files(
        &self,
        address: &Address,
        changes: &[Change],
        actor: &str,
    ) -> Result<Seq, EngineError> {
        let bodies = changes.iter().map(files::body_of).collect();
        input::post_all(&self.0, address, bodies, &self.by(actor)).await
    }

    /// A past request, made again; `n` counts from 1.
    ///
    /// # Errors
    /// When there is no such request, or what it was made of is gone.
    pub async fn request(&self, address: &Address, n: usize) -> Result<Rebuilt, EngineError> {
        rebuild::rebuild(&self.0, address, n).await
    }

    /// The number of the process that runs a session, if one does.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn runner(&self, address: &Address) -> Result<Option<Option<u32>>, EngineError> {
        let listed = self.0.setup.journal.listed(&address.branch_id()).await?;
        let running = listed.filter(|listed| listed.attrs.status == weir_journal::Status::Running);
        let Some(owner) = running.and_then(|listed| listed.owner) else { return Ok(None) };
        Ok(match self.0.setup.owners.standing(owner).await {
            Ok(Standing::Alive { pid }) => Some(pid),
            Ok(Standing::Dead) => None,
            Err(_) => Some(None),
        })
    }
}

fn message(said: Said) -> (Body, String) {
    (UserMessage { content: said.content, runtime: said.runtime, history: None }.into(), said.actor)
}

fn told(message: Message) -> Body {
    let history = Some(message.role);
    UserMessage { content: message.content, runtime: BTreeMap::new(), history }.into()
}
