//! `weir approve` and `weir deny`: a decision is written down, and whatever waited for it goes on.

use std::borrow::Cow;

use serde::Serialize;
use weir_engine::{Address, Answered, Approval, ApprovalError, EngineError, Pretence};
use weir_events::{ApprovalDenied, ApprovalGranted, Scope};
use weir_types::{BranchName, CallId, Explain, Fault, Hash, Json, Seq, SessionId};

use super::which;
use crate::asked;
use crate::commands::Context;
use crate::commands::session::host_for;
use crate::host::Host;
use crate::output::Out;
use crate::project::{self, ProjectArgs};
use crate::report::{Failure, Outcome};
use crate::turn::{Start, Talk};
use crate::workbench::ToolArgs;

const APPROVE: &str = "\
Examples:
  weir approve
  weir approve 7Q2M9A
  weir approve 7Q2M9A --session
  weir approve 7Q2M9A --input '{\"to\":\"staging\"}'
  weir approve 7Q2M9A --live-writes
  weir approve 7Q2M9A --dry-run";

const DENY: &str = "\
Examples:
  weir deny 7Q2M9A -m 'not on a Friday'
  weir deny 7Q2M9A --no-run";

/// The arguments of `weir approve`.
#[derive(Debug, clap::Args)]
#[command(after_help = APPROVE)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Run it with these arguments instead. They must be allowed, and the agent is told.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    /// Say yes to later calls of this tool for the same reason, too, for as long as the session lasts.
    #[arg(long)]
    session: bool,
    /// Approve a dry run: nothing happens, the agent is told so, and the approval is used up.
    #[arg(long, conflicts_with = "live_writes")]
    dry_run: bool,
}

/// The arguments of `weir deny`.
#[derive(Debug, clap::Args)]
#[command(after_help = DENY)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Why; the agent is told.
    #[arg(long, short, value_name = "WHY", allow_hyphen_values = true)]
    message: Option<String>,
}

/// Which call, and what happens next.
#[derive(Debug, clap::Args)]
struct WhichArgs {
    /// The call: its id as `weir approvals` lists it, or as much of its beginning or end as tells it apart; `-1` is the one
    /// that waits in the latest session. Without it, the only call that waits is meant.
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: Option<String>,
    /// Only write the decision down; whoever runs the session takes it up.
    #[arg(long)]
    no_run: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
enum DecideError {
    /// Not JSON.
    #[error("the arguments are not JSON")]
    NotJson(#[source] serde_json::Error),
    /// The approval would be used up by a dry run.
    #[error(
        "the call of `{tool}` would be a dry run: nothing would happen, and the approval would be used up"
    )]
    DryRun {
        /// The call.
        call: CallId,
        /// Its tool.
        tool: String,
    },
}

impl Explain for DecideError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotJson(_) => "cli::not-json",
            Self::DryRun { .. } => "cli::would-pretend",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotJson(_) => "write all of them as one object: `--input '{\"to\":\"staging\"}'`".into(),
            Self::DryRun { call, .. } => format!(
                "let it happen with `weir approve {call} --live-writes`, or approve the dry run with `--dry-run`; it still \
                 waits"
            )
            .into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// What is printed for programs where nothing runs here.
#[derive(Serialize)]
struct Written<'a> {
    call: CallId,
    decision: &'static str,
    session: SessionId,
    branch: &'a BranchName,
    seq: Seq,
}

/// What someone says.
enum Word {
    Yes { input: Option<Json>, scope: Scope, dry_run: bool },
    No { message: Option<String> },
}

impl Word {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Yes { .. } => "approved",
            Self::No { .. } => "denied",
        }
    }
}

/// A decision to be made.
struct Decision<'a> {
    args: &'a WhichArgs,
    host: &'a Host,
    /// Who decides.
    by: String,
    word: Word,
    /// Where it is asked.
    address: Address,
    call: CallId,
    /// What is asked, if it still is.
    approval: Option<Approval>,
    /// The session that goes on: the one in which a person began all this.
    root: Address,
}

/// Says yes.
pub(crate) async fn approve(args: &ApproveArgs, context: &mut Context) -> Outcome {
    let input = args.input.as_deref().map(Json::parse).transpose().map_err(DecideError::NotJson)?;
    let scope = if args.session { Scope::Session } else { Scope::Once };
    run(&args.which, Word::Yes { input, scope, dry_run: args.dry_run }, context).await
}

/// Says no.
pub(crate) async fn deny(args: &DenyArgs, context: &mut Context) -> Outcome {
    let message = args.message.clone().filter(|message| !message.trim().is_empty());
    run(&args.which, Word::No { message }, context).await
}

