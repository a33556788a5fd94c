//! `weir policy`: who may do what, why, and what another policy would have decided.

mod explain;
mod replay;
mod show;

use crate::commands::Context;
use crate::report::Outcome;

/// What to do with policies.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the policy of the project: its rules in order, what holds without them, and the text it is compiled to.
    Show(show::Args),
    /// Decide about one call as a run would, step by step, without making it.
    Explain(explain::Args),
    /// Decide again about recorded calls, under another build, and list every change.
    Replay(replay::Args),
}

/// Runs one of them.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    match command {
        Command::Show(args) => show::run(args, context).await,
        Command::Explain(args) => explain::run(args, context).await,
        Command::Replay(args) => replay::run(args, context).await,
    }
}
