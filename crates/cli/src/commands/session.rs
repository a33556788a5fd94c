//! `weir session`: look at sessions, speak to them, and take them in hand.

mod bridge;
mod change;
mod list;
mod overview;
mod resume;
mod show;

use crate::agents::ProjectAgents;
use crate::commands::Context;
use crate::history::{self, Detail};
use crate::host::Host;
use crate::logs;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::which::SessionArg;
use crate::workbench::ToolArgs;

pub(crate) use self::show::place;

/// What to do with sessions.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List sessions, the latest first.
    List(list::Args),
    /// Show a session at a glance, or one of its model requests.
    Show(show::Args),
    /// Print what was said, also what a summary has replaced for the model.
    History(HistoryArgs),
    /// Print the state of a session, now or at an earlier event.
    State(show::StateArgs),
    /// Change a session's title and labels.
    Set(change::SetArgs),
    /// Say something to a session without running it: whoever runs it takes it up.
    Message(change::MessageArgs),
    /// Tell a session that something happened.
    Signal(change::SignalArgs),
    /// Ask a session's run to stop.
    Cancel(change::CancelArgs),
    /// Go on from an event on a branch of its own.
    Fork(change::ForkArgs),
    /// Go on with a run that stopped, and print the answer.
    Resume(resume::Args),
    /// Stop a session until it is resumed.
    Halt(change::WhyArgs),
    /// End a session for good.
    Close(change::WhyArgs),
    /// Print the token by which a remote runner calls a session's tools over `/bridge/mcp`.
    BridgeToken(bridge::Args),
}

/// The arguments of `weir session history`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir session history -1\n  weir session history 01J9Z --all --json | jq .text"
)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Tools in full, and thoughts, summaries and what became of runs.
    #[arg(long)]
    all: bool,
}

/// Runs one of them.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    logs::begin_if_asked(&context.out)?;
    match command {
        Command::List(args) => list::run(args, context).await,
        Command::Show(args) => show::run(args, context).await,
        Command::History(args) => print_history(args, context).await,
        Command::State(args) => show::state(args, context).await,
        Command::Resume(args) => resume::run(args, context).await,
        Command::Set(args) => change::set(args, context).await,
        Command::Message(args) => change::message(args, context).await,
        Command::Signal(args) => change::signal(args, context).await,
        Command::Cancel(args) => change::cancel(args, context).await,
        Command::Fork(args) => change::fork(args, context).await,
        Command::Halt(args) => change::halt(args, context).await,
        Command::Close(args) => change::close(args, context).await,
        Command::BridgeToken(args) => bridge::run(args, context).await,
    }
}

/// An engine for a command that runs no agent.
pub(crate) async fn host(context: &Context) -> Outcome<Host> {
    host_for(context, &context.project, &ToolArgs::default(), None).await
}

/// An engine for a command that only reads.
pub(crate) async fn host_to_read(context: &Context, project: &ProjectArgs) -> Outcome<Host> {
    let store = context.store_to_read().await?;
    let agents = ProjectAgents::new(&project.directory, &context.data_dir, &ToolArgs::default());
    Host::start(store, &context.data_dir, agents).await
}

/// An engine that can run the agents of a project.
pub(crate) async fn host_for(
    context: &Context,
    project: &ProjectArgs,
    tools: &ToolArgs,
    iterations: Option<u64>,
) -> Outcome<Host> {
    let store = context.store().await?;
    let agents = ProjectAgents::new(&project.directory, &context.data_dir, tools).with_iterations(iterations);
    Host::start(store, &context.data_dir, agents).await
}

async fn print_history(args: &HistoryArgs, context: &mut Context) -> Outcome {
    let sees = context.sees(&context.project).await?;
    let store = context.store_to_read().await?;
    let detail = if args.all { Detail::All } else { Detail::Said };
    let printed = async {
        let address = args.session.find(&store.journal, &sees).await?;
        history::print(&store.journal, &address, detail, &mut context.out).await
    };
    let printed = printed.await;
    store.close().await;
    printed
}
