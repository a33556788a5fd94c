//! `weir fs`: the files of a session, at any of its events.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_blobs::Blobs;
use weir_engine::Address;
use weir_events::FileWritten;
use weir_types::{Explain, Fault, Hash, Seq};
use weir_workspace::{
    Change, Files, Found, LeaveOut, LeftOut, Mode, PatternError, SECRETS, Scan, Skipped, Why, changes_in,
    checkout,
};

use crate::commands::Context;
use crate::commands::session::{host, place};
use crate::host::Host;
use crate::identity::{self, Sees};
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{count, printable, size};
use crate::table;
use crate::which::SessionArg;

/// The largest file that is printed.
const CAT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What to do with the files of a session.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the files of a session.
    Ls(LsArgs),
    /// Print a file of a session.
    Cat(CatArgs),
    /// Write the files of a session into a directory.
    Export(ExportArgs),
    /// Take over what is different in a directory.
    Import(ImportArgs),
}

/// The arguments of `weir fs ls`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir fs ls -1\n  weir fs ls 01J9Z --at 12 --json | jq -r .path")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    session: SessionArg,
    /// As they were at this event, or at this time.
    #[arg(long, value_name = "SEQ|TIME")]
    at: Option<String>,
}

/// The arguments of `weir fs cat`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir fs cat -1 report.md\n  weir fs cat 01J9Z@fork-1 src/main.rs --at 40"
)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The file.
    path: String,
    /// As it was at this event, or at this time.
    #[arg(long, value_name = "SEQ|TIME")]
    at: Option<String>,
}

/// The arguments of `weir fs export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir fs export -1 out\n  weir fs export 01J9Z before --at 12")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The directory: one that is empty, or not there yet.
    directory: PathBuf,
    /// As they were at this event, or at this time.
    #[arg(long, value_name = "SEQ|TIME")]
    at: Option<String>,
}

/// The arguments of `weir fs import`.
#[derive(Debug, clap::Args)]
#[command(after_help = import_help())]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The directory. What is not in it is removed from the session's files.
    directory: PathBuf,
    #[command(flatten)]
    taken: TakenArgs,
}

/// Which files of a directory are taken.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TakenArgs {
    /// Leave out what matches this pattern of a .gitignore. May be repeated.
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    exclude: Vec<String>,
    /// Take what matches this pattern of a .gitignore, although it would be left out. May be repeated.
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    include: Vec<String>,
}

fn import_help() -> String {
    format!(
        "Examples:\n  weir fs import -1 ./docs\n  weir fs import -1 . --exclude '*.csv' --include .env.test\n\n{}",
        left_out_help()
    )
}

/// What is left out of a directory, for the help of commands that take one.
pub(crate) fn left_out_help() -> String {
    let secrets = SECRETS.iter().filter(|pattern| !pattern.starts_with('!')).copied().collect::<Vec<_>>();
    let but = SECRETS.iter().filter_map(|pattern| pattern.strip_prefix('!')).collect::<Vec<_>>();
    format!(
        "What is taken stays in the journal for good. Left out, unless --include names it:\n  \
         - what .gitignore and .weirignore name, in the directory, below it and above it in its repository\n  \
         - what usually holds secrets: {} (but not {})\n\
         Never taken: .git, .weir, symbolic links, pipes, sockets, devices.",
        secrets.join(" "),
        but.join(" "),
    )
}

impl TakenArgs {
    fn scan(&self) -> Result<Scan, TakenError> {
        let leave_out = LeaveOut::new(&self.exclude, &self.include)?;
        Ok(Scan { leave_out: Some(std::sync::Arc::new(leave_out)), ..Scan::default() })
    }

    /// Whether something was said about which files are taken.
    pub(crate) fn is_given(&self) -> bool {
        !self.exclude.is_empty() || !self.include.is_empty()
    }
}

