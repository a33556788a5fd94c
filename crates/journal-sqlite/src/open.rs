//! Opening a journal: is the place safe, is the file ours, is it of a version we know.

use std::borrow::Cow;
use std::fs::{File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use weir_blobs::Blobs;
use weir_journal::StorageError;
use weir_types::{Explain, Fault};

use crate::connection::{Location, Role};
use crate::filesystem;
use crate::schema::{self, Identity};

/// How to open a journal.
pub struct Options {
    /// The file; made if it is not there. `lock`, beside it, tells its users from somebody who changes its format.
    pub path: PathBuf,
    /// Where large payloads go.
    pub blobs: Arc<dyn Blobs>,
    /// Another SQLite VFS than the system's, for tests; nothing is then checked or locked beside the file.
    pub vfs: Option<String>,
}

/// Why a journal was not opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is not a journal.
    #[error("`{}` is not a journal", .path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// A newer version wrote it.
    #[error("`{}` has format version {found}; this version of weir reads up to {supported}", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// Ours.
        supported: i32,
    },
    /// Locks and shared memory do not work there.
    #[error("`{}` is on a network file system ({kind})", .path.display())]
    Network {
        /// The directory.
        path: PathBuf,
        /// Which.
        kind: &'static str,
    },
    /// An older file must be brought up to date, but others are using it.
    #[error("`{}` must be brought from format version {found} to {wanted}, but other processes are using it", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// Ours.
        wanted: i32,
    },
    /// The directory cannot be used.
    #[error("cannot use `{}`", .path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// SQLite cannot use the file.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl Explain for OpenError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotAJournal { .. } => "journal::not-a-journal",
            Self::Newer { .. } => "journal::newer",
            Self::Network { .. } => "journal::network",
            Self::InUse { .. } => "journal::in-use",
            Self::Directory { .. } | Self::Storage(_) => "journal::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotAJournal { .. } => {
                "move that file away, or choose another directory with `--data-dir DIR`".into()
            }
            Self::Newer { .. } => {
                "use the newer weir that wrote it, or choose another `--data-dir DIR`".into()
            }
            Self::Network { .. } => "keep the data on a local disk: choose one with `--data-dir DIR`".into(),
            Self::InUse { .. } => {
                "stop the other weir processes, then repeat; `weir doctor` names them".into()
            }
            Self::Directory { .. } => {
                "make the data directory writable for this user, or choose another with `--data-dir DIR`"
                    .into()
            }
            Self::Storage(error) => error.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotAJournal { .. } | Self::Network { .. } | Self::Newer { .. } => Fault::Input,
            Self::InUse { .. } => Fault::Conflict,
            Self::Directory { .. } => Fault::Storage,
            Self::Storage(error) => error.fault(),
        }
    }
}

/// How long an upgrade waits for the other users of a file to go.
const UPGRADE_WAIT_MAX: Duration = Duration::from_secs(5);

/// An opened file: the connection that will commit, and the lock that says it is in use.
pub(crate) struct Opened {
    pub(crate) location: Location,
    pub(crate) connection: Connection,
    pub(crate) lock: Option<File>,
}

/// Opens or makes the file. Blocks.
///
/// The first process to open a file holds the lock alone until it is done here: it is the one that recovers what a
/// crash left in the log, and nobody may look at that before it is durable.
pub(crate) fn open(path: &Path, vfs: Option<&str>) -> Result<Opened, OpenError> {
    let location = Location { path: path.into(), vfs: vfs.map(Into::into) };
    let (lock, is_alone) = match vfs {
        Some(_) => (None, true),
        None => enter_directory(path).map(|(lock, is_alone)| (Some(lock), is_alone))?,
    };
    let mut connection = location.connect(Role::Commit).map_err(|error| refuse(&location, error))?;
    let supported = schema::STEPS.len() as i32;
    match schema::identify(&connection).map_err(|error| refuse(&location, error))? {
        Identity::Foreign => return Err(OpenError::NotAJournal { path: path.to_owned() }),
        Identity::Journal(found) if found > supported => {
            return Err(OpenError::Newer { path: path.to_owned(), found, supported });
        }
        Identity::Journal(found) if found < supported => {
            upgrade(&location, &mut connection, lock.as_ref(), found)?;
        }
        Identity::Journal(_) if is_alone => settle(&connection).map_err(|error| location.explain(error))?,
        Identity::Journal(_) => {}
        Identity::Fresh => prepare(&mut connection).map_err(|error| location.explain(error))?,
    }
    if let Some(lock) = &lock {
        lock.lock_shared().map_err(|source| OpenError::Directory { path: path.to_owned(), source })?;
    }
    Ok(Opened { location, connection, lock })
}

