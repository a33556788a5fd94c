//! `weir backup`: one archive that any `tar` can unpack into a data directory.
//!
//! The journal is copied first, then the blobs. A blob is stored before the event that names it and removed only when
//! no event does, so every blob that the copied journal needs is there when its turn comes.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::watch;
use weir_journal::{Journal, Problem, Report, StorageError, StorageFailure, silent};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_support::new_file::{Existing, UnfinishedDirectory, directory_of};
use weir_types::{Explain, Fault};

use crate::commands::Context;
use crate::output::{Out, Progress};
use crate::report::Outcome;
use crate::show::{count, printable, shell, size};
use crate::store::{BLOBS, JOURNAL, Store, blocking};
use crate::target::{Readers, Target};

const EXAMPLES: &str = "\
Examples:
  weir backup weir-backup.tar
  mkdir restored && tar -xf weir-backup.tar -C restored && weir verify --data-dir restored";

/// The arguments of `weir backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The archive to write. Readable by you alone: it holds everything the journal holds.
    file: PathBuf,
    /// Replace an archive that is already there.
    #[arg(long)]
    force: bool,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
enum BackupError {
    #[error("a backup is written to a file, not to standard output")]
    Stdout,
    #[error("`{}` is inside the data directory", .0.display())]
    Inside(PathBuf),
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write the archive")]
    Unwritable(#[source] io::Error),
    /// The archive was written, and is a copy of what is there.
    #[error(
        "the archive was written, but it is a copy of a damaged {what}: {problems} found, the first: {first}"
    )]
    Damaged { what: &'static str, problems: String, first: String },
    #[error("cannot copy the journal to `{}`", .place.display())]
    Copy {
        place: PathBuf,
        #[source]
        source: StorageError,
    },
}

impl Explain for BackupError {
    fn code(&self) -> &'static str {
        match self {
            Self::Stdout => "cli::backup-stdout",
            Self::Inside(_) => "cli::backup-inside",
            Self::Unreadable { .. } => "cli::unreadable",
            Self::Unwritable(_) | Self::Copy { .. } => "cli::unwritable",
            Self::Damaged { .. } => "cli::backup-damaged",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Stdout => {
                "name a file: `weir backup weir-backup.tar`; for a pipe there is `weir export`".into()
            }
            Self::Inside(_) => "keep the backup elsewhere, best on another disk".into(),
            Self::Unreadable { .. } => {
                "check permissions and the disk with `weir doctor`, then repeat".into()
            }
            Self::Unwritable(_) | Self::Copy { .. } => {
                "check free space and permissions there; no partial file was left behind".into()
            }
            Self::Damaged { .. } => {
                "keep older backups; run `weir verify` to see all findings, and restore from a backup without any".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Stdout | Self::Inside(_) => Fault::Input,
            Self::Unreadable { .. } | Self::Unwritable(_) | Self::Copy { .. } => Fault::Storage,
            Self::Damaged { .. } => Fault::Damaged,
        }
    }
}

/// What is in the archive.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    journal_bytes: u64,
    blobs: u64,
    blob_bytes: u64,
}

#[derive(Serialize)]
struct View<'a> {
    file: &'a Path,
    bytes: u64,
    journal_bytes: u64,
    blobs: u64,
    blob_bytes: u64,
    sound: bool,
    restore: String,
}

/// Writes the archive.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    if args.file.as_os_str() == "-" {
        return Err(BackupError::Stdout.into());
    }
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let store = context.store().await?;
    let written = write(&store, &args.file, existing, context).await;
    store.close().await;
    let Written { contents, bytes, report } = written?;
    print(args, contents, bytes, report.is_sound(), context)?;
    let Some(first) = report.problems.first() else { return Ok(()) };
    let (problems, first) =
        (count(report.problems.len() as u64, "problem"), printable(&first.to_string()).into_owned());
    Err(BackupError::Damaged { what: "data directory", problems, first }.into())
}

async fn write(store: &Store, file: &Path, existing: Existing, context: &Context) -> Outcome<Written> {
    refuse_inside(file, &context.data_dir)?;
    let target = Target::create(file, existing, Readers::Owner)?;
    // Dropped, and with it removed, whatever happens; the same disk as the archive, which must hold it anyway.
    let scratch =
        UnfinishedDirectory::create(directory_of(file)).map_err(|error| target.unwritable(error))?;
    let copy = scratch.path().join(JOURNAL);
    let report = copy_journal(store, &context.data_dir, &copy, file, &context.out).await?;

    let (progress, watched) = watch::channel(Contents::default());
    let (blobs, writer) = (context.data_dir.join(BLOBS), target.writer()?);
    let archived = blocking(move || archive(&copy, &blobs, writer, &progress));
    let archived = with_progress(archived, watched, context.out.progress("backing up")).await;
    let contents = archived??;
    blocking(move || {
        let bytes = target.writer()?.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        target.finish().map(|()| Written { contents, bytes, report })
    })
    .await?
    .map_err(Into::into)
}

/// An archive, and what is wrong with what it is a copy of.
struct Written {
    contents: Contents,
    bytes: u64,
    report: Report,
}

