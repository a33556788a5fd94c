//! What someone sees: their own sessions, streams, blobs and approvals. Those of others do not exist, as far as they can tell.
//!
//! The policy of the build decides, by the rules that `weir policy show` prints; without a build, those that always hold. All
//! that is added here is whose something is, and that is never the word of whoever asks: a session's first event says on whose behalf
//! it acts, a stream has its owner in its name, and a blob belongs to whose streams refer to it. Nothing is read for it but one
//! row and one event.

mod blobs;
mod inbox;
mod names;

use std::sync::Arc;

use axum::http::StatusCode;
use weir_engine::{Address, Approval, escalated, stream_of};
use weir_journal::lines::Positions;
use weir_journal::{ListFilter, Listed, StreamSummary, now};
use weir_tools::{Gate, Stored, StoredKind};
use weir_types::{
    BranchId, BranchName, Level, SessionId, StreamName, Verdict, Who, Whose, is_reserved_stream,
};

pub(crate) use self::blobs::{blob, keep_blob, may_store};
pub(crate) use self::inbox::Inbox;
pub(crate) use self::names::{is_principal, shown};
use crate::app::{App, Build};
use crate::auth::Caller;
use crate::error::Error;

impl Caller {
    /// Whoever asks, as policy sees them.
    pub fn who(&self) -> Who<'_> {
        Who::new(&self.principal, &self.groups)
    }
}

/// What decides now.
pub(crate) fn gate(app: &App) -> Arc<dyn Gate> {
    app.builds.current().map_or_else(|| Arc::clone(&app.bare), |build| Arc::clone(&build.gate))
}

/// Whether someone is told where events are in the whole journal: that tells how much everybody writes.
pub(crate) fn positions(app: &App, caller: &Caller) -> Positions {
    if is_admin(app, caller) { Positions::Shown } else { Positions::Hidden }
}

/// Whether someone sees everything.
pub(crate) fn is_admin(app: &App, caller: &Caller) -> bool {
    gate(app).is_admin(caller.who())
}

/// Whether there is anything that someone could do: write among their own, talk to an agent, decide about a call, or something in a session of theirs.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) async fn does_anything(app: &App, caller: &Caller) -> Result<bool, Error> {
    let own = names::namespace(&caller.principal);
    let own = Stored { kind: StoredKind::Stream, name: &own, owner: Whose::Someone(&caller.principal) };
    if gate(app).may(caller.who(), Level::Write, own) || Inbox::of(app, caller).decides_at_all() {
        return Ok(true);
    }
    let build = app.builds.current();
    if build.is_some_and(|build| build.manifest.agents.keys().any(|name| agent(app, caller, name).is_ok())) {
        return Ok(true);
    }
    let filter = ListFilter { principal: Some(caller.principal.clone()), ..ListFilter::default() };
    Ok(!app.journal.list(filter, None, 1).await?.is_empty())
}

/// The groups of whoever asks: those they come with, and those that the project has them in.
pub(crate) fn groups(app: &App, caller: &Caller) -> Vec<String> {
    let mut groups = caller.groups.clone();
    groups.extend(gate(app).groups_of(caller.who()));
    groups
}

/// A session that somebody has come to.
pub(crate) struct Reached {
    pub(crate) address: Address,
    /// Whom it is with.
    pub(crate) agent: Option<String>,
}

/// The session of that id, if it is there for whoever asks; `main` if no branch is named, there or in the id (`ID@branch`).
///
/// # Errors
/// 404 for whatever else, in the same words.
pub(crate) async fn session(
    app: &App,
    caller: &Caller,
    id: &str,
    branch: Option<&str>,
) -> Result<Reached, Error> {
    reached(app, id, branch, |known| known.visible(app, caller)).await
}

/// The same for whoever wants to say something in it, or to do something to it. To see it is not enough for that: it is theirs, or
/// they may write where they read. Whatever they do is written down under their own name.
///
/// # Errors
/// Those of [`session`]; 403 for what may only be read.
pub(crate) async fn session_to_change(
    app: &App,
    caller: &Caller,
    id: &str,
    branch: Option<&str>,
) -> Result<Reached, Error> {
    let may = |known: &Known| known.visible(app, caller).and_then(|()| known.to_be_changed(app, caller));
    reached(app, id, branch, may).await
}

