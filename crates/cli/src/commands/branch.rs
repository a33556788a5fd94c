//! `weir branch fork` and `weir branch list`.

use serde::Serialize;
use weir_journal::{Branch, Fork, Journal, ReadError};
use weir_types::{BranchName, Hash, Position, Seq, StreamName, Timestamp};

use crate::args;
use crate::commands::Context;
use crate::identity::Sees;
use crate::output::Out;
use crate::report::{Failure, Outcome};
use crate::show::{count, pad};
use crate::which;

/// `weir branch …`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a branch that shares every event up to one of them. Nothing is copied.
    Fork(ForkArgs),
    /// Show the branches of a stream.
    List(ListArgs),
}

/// The arguments of `weir branch fork`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir branch fork --stream notes --at 12 --name draft\n  \
                        weir branch fork --stream notes --branch draft --at 14 --name draft-2")]
pub(crate) struct ForkArgs {
    /// The stream. That of a session can be written as `session:` and the beginning of its id, or as `-1` for the latest.
    #[arg(long, short, allow_hyphen_values = true)]
    stream: String,
    /// The branch to share events with; `main` if left out.
    #[arg(long, short)]
    branch: Option<String>,
    /// The last event to share.
    #[arg(long, value_name = "SEQ")]
    at: u64,
    /// The new branch.
    #[arg(long, short, value_name = "BRANCH")]
    name: String,
}

/// The arguments of `weir branch list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir branch list --stream notes")]
pub(crate) struct ListArgs {
    /// The stream. That of a session can be written as `session:` and the beginning of its id, or as `-1` for the latest.
    #[arg(long, short, allow_hyphen_values = true)]
    stream: String,
}

#[derive(Serialize)]
struct View<'a> {
    stream: &'a StreamName,
    branch: &'a BranchName,
    parent: Option<ParentView<'a>>,
    /// Events appended to the branch itself.
    events: u64,
    seq: Seq,
    chain: Hash,
    updated: Timestamp,
    position: Position,
}

#[derive(Serialize)]
struct ParentView<'a> {
    branch: &'a BranchName,
    at: Seq,
    chain: Hash,
}

fn view<'a>(stream: &'a StreamName, branch: &'a Branch) -> View<'a> {
    let parent = branch.parent.as_ref();
    View {
        stream,
        branch: &branch.name,
        parent: parent.map(|fork| ParentView { branch: &fork.branch, at: fork.at, chain: fork.chain }),
        events: branch.own_events(),
        seq: branch.head.seq,
        chain: branch.head.chain,
        updated: branch.head.ts,
        position: branch.head.position,
    }
}

/// Runs `weir branch …`.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    match command {
        Command::Fork(args) => fork(args, context).await,
        Command::List(args) => list(args, context).await,
    }
}

async fn fork(args: &ForkArgs, context: &mut Context) -> Outcome {
    let named = (&*args.stream, args.branch.as_deref());
    args::branch_id_or_session(named.0, named.1)?;
    let name: BranchName = args::parse(&args.name)?;
    let store = context.store().await?;
    let forked = async {
        let from = which::branch_of(&store.journal, named.0, named.1, &Sees::Everything).await?;
        let branch = store.journal.fork(Fork { from: from.clone(), at: Seq(args.at), name }).await?;
        Ok::<_, Failure>((from, branch))
    };
    let forked = forked.await;
    store.close().await;
    let (from, branch) = forked?;
    if context.out.json {
        return context.out.document(&view(&from.stream, &branch));
    }
    let next = branch.head.seq.next();
    let (name, parent) = (&branch.name, &from.branch);
    context
        .out
        .line(format_args!("forked `{name}` from `{parent}` at event {}; its next event is {next}", args.at))
}

async fn list(args: &ListArgs, context: &mut Context) -> Outcome {
    args::branch_id_or_session(&args.stream, None)?;
    let store = context.store_to_read().await?;
    let found = async {
        let stream = which::stream_of(&store.journal, &args.stream).await?;
        let branches = store.journal.branches(&stream).await?;
        Ok::<_, Failure>((stream, branches))
    };
    let found = found.await;
    store.close().await;
    let (stream, branches) = found?;
    if branches.is_empty() {
        return Err(ReadError::NoStream(stream).into());
    }
    if context.out.json {
        return branches.iter().try_for_each(|branch| context.out.object(&view(&stream, branch)));
    }
    draw(&branches, &mut context.out)
}

/// One line of the picture.
struct Row<'a> {
    twigs: String,
    branch: &'a Branch,
}

/// The branches as a tree, each under the one it left.
fn draw(branches: &[Branch], out: &mut Out) -> Outcome {
    let rows = tree(branches);
    let label = |row: &Row<'_>| format!("{}{}", row.twigs, row.branch.name);
    let width = rows.iter().map(|row| unicode_width::UnicodeWidthStr::width(&*label(row))).max().unwrap_or(0);
    for row in &rows {
        let from = match &row.branch.parent {
            Some(fork) => format!("from {}, ", fork.at),
            None => String::new(),
        };
        let (own, head) = (count(row.branch.own_events(), "event"), row.branch.head);
        let label = pad(&label(row), width);
        out.prose(format_args!("{label}  {from}{own}, newest {} at {}", head.seq, head.ts), width + 2)?;
    }
    Ok(())
}

/// The rows in order, depth first. A stack of our own: a lineage may be thousands of forks deep.
fn tree(branches: &[Branch]) -> Vec<Row<'_>> {
    let children = |parent: Option<&BranchName>| -> Vec<&Branch> {
        branches.iter().filter(|branch| branch.parent.as_ref().map(|fork| &fork.branch) == parent).collect()
    };
    let mut rows = Vec::new();
    let mut todo: Vec<(String, String, &Branch)> =
        children(None).into_iter().rev().map(|branch| (String::new(), String::new(), branch)).collect();
    while let Some((twigs, below, branch)) = todo.pop() {
        let forks = children(Some(&branch.name));
        for (index, fork) in forks.iter().enumerate().rev() {
            let (mine, next) =
                if index + 1 == forks.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            todo.push((format!("{below}{mine}"), format!("{below}{next}"), fork));
        }
        rows.push(Row { twigs, branch });
    }
    rows
}