/// Copies the journal and checks the copy, which is what will be restored, and the pages of the original. A journal that is too
/// damaged for that is copied as it is.
async fn copy_journal(
    store: &Store,
    data_dir: &Path,
    copy: &Path,
    file: &Path,
    out: &Out,
) -> Outcome<Report> {
    let place = || directory_of(file).to_owned();
    match store.journal.backup_to(copy).await {
        Ok(()) => {
            let mut report = verify_copy(copy, store, out).await;
            // The copy has new indexes: damage to the old ones is not in it.
            let original = store.journal.verify_quick(silent()).await?;
            original.problems.into_iter().for_each(|problem| report.note(problem));
            Ok(report)
        }
        Err(error) if error.what == StorageFailure::Corrupt => {
            let (from, to) = (data_dir.join(JOURNAL), copy.to_owned());
            let copied = blocking(move || copy_as_it_is(&from, &to)).await?;
            copied.map_err(|source| BackupError::Unreadable { path: data_dir.join(JOURNAL), source })?;
            let mut report = store.journal.verify(None, silent()).await.unwrap_or_default();
            report.note(Problem::at_place(
                "file `journal.db`",
                format!("it cannot be read to its end ({error})"),
            ));
            Ok(report)
        }
        Err(source) => Err(BackupError::Copy { place: place(), source }.into()),
    }
}

/// Copies the file and its log, byte for byte. Blocks.
fn copy_as_it_is(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::copy(from, to)?;
    match fs::copy(log_of(from), log_of(to)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The write-ahead log beside a journal.
fn log_of(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Checks the copied journal and every blob that its events need.
async fn verify_copy(copy: &Path, store: &Store, out: &Out) -> Report {
    let options = Options { path: copy.to_owned(), blobs: Arc::clone(&store.blobs), vfs: None };
    let mut report = Report::default();
    let journal = match SqliteJournal::open(options).await {
        Ok(journal) => journal,
        Err(error) => {
            report.note(Problem::at_place("the copied journal", error.to_string()));
            return report;
        }
    };
    let progress = Mutex::new(out.progress("verifying"));
    let watch = move |done, total| {
        progress.lock().unwrap_or_else(PoisonError::into_inner).at(done, Some(total), "event");
    };
    let checked = journal.verify(None, Arc::new(watch)).await;
    journal.close().await;
    checked.unwrap_or_else(|error| {
        report.note(Problem::at_place("the copied journal", error.to_string()));
        report
    })
}

/// An archive among the blobs would be archived by the next backup.
fn refuse_inside(file: &Path, data_dir: &Path) -> Result<(), BackupError> {
    let directory = directory_of(file).canonicalize();
    match (directory, data_dir.canonicalize()) {
        (Ok(directory), Ok(data)) if directory.starts_with(&data) => {
            Err(BackupError::Inside(file.to_owned()))
        }
        _ => Ok(()),
    }
}

async fn with_progress<T>(
    work: impl Future<Output = T>,
    mut watched: watch::Receiver<Contents>,
    mut progress: Progress,
) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Ok(()) = watched.changed() => progress.at(watched.borrow().blobs, None, "blob"),
        }
    }
}

/// Writes the copied journal and every blob there is. Blocks.
fn archive(
    copy: &Path,
    blobs: &Path,
    writer: File,
    progress: &watch::Sender<Contents>,
) -> Result<Contents, BackupError> {
    let mut archive = tar::Builder::new(BufWriter::with_capacity(1 << 20, writer));
    let mut contents =
        Contents { journal_bytes: add(&mut archive, copy, Path::new(JOURNAL))?, ..Contents::default() };
    // Only a journal that was copied as it is has one.
    let log = log_of(copy);
    if log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        contents.journal_bytes += add(&mut archive, &log, &log_of(Path::new(JOURNAL)))?;
    }
    for shard in entries(blobs)?.into_iter().filter(|path| has_hex_name(path, 2)) {
        for blob in entries(&shard)?.into_iter().filter(|path| has_hex_name(path, 62)) {
            let name = blob.strip_prefix(blobs).unwrap_or(&blob);
            match add(&mut archive, &blob, &Path::new(BLOBS).join(name)) {
                Ok(bytes) => {
                    contents.blobs += 1;
                    contents.blob_bytes += bytes;
                }
                // Collected a moment ago: then no event of the copied journal names it.
                Err(BackupError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            progress.send_replace(contents);
        }
    }
    let finished = archive.into_inner().and_then(|mut writer| writer.flush());
    finished.map_err(BackupError::Unwritable)?;
    Ok(contents)
}

fn add(archive: &mut tar::Builder<impl Write>, path: &Path, name: &Path) -> Result<u64, BackupError> {
    let unreadable = |source| BackupError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mut header = tar::Header::new_gnu();
    // Who owned the files here means nothing where they are restored; when a blob was put does (see `blob gc`).
    header.set_metadata_in_mode(&metadata, tar::HeaderMode::Complete);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mode(0o600);
    header.set_size(metadata.len());
    archive.append_data(&mut header, name, file).map_err(BackupError::Unwritable)?;
    Ok(metadata.len())
}

/// What is in a directory, sorted; nothing if it is not there.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let unreadable = |source| BackupError::Unreadable { path: directory.to_owned(), source };
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(unreadable)?,
    };
    let paths: io::Result<Vec<PathBuf>> = listing.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}

/// Shards and blobs have names of hex digits; locks and temporary files do not.
fn has_hex_name(path: &Path, digits: usize) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.len() == digits && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn print(args: &Args, contents: Contents, bytes: u64, sound: bool, context: &mut Context) -> Outcome {
    let Contents { journal_bytes, blobs, blob_bytes } = contents;
    let file = args.file.to_string_lossy();
    let restore = format!("mkdir restored && tar -xf {} -C restored", shell(&file));
    if context.out.json {
        let view = View { file: &args.file, bytes, journal_bytes, blobs, blob_bytes, sound, restore };
        return context.out.document(&view);
    }
    let what = format!("the journal ({}) and {}", size(journal_bytes), count(blobs, "blob"));
    context.out.line(format_args!("wrote {what} to `{file}` ({})", size(bytes)))?;
    context.out.note(format_args!("restore it with `{restore}`, then use `--data-dir restored`"));
    Ok(())
}
