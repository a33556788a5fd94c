//! `weir demo`: an agent at work in a temporary directory, with real processes, a real `kill -9` in the middle of a turn,
//! a fork with another ending, what it all cost, and a project whose agent has a tool of its own and asks another agent.

mod desk;
mod tour;

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_engine::Address;
use weir_events::Body;
use weir_journal::{Journal, ListFilter, PAGE_MAX, mint_session};
use weir_kernel::{Ending, Session};
use weir_support::new_file::plain;
use weir_types::{Event, Explain, Fault, Seq, SessionId};

use self::tour::Tour;
use crate::commands::Context;
use crate::output::Out;
use crate::report::Outcome;
use crate::store::{IfAbsent, Store, blocking};

pub(crate) use self::desk::{DeskArgs, desk};

/// Longest the tour waits for its agent to reach a point.
const PATIENCE: Duration = Duration::from_secs(30);

/// The arguments of `weir demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir demo\n  weir demo --keep")]
pub(crate) struct Args {
    /// Keep the directory to look around in it.
    #[arg(long)]
    keep: bool,
}

/// The tour cannot go on.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot run the demo")]
    Io(#[from] io::Error),
    #[error("the demo did not go as it should: {0}")]
    Surprise(String),
}

impl Explain for DemoError {
    fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "cli::demo",
            Self::Surprise(_) => "cli::demo-surprise",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Io(_) => {
                "check free space and permissions of the directory for temporary files (TMPDIR)".into()
            }
            Self::Surprise(_) => {
                "please report this; run `weir demo --keep` to keep the journal for a look".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Io(_) => Fault::Storage,
            Self::Surprise(_) => Fault::Bug,
        }
    }
}

/// What was seen, for programs.
#[derive(Debug, Serialize)]
struct Seen {
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    session: SessionId,
    killed: u32,
    /// How often each thing was done to the world.
    blue_room_reserved: usize,
    green_room_reserved: usize,
    invitations_sent: usize,
    endings: [String; 2],
    sound: bool,
    cost_usd: f64,
    /// What an agent of a new project answered, which asked another agent, which used a tool in TypeScript.
    reviewed: String,
    /// What it answered after somebody had approved what it wanted to do.
    approved: String,
}

/// Gives the tour.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let temporary = tempfile::Builder::new()
        .prefix("weir-demo-")
        .tempdir()
        .map_err(|error| DemoError::Io(plain(error)))?;
    let data_dir = temporary.path().join("data");
    let seen = give(&data_dir, &temporary.path().join("ledger"), &mut context.out).await;
    let directory = args.keep.then(|| temporary.keep());
    let seen = Seen { directory, ..seen? };
    if context.out.json {
        return context.out.document(&seen);
    }
    farewell(&seen, &mut context.out)
}

async fn give(data_dir: &Path, ledger: &Path, out: &mut Out) -> Outcome<Seen> {
    let session = mint_session();
    let mut tour = Tour::new(data_dir, ledger, session, out)?;
    let asked = ask(&mut tour).await?;
    let killed = kill(&mut tour).await?;
    resume(&mut tour).await?;
    fork(&mut tour, asked).await?;
    let (sound, cost_usd) = account(&mut tour).await?;
    let reviewed = tools(&mut tour).await?;
    let approved = approve(&mut tour).await?;

    let done = desk::read(ledger)?;
    let count = |tool: &str, word: &str| {
        done.iter().filter(|(name, input)| name == tool && input.contains(word)).count()
    };
    let endings = [ending(&tour, "main").await?, ending(&tour, "green").await?];
    let seen = Seen {
        directory: None,
        session,
        killed,
        blue_room_reserved: count("reserve_room", "blue"),
        green_room_reserved: count("reserve_room", "green"),
        invitations_sent: count("send_invitations", ""),
        endings,
        sound,
        cost_usd,
        reviewed,
        approved,
    };
    check(&seen)?;
    Ok(seen)
}

/// The tour only claims what it has seen.
fn check(seen: &Seen) -> Result<(), DemoError> {
    let once = (seen.blue_room_reserved, seen.green_room_reserved, seen.invitations_sent) == (1, 1, 1);
    let asked = seen.reviewed.contains("9 words") && seen.approved.starts_with("3 words");
    if once && seen.sound && asked && seen.endings[0] != seen.endings[1] {
        return Ok(());
    }
    Err(DemoError::Surprise(format!("{seen:?}")))
}

