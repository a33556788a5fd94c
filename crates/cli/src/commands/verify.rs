//! `weir verify`.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_journal::{Journal, Problem, Report};
use weir_types::{BranchName, Explain, Fault, Seq, StreamName};

use crate::args;
use crate::commands::Context;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{count, printable};

const EXAMPLES: &str = "\
Examples:
  weir verify
  weir verify --stream notes --json

What it finds: any event, blob, index or branch pointer that was flipped, cut, swapped or removed.
What it cannot find alone: a file whose every hash was computed anew by somebody who may write it.";

/// The arguments of `weir verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only this stream.
    #[arg(long, short)]
    stream: Option<String>,
}

#[derive(Serialize)]
struct View<'a> {
    sound: bool,
    streams: u64,
    branches: u64,
    events: u64,
    blobs: u64,
    problems: Vec<ProblemView<'a>>,
}

#[derive(Serialize)]
struct ProblemView<'a> {
    stream: Option<&'a StreamName>,
    branch: Option<&'a BranchName>,
    seq: Option<Seq>,
    what: &'a str,
}

impl<'a> From<&'a Problem> for ProblemView<'a> {
    fn from(Problem { stream, branch, seq, what }: &'a Problem) -> Self {
        Self { stream: stream.as_ref(), branch: branch.as_ref(), seq: *seq, what }
    }
}

/// The journal is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("the journal is damaged: {} found", show_count(*.0))]
struct Damaged(u64);

fn show_count(problems: u64) -> String {
    let more = if problems >= Report::PROBLEMS_MAX as u64 { "at least " } else { "" };
    format!("{more}{}", count(problems, "problem"))
}

impl Explain for Damaged {
    fn code(&self) -> &'static str {
        "journal::damaged"
    }

    fn help(&self) -> Cow<'static, str> {
        "stop writing to it, keep a copy, and restore a `weir backup`; streams not named above can still be exported"
            .into()
    }

    fn fault(&self) -> Fault {
        Fault::Damaged
    }
}

/// Checks everything and says what is wrong.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let stream: Option<StreamName> = args.stream.as_deref().map(args::parse).transpose()?;
    let store = context.store().await?;
    let progress = Arc::new(Mutex::new(context.out.progress("verifying")));
    let shown = Arc::clone(&progress);
    let report = store.journal.verify(
        stream,
        Arc::new(move |done, total| {
            shown.lock().unwrap_or_else(PoisonError::into_inner).at(done, Some(total), "event");
        }),
    );
    let report = report.await;
    store.close().await;
    drop(progress);
    print(&report?, &mut context.out)
}

fn print(report: &Report, out: &mut Out) -> Outcome {
    let Report { streams, branches, events, blobs, problems } = report;
    if out.json {
        let problems = problems.iter().map(ProblemView::from).collect();
        let (streams, branches, events, blobs) = (*streams, *branches, *events, *blobs);
        out.document(&View { sound: report.is_sound(), streams, branches, events, blobs, problems })?;
    } else {
        for problem in problems {
            let mark = out.paint.error("damaged").into_owned();
            out.line(format_args!("{mark}  {}", printable(&problem.to_string())))?;
        }
        let checked = [(*streams, "stream"), (*branches, "branch"), (*events, "event"), (*blobs, "blob")];
        let checked = checked.map(|(number, noun)| count(number, noun)).join(", ");
        out.line(format_args!("checked {checked}"))?;
    }
    match problems.len() as u64 {
        0 if !out.json => out.line(format_args!("sound")),
        0 => Ok(()),
        found => Err(Damaged(found).into()),
    }
}