async fn run(args: &WhichArgs, word: Word, context: &mut Context) -> Outcome {
    let host = host_for(context, &args.project, &args.tools, None).await?;
    let decided = async {
        let by = context.identity.principal().to_owned();
        let decision = Decision::new(args, &host, by, word, &context.out).await?;
        decision.make(&mut context.out).await
    };
    let decided = decided.await;
    host.stop().await;
    decided
}

impl<'a> Decision<'a> {
    async fn new(args: &'a WhichArgs, host: &'a Host, by: String, word: Word, out: &Out) -> Outcome<Self> {
        let (address, call) = which::find(host, args.id.as_deref()).await?;
        let session = host.engine.state(&address, None).await?;
        if let Some(created) = &session.created {
            // What is wrong with the agent's files is shown with their lines.
            let built = args.project.build().await?;
            project::agent(&built.manifest, &created.agent, &args.project.directory)?;
            args.tools.warn_unmatched(&built.manifest, out);
        }
        let asked = host.engine.approvals(&address).await?;
        let approval = asked.into_iter().find(|approval| approval.id == call);
        let root = host.engine.root(&address).await?;
        Ok(Self { args, host, by, word, address, call, approval, root })
    }

    async fn make(&self, out: &mut Out) -> Outcome {
        let engine = &self.host.engine;
        let seen = engine.state(&self.root, None).await?.seq;
        let runner = engine.runner(&self.root).await?;
        let answered = self.answer(runner.is_none() && !self.args.no_run).await?;
        if self.args.no_run || runner.is_some() {
            return self.leave(&answered, runner, out);
        }
        if let Some(approval) = &self.approval {
            let input = match &self.word {
                Word::Yes { input: Some(edited), .. } => edited,
                Word::Yes { .. } | Word::No { .. } => &approval.input,
            };
            let line = format!("{} {}", self.word.as_str(), asked::call(&approval.tool, input));
            out.aside(format_args!("{}", out.err.dim(&line)));
        }
        let mut talk = Talk::after(self.host, self.root.clone(), seen);
        let turn = match talk.turn(Start::Finish, out).await {
            Ok(turn) => turn,
            // Somebody else has taken it up since.
            Err(Failure::Told(told)) if told.code() == "engine::owned" => {
                let runner = engine.runner(&self.root).await?;
                return self.leave(&answered, runner.or(Some(None)), out);
            }
            Err(failure) => return Err(failure),
        };
        if out.json {
            turn.print_json(&self.root, out)?;
        }
        out.flush()?;
        turn.conclude(&self.root, &self.args.tools.again(&self.args.project), out)
    }

    /// Writes the decision down.
    async fn answer(&self, runs_here: bool) -> Outcome<Answered> {
        let (engine, by) = (&self.host.engine, self.by.clone());
        let call = self.call;
        match &self.word {
            Word::Yes { input, scope, dry_run } => {
                // Whatever is not asked any more is refused, and why is found out there.
                let input_hash = self.approval.as_ref().map_or(Hash::ZERO, |approval| approval.input_hash);
                let granted = ApprovalGranted {
                    call,
                    by,
                    groups: vec![],
                    input_hash,
                    input: input.clone(),
                    scope: *scope,
                    runs: None,
                };
                let pretence = match (*dry_run, runs_here) {
                    // Whoever runs it asks again if it would do something else.
                    (true, false) => Pretence::WantedElsewhere,
                    (true, true) => Pretence::Wanted,
                    (false, true) => Pretence::Refused,
                    (false, false) if self.args.tools.lets_writes_happen() => Pretence::LiveElsewhere,
                    (false, false) => Pretence::RefusedElsewhere,
                };
                match engine.approve(&self.address, granted, pretence).await {
                    Err(EngineError::Approval(ApprovalError::WouldPretend { tool })) => {
                        Err(DecideError::DryRun { call, tool }.into())
                    }
                    answered => Ok(answered?),
                }
            }
            Word::No { message } => {
                let denied = ApprovalDenied { call, by, groups: vec![], message: message.clone() };
                Ok(engine.deny(&self.address, denied).await?)
            }
        }
    }

    /// Says who goes on with it, where that is not this process.
    fn leave(&self, answered: &Answered, runner: Option<Option<u32>>, out: &mut Out) -> Outcome {
        let (call, decision) = (self.call, self.word.as_str());
        let Address { session, branch } = &answered.address;
        if out.json {
            let written = Written { call, decision, session: *session, branch, seq: answered.seq };
            return out.document(&written);
        }
        out.line(format_args!("{decision} {call}"))?;
        let root = &self.root;
        match runner {
            Some(Some(pid)) => out.note(format_args!("process {pid} runs session {root} and takes this up")),
            Some(None) => out.note(format_args!("another process runs session {root} and takes this up")),
            None => {
                let live = if answered.pretends { " --live-writes" } else { "" };
                out.note(format_args!("nobody runs it now; `weir session resume {root}{live}` does"));
            }
        }
        Ok(())
    }
}
