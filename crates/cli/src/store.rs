//! The data directory: `journal.db`, `blobs/` and `lock`.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_blobs::{Blobs, DirBlobs};
use weir_journal_sqlite::{Findings, Options, SqliteJournal};
use weir_types::{Explain, Fault};

use crate::output::Out;
use crate::report::{Bug, Outcome};
use crate::show::printable;

/// The journal's file in a data directory.
pub(crate) const JOURNAL: &str = "journal.db";
/// The blob store's directory in a data directory.
pub(crate) const BLOBS: &str = "blobs";
/// The lock's file in a data directory.
pub(crate) const LOCK: &str = "lock";

/// An open data directory.
pub(crate) struct Store {
    pub(crate) journal: SqliteJournal,
    pub(crate) blobs: Arc<dyn Blobs>,
}

/// Why there is nothing to open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// No journal there.
    #[error("there is no journal at `{}`", .0.display())]
    Absent(PathBuf),
    /// Something else is there.
    #[error("`{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The directory cannot be looked at.
    #[error("cannot use the data directory `{}`", .path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Explain for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::Absent(_) => "cli::no-journal",
            Self::NotADirectory(_) => "cli::not-a-directory",
            Self::Unusable { .. } => "cli::data-dir",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Absent(_) => {
                "go to the project, or name it with `--project DIR`; `--data-dir DIR` names the data itself, and \
                 `weir chat AGENT` or `weir append` begins a journal"
                    .into()
            }
            Self::NotADirectory(_) => "name a directory with `--data-dir DIR`".into(),
            Self::Unusable { .. } => {
                "check its permissions with `weir doctor`, or choose another with `--data-dir DIR`".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Absent(_) => Fault::Missing,
            Self::NotADirectory(_) => Fault::Input,
            Self::Unusable { .. } => Fault::Storage,
        }
    }
}

/// What a command that finds no journal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    /// Makes one.
    Create,
    /// Fails.
    Fail,
}

impl Store {
    /// Opens the journal and the blobs in `directory`.
    pub(crate) async fn open(directory: &Path, if_absent: IfAbsent) -> Outcome<Self> {
        let path = directory.join(JOURNAL);
        look(directory, &path, if_absent)?;
        let made = Made::about_to_be(directory);
        let blobs = open_blobs(directory).await?;
        let options = Options { path, blobs: Arc::clone(&blobs), vfs: None };
        match SqliteJournal::open(options).await {
            Ok(journal) => Ok(Self { journal, blobs }),
            Err(error) => {
                made.undo();
                Err(error.into())
            }
        }
    }

    /// Opens the journal and the blobs in `directory` for a command that only reads. Where nothing can be written, such
    /// as on a read-only medium or in the directory of another user, nothing is.
    pub(crate) async fn open_to_read(directory: &Path) -> Outcome<Self> {
        let here = directory.to_owned();
        if blocking(move || is_writable(&here)).await? {
            return Self::open(directory, IfAbsent::Fail).await;
        }
        let path = directory.join(JOURNAL);
        look(directory, &path, IfAbsent::Fail)?;
        let blobs: Arc<dyn Blobs> = Arc::new(DirBlobs::existing(directory.join(BLOBS)));
        let journal = SqliteJournal::open_read_only(path, Arc::clone(&blobs)).await?;
        Ok(Self { journal, blobs })
    }

    /// Tells a person about damage that was found at this opening or an earlier one, and about rights that were taken
    /// away.
    pub(crate) fn tell_findings(&self, directory: &Path, out: &Out) {
        let Findings { damage, narrowed_from } = self.journal.findings();
        if let Some(mode) = narrowed_from {
            out.warn(format_args!(
                "other users could use `{}` (mode {mode:04o}); now only you can (0700, files 0600)",
                directory.display()
            ));
        }
        for record in damage {
            out.warn(format_args!("the journal is damaged: {}", printable(&record.to_string())));
        }
        if !damage.is_empty() {
            out.warn(format_args!("`weir doctor` says what to do; it is repeated until a person accepts it"));
        }
    }

    /// Lets the journal finish what it is doing.
    pub(crate) async fn close(self) {
        self.journal.close().await;
    }
}

/// Whether a journal here can be opened as usual: this user owns the directory, and may write to it.
fn is_writable(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let may = |path: &Path, what| rustix::fs::access(path, what).is_ok();
    let me = rustix::process::geteuid();
    let is_owner = std::fs::metadata(directory).is_ok_and(|facts| me.is_root() || facts.uid() == me.as_raw());
    let write = rustix::fs::Access::WRITE_OK;
    is_owner && may(directory, write | rustix::fs::Access::EXEC_OK) && may(&directory.join(JOURNAL), write)
}

/// The directories that opening makes. A journal that is refused leaves none of them behind.
struct Made(Vec<PathBuf>);

impl Made {
    fn about_to_be(directory: &Path) -> Self {
        let directories = [directory.join(BLOBS), directory.to_owned()];
        Self(directories.into_iter().filter(|path| !path.exists()).collect())
    }

    /// Only what is still empty goes: somebody else may have begun to use it.
    fn undo(self) {
        for path in self.0 {
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Whether a directory can be the data directory, for all that can be seen; it need not be there yet.
pub(crate) fn check_directory(directory: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(directory) {
        Ok(metadata) if !metadata.is_dir() => Err(StoreError::NotADirectory(directory.to_owned())),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(StoreError::NotADirectory(directory.to_owned()))
        }
        Err(source) => Err(StoreError::Unusable { path: directory.to_owned(), source }),
    }
}

fn look(directory: &Path, journal: &Path, if_absent: IfAbsent) -> Result<(), StoreError> {
    let unusable = |source| StoreError::Unusable { path: directory.to_owned(), source };
    check_directory(directory)?;
    match (journal.try_exists().map_err(unusable)?, if_absent) {
        (false, IfAbsent::Fail) => Err(StoreError::Absent(directory.to_owned())),
        _ => Ok(()),
    }
}

/// Opens the blob store of a data directory that is already in use.
pub(crate) async fn blobs(directory: &Path) -> Outcome<Arc<dyn Blobs>> {
    look(directory, &directory.join(BLOBS), IfAbsent::Fail)?;
    open_blobs(directory).await
}

/// Opens the blob store, and makes it if need be.
pub(crate) async fn blobs_or_new(directory: &Path) -> Outcome<Arc<dyn Blobs>> {
    look(directory, &directory.join(BLOBS), IfAbsent::Create)?;
    open_blobs(directory).await
}

async fn open_blobs(directory: &Path) -> Outcome<Arc<dyn Blobs>> {
    let root = directory.join(BLOBS);
    let opened = blocking(move || DirBlobs::open(root)).await?;
    Ok(Arc::new(opened?))
}

/// Runs file work where it may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Bug { what: error.to_string() }.into())
}