/// What `--include` or `--exclude` says is no pattern.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct TakenError(#[from] PatternError);

impl Explain for TakenError {
    fn code(&self) -> &'static str {
        "cli::pattern"
    }

    fn help(&self) -> Cow<'static, str> {
        "write a pattern as in a .gitignore, like `*.csv`, `/build` or `docs/**/draft.md`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// What was left out for one reason, for programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOutView {
    why: &'static str,
    count: usize,
    first: Vec<String>,
}

/// The files of a directory, and what is not among them.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    pub(crate) files: Vec<FileWritten>,
    /// Nothing, if no directory was given.
    pub(crate) left_out: Option<Vec<LeftOutView>>,
}

/// There is no such file.
#[derive(Debug, thiserror::Error)]
#[error("session {address} has no file `{path}`")]
struct NoFile {
    address: Address,
    path: String,
}

impl Explain for NoFile {
    fn code(&self) -> &'static str {
        "cli::no-file"
    }

    fn help(&self) -> Cow<'static, str> {
        format!("see `weir fs ls {}`", self.address).into()
    }

    fn fault(&self) -> Fault {
        Fault::Missing
    }
}

#[derive(Serialize)]
pub(crate) struct FileView<'a> {
    path: &'a str,
    size: u64,
    hash: Hash,
    executable: bool,
}

#[derive(Serialize)]
struct Written {
    directory: PathBuf,
    files: usize,
}

#[derive(Serialize)]
struct Taken {
    seq: Seq,
    written: usize,
    deleted: usize,
    skipped: Vec<String>,
    left_out: Vec<LeftOutView>,
}

/// Runs one of them.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    let sees = context.sees(&context.project).await?;
    let host = host(context).await?;
    let out = &mut context.out;
    let done = match command {
        Command::Ls(args) => ls(args, &sees, &host, out).await,
        Command::Cat(args) => cat(args, &sees, &host, out).await,
        Command::Export(args) => export(args, &sees, &host, out).await,
        Command::Import(args) => import(args, &sees, &host, out).await,
    };
    host.stop().await;
    done
}

/// The files of a session, and which session that is.
async fn files(
    session: &SessionArg,
    at: Option<&str>,
    sees: &Sees,
    host: &Host,
) -> Outcome<(Address, Files)> {
    let address = session.find(&*host.journal, sees).await?;
    let at = match at {
        Some(at) => Some(place(&*host.journal, &address, at).await?),
        None => None,
    };
    let files = host.engine.files(&address, at).await?;
    Ok((address, files))
}

/// Files as programs read them.
pub(crate) fn views(files: &Files) -> impl Iterator<Item = FileView<'_>> {
    files.iter().map(|(path, entry)| FileView {
        path: path.as_str(),
        size: entry.size,
        hash: entry.hash,
        executable: entry.mode == Mode::Executable,
    })
}

async fn ls(args: &LsArgs, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let (_, files) = files(&args.session, args.at.as_deref(), sees, host).await?;
    if out.json {
        return views(&files).try_for_each(|view| out.object(&view));
    }
    if files.is_empty() {
        out.note(format_args!("the session has no files"));
        return Ok(());
    }
    let row = |view: FileView<'_>| {
        let mode = if view.executable { "x" } else { "" };
        [size(view.size), mode.to_owned(), printable(view.path).into_owned()]
    };
    table::print(["SIZE", "", "PATH"], &views(&files).map(row).collect::<Vec<_>>(), out)
}

async fn cat(args: &CatArgs, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let (address, files) = files(&args.session, args.at.as_deref(), sees, host).await?;
    let Some(entry) = files.get(&args.path) else {
        return Err(NoFile { address, path: args.path.clone() }.into());
    };
    let content = host.blobs.get_bytes(entry.hash, CAT_BYTES_MAX).await?;
    match std::str::from_utf8(&content) {
        Ok(text) if out.is_terminal() => {
            let text = out.shown(text).into_owned();
            out.bytes(text.as_bytes())
        }
        _ => out.bytes(&content),
    }
}

