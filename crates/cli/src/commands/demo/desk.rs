//! The process that is killed: it runs an agent at a reception desk, whose tools write into a ledger of their own. The
//! ledger stands for the world outside, which no journal can take back.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_engine::{Agents, Budgets, Explained, Function, Functions, New, Runnable};
use weir_kernel::{Agent, Limits};
use weir_models::Scripted;
use weir_models::scripted::{Call, Reply, Script, When};
use weir_tools::{Done, Failed, Permit, Started};
use weir_types::{Catalog, Effect, Hash, Json, NanoUsd, Price, Risk, SessionId, Usage};

use super::DemoError;
use crate::commands::Context;
use crate::host::Host;
use crate::identity;
use crate::report::Outcome;
use crate::store::blocking;
use crate::turn::{Start, Talk};

/// The agent's name.
pub(super) const AGENT: &str = "desk";

/// How long the tools that write take to answer, after they have written: long enough to be killed in between.
const ANSWERS_AFTER: Duration = Duration::from_secs(2);

/// The arguments of `weir demo-desk`.
#[derive(Debug, clap::Args)]
pub(crate) struct DeskArgs {
    /// The session to begin or to go on with.
    #[arg(long)]
    session: SessionId,
    /// The branch.
    #[arg(long, default_value = "main")]
    branch: String,
    /// The world outside.
    #[arg(long)]
    ledger: PathBuf,
    /// What is said; nothing: finish what was interrupted.
    #[arg(long)]
    say: Option<String>,
}

/// Has one turn with the agent.
pub(crate) async fn desk(args: &DeskArgs, context: &mut Context) -> Outcome {
    let store = context.store_or_new().await?;
    let agents = Desk(Arc::new(runnable(tools(&args.ledger))?));
    let host = Host::with(store, &context.data_dir, agents).await?;
    let branch = crate::args::branch_id("desk", Some(&args.branch))?.branch;
    let address = weir_engine::Address { session: args.session, branch };
    let head = weir_journal::Journal::head(&*host.journal, &address.branch_id()).await?;
    let mut talk = match head {
        Some(head) => Talk::after(&host, address, head.seq),
        None => Talk::new(&host, address),
    };
    let start = match (&args.say, head) {
        (Some(text), None) => Start::Begin(new(), text.clone().into()),
        (Some(text), Some(_)) => Start::Say(text.clone().into()),
        (None, _) => Start::Finish,
    };
    let turn = talk.turn(start, &mut context.out).await;
    context.out.flush()?;
    host.stop().await;
    turn.map(drop)
}

fn new() -> New {
    New {
        agent: AGENT.to_owned(),
        principal: identity::principal(),
        title: Some("A room for Friday".to_owned()),
        ..New::default()
    }
}

struct Desk(Arc<Runnable>);

impl Agents for Desk {
    fn agent<'a>(
        &'a self,
        _name: &'a str,
        _build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        let runnable = Arc::clone(&self.0);
        async move { Ok(runnable) }.boxed()
    }
}

fn runnable(tools: Functions) -> Outcome<Runnable> {
    let (model, mut card) = Catalog::default().find("scripted/desk")?;
    let usd = |cents: u64| NanoUsd(cents * 10_000_000);
    card.price =
        Some(Price { input: usd(300), output: usd(1_500), cache_read: usd(30), cache_write: usd(375) });
    let system = "You work at a reception desk. You book rooms and invite people.";
    let agent = Agent {
        name: AGENT.to_owned(),
        model,
        card,
        system: system.to_owned(),
        tools: tools.tools(),
        limits: Limits::default(),
    };
    let model = Scripted::new(script())?;
    let manifest = Hash::of(system.as_bytes());
    let (tools, budgets) = (Arc::new(tools), Budgets::default());
    Ok(Runnable { agent, model: Arc::new(model), tools, manifest, budgets })
}