/// The same for whoever wants to say something to an agent in it.
///
/// # Errors
/// Those of [`session_to_change`]; 409 for a session with another agent.
pub(crate) async fn session_with(
    app: &App,
    caller: &Caller,
    agent: &str,
    id: &str,
    branch: Option<&str>,
) -> Result<Address, Error> {
    let reached = session_to_change(app, caller, id, branch).await?;
    if reached.agent.as_deref() != Some(agent) {
        return Err(Error::new(
            StatusCode::CONFLICT,
            "server::other-agent",
            "the session is with another agent",
            "ask that agent, or leave `session` out to begin a new one",
        ));
    }
    Ok(reached.address)
}

/// The session of that id, if whoever asks sees it or may decide about its calls.
///
/// # Errors
/// 404 for whatever else, in the same words.
pub(crate) async fn session_to_decide(
    app: &App,
    caller: &Caller,
    id: &str,
    branch: Option<&str>,
) -> Result<Address, Error> {
    let may = |known: &Known| match known.may_be_decided(app, caller) {
        true => Ok(()),
        false => known.visible(app, caller),
    };
    let refused = match reached(app, id, branch, may).await {
        Ok(reached) => return Ok(reached.address),
        Err(refused) => refused,
    };
    // To whom a call was escalated, its session is there for that.
    if !may_be_escalated_to(app, caller) {
        return Err(refused);
    }
    let Ok(Reached { address, .. }) = reached(app, id, branch, |_| Ok(())).await else { return Err(refused) };
    let asked = app.engine.approvals(&address).await?;
    match asked.iter().any(|approval| is_escalated_to(app, caller, approval)) {
        true => Ok(address),
        false => Err(refused),
    }
}

/// Whether the project lets someone decide when nobody else has for a while.
fn may_be_escalated_to(app: &App, caller: &Caller) -> bool {
    let Some(build) = app.builds.current() else { return false };
    let groups = build.gate.groups_of(caller.who());
    let tools =
        build.manifest.agents.values().flat_map(|agent| &agent.tools).map(|tool| &tool.approval_terms);
    let mut terms = tools.chain(build.manifest.rules.iter().map(|rule| &rule.approval_terms));
    !groups.is_empty()
        && (!build.manifest.policies.is_empty()
            || terms.any(|terms| terms.escalate.as_ref().is_some_and(|to| groups.contains(&to.to))))
}

/// Whether someone may decide about a call since nobody else has for a while.
fn is_escalated_to(app: &App, caller: &Caller, approval: &Approval) -> bool {
    let group = escalated(approval.escalates.as_ref(), now());
    group.is_some_and(|group| gate(app).groups_of(caller.who()).iter().any(|name| name == group))
}

/// Whether someone may still talk to the agent of a session: whom it would not be there for any more cannot go on with it, either. An agent
/// that is not deployed any more goes on with the sessions it has.
///
/// # Errors
/// 403 if not.
pub(crate) fn still_talks(app: &App, caller: &Caller, name: Option<&str>) -> Result<(), Error> {
    let deployed = app.builds.current().zip(name);
    let deployed = deployed.filter(|(build, name)| build.manifest.agents.contains_key(*name));
    match deployed {
        Some((_, name)) if agent(app, caller, name).is_err() => Err(Error::new(
            StatusCode::FORBIDDEN,
            "server::not-admitted",
            "you may not talk to the agent of this session any more",
            "an administrator of the data directory can change that",
        )),
        _ => Ok(()),
    }
}

/// Whose sessions a list is to have; nobody in particular's, for whoever sees all.
pub(crate) fn sessions_of(app: &App, caller: &Caller) -> Option<String> {
    (!is_admin(app, caller)).then(|| caller.principal.clone())
}

/// Whether someone sees that a call waits: it is theirs, or theirs to decide about.
pub(crate) fn sees_approval(app: &App, caller: &Caller, approval: &Approval) -> bool {
    let known = Known {
        session: approval.address.session,
        owner: Some(approval.asker.clone()),
        agent: Some(approval.agent.clone()),
    };
    known.is_visible(app, caller)
        || known.may_be_decided(app, caller)
        || is_escalated_to(app, caller, approval)
}

/// The build that has an agent whom whoever asks may talk to.
///
/// # Errors
/// 404 for whatever else, in the same words.
pub(crate) fn agent(app: &App, caller: &Caller, name: &str) -> Result<Arc<Build>, Error> {
    let build = app.builds.current().filter(|build| build.manifest.agents.contains_key(name));
    let build = build.filter(|build| build.gate.admit(caller.who(), name).verdict == Verdict::Allow);
    build.ok_or_else(|| Error::missing("agent"))
}

