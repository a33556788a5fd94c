//! `weir streams` and `weir count`.

use serde::Serialize;
use weir_journal::{Journal, PAGE_MAX, ReadError, StreamSummary};
use weir_types::{BranchName, OwnerId, StreamName, Timestamp};

use crate::args;
use crate::commands::Context;
use crate::damaged::end_of_list;
use crate::identity::Sees;
use crate::output::Out;
use crate::report::{Failure, Outcome};
use crate::show::{printable, thousands};
use crate::table;
use crate::which;

/// The arguments of `weir streams`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir streams\n  weir streams --json")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct View<'a> {
    stream: &'a StreamName,
    branches: u64,
    events: u64,
    updated: Timestamp,
    owner: Option<OwnerId>,
    /// What is wrong with what is stored about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<&'a str>,
}

/// Lists the streams, by name.
pub(crate) async fn run(context: &mut Context) -> Outcome {
    let store = context.store_to_read().await?;
    let listed = list(&store.journal, &mut context.out).await;
    store.close().await;
    listed
}

async fn list(journal: &impl Journal, out: &mut Out) -> Outcome {
    let (mut after, mut damaged) = (None, 0);
    loop {
        let first = after.is_none();
        let page = journal.streams(after, PAGE_MAX).await?;
        damaged += page.iter().filter(|summary| summary.damage.is_some()).count();
        if out.json {
            page.iter().try_for_each(|summary| out.object(&view(summary)))?;
        } else if page.is_empty() && first {
            out.note(format_args!("the journal has no streams yet; begin one with `weir append`"));
        } else {
            print(&page, first, out)?;
        }
        match page.into_iter().next_back() {
            Some(last) => after = Some(last.stream),
            None => return end_of_list(damaged, "stream"),
        }
    }
}

fn view(summary: &StreamSummary) -> View<'_> {
    let StreamSummary { stream, branches, events, updated, owner, damage } = summary;
    let damage = damage.as_deref();
    View { stream, branches: *branches, events: *events, updated: *updated, owner: *owner, damage }
}

/// One page of the table. Columns are aligned within a page, so that memory does not grow with the list.
fn print(page: &[StreamSummary], heading: bool, out: &mut Out) -> Outcome {
    for row in page {
        if let Some(what) = &row.damage {
            out.warn(format_args!("stream `{}` is damaged: {}", row.stream, printable(what)));
        }
    }
    let cells = |row: &StreamSummary| {
        let (branches, events) = (thousands(row.branches), thousands(row.events));
        let name = row.stream.as_str().to_owned();
        [name, format!("{branches:>8}"), format!("{events:>10}"), row.updated.to_string()]
    };
    let rows: Vec<[String; 4]> = page.iter().map(cells).collect();
    table::print_page(["STREAM", "BRANCHES", "    EVENTS", "UPDATED"], &rows, heading, out)
}

/// The arguments of `weir count`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir count --stream notes\n  weir count --stream notes --branch draft")]
pub(crate) struct CountArgs {
    /// The stream. That of a session can be written as `session:` and the beginning of its id, or as `-1` for the latest.
    #[arg(long, short, allow_hyphen_values = true)]
    stream: String,
    /// Count along this branch, from its first event to its newest; without it, every event of the stream once.
    #[arg(long, short)]
    branch: Option<String>,
}

#[derive(Serialize)]
struct CountView<'a> {
    stream: &'a StreamName,
    branch: Option<&'a BranchName>,
    count: u64,
}

/// Prints the number of events.
pub(crate) async fn count(args: &CountArgs, context: &mut Context) -> Outcome {
    args::branch_id_or_session(&args.stream, args.branch.as_deref())?;
    let store = context.store_to_read().await?;
    let found = async {
        let branch = args.branch.as_deref();
        let id = which::branch_of(&store.journal, &args.stream, branch, &Sees::Everything).await?;
        let branches = store.journal.branches(&id.stream).await?;
        Ok::<_, Failure>((id, branches))
    };
    let found = found.await;
    store.close().await;
    let (id, branches) = found?;
    if branches.is_empty() {
        return Err(ReadError::NoStream(id.stream).into());
    }
    let count = match &args.branch {
        None => branches.iter().map(weir_journal::Branch::own_events).sum(),
        Some(_) => match branches.iter().find(|branch| branch.name == id.branch) {
            Some(branch) => branch.head.seq.0,
            None => return Err(ReadError::NoBranch(id).into()),
        },
    };
    if context.out.json {
        let branch = args.branch.as_ref().map(|_| &id.branch);
        return context.out.document(&CountView { stream: &id.stream, branch, count });
    }
    context.out.line(format_args!("{count}"))
}
