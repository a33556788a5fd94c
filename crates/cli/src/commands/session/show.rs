//! `weir session show` and `weir session state`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use weir_engine::{Address, Outcome as Came, Rebuilt, StopReason};
use weir_events::{Body, LeftOut, ModelRequested, Payload, RunStarted};
use weir_journal::{Journal, OfKind, Status};
use weir_kernel::Session;
use weir_types::{
    BranchId, BranchName, Explain, Fault, Hash, Json, Kind, Purpose, Seq, SessionId, TimeError, Timestamp,
    Usage,
};
use weir_workspace::Files;

use super::overview::{self, OpenCall};
use crate::commands::{Context, fs};
use crate::host::Host;
use crate::live::left_out_words;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::show::{self, json_on_a_terminal, size, thousands};
use crate::which::SessionArg;

const EXAMPLES: &str = "\
Examples:
  weir session show -1
  weir session show 01J9Z --json
  weir session show -1 --request 2 | jq .messages";

/// The arguments of `weir session show`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print the exact bytes of its Nth model request instead, and check their hash.
    #[arg(long, value_name = "N")]
    request: Option<usize>,
    #[command(flatten)]
    project: ProjectArgs,
}

const STATE_EXAMPLES: &str = "\
Examples:
  weir session state -1 --at 12
  weir session state -1 --at 2026-01-31T12:00:00Z --json | jq .lifecycle

`app` in the JSON is the application's own state, as events `state.patched` make it. No command and no route of this
version writes such events, so it is null unless the session was imported with some.";

/// The arguments of `weir session state`.
#[derive(Debug, clap::Args)]
#[command(after_help = STATE_EXAMPLES)]
pub(crate) struct StateArgs {
    #[command(flatten)]
    session: SessionArg,
    /// As of this event, or of the last one at or before this time.
    #[arg(long, value_name = "SEQ|TIME")]
    at: Option<String>,
}

/// What cannot be shown.
#[derive(Debug, thiserror::Error)]
enum ShowError {
    /// The request cannot be made again as it was.
    #[error("request {n} can no longer be made as it was sent: its bytes have hash {now}, not {then}")]
    Changed {
        /// Which.
        n: usize,
        /// Then.
        then: Hash,
        /// Now.
        now: Hash,
    },
    /// Not a place.
    #[error("`{0}` is neither the number of an event nor a time")]
    At(String),
    /// Before the beginning.
    #[error("session {0} had not begun then")]
    TooEarly(Address),
    /// After the end.
    #[error("session {address} has {head} events; there is no event {at}")]
    TooLate {
        /// The session.
        address: Address,
        /// Its newest event.
        head: u64,
        /// As asked for.
        at: u64,
    },
}

impl Explain for ShowError {
    fn code(&self) -> &'static str {
        match self {
            Self::Changed { .. } => "engine::request-changed",
            Self::At(_) => "cli::at",
            Self::TooEarly(_) | Self::TooLate { .. } => "cli::no-event",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Changed { .. } => {
                "the agent's model speaks another language now, or weir writes it differently; \
                 the journal itself is checked by `weir verify`"
                    .into()
            }
            Self::At(_) => {
                "write a number from `weir session history`, or a time like `2026-01-31T12:00:00Z`".into()
            }
            Self::TooEarly(address) | Self::TooLate { address, .. } => {
                format!("see `weir session history {address}`").into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Changed { .. } => Fault::Conflict,
            Self::At(_) => Fault::Input,
            Self::TooEarly(_) | Self::TooLate { .. } => Fault::Missing,
        }
    }
}

#[derive(Serialize)]
struct View<'a> {
    id: SessionId,
    branch: &'a BranchName,
    agent: Option<&'a str>,
    manifest: Option<Hash>,
    principal: Option<&'a str>,
    title: Option<&'a str>,
    labels: &'a BTreeMap<String, String>,
    status: Status,
    /// The process that runs it; null if nobody does, or if that is on another machine.
    pid: Option<u32>,
    began: Timestamp,
    updated: Timestamp,
    seq: Seq,
    branches: Vec<String>,
    runs: u64,
    requests: u64,
    /// What the newest request left out of the conversation, because not all of it fits.
    left_out: Option<LeftOut>,
    stop: Option<StopReason>,
    usage: Usage,
    cost_usd: f64,
    open_calls: Vec<OpenCall>,
}