/// The journal's name for a stream. One that is there for whoever asks is meant as it stands; any other name is one among
/// their own, so that nobody can find out by trying which names others have taken. Whether it exists is not said.
///
/// # Errors
/// 404 for a stream of the runtime's own that is not theirs, 403 for what they may see and not change, 400 for what is no name.
pub(crate) async fn stream(
    app: &App,
    caller: &Caller,
    name: &str,
    level: Level,
) -> Result<StreamName, Error> {
    let given: StreamName = name.parse().map_err(|error: weir_types::NameError| {
        Error::bad(error.to_string(), "give the stream another name")
    })?;
    if level == Level::Write && is_reserved_stream(&given) {
        return Err(Error::new(
            StatusCode::FORBIDDEN,
            "server::reserved-stream",
            "only the runtime writes streams of this name",
            "choose a name without that prefix, like `notes`",
        ));
    }
    let gate = gate(app);
    let owner = owner(app, &given).await?;
    let (stream, owner) = match may(&*gate, caller, Level::Read, &given, owner.as_deref()) {
        true => (given, owner),
        false if is_reserved_stream(&given) => return Err(Error::missing("stream")),
        false => (names::own(caller, &given)?, Some(caller.principal.clone())),
    };
    let needed = |level| may(&*gate, caller, level, &stream, owner.as_deref());
    match (needed(Level::Read), level == Level::Read || needed(Level::Write)) {
        (_, true) => Ok(stream),
        (true, false) => Err(read_only("this stream")),
        (false, false) => Err(Error::missing("stream")),
    }
}

fn read_only(what: &str) -> Error {
    Error::new(
        StatusCode::FORBIDDEN,
        "server::read-only",
        format!("{what} may only be read"),
        "an administrator of the data directory can change that",
    )
}

/// A branch of a stream that exists; `main` if none is named.
///
/// # Errors
/// Those of [`stream()`]; 404 if there is none.
pub(crate) async fn existing_stream(
    app: &App,
    caller: &Caller,
    name: &str,
    branch: Option<&str>,
    level: Level,
) -> Result<BranchId, Error> {
    let stream = stream(app, caller, name, level).await?;
    let missing = || Error::missing("stream");
    let branch = branch.map_or_else(|| Ok(BranchName::main()), str::parse).map_err(|_| missing())?;
    let id = BranchId { stream, branch };
    app.journal.head(&id).await?.ok_or_else(missing)?;
    Ok(id)
}

/// The streams that someone has, by name, after one of them; for whoever sees all, all.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) async fn streams(
    app: &App,
    caller: &Caller,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<StreamSummary>, Error> {
    let bad = |error: weir_types::NameError| {
        Error::bad(error.to_string(), "`after` is the last name of the page before")
    };
    if is_admin(app, caller) {
        let after = after.map(str::parse).transpose().map_err(bad)?;
        return Ok(app.journal.streams(after, limit).await?);
    }
    let prefix = names::namespace(&caller.principal);
    let after = format!("{prefix}{}", after.unwrap_or_default()).parse().map_err(bad)?;
    let mut found = app.journal.streams(Some(after), limit).await?;
    // Names come in order, so that what is behind the last of them is somebody else's.
    found.retain(|summary| summary.stream.as_str().starts_with(&prefix));
    Ok(found)
}

/// What is known about a session without reading it.
struct Known {
    session: SessionId,
    owner: Option<String>,
    agent: Option<String>,
}

impl Known {
    fn is_visible(&self, app: &App, caller: &Caller) -> bool {
        may(&*gate(app), caller, Level::Read, &stream_of(self.session), self.owner.as_deref())
    }

    fn visible(&self, app: &App, caller: &Caller) -> Result<(), Error> {
        if self.is_visible(app, caller) { Ok(()) } else { Err(Error::missing("session")) }
    }

    fn to_be_changed(&self, app: &App, caller: &Caller) -> Result<(), Error> {
        let owner = self.owner.as_deref();
        let is_own = owner == Some(&caller.principal);
        match is_own || may(&*gate(app), caller, Level::Write, &stream_of(self.session), owner) {
            true => Ok(()),
            false => Err(read_only("this session")),
        }
    }

    fn may_be_decided(&self, app: &App, caller: &Caller) -> bool {
        let (Some(asker), Some(agent)) = (&self.owner, &self.agent) else { return false };
        gate(app).may_approve(caller.who(), asker, agent).verdict == Verdict::Allow
    }
}

