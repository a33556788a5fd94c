//! `weir session resume`.

use weir_engine::{Address, Outcome as Came, StopReason};
use weir_events::Allowance;
use weir_kernel::{CallState, Session};

use crate::budget;
use crate::commands::Context;
use crate::host::Host;
use crate::identity::Sees;
use crate::output::Out;
use crate::project::{self, ProjectArgs};
use crate::report::Outcome;
use crate::show::printable;
use crate::turn::{Start, Talk};
use crate::which::SessionArg;
use crate::workbench::ToolArgs;

const EXAMPLES: &str = "\
Examples:
  weir session resume -1
  weir session resume 01J9Z --max-iterations 30
  weir session resume -1 --budget usd=5";

/// The arguments of `weir session resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// The most rounds of model and tools from here on; what the spec says, if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_iterations: Option<u64>,
    /// Put more into the budget that stopped it: `usd=5`, `tokens=N`, `model_calls=N`, `wall_clock=10m`, or several with
    /// commas between them.
    #[arg(long, value_name = "AMOUNTS")]
    budget: Option<String>,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Goes on with a run, and prints the answer.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let budget = args.budget.as_deref().map(budget::parse).transpose()?;
    let sees = context.sees(&args.project).await?;
    let host = super::host_for(context, &args.project, &args.tools, args.max_iterations).await?;
    let asker = Asker { sees, by: context.identity.principal().to_owned(), budget };
    let resumed = resume(args, asker, &host, &mut context.out).await;
    host.stop().await;
    resumed
}

/// Who goes on, what they see, and what they put in.
struct Asker {
    sees: Sees,
    by: String,
    budget: Option<Allowance>,
}

async fn resume(args: &Args, asker: Asker, host: &Host, out: &mut Out) -> Outcome {
    let address = args.session.find(&*host.journal, &asker.sees).await?;
    let session = host.engine.state(&address, None).await?;
    if let Some(created) = &session.created {
        // What is wrong with the agent's files is shown with their lines.
        let built = args.project.build().await?;
        project::agent(&built.manifest, &created.agent, &args.project.directory)?;
        args.tools.warn_unmatched(&built.manifest, out);
    }
    let before = Came::of(&address, &session).run;
    let mut talk = Talk::after(host, address.clone(), session.seq).by(asker.by);
    let turn = talk.turn(Start::Resume(asker.budget), out).await?;
    if out.json {
        turn.print_json(&address, out)?;
    }
    out.flush()?;
    if session.run.is_none() && turn.came.run == before {
        out.note(format_args!("it goes on with the next message; nothing was left to answer"));
        return Ok(());
    }
    if turn.came.stop == StopReason::End {
        tell_parent(host, &session, &asker.sees, out).await?;
    }
    turn.conclude(&address, &args.tools.again(&args.project), out)
}

/// Says which session called this one and was told that the call failed: it does not learn of the answer by itself.
async fn tell_parent(host: &Host, session: &Session, sees: &Sees, out: &Out) -> Outcome {
    let Some(called_by) = session.created.as_ref().and_then(|created| created.parent.as_ref()) else {
        return Ok(());
    };
    let address = Address { session: called_by.session, branch: called_by.branch.clone() };
    // One that cannot be read, or is not theirs to see, is nothing to speak of here.
    let Ok(parent) = host.engine.state(&address, None).await else { return Ok(()) };
    let Some(created) = &parent.created else { return Ok(()) };
    let is_seen = match sees {
        Sees::Everything => true,
        Sees::Only(who) => created.principal == *who,
    };
    let call = parent.all_calls().find(|call| call.id == called_by.call);
    // A call that the window no longer shows has ended, too.
    let has_failed = call.is_none_or(|call| match &call.state {
        CallState::Done(result) => result.failed.is_some(),
        _ => false,
    });
    if is_seen && has_failed {
        let agent = printable(&created.agent);
        out.note(format_args!(
            "session {address} has gone on without this answer; to tell it: `weir chat {agent} --session {address} -m TEXT`"
        ));
    }
    Ok(())
}
