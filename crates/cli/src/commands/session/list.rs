//! `weir session list`.

use serde::Serialize;
use weir_engine::Address;
use weir_journal::{ListFilter, Listed, Status};
use weir_types::{BranchName, SessionId, Timestamp, Usage};

use crate::commands::Context;
use crate::host::Host;
use crate::identity::Sees;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::printable;
use crate::table;
use crate::which::{Pages, visible};

/// How many sessions a person is shown.
const ROWS_DEFAULT: usize = 50;

const EXAMPLES: &str = "\
Examples:
  weir session list
  weir session list --status waiting
  weir session list --agent helper --json | jq -r .id";

/// The arguments of `weir session list`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only those that are idle, running, waiting, halted or closed.
    #[arg(long)]
    status: Option<Status>,
    /// Only those of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// At most so many; 50 if left out, with `--json` all.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Serialize)]
struct View<'a> {
    id: SessionId,
    branch: &'a BranchName,
    agent: Option<&'a str>,
    status: &'a str,
    title: Option<&'a str>,
    principal: Option<&'a str>,
    updated: Timestamp,
    usage: Usage,
    cost_usd: f64,
    /// What is wrong with it, if its status is `damaged`.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<&'a str>,
}

/// The status of a session that cannot be read.
const DAMAGED: &str = "damaged";

/// Lists sessions, the latest first.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let sees = context.sees(&context.project).await?;
    let host = super::host_to_read(context, &context.project).await?;
    let listed = list(args, &sees, &host, &mut context.out).await;
    host.stop().await;
    listed
}

async fn list(args: &Args, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let filter = ListFilter { status: args.status, agent: args.agent.clone(), ..visible(sees) };
    let mut pages = Pages::new(filter);
    let mut rows: Vec<(Address, Listed)> = Vec::new();
    while let Some(page) = pages.next(&*host.journal).await? {
        rows.extend(page.into_iter().filter_map(|listed| Some((Address::of(&listed.branch)?, listed))));
    }
    rows.sort_by_key(|(_, listed)| std::cmp::Reverse(listed.head.position));
    let all = rows.len();
    rows.truncate(args.limit.unwrap_or(if out.json { usize::MAX } else { ROWS_DEFAULT }));
    if out.json {
        for (address, listed) in &rows {
            let (spent, damage) = host.engine.totals(address, listed).await?;
            let (usage, cost_usd) = (spent.usage, spent.cost.as_usd());
            let view = View { usage, cost_usd, ..view(address, listed) };
            let status = if damage.is_some() { DAMAGED } else { view.status };
            out.object(&View { status, damage: damage.as_deref(), ..view })?;
        }
        return Ok(());
    }
    if rows.is_empty() {
        out.note(format_args!("there are no such sessions; begin one with `weir chat AGENT`"));
        return Ok(());
    }
    let mut cells = Vec::new();
    for (address, listed) in &rows {
        let (_, damage) = host.engine.totals(address, listed).await?;
        if let Some(what) = damage {
            out.warn(format_args!("session {address} is damaged: {}", printable(&what)));
            cells.push(row(address, listed, DAMAGED));
            continue;
        }
        // Whoever ran it is gone without a word: it waits to be resumed.
        let orphan = listed.attrs.status == Status::Running && host.engine.runner(address).await?.is_none();
        let status = if orphan { "interrupted" } else { listed.attrs.status.as_str() };
        cells.push(row(address, listed, status));
    }
    table::print(["SESSION", "AGENT", "STATUS", "UPDATED", "TITLE"], &cells, out)?;
    if all > rows.len() {
        out.note(format_args!("{} more; `--limit {all}` shows them", all - rows.len()));
    }
    Ok(())
}

fn view<'a>(address: &'a Address, listed: &'a Listed) -> View<'a> {
    let attrs = &listed.attrs;
    View {
        id: address.session,
        branch: &address.branch,
        agent: attrs.agent.as_deref(),
        status: attrs.status.as_str(),
        title: attrs.title.as_deref(),
        principal: attrs.principal.as_deref(),
        updated: listed.head.ts,
        usage: Usage::default(),
        cost_usd: 0.0,
        damage: None,
    }
}

fn row(address: &Address, listed: &Listed, status: &str) -> [String; 5] {
    let text = |text: &Option<String>| printable(text.as_deref().unwrap_or("")).into_owned();
    // To the second is enough for people.
    let updated = listed.head.ts.to_string();
    let updated = updated.split('.').next().unwrap_or_default().replace('T', " ");
    let attrs = &listed.attrs;
    [address.to_string(), text(&attrs.agent), status.to_owned(), updated, text(&attrs.title)]
}
