//! `weir budget show`: what may be used, what was, what is set aside for calls under way, and what it has stopped.

mod view;

use std::borrow::Cow;
use std::collections::BTreeMap;

use weir_engine::{Address, Balance, Outcome as Came, day, provision};
use weir_events::{Allowance, Parked};
use weir_journal::{ListFilter, Status, now};
use weir_kernel::Purse;
use weir_types::{Explain, Fault, Timestamp};

use self::view::{Counted, View};
use crate::budget::flag;
use crate::commands::{Context, session};
use crate::damaged::end_of_list;
use crate::host::Host;
use crate::identity::{Identity, Sees};
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::show::printable;
use crate::table;
use crate::which::{Pages, find};
use crate::workbench::ToolArgs;

/// What the names of purses' streams begin with.
const PREFIX: &str = "budget:";

const EXAMPLES: &str = "\
Examples:
  weir budget show
  weir budget show --agent helper --day 2026-07-31
  weir budget show --session -1
  weir session resume -1 --budget usd=5";

/// What to do with budgets.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show what is left in each purse, and which sessions wait for more.
    Show(Args),
}

/// The arguments of `weir budget show`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only the purse of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Only the purse of whoever this is: `user:NAME`, `serviceaccount:NAME`.
    #[arg(long)]
    principal: Option<String>,
    /// The day, in UTC; today, if left out.
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
    /// The purses that the next call of this session would be paid from, and no others.
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["agent", "principal", "day"])]
    session: Option<String>,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Not a day.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a day")]
struct NotADay(String);

impl Explain for NotADay {
    fn code(&self) -> &'static str {
        "cli::day"
    }

    fn help(&self) -> Cow<'static, str> {
        "write it as year, month and day: `2026-07-31`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// A session that a purse has stopped.
struct Stopped {
    address: Address,
    scope: String,
    message: String,
    more: Option<Allowance>,
}

/// Who asks, and what they see.
struct Asker {
    sees: Sees,
    identity: Identity,
}

/// Runs one of them.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    let Command::Show(args) = command;
    let today = day(now());
    let wanted = args.day.clone().unwrap_or_else(|| today.clone());
    if format!("{wanted}T00:00:00Z").parse::<Timestamp>().is_err() || wanted.len() != today.len() {
        return Err(NotADay(wanted.chars().take(40).collect()).into());
    }
    let host = session::host_for(context, &args.project, &ToolArgs::default(), None).await?;
    let asker = Asker { sees: context.sees(&args.project).await?, identity: context.identity.clone() };
    let shown = show(args, &asker, &wanted, wanted == today, &host, &mut context.out).await;
    host.stop().await;
    shown
}

async fn show(args: &Args, asker: &Asker, day: &str, is_today: bool, host: &Host, out: &mut Out) -> Outcome {
    let (stopped, damaged) = stopped(host, out).await?;
    let (purses, stopped) = match &args.session {
        Some(session) => {
            let address = find(&*host.journal, session, &asker.sees).await?;
            let stopped = stopped.into_iter().filter(|stopped| stopped.address == address).collect();
            (host.engine.balances(&address).await?, stopped)
        }
        None => of_day(args, asker, day, is_today, host, stopped).await?,
    };
    let views: Vec<View> = purses.iter().map(|balance| view(balance, &stopped)).collect();
    if out.json {
        views.iter().try_for_each(|view| out.object(view))?;
    } else {
        print(args, day, &views, &stopped, out)?;
    }
    end_of_list(damaged, "session")
}

fn view(balance: &Balance, stopped: &[Stopped]) -> View {
    let stopped = stopped.iter().filter(|stopped| stopped.scope == balance.scope);
    View::new(balance, stopped.map(|stopped| stopped.address.to_string()).collect())
}

/// The sessions that wait because a purse had too little, and how many others wait and cannot be read.
async fn stopped(host: &Host, out: &Out) -> Outcome<(Vec<Stopped>, usize)> {
    let (mut found, mut damaged) = (Vec::new(), 0);
    let filter = ListFilter { status: Some(Status::Waiting), ..ListFilter::default() };
    let mut pages = Pages::new(filter);
    while let Some(page) = pages.next(&*host.journal).await? {
        for address in page.iter().filter_map(|listed| Address::of(&listed.branch)) {
            let session = match host.engine.state(&address, None).await {
                Err(error) if error.is_damage() => {
                    damaged += 1;
                    let what = error.to_string();
                    out.warn(format_args!(
                        "session {address} is damaged, and why it waits cannot be shown: {}",
                        printable(&what)
                    ));
                    continue;
                }
                session => session?,
            };
            let parked = session.run.as_ref().and_then(|run| run.parked.as_ref());
            let Some(Parked::Budget { scope, .. }) = parked else { continue };
            let came = Came::of(&address, &session);
            let (scope, message) = (scope.clone(), came.message.unwrap_or_default());
            found.push(Stopped { address, scope, message, more: came.budget });
        }
    }
    Ok((found, damaged))
}

