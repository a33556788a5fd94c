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
use crate::store::{BLOBS, JOURNAL, Store};
use crate::which;

const EXAMPLES: &str = "\
Examples:
  weir verify
  weir verify --quick
  weir verify --stream notes --json
  weir verify --print-anchor > /mnt/elsewhere/anchor
  weir verify --anchor /mnt/elsewhere/anchor

Checked: every page, table and index of the journal; every event against its hash chain; whatever finds events
(streams, branches, heads, kinds, keys, causes, references, attributes, snapshots) against the events; every blob and
every build against its hash. Each finding names its file, table or index, and the stream, branch and seq where there
is one.

Not known without an anchor: whether the newest events were removed together with all that finds them, and whether a
person who can write the file computed every hash anew. An anchor kept where that person cannot write shows both, for
everything older than the anchor.
Not known at all: whether a fork without events of its own was renamed, and which process owns a stream: no event says so.
An event that an earlier version stored does not say with which key it was appended, so that a removed key is not found.
The key of an event is not part of its hash chain: a change of both its compressed record and the table is not found.";

/// An anchor has a line for each branch; one this long is of some millions.
const ANCHOR_BYTES_MAX: usize = 1 << 30;

/// The arguments of `weir verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only the events of this stream, their blobs, and what finds them. That of a session can be written as `session:` and the
    /// beginning of its id, or as `-1` for the latest.
    #[arg(long, short, allow_hyphen_values = true)]
    stream: Option<String>,
    /// Check pages, places and heads only, and no content: seconds instead of minutes on a large journal.
    #[arg(long, conflicts_with_all = ["stream", "print_anchor"])]
    quick: bool,
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
    checked: &'a [&'a str],
    not_known: &'a [&'a str],
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

/// What a check covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    Full,
    Stream,
    Quick,
    /// There is no journal.
    Files,
}

impl Coverage {
    fn of(args: &Args) -> Self {
        match (&args.stream, args.quick) {
            (Some(_), _) => Self::Stream,
            (None, true) => Self::Quick,
            (None, false) => Self::Full,
        }
    }

    /// What was checked, for programs.
    fn checked(self) -> &'static [&'static str] {
        match self {
            Self::Full => &["pages", "tables", "indexes", "events", "blobs", "builds"],
            Self::Stream => &["events", "blobs"],
            Self::Quick => &["pages", "places", "heads"],
            Self::Files => &["blobs", "builds"],
        }
    }

    /// What cannot be known from this check, for programs.
    fn not_known(self, said: &Said<'_>) -> Vec<&'static str> {
        let mut found = Vec::new();
        if self == Self::Files {
            return vec!["missing-blobs"];
        }
        if self == Self::Quick || said.report.keys_not_known > 0 {
            found.push("removed-keys");
        }
        found.extend(["names-of-empty-forks", "owners"]);
        if !said.anchored || self == Self::Quick {
            found.extend(["removed-tail", "rewritten-journal"]);
        }
        if self == Self::Quick {
            found.push("content");
        }
        found
    }
}

/// Checks everything and says what is wrong.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    args.stream.as_deref().map(|stream| args::branch_id_or_session(stream, None)).transpose()?;
    let given = match &args.anchor {
        Some(input) => Some(input.read(ANCHOR_BYTES_MAX, &context.out).await?),
        None => None,
    };
    let given = given.as_deref().map(std::str::from_utf8).transpose().map_err(AnchorText)?;
    let asks_journal = args.stream.is_some() || given.is_some() || args.print_anchor || args.quick;
    let (coverage, report, taken) = if !asks_journal && has_only_files(&context.data_dir) {
        (Coverage::Files, check_files(&context.data_dir).await?, None)
    } else {
        let store = context.store_to_read().await?;
        let checked = check(&store, given, args, &context.data_dir, &context.out).await;
        store.close().await;
        let (report, taken) = checked?;
        (Coverage::of(args), report, taken)
    };
    let said = Said { coverage, anchored: given.is_some(), report: &report, taken: taken.as_deref() };
    if context.out.json {
        print_document(&said, &mut context.out)?;
    } else {
        print(&said, &mut context.out)?;
    }
    match report.problems.len() as u64 {
        0 => Ok(()),
        found => Err(Damaged(found).into()),
    }
}

/// What is printed.
struct Said<'a> {
    coverage: Coverage,
    anchored: bool,
    report: &'a Report,
    taken: Option<&'a str>,
}

/// Whether a directory has no journal, but files that can be checked without one.
fn has_only_files(data_dir: &Path) -> bool {
    !data_dir.join(JOURNAL).exists() && (data_dir.join(BLOBS).is_dir() || data_dir.join("build").is_dir())
}

