//! `weir export` and `weir import`.

mod watched;

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncSeekExt, AsyncWrite, BufReader};
use weir_journal::transfer::{
    self, DamagedBranch, ExportError, Exported, ImportError, Imported, LeftOut, RuntimeStreams, Selection,
};
use weir_support::new_file::Existing;
use weir_types::{Explain, Fault};

use self::watched::Watched;
use crate::args;
use crate::commands::Context;
use crate::input::{Input, Reader};
use crate::output::{Out, stdout_failed};
use crate::report::{Failure, Outcome};
use crate::show::{count, printable, size};
use crate::store::{Store, blocking};
use crate::target::{Readers, Target};
use crate::which;

/// How much of a file is read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Someone else than the owner of the data directory restores into it.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` may not restore into this data directory: only its owner may")]
struct RestoreError(String);

impl Explain for RestoreError {
    fn code(&self) -> &'static str {
        "cli::restore"
    }

    fn help(&self) -> Cow<'static, str> {
        "restore into a data directory of your own with `--data-dir DIR`, without `--as`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Denied
    }
}

/// The arguments of `weir export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir export --output journal.jsonl\n  weir export --stream notes | gzip > notes.jsonl.gz\n  \
                  weir export --all --output everything.jsonl\n\n\
                  Sessions and streams of your own are exported; the runtime's own streams (`engine:`, `budget:`, `loop:`) are \
                  left out, since an import of them would be refused. For a copy of all there is, use `weir backup`."
)]
pub(crate) struct ExportArgs {
    /// Only this stream. That of a session can be written as `session:` and the beginning of its id, or as `-1` for the latest.
    #[arg(long, short, allow_hyphen_values = true)]
    stream: Option<String>,
    /// Also the streams of the runtime itself, such as tokens, deployments and budgets: for `weir import --as-restore`.
    #[arg(long, conflicts_with = "stream")]
    all: bool,
    /// Write to this file instead of standard output, complete or not at all; one that is there is replaced.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The arguments of `weir import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir import journal.jsonl\n  zcat notes.jsonl.gz | weir import -\n\n\
                        Ids, times and hash chains are kept and checked. What is there already is skipped, so an \
                        import can be repeated. A last line that was cut is dropped, and reported.\n\n\
                        Sessions come in halted, and no approval in them counts. An export that holds streams of the \
                        runtime itself (`engine:`, `budget:`, `loop:`), as `weir export --all` writes it, is refused before \
                        anything is written: leave them out, or restore it if it is your own.")]
pub(crate) struct ImportArgs {
    /// The export: a file, or `-` for standard input.
    #[arg(value_name = "FILE|-")]
    input: Input,
    /// Restore your own backup into an empty data directory: also tokens, deployments, budgets and agents' memory, which
    /// make their owners what they were. Only the owner of the data directory may.
    #[arg(long)]
    as_restore: bool,
    /// Leave out the streams of the runtime itself, and import the rest of the export.
    #[arg(long, conflicts_with = "as_restore")]
    without_runtime_streams: bool,
}

#[derive(Serialize)]
struct ExportView {
    events: u64,
    forks: u64,
    blobs: u64,
    output: PathBuf,
    /// Streams of the runtime itself, without `--all`.
    left_out: LeftOutView,
    /// What is damaged, and so not complete in the export.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DamagedView>,
}

#[derive(Serialize)]
struct LeftOutView {
    streams: u64,
    events: u64,
}

/// A branch of which the export has only the beginning.
#[derive(Serialize)]
struct DamagedView {
    stream: Option<String>,
    branch: Option<String>,
    /// The first event that is not in the export.
    seq: u64,
    damage: String,
    /// Readable events after it, which are left out.
    left_out: u64,
}

impl From<DamagedBranch> for DamagedView {
    fn from(damaged: DamagedBranch) -> Self {
        let DamagedBranch { branch, seq, what, left_out } = damaged;
        let (stream, branch) = branch.map(|id| (id.stream.to_string(), id.branch.to_string())).unzip();
        Self { stream, branch, seq: seq.0, damage: what, left_out }
    }
}

/// An export that lacks what is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the export is not complete: {} damaged", count(*.0 as u64, "branch"))]
struct Incomplete(usize);

impl Explain for Incomplete {
    fn code(&self) -> &'static str {
        "journal::export-incomplete"
    }