/// Makes the directory, refuses one that SQLite cannot work in, and takes its lock: all of it if nobody else has a
/// share, else a share.
fn enter_directory(path: &Path) -> Result<(File, bool), OpenError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refuse = |path: &Path, source| OpenError::Directory { path: path.to_owned(), source };
    make_directory(directory).map_err(|source| refuse(directory, source))?;
    let network = filesystem::network(directory).map_err(|source| refuse(directory, source))?;
    if let Some(filesystem::Network(kind)) = network {
        return Err(OpenError::Network { path: directory.to_owned(), kind });
    }
    let lock_path = directory.join("lock");
    let lock = File::options().create(true).truncate(false).read(true).write(true).open(&lock_path);
    let lock = lock.map_err(|source| refuse(&lock_path, source))?;
    match lock.try_lock() {
        Ok(()) => Ok((lock, true)),
        Err(TryLockError::WouldBlock) => {
            lock.lock_shared().map_err(|source| refuse(&lock_path, source))?;
            Ok((lock, false))
        }
        Err(TryLockError::Error(source)) => Err(refuse(&lock_path, source)),
    }
}

/// Makes a directory and those above it, for this user alone, each durably: SQLite syncs the directory of its files, but nobody else would
/// sync the one that this directory is in.
fn make_directory(directory: &Path) -> std::io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_directory(parent)?;
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(parent)?.sync_all(),
    }
}

/// Makes what a crash left in the log durable. A killed process may have written a commit without syncing it; reading
/// it, or answering a repeated key with it, would promise something that the next power cut takes back. Any commit
/// syncs the whole log.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    use_wal(connection)?;
    let frames: i64 = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))?;
    if frames > 0 {
        let version = schema::STEPS.len() as i64;
        connection.pragma_update(None, "user_version", version)?;
    }
    Ok(())
}

/// Switches the write-ahead log on, or makes sure that it is. SQLite answers before the switch is on the disk, so the
/// answer is asked for again.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mode = || connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    if mode()? == "wal" {
        return Ok(());
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    match mode()?.as_str() {
        "wal" => Ok(()),
        _ => {
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR), None))
        }
    }
}

fn refuse(location: &Location, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => {
            OpenError::NotAJournal { path: location.path.to_path_buf() }
        }
        _ => location.explain(error).into(),
    }
}

/// Makes the tables. WAL first: it cannot be switched on inside a transaction.
fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    use_wal(connection)?;
    schema::migrate(connection, schema::STEPS)
}

/// Brings an older file up to date while nobody else uses it.
///
/// Several processes may want to at once: each gives up its share of the lock while it tries to get all of it, so one
/// of them succeeds, and the others find the work done.
fn upgrade(
    location: &Location,
    connection: &mut Connection,
    lock: Option<&File>,
    found: i32,
) -> Result<(), OpenError> {
    let path = location.path.to_path_buf();
    let wanted = schema::STEPS.len() as i32;
    let refuse = |source| OpenError::Directory { path: path.clone(), source };
    let deadline = Instant::now() + UPGRADE_WAIT_MAX;
    loop {
        match lock.map_or(Ok(()), File::try_lock) {
            Ok(()) => prepare(connection).map_err(|error| location.explain(error))?,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::Error(source)) => return Err(refuse(source)),
        }
        lock.map_or(Ok(()), File::lock_shared).map_err(refuse)?;
        match schema::identify(connection).map_err(|error| location.explain(error))? {
            Identity::Journal(version) if version == wanted => return Ok(()),
            _ if Instant::now() > deadline => return Err(OpenError::InUse { path, found, wanted }),
            _ => {}
        }
    }
}