async fn export(args: &ExportArgs, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let (_, files) = files(&args.session, args.at.as_deref(), sees, host).await?;
    checkout(&files, &args.directory, &*host.blobs).await?;
    if out.json {
        return out.document(&Written { directory: args.directory.clone(), files: files.len() });
    }
    let directory = args.directory.display().to_string();
    out.line(format_args!("{} in {}", count(files.len() as u64, "file"), printable(&directory)))
}

async fn import(args: &ImportArgs, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let (address, files) = files(&args.session, None, sees, host).await?;
    let Found { changes, skipped, left_out } =
        changes_in(&args.directory, &files, &args.taken.scan()?, &*host.blobs).await?;
    tell_left_out(&skipped, &left_out, out);
    let seq = match changes.is_empty() {
        true => host.engine.state(&address, None).await?.seq,
        false => host.engine.change_files(&address, &changes, &identity::principal()).await?,
    };
    let deleted = changes.iter().filter(|change| matches!(change, Change::Deleted { .. })).count();
    let written = changes.len() - deleted;
    if out.json {
        let left_out = left_out_views(&[], &left_out);
        let skipped = skipped.iter().map(ToString::to_string).collect();
        return out.document(&Taken { seq, written, deleted, skipped, left_out });
    }
    out.line(format_args!("{written} written, {deleted} deleted"))
}

/// The files of a directory, for a session to begin with.
pub(crate) async fn imported(
    directory: &Path,
    taken: &TakenArgs,
    blobs: &dyn Blobs,
    out: &Out,
) -> Outcome<Imported> {
    let Found { changes, skipped, left_out } =
        changes_in(directory, &Files::new(), &taken.scan()?, blobs).await?;
    tell_left_out(&skipped, &left_out, out);
    let files = changes.into_iter().filter_map(|change| match change {
        Change::Written { path, entry } => Some(FileWritten {
            path: path.to_string(),
            hash: entry.hash,
            mode: entry.mode.bits(),
            size: entry.size,
        }),
        Change::Deleted { .. } => None,
    });
    Ok(Imported { files: files.collect(), left_out: Some(left_out_views(&skipped, &left_out)) })
}

fn tell_left_out(skipped: &[Skipped], left_out: &LeftOut, out: &Out) {
    for skipped in skipped {
        out.warn(format_args!("left out: {}", printable(&skipped.to_string())));
    }
    for (why, group) in left_out {
        let more = match group.count - group.first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = format!("{}{more}", group.first.join(", "));
        let names = printable(&names);
        match why {
            Why::Secret => out.warn(format_args!(
                "left out, because it usually holds secrets: {names} (`--include GLOB` takes it)"
            )),
            Why::Excluded => out.note(format_args!("left out by --exclude: {names}")),
            Why::Ignored => out.note(format_args!(
                "left out by .gitignore or .weirignore: {names} (`--include GLOB` takes it)"
            )),
            Why::Never => out.note(format_args!("never taken: {names}")),
        }
    }
}

/// Paths of links and the like are named as far as those of the other groups.
fn left_out_views(skipped: &[Skipped], left_out: &LeftOut) -> Vec<LeftOutView> {
    const FIRST_MAX: usize = 5;
    let groups = left_out.iter().map(|(why, group)| {
        let why = match why {
            Why::Secret => "secret",
            Why::Excluded => "excluded",
            Why::Ignored => "ignored",
            Why::Never => "never",
        };
        LeftOutView { why, count: group.count, first: group.first.clone() }
    });
    let unfit = (!skipped.is_empty()).then(|| LeftOutView {
        why: "not-a-file",
        count: skipped.len(),
        first: skipped.iter().take(FIRST_MAX).map(ToString::to_string).collect(),
    });
    groups.chain(unfit).collect()
}