    fn help(&self) -> Cow<'static, str> {
        "the export has everything else and can be imported; run `weir verify`, and restore what is damaged from a backup or an \
         older export"
            .into()
    }

    fn fault(&self) -> Fault {
        Fault::Damaged
    }
}

async fn export_selected(store: &Store, args: &ExportArgs, context: &Context) -> Outcome<Exported> {
    let selection = match which::stream_if_named(&store.journal, args.stream.as_deref()).await? {
        Some(stream) => Selection::Stream(stream),
        None if args.all => Selection::Everything,
        None => Selection::Portable,
    };
    match &args.output {
        Some(path) => export_to_file(store, selection, path, context).await,
        None => export_to(store, selection, tokio::io::stdout(), context).await.map_err(failed_to_stdout),
    }
}

/// Writes streams as JSON Lines. They are JSON already: to standard output, `--json` changes nothing.
pub(crate) async fn export(args: &ExportArgs, context: &mut Context) -> Outcome {
    args.stream.as_deref().map(|stream| args::branch_id_or_session(stream, None)).transpose()?;
    let store = context.store_to_read().await?;
    let exported = export_selected(&store, args, context).await;
    store.close().await;
    let Exported { events, forks, blobs, damaged, left_out } = exported?;
    tell_damaged(&damaged, &context.out);
    tell_left_out(left_out, &context.out);
    let complete = match damaged.len() {
        0 => Ok(()),
        branches => Err(Incomplete(branches).into()),
    };
    let Some(output) = args.output.clone() else {
        return complete;
    };
    if context.out.json {
        let damaged = damaged.into_iter().map(DamagedView::from).collect();
        let left_out = LeftOutView { streams: left_out.streams, events: left_out.events };
        context.out.document(&ExportView { events, forks, blobs, output, left_out, damaged })?;
        return complete;
    }
    let what = format!("{}, {} and {}", count(events, "event"), count(forks, "fork"), count(blobs, "blob"));
    context.out.line(format_args!("wrote {what} to `{}`", output.display()))?;
    complete
}

fn tell_damaged(damaged: &[DamagedBranch], out: &Out) {
    for DamagedBranch { branch, seq, what, left_out } in damaged {
        let of = branch.as_ref().map_or_else(|| "an unknown branch".to_owned(), ToString::to_string);
        let rest = match left_out {
            0 => String::new(),
            more => format!("; {} after it left out", count(*more, "event")),
        };
        out.warn(format_args!("the export of {of} ends before event {seq}: {}{rest}", printable(what)));
    }
}

fn tell_left_out(LeftOut { streams, events }: LeftOut, out: &Out) {
    if streams > 0 {
        let what = format!("{} of the runtime itself ({})", count(streams, "stream"), count(events, "event"));
        out.note(format_args!(
            "left out {what}; `--all` exports {} too, for `weir import --as-restore`",
            if streams == 1 { "it" } else { "them" }
        ));
    }
}

async fn export_to(
    store: &Store,
    selection: Selection,
    sink: impl AsyncWrite + Send + Unpin,
    context: &Context,
) -> Result<Exported, ExportError> {
    let mut sink = Watched::new(sink, context.out.progress("exporting"), None);
    transfer::export(&store.journal, &*store.blobs, selection, &mut sink).await
}

async fn export_to_file(
    store: &Store,
    selection: Selection,
    path: &std::path::Path,
    context: &Context,
) -> Outcome<Exported> {
    let target = Target::create(path, Existing::Replace, Readers::Usual)?;
    let sink = tokio::fs::File::from_std(target.writer()?);
    let exported = export_to(store, selection, sink, context).await.map_err(|error| match error {
        ExportError::Write(source) => Failure::from(target.unwritable(source)),
        other => other.into(),
    })?;
    blocking(move || target.finish()).await??;
    Ok(exported)
}

fn failed_to_stdout(error: ExportError) -> Failure {
    match error {
        ExportError::Write(source) => stdout_failed(source),
        other => other.into(),
    }
}

