//! `weir cat`.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use futures_util::StreamExt;
use unicode_width::UnicodeWidthStr;
use weir_events::KINDS;
use weir_journal::{Journal, PAGE_MAX, lines};
use weir_types::{BranchId, Event, Kind, Seq};

use crate::args;
use crate::commands::Context;
use crate::identity::Sees;
use crate::output::Out;
use crate::report::Outcome;
use crate::show;
use crate::which;

const EXAMPLES: &str = "\
Examples:
  weir cat --stream notes
  weir cat --stream notes --after 100 --kind note.added
  weir cat --stream notes --format json | jq .payload
  weir cat --stream notes --follow
  weir cat --stream -1 --kind assistant.message";

/// A longer kind than this pushes its payload to the right.
const KIND_COLUMNS_MAX: usize = 30;

/// With less room for the payload, an event is on several lines.
const PAYLOAD_COLUMNS_MIN: usize = 20;

/// Events of the first page, before we know how large they are.
const PAGE_FIRST: usize = 16;

/// A page with more payload than this is followed by a shorter one.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The arguments of `weir cat`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The stream. That of a session can be written as `session:` and the beginning of its id, or as `-1` for the latest.
    #[arg(long, short, allow_hyphen_values = true)]
    stream: String,
    /// The branch; `main` if left out.
    #[arg(long, short)]
    branch: Option<String>,
    /// How to print events; `json` is one object a line, the same as `--json`.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Only events after this one.
    #[arg(long, value_name = "SEQ", default_value_t = 0, hide_default_value = true)]
    after: u64,
    /// Only events of this kind.
    #[arg(long, short, value_parser = KindText, hide_possible_values = true)]
    kind: Option<String>,
    /// Go on with what is appended, until Ctrl-C. A stream that is not there yet is waited for.
    #[arg(long, short)]
    follow: bool,
}

/// Any text. Completions offer the kinds that the runtime writes.
#[derive(Clone)]
struct KindText;

impl TypedValueParser for KindText {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(KINDS.iter().map(|entry| PossibleValue::new(entry.name))))
    }
}

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A line for people.
    Text,
    /// One object a line.
    Json,
}

/// Prints events.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let kind: Option<Kind> = args.kind.as_deref().map(args::parse).transpose()?;
    // Who reads the journal itself sees all of it.
    let named = (&*args.stream, args.branch.as_deref());
    args::branch_id_or_session(named.0, named.1)?;
    let store = context.store_to_read().await?;
    let branch = match which::branch_of(&store.journal, named.0, named.1, &Sees::Everything).await {
        Ok(branch) => branch,
        Err(failure) => {
            store.close().await;
            return Err(failure);
        }
    };
    let out = &mut context.out;
    let printed = if args.follow {
        follow(&store.journal, &branch, kind.as_ref(), Seq(args.after), out).await
    } else {
        read(&store.journal, &branch, kind.as_ref(), Seq(args.after), out).await
    };
    store.close().await;
    printed
}

/// Page by page, so that memory does not grow with the stream; pages shrink while payloads are large.
async fn read(
    journal: &impl Journal,
    branch: &BranchId,
    kind: Option<&Kind>,
    after: Seq,
    out: &mut Out,
) -> Outcome {
    let (mut after, mut limit, mut printer) = (after, PAGE_FIRST, Printer::default());
    loop {
        let page = match kind {
            Some(kind) => journal.by_kind(branch, kind, after, limit).await?,
            None => journal.read(branch, after, limit).await?,
        };
        page.iter().for_each(|event| printer.make_room(event));
        page.iter().try_for_each(|event| printer.print(event, out))?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        let bytes: usize = page.iter().map(|event| event.payload.len()).sum();
        limit = if bytes > PAGE_BYTES { limit / 2 } else { limit * 2 }.clamp(1, PAGE_MAX);
    }
}

async fn follow(
    journal: &impl Journal,
    branch: &BranchId,
    kind: Option<&Kind>,
    after: Seq,
    out: &mut Out,
) -> Outcome {
    if journal.head(branch).await?.is_none() {
        out.note(format_args!("{branch} is not there yet; waiting for its first event"));
    }
    let (mut tail, mut printer) = (journal.tail(branch, after), Printer::default());
    while let Some(event) = tail.next().await {
        let event = event?;
        if kind.is_none_or(|kind| *kind == event.kind) {
            printer.make_room(&event);
            printer.print(&event, out)?;
            // Somebody watches: an event is shown when it happens, not when a buffer is full.
            out.flush()?;
        }
    }
    Ok(())
}

/// Prints events in columns. The column of kinds widens as it must and never narrows again.
#[derive(Default)]
struct Printer {
    kind_columns: usize,
}

impl Printer {
    fn make_room(&mut self, event: &Event) {
        self.kind_columns = self.kind_columns.max(event.kind.as_str().width().min(KIND_COLUMNS_MAX));
    }

    fn print(&self, event: &Event, out: &mut Out) -> Outcome {
        if out.json {
            return out.json_line(&lines::to_view_line(event, lines::Positions::Shown));
        }
        let (seq, ts) = (format!("{:>6}", event.seq.0), event.ts.to_string());
        let kind = show::pad(event.kind.as_str(), self.kind_columns);
        let mut payload = show::payload(&event.payload);
        let paint = out.paint;
        if let Some(columns) = out.columns {
            let room = columns.saturating_sub(seq.len() + ts.len() + kind.width() + 6);
            if room < PAYLOAD_COLUMNS_MIN {
                return Self::print_narrow(event, &payload, columns, out);
            }
            payload = show::shorten(&payload, room).into_owned();
        }
        out.line(format_args!("{seq}  {}  {}  {payload}", paint.dim(&ts), paint.bold(&kind)))
    }

    /// An event on three lines.
    fn print_narrow(event: &Event, payload: &str, columns: usize, out: &mut Out) -> Outcome {
        let paint = out.paint;
        let kind = show::shorten(event.kind.as_str(), columns.saturating_sub(8)).into_owned();
        out.line(format_args!("{:>6}  {}", event.seq.0, paint.bold(&kind)))?;
        for line in [&*event.ts.to_string(), payload].into_iter().filter(|line| !line.is_empty()) {
            out.line(format_args!("        {}", show::shorten(line, columns.saturating_sub(8))))?;
        }
        Ok(())
    }
}
