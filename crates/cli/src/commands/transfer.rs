//! `weir export` and `weir import`.

mod watched;

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncSeekExt, AsyncWrite, BufReader};
use weir_journal::transfer::{self, DamagedBranch, ExportError, Exported, ImportError, Imported};
use weir_support::new_file::Existing;
use weir_types::{Explain, Fault, StreamName};

use self::watched::Watched;
use crate::args;
use crate::commands::Context;
use crate::input::{Input, Reader};
use crate::output::{Out, stdout_failed};
use crate::report::{Failure, Outcome};
use crate::show::{count, printable, size};
use crate::store::{Store, blocking};
use crate::target::{Readers, Target};

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
    after_help = "Examples:\n  weir export --output journal.jsonl\n  weir export --stream notes | gzip > notes.jsonl.gz"
)]
pub(crate) struct ExportArgs {
    /// Only this stream.
    #[arg(long, short)]
    stream: Option<String>,
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
                        runtime itself (`engine:`, `budget:`, `loop:`) is refused before anything is written.")]
pub(crate) struct ImportArgs {
    /// The export: a file, or `-` for standard input.
    #[arg(value_name = "FILE|-")]
    input: Input,
    /// Restore your own backup into an empty data directory: also tokens, deployments, budgets and agents' memory, which
    /// make their owners what they were. Only the owner of the data directory may.
    #[arg(long)]
    as_restore: bool,
}

#[derive(Serialize)]
struct ExportView {
    events: u64,
    forks: u64,
    blobs: u64,
    output: PathBuf,
    /// What is damaged, and so not complete in the export.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DamagedView>,
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

/// Writes streams as JSON Lines. They are JSON already: to standard output, `--json` changes nothing.
pub(crate) async fn export(args: &ExportArgs, context: &mut Context) -> Outcome {
    let stream: Option<StreamName> = args.stream.as_deref().map(args::parse).transpose()?;
    let store = context.store_to_read().await?;
    let exported = match &args.output {
        Some(path) => export_to_file(&store, stream, path, context).await,
        None => export_to(&store, stream, tokio::io::stdout(), context).await.map_err(failed_to_stdout),
    };
    store.close().await;
    let Exported { events, forks, blobs, damaged } = exported?;
    tell_damaged(&damaged, &context.out);
    let complete = match damaged.len() {
        0 => Ok(()),
        branches => Err(Incomplete(branches).into()),
    };
    let Some(output) = args.output.clone() else {
        return complete;
    };
    if context.out.json {
        let damaged = damaged.into_iter().map(DamagedView::from).collect();
        context.out.document(&ExportView { events, forks, blobs, output, damaged })?;
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

async fn export_to(
    store: &Store,
    stream: Option<StreamName>,
    sink: impl AsyncWrite + Send + Unpin,
    context: &Context,
) -> Result<Exported, ExportError> {
    let mut sink = Watched::new(sink, context.out.progress("exporting"), None);
    transfer::export(&store.journal, &*store.blobs, stream, &mut sink).await
}

async fn export_to_file(
    store: &Store,
    stream: Option<StreamName>,
    path: &std::path::Path,
    context: &Context,
) -> Outcome<Exported> {
    let target = Target::create(path, Existing::Replace, Readers::Usual)?;
    let sink = tokio::fs::File::from_std(target.writer()?);
    let exported = export_to(store, stream, sink, context).await.map_err(|error| match error {
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
    if !args.as_restore {
        let (checked, length) = checked(content, &args.input).await?;
        (content, bytes) = (checked, bytes.or(Some(length)));
    }
    let source = Watched::new(content, context.out.progress("importing"), bytes);
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    refuse_other_files(&mut source).await?;
    let store = context.store_or_new().await?;
    let imported = match args.as_restore {
        true => transfer::restore(&store.journal, &*store.blobs, &mut source).await,
        false => transfer::import(&store.journal, &*store.blobs, &mut source).await,
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
    let Imported { events, skipped, forks, blobs, dropped_tail } = imported;
    if context.out.json {
        return context.out.document(&ImportView { events, skipped, forks, blobs, dropped_tail });
    }
    let what = format!("{}, {} and {}", count(events, "event"), count(forks, "fork"), count(blobs, "blob"));
    let there =
        if skipped > 0 { format!("; {} already there", count(skipped, "event")) } else { String::new() };
    context.out.line(format_args!("imported {what}{there}"))?;
    if let Some(bytes) = dropped_tail {
        context.out.warn(format_args!(
            "the end of the export is cut: its last {} were dropped; import the whole file to get the rest",
            size(bytes)
        ));
    }
    Ok(())
}