/// A turn with a tool. Returns the last event of it.
async fn ask(tour: &mut Tour<'_>) -> Outcome<Seq> {
    tour.step(
        "A turn",
        "An agent at a reception desk. Its model follows a script, so this needs no key and no network; the processes, \
         the tools and the journal are real.",
    )?;
    tour.desk("main", Some("Which rooms are free?")).await?;
    tour.say("Every step is an event in the journal, written down before the next one begins:")?;
    tour.succeed(&["cat", "--stream", &tour.stream()]).await?;
    Ok(events(tour, "main").await?.last().map_or(Seq(0), |event| event.seq))
}

/// A turn that is cut off while its tools are at work.
async fn kill(tour: &mut Tour<'_>) -> Outcome<u32> {
    tour.step(
        "kill -9",
        "The next turn books a room and sends invitations, side by side. Both tools have done their work, but have not \
         answered yet, when the process is killed.",
    )?;
    let mut child = tour.begin_desk("main", "Take the blue one and invite the team.")?;
    let pid = child.id();
    let ledger = tour.ledger.clone();
    let killed = blocking(move || {
        let began = Instant::now();
        while desk::read(&ledger)?.len() < 2 {
            if began.elapsed() > PATIENCE || child.try_wait()?.is_some() {
                let _ = child.kill();
                return Err(DemoError::Surprise("the tools did not start".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    });
    killed.await??;
    tour.line(&format!("process {pid} was killed; its journal ends with"))?;
    let events = events(tour, "main").await?;
    for event in &events[events.len().saturating_sub(2)..] {
        tour.line(&format!("  {:>3}  {}  {}", event.seq, event.kind, tool_of(event).unwrap_or_default()))?;
    }
    show_ledger(tour)?;
    Ok(pid)
}

async fn resume(tour: &mut Tour<'_>) -> Outcome {
    tour.step(
        "Resume",
        "Another process takes the session up. Booking is idempotent: it runs again, with the same key, and nothing is \
         booked twice. Sending mail is not: it is not repeated, and the agent is told that nobody knows.",
    )?;
    tour.desk("main", None).await?;
    show_ledger(tour)
}

async fn fork(tour: &mut Tour<'_>, at: Seq) -> Outcome {
    tour.step(
        "Fork",
        "What if it had been the green room? Go back to the end of the first turn and take another way from there. \
         Nothing is copied, and the first ending stays.",
    )?;
    let (session, at) = (tour.session.to_string(), at.to_string());
    tour.succeed(&["session", "fork", &session, "--at", &at, "--name", "green"]).await?;
    tour.desk("green", Some("Take the green one.")).await?;
    tour.say("Two endings of one conversation:")?;
    for branch in ["main", "green"] {
        let ending = ending(tour, branch).await?;
        tour.line(&format!("{branch:<6} {ending}"))?;
    }
    show_ledger(tour)
}

/// Whether all of it is sound, and what it cost.
async fn account(tour: &mut Tour<'_>) -> Outcome<(bool, f64)> {
    tour.step(
        "Verify and account",
        "Each event carries a hash of itself and of the one before: `weir verify` finds any change. And every model \
         call has its price.",
    )?;
    let sound = tour.command(&["verify"]).await?;
    let session = tour.session.to_string();
    tour.succeed(&["session", "show", &session]).await?;
    let green = format!("{session}@green");
    tour.succeed(&["session", "history", &green]).await?;
    let cost = state(tour, "main").await?.totals.cost;
    Ok((sound, cost.as_usd()))
}

/// A project, whose agent has a tool of its own and asks another agent.
async fn tools(tour: &mut Tour<'_>) -> Outcome<String> {
    tour.step(
        "Tools, and agents as tools",
        "A project begins with `weir init`. Its helper has a tool in TypeScript, which runs in a fresh sandbox for each call, \
         and another agent, which runs in a session of its own. Every call passes the same gate and is in the journal \
         before it runs.",
    )?;
    tour.succeed(&["init", "my-agents"]).await?;
    let run = async |tour: &mut Tour<'_>, args: &[&str]| {
        tour.succeed(&[args, &["--project", "my-agents"]].concat()).await
    };
    run(tour, &["tools", "list", "helper"]).await?;
    run(tour, &["tools", "call", "helper", "count_words", r#"{"text":"a low dam"}"#]).await?;
    run(tour, &["chat", "helper", "-m", "review: a low dam at the outlet of a lake"]).await?;
    tour.succeed(&["session", "list"]).await?;
    answer_of(tour, "editor").await
}

/// A call that waits for someone's yes.
async fn approve(tour: &mut Tour<'_>) -> Outcome<String> {
    tour.step(
        "Approve",
        "A person can have the last word about a tool: one line in the agent's spec. The call then waits in the journal, for \
         days if need be and without a process, until somebody decides; an approved call runs once.",
    )?;
    let within = tour.data_dir.parent().unwrap_or(Path::new("."));
    let spec = within.join("my-agents/agents/helper/spec.yaml");
    let text = std::fs::read_to_string(&spec).map_err(DemoError::from)?;
    let line = text.lines().find(|line| line.contains("- { name: tools/count_words"));
    let careful = "  - { name: tools/count_words, access: read, approval: always }";
    let text = text.replace(line.unwrap_or_default(), careful);
    std::fs::write(&spec, text).map_err(DemoError::from)?;
    tour.line(&format!("agents/helper/spec.yaml: {}", careful.trim()))?;
    let ask = ["chat", "helper", "-m", "count: a low dam", "--project", "my-agents"];
    if tour.command(&ask).await? {
        return Err(DemoError::Surprise("nobody was asked".to_owned()).into());
    }
    tour.succeed(&["approvals"]).await?;
    let id = tour.asked().await?;
    tour.succeed(&["approve", &id, "--project", "my-agents"]).await?;
    answer_of(tour, "helper").await
}

/// What the newest session of an agent ended with.
async fn answer_of(tour: &Tour<'_>, agent: &str) -> Outcome<String> {
    let store = Store::open(&tour.data_dir, IfAbsent::Fail).await?;
    let filter = ListFilter { agent: Some(agent.to_owned()), ..ListFilter::default() };
    let listed = store.journal.list(filter, None, PAGE_MAX).await;
    let mut session = Session::default();
    if let Some(listed) = listed?.last() {
        for event in store.journal.read(&listed.branch, Seq(0), PAGE_MAX).await? {
            session.apply(&event).map_err(|error| DemoError::Surprise(error.to_string()))?;
        }
    }
    store.close().await;
    match session.ended.map(|ended| ended.how) {
        Some(Ending::Finished { answer: Some(answer), .. }) => Ok(answer),
        how => Err(DemoError::Surprise(format!("`{agent}` ended as {how:?}")).into()),
    }
}

fn show_ledger(tour: &mut Tour<'_>) -> Outcome {
    tour.say("What the world has seen:")?;
    for (tool, input) in desk::read(&tour.ledger)? {
        tour.line(&format!("{tool} {input}"))?;
    }
    Ok(())
}

fn tool_of(event: &Event) -> Option<String> {
    match Body::decode(&event.kind, &event.payload).ok()?? {
        Body::ToolStarted(started) => Some(format!("call {}", started.call)),
        _ => None,
    }
}

async fn ending(tour: &Tour<'_>, branch: &str) -> Outcome<String> {
    match state(tour, branch).await?.ended.map(|ended| ended.how) {
        Some(Ending::Finished { answer: Some(answer), .. }) => Ok(answer),
        how => Err(DemoError::Surprise(format!("{branch} ended as {how:?}")).into()),
    }
}

async fn state(tour: &Tour<'_>, branch: &str) -> Outcome<Session> {
    let mut session = Session::default();
    for event in events(tour, branch).await? {
        let applied = session.apply(&event);
        applied.map_err(|error| DemoError::Surprise(error.to_string()))?;
    }
    Ok(session)
}

async fn events(tour: &Tour<'_>, branch: &str) -> Outcome<Vec<Event>> {
    let branch = crate::args::branch_id(&tour.stream(), Some(branch))?;
    let store = Store::open(&tour.data_dir, IfAbsent::Fail).await?;
    let events = store.journal.read(&branch, Seq(0), PAGE_MAX).await;
    store.close().await;
    Ok(events?)
}

fn farewell(seen: &Seen, out: &mut Out) -> Outcome {
    let heading = out.paint.bold("What next").into_owned();
    out.line(format_args!("\n{heading}\n"))?;
    match &seen.directory {
        Some(directory) => {
            out.line(format_args!("  The journal of this tour is still there:"))?;
            let address = Address::main(seen.session);
            out.line(format_args!(
                "    weir session history {address} --data-dir {}",
                directory.join("data").display()
            ))?;
        }
        None => out.line(format_args!(
            "  The journal of this tour is gone (`weir demo --keep` keeps it). Begin a project of your own:"
        ))?,
    }
    for line in ["weir init my-agents", "cd my-agents", "weir chat helper", "weir --help"] {
        out.line(format_args!("    {line}"))?;
    }
    Ok(())
}
