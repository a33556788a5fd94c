//! `weir approvals`, `weir approve`, `weir deny`: what agents ask people, and what people say.

mod decide;
mod which;

use serde::Serialize;
use weir_engine::{Approval, AskedAfter, DamagedSession, escalated};
use weir_events::Escalates;
use weir_journal::{PAGE_MAX, now};
use weir_types::{Json, Timestamp};

use crate::asked;
use crate::commands::{Context, session};
use crate::damaged::end_of_list;
use crate::host::Host;
use crate::identity::Sees;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::show::{printable, shorten};
use crate::table;
use crate::which::find;
use crate::workbench::ToolArgs;

pub(crate) use self::decide::{ApproveArgs, DenyArgs, approve, deny};

/// How many calls a person is shown.
const ROWS_DEFAULT: usize = 50;

/// How much of the arguments a person is shown in a list.
const INPUT_COLUMNS: usize = 40;

const EXAMPLES: &str = "\
Examples:
  weir approvals
  weir approvals --agent helper --json | jq -r .id
  weir approve 7Q2M9A
  weir deny 7Q2M9A -m 'not on a Friday'";

/// The arguments of `weir approvals`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only calls of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Only calls of this session, and of those that its agents began.
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// At most so many; 50 if left out, with `--json` all.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct View<'a> {
    id: String,
    session: String,
    agent: &'a str,
    tool: &'a str,
    input: &'a Json,
    why: &'a str,
    expires: Option<Timestamp>,
    /// Who may approve, too, and from when on.
    escalates: Option<&'a Escalates>,
    /// Whether the call was asked for as a dry run: then it needs `--live-writes`, or `--dry-run`.
    dry_run: bool,
}

/// Lists the calls that wait for someone's decision.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let sees = context.sees(&args.project).await?;
    let host = session::host_for(context, &args.project, &ToolArgs::default(), None).await?;
    let listed = list(args, &sees, &host, &mut context.out).await;
    host.stop().await;
    listed
}

async fn list(args: &Args, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let limit = args.limit.unwrap_or(if out.json { usize::MAX } else { ROWS_DEFAULT });
    let (mut shown, mut found, mut unreadable) = (Vec::new(), 0, 0);
    let mut pages = Pages::new(args, sees, host).await?;
    while let Some((page, damaged)) = pages.next(host).await? {
        if *sees == Sees::Everything {
            tell_damaged(&damaged, out)?;
            unreadable += damaged.len();
        }
        for approval in page {
            if !is_seen(&approval, sees, host).await? {
                continue;
            }
            found += 1;
            if found > limit {
                continue;
            }
            match out.json {
                true => out.object(&view(&approval))?,
                false => shown.push(approval),
            }
        }
    }
    if !out.json {
        print(&shown, found, out)?;
    }
    end_of_list(unreadable, "session")
}

/// Whether someone is shown what is asked: their own calls, and those that they may decide about.
async fn is_seen(approval: &Approval, sees: &Sees, host: &Host) -> Outcome<bool> {
    match sees {
        Sees::Everything => Ok(true),
        Sees::Only(who) => Ok(approval.asker == *who || host.engine.may_decide(approval, who).await?),
    }
}

/// What is asked, page by page, so that any number of it takes little memory.
struct Pages {
    agent: Option<String>,
    /// All there is, if one session is meant.
    of_session: Option<Vec<Approval>>,
    after: Option<AskedAfter>,
    done: bool,
}

impl Pages {
    async fn new(args: &Args, sees: &Sees, host: &Host) -> Outcome<Self> {
        let of_session = match &args.session {
            Some(session) => {
                let address = find(&*host.journal, session, sees).await?;
                let asked = host.engine.approvals(&address).await?;
                Some(asked.into_iter().filter(|approval| !approval.is_late(now())).collect())
            }
            None => None,
        };
        Ok(Self { agent: args.agent.clone(), of_session, after: None, done: false })
    }

    async fn next(&mut self, host: &Host) -> Outcome<Option<(Vec<Approval>, Vec<DamagedSession>)>> {
        if self.done {
            return Ok(None);
        }
        if let Some(mut asked) = self.of_session.take() {
            self.done = true;
            asked.retain(|approval| self.agent.as_ref().is_none_or(|agent| *agent == approval.agent));
            return Ok(Some((asked, Vec::new())));
        }
        let page = host.engine.all_approvals(self.agent.clone(), self.after.take(), PAGE_MAX).await?;
        self.done = page.next.is_none();
        self.after = page.next;
        Ok(Some((page.approvals, page.damaged)))
    }
}

/// A session that may ask something, and cannot be read.
#[derive(Serialize)]
struct DamagedView<'a> {
    session: String,
    status: &'static str,
    damage: &'a str,
}

fn tell_damaged(damaged: &[DamagedSession], out: &mut Out) -> Outcome {
    for DamagedSession { address, what } in damaged {
        if out.json {
            out.object(&DamagedView { session: address.to_string(), status: "damaged", damage: what })?;
        } else {
            out.warn(format_args!(
                "session {address} is damaged, and what it asks cannot be shown: {}",
                printable(what)
            ));
        }
    }
    Ok(())
}

fn view(approval: &Approval) -> View<'_> {
    View {
        id: approval.id.to_string(),
        session: approval.address.to_string(),
        agent: &approval.agent,
        tool: &approval.tool,
        input: &approval.input,
        why: &approval.why,
        expires: approval.expires,
        escalates: approval.escalates.as_ref(),
        dry_run: approval.stub,
    }
}

fn print(shown: &[Approval], found: usize, out: &mut Out) -> Outcome {
    if shown.is_empty() {
        out.note(format_args!("nothing waits for approval"));
        return Ok(());
    }
    let ids: Vec<String> = shown.iter().map(|approval| approval.id.to_string()).collect();
    let from = which::suffix_from(&ids);
    let rows: Vec<[String; 9]> = shown
        .iter()
        .zip(&ids)
        .map(|(approval, id)| {
            let text = |text: &str| printable(text).into_owned();
            [
                id[from..].to_owned(),
                approval.address.to_string(),
                text(&approval.agent),
                text(&approval.tool),
                asked::age(approval.id),
                asked::left(approval.expires),
                if approval.stub { "dry run" } else { "live" }.to_owned(),
                shorten(&printable(approval.input.as_str()), INPUT_COLUMNS).into_owned(),
                text(&reason(approval)),
            ]
        })
        .collect();
    table::print(["ID", "SESSION", "AGENT", "TOOL", "AGE", "EXPIRES", "CALL", "INPUT", "WHY"], &rows, out)?;
    if found > shown.len() {
        out.note(format_args!("{} more; `--limit {found}` shows them", found - shown.len()));
    }
    let (id, live) = (&ids[0][from..], asked::live(&shown[0]));
    out.note(format_args!("decide with `weir approve {id}{live}` or `weir deny {id} -m WHY`"));
    if shown.iter().any(|approval| approval.stub) {
        out.note(format_args!(
            "a call that is a dry run needs `--live-writes` to happen, or `--dry-run` to be approved as one"
        ));
    }
    Ok(())
}

/// Why, without what the other columns say.
fn reason(approval: &Approval) -> String {
    let known = format!("tool '{}' requires approval", approval.tool);
    let why = approval.why.strip_prefix(&known).map_or(&*approval.why, |rest| rest.trim_start_matches(": "));
    match escalated(approval.escalates.as_ref(), now()) {
        Some(group) => format!("{why} (`{group}` may approve, too)"),
        None => why.to_owned(),
    }
}