/// The session of that id, and the branch, if nothing speaks against it. Whether there is such a branch is only for those who have come
/// to the session.
async fn reached(
    app: &App,
    id: &str,
    branch: Option<&str>,
    may: impl Fn(&Known) -> Result<(), Error>,
) -> Result<Reached, Error> {
    let missing = || Error::missing("session");
    let (id, branch) = address(id, branch)?;
    let session = id.parse::<SessionId>().map_err(|_| missing())?;
    let known = known(app, session).await?.ok_or_else(missing)?;
    may(&known)?;
    Ok(Reached { address: on_branch(app, session, branch).await?, agent: known.agent })
}

/// Whose a session is, and with which agent. Its first event says so; the row of a listing, which only repeats that, counts where
/// there is no such event.
async fn known(app: &App, session: SessionId) -> Result<Option<Known>, Error> {
    let branch = Address::main(session).branch_id();
    let Some(Listed { attrs, .. }) = app.journal.listed(&branch).await? else { return Ok(None) };
    Ok(Some(match app.engine.beginning(session).await? {
        Some(created) => Known { session, owner: Some(created.principal), agent: Some(created.agent) },
        None => Known { session, owner: attrs.principal, agent: attrs.agent },
    }))
}

/// An id and a branch, of which the id may name one as well: `ID@branch`, as in `X-Weir-Session`.
fn address<'a>(id: &'a str, branch: Option<&'a str>) -> Result<(&'a str, Option<&'a str>), Error> {
    match (id.split_once('@'), branch) {
        (None, branch) => Ok((id, branch)),
        (Some((id, of_id)), None) => Ok((id, Some(of_id))),
        (Some((id, of_id)), Some(branch)) if of_id == branch => Ok((id, Some(of_id))),
        (Some(_), Some(_)) => Err(Error::missing("session")),
    }
}

async fn on_branch(app: &App, session: SessionId, branch: Option<&str>) -> Result<Address, Error> {
    let missing = || Error::missing("branch");
    let Some(branch) = branch else { return Ok(Address::main(session)) };
    let address = Address { session, branch: branch.parse().map_err(|_| missing())? };
    app.journal.head(&address.branch_id()).await?.ok_or_else(missing)?;
    Ok(address)
}

/// Whose a stream is; nobody in particular's, if it is one that is made with the command line, or one of the runtime's own.
async fn owner(app: &App, stream: &StreamName) -> Result<Option<String>, Error> {
    match Address::of(&BranchId::main(stream.clone())) {
        Some(address) => {
            let known = known(app, address.session).await?;
            Ok(known.and_then(|known| known.owner))
        }
        None => Ok(names::owner(stream)),
    }
}

fn may(gate: &dyn Gate, caller: &Caller, level: Level, stream: &StreamName, owner: Option<&str>) -> bool {
    let owner = match owner {
        Some(owner) => Whose::Someone(owner),
        // What only the runtime writes says something about everybody, and is for nobody to share.
        None if is_reserved_stream(stream) => Whose::Unsaid,
        None => Whose::Nobody,
    };
    gate.may(caller.who(), level, Stored { kind: StoredKind::Stream, name: stream.as_str(), owner })
}

#[cfg(test)]
mod tests {
    use weir_events::{Body, SessionCreated};
    use weir_journal::{Attrs, NewEvent, Part, Status};
    use weir_types::Hash;

    use super::*;
    use crate::fixture::Data;

    /// The row of a session says whose it is as well, and could have been changed: the event counts.
    #[tokio::test]
    async fn a_session_belongs_to_whom_its_event_names() {
        let app = Data::default().app().await;
        let session = SessionId::from_u128(7);
        let created: Body = SessionCreated {
            agent: "helper".to_owned(),
            manifest: Hash::ZERO,
            principal: "user:bob".to_owned(),
            groups: Vec::new(),
            title: None,
            labels: Default::default(),
            parent: None,
            lane: "direct".to_owned(),
        }
        .into();
        let event = NewEvent::new(created.kind(), created.encode().unwrap());
        let forged = Attrs { principal: Some("user:eve".to_owned()), ..Attrs::new(Status::Idle) };
        let branch = Address::main(session).branch_id();
        let part = Part { attrs: Some(forged), ..Part::new(branch.clone(), vec![event]) };
        app.journal.append(vec![part]).await.unwrap();
        for (name, expected) in [("user:bob", true), ("user:eve", false)] {
            let caller = Caller { principal: name.to_owned(), groups: Vec::new() };
            let reached = super::session(&app, &caller, &session.to_string(), None).await;
            assert_eq!(reached.is_ok(), expected, "{name}");
            let stream = existing_stream(&app, &caller, branch.stream.as_str(), None, Level::Read).await;
            assert_eq!(stream.is_ok(), expected, "{name}");
        }
    }
}