/// A model in a script: what it says is fixed, everything else is real.
fn script() -> Script {
    let on = |when: When, say: &str, calls: &[(&str, &str)]| Reply {
        when: Some(when),
        say: Some(say.to_owned()),
        call: calls.iter().map(|(tool, input)| call(tool, input)).collect(),
        usage: Some(Usage { input_tokens: 1_200, output_tokens: 60, ..Usage::default() }),
        delay: Some(Duration::from_millis(40)),
        ..Reply::default()
    };
    let user = |pattern: &str| When { user: Some(pattern.to_owned()), ..When::default() };
    let tool =
        |name: &str, failed: Option<bool>| When { tool: Some(name.to_owned()), failed, ..When::default() };
    let blue = [("reserve_room", r#"{"room":"blue"}"#), ("send_invitations", r#"{"to":"the team"}"#)];
    Script {
        replies: vec![
            on(user("free"), "Let me look.", &[("list_rooms", "{}")]),
            on(tool("list_rooms", None), "{{result}} are free on Friday.", &[]),
            on(user("(?i)green"), "Then the green one.", &[("reserve_room", r#"{"room":"green"}"#)]),
            on(user("(?i)blue"), "I book it and invite the team.", &blue),
            on(
                tool("send_invitations", Some(true)),
                "The blue room is booked. Whether the invitations went out I cannot tell: I was interrupted while they \
                 were being sent, and I will not send them twice unasked.",
                &[],
            ),
            on(
                tool("send_invitations", Some(false)),
                "The blue room is booked and the team is invited.",
                &[],
            ),
            on(tool("reserve_room", None), "The green room is booked. Nobody has been invited yet.", &[]),
        ],
    }
}

fn call(tool: &str, input: &str) -> Call {
    Call { tool: tool.to_owned(), input: Json::parse(input).unwrap_or_else(|_| Json::empty_object()) }
}

/// One tool that reads, one that may be repeated, and one that must not.
fn tools(ledger: &Path) -> Functions {
    let rooms = Function::new("list_rooms", "Rooms that are free.", |_| async {
        Ok(Done::text("The blue and the green room"))
    });
    let reserve = writing("reserve_room", Effect::Idempotent, ledger);
    let invite = writing("send_invitations", Effect::Write, ledger);
    Functions::new([rooms, reserve, invite])
}

fn writing(name: &str, effect: Effect, ledger: &Path) -> Function {
    let ledger = ledger.to_owned();
    let work = move |permit: Permit| {
        let ledger = ledger.clone();
        async move {
            let started = permit.into_started();
            let written = blocking(move || write(&ledger, &started)).await;
            written
                .ok()
                .and_then(Result::ok)
                .ok_or_else(|| Failed::new("ledger", "the ledger cannot be written"))?;
            tokio::time::sleep(ANSWERS_AFTER).await;
            Ok(Done::text("done"))
        }
    };
    Function::new(name, "Writes into the ledger.", work)
        .with(|tool| (tool.effect, tool.risk) = (effect, Risk::Medium))
}

/// Adds a line, unless the ledger has one with the same key: that is what *idempotent* means.
fn write(ledger: &Path, started: &Started) -> io::Result<()> {
    let line = format!("{} {} {}\n", started.tool, started.key, started.input.as_str());
    let known = std::fs::read_to_string(ledger).unwrap_or_default();
    if started.tool == "reserve_room" && known.contains(&started.key) {
        return Ok(());
    }
    OpenOptions::new().create(true).append(true).open(ledger)?.write_all(line.as_bytes())
}

/// What the ledger says: tool and arguments, a line each.
pub(super) fn read(ledger: &Path) -> Result<Vec<(String, String)>, DemoError> {
    let text = match std::fs::read_to_string(ledger) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let entry = |line: &str| {
        let mut words = line.splitn(3, ' ');
        Some((words.next()?.to_owned(), words.nth(1)?.to_owned()))
    };
    Ok(text.lines().filter_map(entry).collect())
}
