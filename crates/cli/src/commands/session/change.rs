//! What others may say to a session: messages, signals, and that it should stop.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use weir_engine::{Address, Said};
use weir_events::SessionUpdated;
use weir_journal::now;
use weir_types::{Block, BranchName, Explain, Fault, Json, Seq, SessionId};

use crate::args;
use crate::commands::Context;
use crate::host::Host;
use crate::identity::Sees;
use crate::output::Out;
use crate::report::Outcome;
use crate::which::{SessionArg, free_branch};

/// The arguments of `weir session set`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir session set -1 --title 'Trip to Lisbon' --label team=travel\n  weir session set -1 --label team="
)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    session: SessionArg,
    /// What to call it.
    #[arg(long)]
    title: Option<String>,
    /// A label to set; an empty value removes it. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
}

/// The arguments of `weir session message`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir session message 01J9Z 'Use euros, please.'")]
pub(crate) struct MessageArgs {
    #[command(flatten)]
    session: SessionArg,
    /// What to say.
    #[arg(allow_hyphen_values = true)]
    text: String,
}

/// The arguments of `weir session signal`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir session signal 01J9Z invoice.paid --data '{\"eur\":120}'")]
pub(crate) struct SignalArgs {
    #[command(flatten)]
    session: SessionArg,
    /// What happened.
    name: String,
    /// The details.
    #[arg(long, value_name = "JSON", default_value = "{}", hide_default_value = true)]
    data: String,
}

/// The arguments of `weir session cancel`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir session cancel -1")]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    session: SessionArg,
}

/// The arguments of `weir session fork`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir session fork -1 --at 12\n  weir session fork 01J9Z --at 12 --name rainy"
)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The last event to share, as `weir session history` numbers them.
    #[arg(long, value_name = "SEQ")]
    at: u64,
    /// The new branch's name; `fork-1` or the like, if left out.
    #[arg(long, value_name = "BRANCH")]
    name: Option<String>,
}

/// The arguments of `weir session halt` and `weir session close`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir session halt -1 -m 'wrong customer'\n  weir session close -1")]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Why.
    #[arg(long, short, value_name = "WHY", default_value = "by hand", allow_hyphen_values = true)]
    message: String,
}

/// What is wrong with a change.
#[derive(Debug, thiserror::Error)]
enum ChangeError {
    /// Not a label.
    #[error("`{0}` is not a label")]
    Label(String),
    /// Nothing is to be changed.
    #[error("there is nothing to change")]
    Nothing,
    /// Not JSON.
    #[error("the data is not JSON")]
    Data(#[source] serde_json::Error),
    /// No run.
    #[error("session {0} has no run to cancel")]
    NoRun(Address),
    /// Nothing is said.
    #[error("there is nothing to say")]
    Empty,
}

impl Explain for ChangeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Label(_) => "cli::label",
            Self::Nothing => "cli::nothing-to-change",
            Self::Data(_) => "cli::not-json",
            Self::NoRun(_) => "engine::no-run",
            Self::Empty => "cli::empty-message",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Label(_) => "write `--label name=value`".into(),
            Self::Nothing => "give `--title TEXT` or `--label NAME=VALUE`".into(),
            Self::Data(_) => "put text in double quotes within single ones: `--data '\"text\"'`".into(),
            Self::NoRun(address) => format!("see `weir session show {address}`").into(),
            Self::Empty => "give a text".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Label(_) | Self::Nothing | Self::Data(_) | Self::Empty => Fault::Input,
            Self::NoRun(_) => Fault::Missing,
        }
    }
}

#[derive(Serialize)]
struct Changed<'a> {
    session: SessionId,
    branch: &'a BranchName,
    seq: Seq,
}

/// Changes title and labels.
pub(crate) async fn set(args: &SetArgs, context: &mut Context) -> Outcome {
    let mut labels = BTreeMap::new();
    for label in &args.label {
        let parts = label.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = parts.ok_or_else(|| ChangeError::Label(label.chars().take(40).collect()))?;
        labels.insert(name.to_owned(), value.to_owned());
    }
    if args.title.is_none() && labels.is_empty() {
        return Err(ChangeError::Nothing.into());
    }
    let updated = SessionUpdated { title: args.title.clone(), labels };
    change(&args.session, "changed", context, async |host, address, me| {
        Ok(host.engine.update(address, updated, me).await?)
    })
    .await
}