#[derive(Serialize)]
struct ImportView {
    events: u64,
    skipped: u64,
    forks: u64,
    blobs: u64,
    dropped_tail: Option<u64>,
    /// Events in streams of the runtime itself, with `--without-runtime-streams`.
    left_out: u64,
}

/// Reads streams from JSON Lines.
pub(crate) async fn import(args: &ImportArgs, context: &mut Context) -> Outcome {
    if args.as_restore && !context.identity.is_owner() {
        return Err(RestoreError(context.identity.principal().to_owned()).into());
    }
    let mut content = args.input.open(&context.out).await?;
    let mut bytes = match &args.input {
        Input::Stdin => None,
        Input::File(path) => tokio::fs::metadata(path).await.ok().map(|metadata| metadata.len()),
    };
    let refuses = !args.as_restore && !args.without_runtime_streams;
    if refuses {
        let (checked, length) = checked(content, &args.input).await?;
        (content, bytes) = (checked, bytes.or(Some(length)));
    }
    let source = Watched::new(content, context.out.progress("importing"), bytes);
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    refuse_other_files(&mut source).await?;
    let store = context.store_or_new().await?;
    let imported = match args.as_restore {
        true => transfer::restore(&store.journal, &*store.blobs, &mut source).await,
        false => {
            let runtime = if refuses { RuntimeStreams::Refuse } else { RuntimeStreams::LeaveOut };
            transfer::import(&store.journal, &*store.blobs, &mut source, runtime).await
        }
    };
    drop(source);
    store.close().await;
    print(imported?, context)
}

/// The content again, once it was read to its end and holds no stream that is refused. What can be read only once is kept in
/// a temporary file meanwhile, so that nothing is written for an export that is refused at its last line.
async fn checked(content: Reader, input: &Input) -> Outcome<(Reader, u64)> {
    let unreadable = |error| ImportError::Input { line: 1, source: error };
    let regular = match input {
        Input::File(path) if path.is_file() => Some(path),
        Input::File(_) | Input::Stdin => None,
    };
    let file = match regular {
        Some(path) => tokio::fs::File::open(path).await.map_err(unreadable)?,
        None => {
            let mut copy = tokio::fs::File::from_std(tempfile::tempfile().map_err(unreadable)?);
            let mut content = content;
            tokio::io::copy(&mut content, &mut copy).await.map_err(unreadable)?;
            copy.rewind().await.map_err(unreadable)?;
            copy
        }
    };
    let mut source = BufReader::with_capacity(BUFFER_BYTES, file);
    refuse_other_files(&mut source).await?;
    // What else is wrong is said by the import, which keeps what stands before it.
    if let Err(refused @ ImportError::Authority { .. }) = transfer::check_streams(&mut source).await {
        return Err(refused.into());
    }
    let mut file = source.into_inner();
    let length = file.metadata().await.map_err(unreadable)?.len();
    file.rewind().await.map_err(unreadable)?;
    Ok((Box::new(file), length))
}

/// Something that is plainly no export is refused before a data directory is made for it. The import itself looks
/// again, and closer.
async fn refuse_other_files(source: &mut (impl AsyncBufRead + Unpin)) -> Result<(), ImportError> {
    let start = source.fill_buf().await.map_err(|source| ImportError::Input { line: 1, source })?;
    if start.starts_with(b"{") { Ok(()) } else { Err(ImportError::NotAnExport) }
}

fn print(imported: Imported, context: &mut Context) -> Outcome {
    let Imported { events, skipped, forks, blobs, dropped_tail, left_out } = imported;
    if context.out.json {
        return context.out.document(&ImportView { events, skipped, forks, blobs, dropped_tail, left_out });
    }
    let what = format!("{}, {} and {}", count(events, "event"), count(forks, "fork"), count(blobs, "blob"));
    let there =
        if skipped > 0 { format!("; {} already there", count(skipped, "event")) } else { String::new() };
    context.out.line(format_args!("imported {what}{there}"))?;
    if left_out > 0 {
        let events = count(left_out, "event");
        context.out.note(format_args!("left out {events} of streams of the runtime itself"));
    }
    if let Some(bytes) = dropped_tail {
        context.out.warn(format_args!(
            "the end of the export is cut: its last {} were dropped; import the whole file to get the rest",
            size(bytes)
        ));
    }
    Ok(())
}