/// The purses of a day: those that were used, those that could be, and whichever stopped a session.
async fn of_day(
    args: &Args,
    asker: &Asker,
    day: &str,
    is_today: bool,
    host: &Host,
    mut stopped: Vec<Stopped>,
) -> Outcome<(Vec<Balance>, Vec<Stopped>)> {
    let every = args.agent.is_none() && args.principal.is_none();
    let is_wanted = |scope: &str| match scope.strip_suffix(day).and_then(|scope| scope.strip_suffix(':')) {
        Some("day") => every,
        Some(scope) => match (scope.strip_prefix("agent:"), scope.strip_prefix("principal:")) {
            (Some(agent), _) => every || args.agent.as_deref() == Some(agent),
            (_, Some(who)) => every || args.principal.as_deref() == Some(who),
            (None, None) => false,
        },
        None => false,
    };
    let has_stopped = |scope: &str| every && is_today && stopped.iter().any(|stopped| stopped.scope == scope);
    let is_shown = |scope: &str| is_wanted(scope) || has_stopped(scope);
    let mut purses = host
        .engine
        .purses(|summary| {
            let scope = summary.stream.as_str().strip_prefix(PREFIX).unwrap_or_default();
            // Odd names are there by their hash; the purse itself says whose it is.
            scope.starts_with('#') || is_shown(scope)
        })
        .await?;
    purses.retain(|balance| is_shown(&balance.scope));
    if is_today {
        let known: Vec<String> = purses.iter().map(|balance| balance.scope.clone()).collect();
        let unused = configured(args, asker, day).await.into_iter();
        let unused = unused.filter(|(scope, _)| is_wanted(scope) && !known.contains(scope));
        purses.extend(unused.map(|(scope, limit)| Balance { scope, limit, purse: Purse::default() }));
    }
    purses.sort_by(|a, b| a.scope.cmp(&b.scope));
    stopped.retain(|stopped| purses.iter().any(|balance| balance.scope == stopped.scope));
    Ok((purses, stopped))
}

/// The purses that a project speaks of. One that cannot be built speaks of none.
async fn configured(args: &Args, asker: &Asker, day: &str) -> BTreeMap<String, Allowance> {
    let Ok(built) = args.project.build().await else { return BTreeMap::new() };
    let budgets = provision::budgets(&built.manifest, asker.identity.admins());
    let who = args.principal.clone().unwrap_or_else(|| asker.identity.principal().to_owned());
    let agents = built.manifest.agents.keys().map(|name| (format!("agent:{name}:{day}"), budgets.agent));
    let others = [(format!("principal:{who}:{day}"), budgets.principal), (format!("day:{day}"), budgets.day)];
    agents.chain(others).filter(|(_, limit)| !limit.is_unlimited()).collect()
}

fn print(args: &Args, day: &str, views: &[View], stopped: &[Stopped], out: &mut Out) -> Outcome {
    if views.is_empty() {
        let whose = if args.session.is_some() { "this session".to_owned() } else { day.to_owned() };
        out.note(format_args!("there is no budget for {whose}; `budgets` in weir.yaml would set one"));
        return Ok(());
    }
    let mut rows = Vec::new();
    for view in views {
        for Counted { of, limit, settled, held, left } in view.columns() {
            let scope = printable(&view.scope).into_owned();
            rows.push([scope, of.to_owned(), limit, settled, held, left]);
        }
    }
    table::print(["SCOPE", "OF", "LIMIT", "SETTLED", "IN FLIGHT", "LEFT"], &rows, out)?;
    out.flush()?;
    for Stopped { address, message, more, .. } in stopped {
        let more = more.map_or_else(String::new, |more| format!(" --budget {}", flag(&more)));
        out.note(format_args!("session {address} waits: {}", printable(message)));
        out.aside(format_args!("  weir session resume {address}{more}"));
    }
    Ok(())
}

/// What is left of the purses that the next call of a session would be paid from, a line for each limit.
pub(crate) async fn left(host: &Host, address: &Address) -> Outcome<Vec<String>> {
    let purses = host.engine.balances(address).await?;
    let lines = purses.iter().flat_map(|balance| {
        let whose = weir_engine::scope_words(&balance.scope);
        let counted = View::new(balance, Vec::new()).counted();
        counted
            .into_iter()
            .map(move |counted| format!("{} of {} left for {whose}", counted.left, counted.limit))
    });
    Ok(lines.collect())
}