async fn check_files(data_dir: &Path) -> Outcome<Report> {
    let mut report = Report::default();
    if data_dir.join(BLOBS).is_dir() {
        let blobs = crate::store::blobs(data_dir).await?;
        outside::blobs(data_dir, &blobs, None, &mut report).await?;
    }
    outside::files(data_dir).await?.into_iter().for_each(|problem| report.note(problem));
    Ok(report)
}

/// The anchor is taken first: then all that it covers is checked, whatever others append meanwhile.
async fn check(
    store: &Store,
    given: Option<&str>,
    args: &Args,
    data_dir: &Path,
    out: &Out,
) -> Outcome<(Report, Option<String>)> {
    let journal = &store.journal;
    let stream = which::stream_if_named(journal, args.stream.as_deref()).await?;
    let taken = if args.print_anchor { Some(anchor::take(journal).await?) } else { None };
    let progress = Mutex::new(out.progress("verifying"));
    let watch = move |done, total| {
        progress.lock().unwrap_or_else(PoisonError::into_inner).at(done, Some(total), "event");
    };
    let mut report = match args.quick {
        true => journal.verify_quick(Arc::new(watch)).await?,
        false => journal.verify(stream.clone(), Arc::new(watch)).await?,
    };
    if !args.quick {
        let seal = crate::host::existing_seal_of(data_dir).await?;
        weir_engine::audit(journal, &seal, stream.as_ref(), &mut report).await?;
    }
    if stream.is_none() && !args.quick {
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

fn print_document(said: &Said<'_>, out: &mut Out) -> Outcome {
    let Report { streams, branches, events, blobs, problems, .. } = said.report;
    let problems = problems.iter().map(ProblemView::from).collect();
    let (streams, branches, events, blobs) = (*streams, *branches, *events, *blobs);
    let (checked, not_known) = (said.coverage.checked(), &said.coverage.not_known(said));
    let (sound, anchor) = (said.report.is_sound(), said.taken);
    out.document(&View { sound, checked, not_known, streams, branches, events, blobs, problems, anchor })
}

fn print(said: &Said<'_>, out: &mut Out) -> Outcome {
    let Report { streams, branches, events, blobs, problems, .. } = said.report;
    for problem in problems {
        let mark = out.paint.error("damaged").into_owned();
        out.line(format_args!("{mark}  {}", printable(&problem.to_string())))?;
    }
    let checked = match said.coverage {
        Coverage::Files => count(*blobs, "blob"),
        Coverage::Full | Coverage::Stream | Coverage::Quick => {
            let checked = [(*streams, "stream"), (*branches, "branch"), (*events, "event"), (*blobs, "blob")];
            checked.map(|(number, noun)| count(number, noun)).join(", ")
        }
    };
    let sound = if problems.is_empty() { ": sound" } else { "" };
    match said.taken {
        // The anchor is the data; it alone belongs into the file that standard output may be.
        Some(anchor) => {
            out.bytes(anchor.as_bytes())?;
            out.note(format_args!("checked {checked}{sound}"));
            out.note(format_args!("keep this anchor where a person who can change the journal cannot write"));
        }
        None => out.line(format_args!("checked {checked}{sound}"))?,
    }
    if problems.is_empty() && said.taken.is_none() {
        explain(said, out);
    }
    Ok(())
}

/// What was checked, what that cannot show, and no more.
fn explain(said: &Said<'_>, out: &Out) {
    match said.coverage {
        Coverage::Full => out.note(format_args!(
            "checked: every page, table and index; every event against its hash chain; blobs and builds against their hashes"
        )),
        Coverage::Stream => out.note(format_args!(
            "checked: the events of this stream against their hash chains, their blobs, and the tables that find them"
        )),
        Coverage::Quick => out.note(format_args!(
            "checked: pages, the places of all events, heads of branches; not their content: that takes `weir verify`"
        )),
        Coverage::Files => {
            return out.note(format_args!(
                "there is no journal here: which blobs there should be is not known, only that these are whole"
            ));
        }
    }
    match said.report.keys_not_known {
        0 => {}
        older => out.note(format_args!(
            "not known: whether a key of {} was removed; an earlier version stored them without their keys",
            count(older, "event")
        )),
    }
    if said.anchored {
        out.note(format_args!("everything that the anchor covers is there, unchanged"));
    } else {
        out.note(format_args!(
            "not known without an anchor: whether the newest events were removed without a trace, or the file was \
             rewritten as a whole; keep what `weir verify --print-anchor` prints elsewhere"
        ));
    }
}