/// Shows a session.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let sees = context.sees(&args.project).await?;
    let host = super::host_to_read(context, &args.project).await?;
    let shown = async {
        let address = args.session.find(&*host.journal, &sees).await?;
        match args.request {
            Some(n) => request(&host, &address, n, &mut context.out).await,
            None => show(&host, &address, &mut context.out).await,
        }
    };
    let shown = shown.await;
    host.stop().await;
    shown
}

async fn show(host: &Host, address: &Address, out: &mut Out) -> Outcome {
    let session = host.engine.state(address, None).await?;
    let branch = address.branch_id();
    let first = host.journal.read(&branch, Seq(0), 1).await?;
    let began = first.first().map_or(session.ts, |event| event.ts);
    let branches = host.journal.branches(&branch.stream).await?;
    let branches: Vec<String> = branches.into_iter().map(|branch| branch.name.to_string()).collect();
    let runs = count(&*host.journal, &branch, RunStarted::kind()).await?;
    let (requests, left_out) = requests(&*host.journal, &branch).await?;
    let runner = host.engine.runner(address).await?;
    let calls = overview::open_calls(&session);
    if out.json {
        let created = session.created.as_ref();
        let came = Came::of(address, &session);
        return out.document(&View {
            id: address.session,
            branch: &address.branch,
            agent: created.map(|created| created.agent.as_str()),
            manifest: created.map(|created| created.manifest),
            principal: created.map(|created| created.principal.as_str()),
            title: session.title.as_deref(),
            labels: &session.labels,
            status: weir_engine::status(&session),
            pid: runner.flatten(),
            began,
            updated: session.ts,
            seq: session.seq,
            branches,
            runs,
            requests,
            left_out,
            stop: came.run.filter(|_| runner.is_none()).map(|_| came.stop),
            usage: session.totals.usage,
            cost_usd: session.totals.cost.as_usd(),
            open_calls: calls,
        });
    }
    let mut rows = vec![("session", address.to_string())];
    rows.extend(overview::rows(&session));
    rows.push(("status", status_words(&session, runner)));
    rows.push(("began", began.to_string()));
    rows.push(("updated", session.ts.to_string()));
    if branches.len() > 1 {
        rows.push(("branches", branches.join(", ")));
    }
    rows.push(("events", thousands(session.seq.0)));
    let latest = overview::latest(address, &session)
        .map_or_else(String::new, |latest| format!(", the latest: {latest}"));
    rows.push(("runs", format!("{}{latest}", thousands(runs))));
    rows.push(("requests", thousands(requests)));
    if let Some(left_out) = left_out {
        rows.push(("left out", left_out_words(left_out)));
    }
    rows.push(("usage", overview::tokens(session.totals.usage)));
    rows.push(("cost", session.totals.cost.to_string()));
    overview::print(&rows, &calls, out)
}

fn status_words(session: &Session, runner: Option<Option<u32>>) -> String {
    let status = weir_engine::status(session);
    match (status, runner) {
        (Status::Running, Some(Some(pid))) => format!("{status} in process {pid}"),
        (Status::Running, Some(None)) => format!("{status} in another process"),
        (Status::Running, None) => format!("{status}, but nobody runs it: see `weir session resume`"),
        _ => status.to_string(),
    }
}

/// How many requests for an answer or a summary there were, and what the newest one for an answer left out.
async fn requests(journal: &impl Journal, branch: &BranchId) -> Outcome<(u64, Option<LeftOut>)> {
    let mut pages = OfKind::new(journal, branch, ModelRequested::kind());
    let (mut count, mut left_out) = (0, None);
    while let Some(page) = pages.next().await? {
        count += page.len() as u64;
        for event in &page {
            if let Ok(Some(Body::ModelRequested(requested))) = Body::decode(&event.kind, &event.payload)
                && requested.params.purpose == Purpose::Turn
            {
                left_out = requested.context;
            }
        }
    }
    Ok((count, left_out))
}

async fn count(journal: &impl Journal, branch: &BranchId, kind: Kind) -> Outcome<u64> {
    let mut pages = OfKind::new(journal, branch, kind);
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        count += page.len() as u64;
    }
    Ok(count)
}

#[derive(Serialize)]
struct RequestView<'a> {
    n: usize,
    seq: Seq,
    model: &'a str,
    attempt: u32,
    hash: Hash,
    /// Whether these are the bytes that were sent.
    exact: bool,
    bytes: usize,
    body: Option<Json>,
}

