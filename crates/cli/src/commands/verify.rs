//! `weir verify`.

mod outside;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_journal::{Journal, Problem, Report, anchor};
use weir_types::{BranchName, Explain, Fault, Seq, StreamName};

use crate::args;
use crate::commands::Context;
use crate::input::Input;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{count, printable};
use crate::store::Store;

const EXAMPLES: &str = "\
Examples:
  weir verify
  weir verify --stream notes --json
  weir verify --print-anchor > /mnt/elsewhere/anchor
  weir verify --anchor /mnt/elsewhere/anchor

What it finds: any event, blob, index or branch pointer that was flipped, cut, swapped or removed.
What it cannot find alone: a file in which somebody computed every hash anew. An anchor kept where that somebody
cannot write finds this too, for everything older than the anchor.";

/// An anchor has a line for each branch; one this long is of some millions.
const ANCHOR_BYTES_MAX: usize = 1 << 30;

/// The arguments of `weir verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only this stream.
    #[arg(long, short)]
    stream: Option<String>,
    /// Print the newest hash of every branch, to be kept elsewhere; only if everything is sound.
    #[arg(long, conflicts_with = "stream")]
    print_anchor: bool,
    /// Compare with an anchor printed earlier; `-` reads standard input.
    #[arg(long, value_name = "FILE|-")]
    anchor: Option<Input>,
}

#[derive(Serialize)]
struct View<'a> {
    sound: bool,
    streams: u64,
    branches: u64,
    events: u64,
    blobs: u64,
    problems: Vec<ProblemView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<&'a str>,
}

#[derive(Serialize)]
struct ProblemView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    stream: Option<&'a StreamName>,
    branch: Option<&'a BranchName>,
    seq: Option<Seq>,
    what: &'a str,
}

impl<'a> From<&'a Problem> for ProblemView<'a> {
    fn from(Problem { place, stream, branch, seq, what }: &'a Problem) -> Self {
        let place = place.as_deref();
        Self { place, stream: stream.as_ref(), branch: branch.as_ref(), seq: *seq, what }
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

/// An anchor that is not text.
#[derive(Debug, thiserror::Error)]
#[error("the anchor is not text")]
struct AnchorText(#[source] std::str::Utf8Error);

impl Explain for AnchorText {
    fn code(&self) -> &'static str {
        "journal::bad-anchor"
    }

    fn help(&self) -> Cow<'static, str> {
        "pass the file that `weir verify --print-anchor` printed, unchanged".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Checks everything and says what is wrong.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let stream: Option<StreamName> = args.stream.as_deref().map(args::parse).transpose()?;
    let given = match &args.anchor {
        Some(input) => Some(input.read(ANCHOR_BYTES_MAX, &context.out).await?),
        None => None,
    };
    let given = given.as_deref().map(std::str::from_utf8).transpose().map_err(AnchorText)?;
    let store = context.store_to_read().await?;
    let checked = check(&store, stream, given, args.print_anchor, &context.data_dir, &context.out).await;
    store.close().await;
    let (report, taken) = checked?;
    if context.out.json {
        print_document(&report, taken.as_deref(), &mut context.out)?;
    } else {
        print(&report, taken.as_deref(), given.is_some(), &mut context.out)?;
    }
    match report.problems.len() as u64 {
        0 => Ok(()),
        found => Err(Damaged(found).into()),
    }
}

/// The anchor is taken first: then all that it covers is checked, whatever others append meanwhile.
async fn check(
    store: &Store,
    stream: Option<StreamName>,
    given: Option<&str>,
    take: bool,
    data_dir: &Path,
    out: &Out,
) -> Outcome<(Report, Option<String>)> {
    let journal = &store.journal;
    let taken = if take { Some(anchor::take(journal).await?) } else { None };
    let progress = Mutex::new(out.progress("verifying"));
    let watch = move |done, total| {
        progress.lock().unwrap_or_else(PoisonError::into_inner).at(done, Some(total), "event");
    };
    let mut report = journal.verify(stream.clone(), Arc::new(watch)).await?;
    if stream.is_none() {
        outside::blobs(data_dir, &store.blobs, Some(&store.journal), &mut report).await?;
        outside::files(data_dir).await?.into_iter().for_each(|problem| report.note(problem));
    }
    if let Some(given) = given {
        let mut differs = anchor::check(journal, given).await?;
        differs.retain(|problem| stream.is_none() || problem.stream == stream);
        differs.into_iter().for_each(|problem| report.note(problem));
    }
    let taken = taken.filter(|_| report.is_sound());
    Ok((report, taken))
}

fn print_document(report: &Report, anchor: Option<&str>, out: &mut Out) -> Outcome {
    let Report { streams, branches, events, blobs, problems } = report;
    let problems = problems.iter().map(ProblemView::from).collect();
    let (streams, branches, events, blobs) = (*streams, *branches, *events, *blobs);
    out.document(&View { sound: report.is_sound(), streams, branches, events, blobs, problems, anchor })
}

fn print(report: &Report, taken: Option<&str>, anchored: bool, out: &mut Out) -> Outcome {
    let Report { streams, branches, events, blobs, problems } = report;
    for problem in problems {
        let mark = out.paint.error("damaged").into_owned();
        out.line(format_args!("{mark}  {}", printable(&problem.to_string())))?;
    }
    let checked = [(*streams, "stream"), (*branches, "branch"), (*events, "event"), (*blobs, "blob")];
    let checked = checked.map(|(number, noun)| count(number, noun)).join(", ");
    let sound = if problems.is_empty() { ": sound" } else { "" };
    match taken {
        // The anchor is the data; it alone belongs into the file that standard output may be.
        Some(anchor) => {
            out.bytes(anchor.as_bytes())?;
            out.note(format_args!("checked {checked}{sound}"));
            out.note(format_args!("keep this anchor where nobody who can change the journal can write"));
        }
        None => out.line(format_args!("checked {checked}{sound}"))?,
    }
    if problems.is_empty() && taken.is_none() {
        explain(anchored, out);
    }
    Ok(())
}

/// What a sound journal proves, and no more.
fn explain(anchored: bool, out: &Out) {
    if anchored {
        out.note(format_args!(
            "nothing that the anchor covers was changed, removed or rewritten since it was taken"
        ));
    } else {
        out.note(format_args!(
            "nothing was flipped, cut, swapped or removed; to find a file rewritten as a whole, too, keep what \
             `weir verify --print-anchor` prints elsewhere"
        ));
    }
}