/// Leaves a message.
pub(crate) async fn message(args: &MessageArgs, context: &mut Context) -> Outcome {
    if args.text.trim().is_empty() {
        return Err(ChangeError::Empty.into());
    }
    let text = args.text.clone();
    change(&args.session, "left a message for", context, async |host, address, me| {
        let runtime = BTreeMap::from([("time".to_owned(), now().to_string())]);
        let said = Said { content: vec![Block::text(text)], runtime, actor: me.to_owned() };
        Ok(host.engine.post(address, said).await?)
    })
    .await
}

/// Sends a signal.
pub(crate) async fn signal(args: &SignalArgs, context: &mut Context) -> Outcome {
    let data = Json::parse(&args.data).map_err(ChangeError::Data)?;
    change(&args.session, "signalled", context, async |host, address, me| {
        Ok(host.engine.signal(address, &args.name, data, me).await?)
    })
    .await
}

/// Asks the run to stop.
pub(crate) async fn cancel(args: &CancelArgs, context: &mut Context) -> Outcome {
    change(&args.session, "asked to stop:", context, async |host, address, me| {
        if host.engine.state(address, None).await?.run.is_none() {
            return Err(ChangeError::NoRun(address.clone()).into());
        }
        Ok(host.engine.cancel(address, me).await?)
    })
    .await
}

/// Stops the session until it is resumed.
pub(crate) async fn halt(args: &WhyArgs, context: &mut Context) -> Outcome {
    change(&args.session, "halted", context, async |host, address, me| {
        Ok(host.engine.halt(address, &args.message, me).await?)
    })
    .await
}

/// Ends the session for good.
pub(crate) async fn close(args: &WhyArgs, context: &mut Context) -> Outcome {
    change(&args.session, "closed", context, async |host, address, me| {
        Ok(host.engine.close(address, &args.message, me).await?)
    })
    .await
}

/// Makes a branch.
pub(crate) async fn fork(args: &ForkArgs, context: &mut Context) -> Outcome {
    let sees = context.sees(&context.project).await?;
    let host = super::host(context).await?;
    let forked = fork_at(args, &sees, &host, &mut context.out).await;
    host.stop().await;
    forked
}

async fn fork_at(args: &ForkArgs, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let from = args.session.find(&*host.journal, sees).await?;
    let name = match &args.name {
        Some(name) => args::parse(name)?,
        None => free_branch(&*host.journal, &from).await?,
    };
    let (address, _) = host.engine.fork(&from, Seq(args.at), name).await?;
    let session = host.engine.state(&address, None).await?;
    if out.json {
        return out.document(&Changed {
            session: address.session,
            branch: &address.branch,
            seq: session.seq,
        });
    }
    out.line(format_args!("{address}"))?;
    let agent = session.created.map_or_else(|| "AGENT".to_owned(), |created| created.agent);
    out.note(format_args!("go on there with `weir chat {agent} --session {address}`"));
    Ok(())
}

/// Appends an input and says so; and whether anybody is there to take it up.
async fn change(
    session: &SessionArg,
    done: &str,
    context: &mut Context,
    input: impl AsyncFnOnce(&Host, &Address, &str) -> Outcome<Seq>,
) -> Outcome {
    let sees = context.sees(&context.project).await?;
    let host = super::host(context).await?;
    let changed = async {
        let address = session.find(&*host.journal, &sees).await?;
        let seq = input(&host, &address, context.identity.real()).await?;
        tell(&host, &address, seq, done, &mut context.out).await
    };
    let changed = changed.await;
    host.stop().await;
    changed
}

async fn tell(host: &Host, address: &Address, seq: Seq, done: &str, out: &mut Out) -> Outcome {
    if out.json {
        return out.document(&Changed { session: address.session, branch: &address.branch, seq });
    }
    out.line(format_args!("{done} {address}"))?;
    match host.engine.runner(address).await? {
        Some(Some(pid)) => out.note(format_args!("process {pid} runs it and takes this up")),
        Some(None) => out.note(format_args!("another process runs it and takes this up")),
        None => {
            let session = host.engine.state(address, None).await?;
            if session.active_run().is_some() || !session.inbox.is_empty() {
                out.note(format_args!("nobody runs it now; `weir session resume {address}` does"));
            }
        }
    }
    Ok(())
}