async fn request(host: &Host, address: &Address, n: usize, out: &mut Out) -> Outcome {
    let Rebuilt { event, requested, bytes, hash, .. } = host.engine.request(address, n).await?;
    let exact = hash == requested.request_hash;
    if out.json {
        let body = std::str::from_utf8(&bytes).ok().and_then(|text| Json::parse(text).ok());
        let (model, attempt) = (requested.model.as_str(), requested.attempt);
        out.document(&RequestView {
            n,
            seq: event.seq,
            model,
            attempt,
            hash,
            exact,
            bytes: bytes.len(),
            body,
        })?;
    } else if out.is_terminal() {
        let text = String::from_utf8_lossy(&bytes);
        out.line(format_args!("{}", json_on_a_terminal(&text)))?;
    } else {
        out.bytes(&bytes)?;
    }
    out.flush()?;
    if !exact {
        return Err(ShowError::Changed { n, then: requested.request_hash, now: hash }.into());
    }
    let (seq, attempt, size) = (event.seq.0, requested.attempt, thousands(bytes.len() as u64));
    out.note(format_args!(
        "request {n} (event {seq}, attempt {attempt}): {size} bytes, as they were sent; SHA-256 {hash}"
    ));
    Ok(())
}

/// Prints the state of a session.
pub(crate) async fn state(args: &StateArgs, context: &mut Context) -> Outcome {
    let sees = context.sees(&context.project).await?;
    let host = super::host_to_read(context, &context.project).await?;
    let out = &mut context.out;
    let shown = async {
        let address = args.session.find(&*host.journal, &sees).await?;
        let at = match &args.at {
            Some(at) => Some(place(&*host.journal, &address, at).await?),
            None => None,
        };
        let session = host.engine.state(&address, at).await?;
        let files = host.engine.files(&address, at).await?;
        if out.json {
            return out.document(&StateView { session: &session, files: fs::views(&files).collect() });
        }
        print_state(&address, &session, &files, out)
    };
    let shown = shown.await;
    host.stop().await;
    shown
}

/// The state of a session, with its files.
#[derive(Serialize)]
struct StateView<'a> {
    #[serde(flatten)]
    session: &'a Session,
    files: Vec<fs::FileView<'a>>,
}

fn print_state(address: &Address, session: &Session, files: &Files, out: &mut Out) -> Outcome {
    let mut rows = vec![("session", address.to_string())];
    rows.push(("event", format!("{} at {}", thousands(session.seq.0), session.ts)));
    rows.extend(overview::rows(session));
    rows.push(("status", weir_engine::status(session).to_string()));
    if let Some(run) = &session.run {
        rows.push(("run", format!("{}, iteration {}", run.id, run.iteration)));
    }
    if let Some(latest) = overview::latest(address, session) {
        rows.push(("latest", latest));
    }
    rows.push(("messages", thousands(session.transcript.entries.len() as u64)));
    if session.transcript.summary.is_some() {
        rows.push(("summary", "what came before them is summarised".to_owned()));
    }
    if !files.is_empty() {
        let bytes = files.iter().map(|(_, entry)| entry.size).sum();
        rows.push(("files", format!("{}, {}", show::count(files.len() as u64, "file"), size(bytes))));
    }
    rows.push(("usage", overview::tokens(session.totals.usage)));
    rows.push(("cost", session.totals.cost.to_string()));
    if !session.app.is_null() {
        rows.push(("app", session.app.to_string()));
    }
    overview::print(&rows, &overview::open_calls(session), out)
}

/// The event that is meant by a number or a time.
pub(crate) async fn place(journal: &impl Journal, address: &Address, at: &str) -> Outcome<Seq> {
    let branch = address.branch_id();
    let head = journal.head(&branch).await?.map_or(0, |head| head.seq.0);
    if let Ok(seq) = at.trim_start_matches('#').parse::<u64>() {
        return match seq {
            0 => Err(ShowError::TooEarly(address.clone()).into()),
            seq if seq > head => Err(ShowError::TooLate { address: address.clone(), head, at: seq }.into()),
            seq => Ok(Seq(seq)),
        };
    }
    let refuse = |_: TimeError| ShowError::At(at.chars().take(40).collect());
    let time: Timestamp = at.parse().map_err(refuse)?;
    let found = weir_journal::last_at(journal, &branch, time).await?;
    found.ok_or_else(|| ShowError::TooEarly(address.clone()).into())
}
