//! Opening a journal: is the place safe, is the file ours, is it of a version we know, and is anything lost.
//!
//! Two witnesses are heard beside the file: the log, before SQLite recovers it, and the anchor. What they say goes into
//! `damage.jsonl`; the journal is opened nevertheless.

use std::fs::{File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use weir_blobs::Blobs;

use crate::anchor_file::AnchorFile;
use crate::connection::{Access, Location, Role};
use crate::damage::{DamageLog, DamageRecord};
use crate::open_error::OpenError;
use crate::private::{self, NotPrivate};
use crate::schema::{self, Identity};
use crate::{filesystem, witness};

/// How to open a journal.
pub struct Options {
    /// The file; made if it is not there. `lock`, beside it, tells its users from somebody who changes its format.
    pub path: PathBuf,
    /// Where large payloads go.
    pub blobs: Arc<dyn Blobs>,
    /// Another SQLite VFS than the system's, for tests; nothing is then checked or locked beside the file.
    pub vfs: Option<String>,
}

/// How long an upgrade waits for the other users of a file to go.
const UPGRADE_WAIT_MAX: Duration = Duration::from_secs(5);

/// An opened file: the connection that will commit, the lock that says it is in use, and what was found on the way.
pub(crate) struct Opened {
    pub(crate) location: Location,
    pub(crate) connection: Connection,
    pub(crate) lock: Option<File>,
    pub(crate) anchor: Option<AnchorFile>,
    pub(crate) findings: Findings,
    /// A copy of the files, if that is what was opened.
    pub(crate) copy: Option<tempfile::TempDir>,
}

/// What a person should hear about a data directory that was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Damage that no person has accepted yet.
    pub damage: Vec<DamageRecord>,
    /// The mode that the directory had before other users were shut out.
    pub narrowed_from: Option<u32>,
}

/// The directory of a journal that is being opened.
struct Entered {
    directory: PathBuf,
    lock: File,
    is_alone: bool,
    narrowed_from: Option<u32>,
}

/// Opens or makes the file. Blocks.
///
/// The first process to open a file holds the lock alone until it is done here: it is the one that recovers what a
/// crash left in the log, and nobody may look at that before it is durable.
pub(crate) fn open(path: &Path, vfs: Option<&str>) -> Result<Opened, OpenError> {
    let location = Location { path: path.into(), vfs: vfs.map(Into::into), access: Access::Full };
    if vfs.is_some() {
        let connection = connect(&location, None, true)?;
        let findings = Findings::default();
        return Ok(Opened { location, connection, lock: None, anchor: None, findings, copy: None });
    }
    let entered = enter_directory(path)?;
    let is_cut = witness::look_at_files(path, &entered.directory, entered.is_alone)?;
    let made = if path.exists() { None } else { Some(private::open_or_create(path)) };
    made.transpose().map_err(|source| OpenError::Directory { path: path.to_owned(), source })?;
    let connection = connect(&location, Some(&entered), entered.is_alone)?;
    if is_cut {
        witness::confirm_cut(&connection, path)?;
    }
    let anchor = witness::compare_anchor(&connection, &entered.directory);
    let Entered { directory, lock, narrowed_from, .. } = entered;
    lock.lock_shared().map_err(|source| OpenError::Directory { path: path.to_owned(), source })?;
    let damage = DamageLog::read(&directory).map(DamageLog::into_open).unwrap_or_default();
    let findings = Findings { damage, narrowed_from };
    Ok(Opened { location, connection, lock: Some(lock), anchor, findings, copy: None })
}

fn connect(location: &Location, entered: Option<&Entered>, is_alone: bool) -> Result<Connection, OpenError> {
    let path = &location.path;
    let mut connection = location.connect(Role::Commit).map_err(|error| refuse(location, error))?;
    let supported = schema::STEPS.len() as i32;
    match schema::identify(&connection).map_err(|error| refuse(location, error))? {
        Identity::Foreign => return Err(witness::foreign(path)),
        Identity::Journal(found) if found > supported => {
            return Err(OpenError::Newer { path: path.to_path_buf(), found, supported });
        }
        Identity::Journal(found) if found < supported => {
            upgrade(location, &mut connection, entered.map(|entered| &entered.lock), found)?;
        }
        Identity::Journal(_) if is_alone => settle(&connection).map_err(|error| refuse(location, error))?,
        Identity::Journal(_) => {}
        Identity::Fresh => prepare(&mut connection).map_err(|error| location.explain(error))?,
    }
    Ok(connection)
}

/// Makes the directory, refuses one that SQLite cannot work in or that other users can use, and takes its lock: all of it
/// if nobody else has a share, else a share.
fn enter_directory(path: &Path) -> Result<Entered, OpenError> {
    let directory = directory_of(path);
    let refuse = |path: &Path, source| OpenError::Directory { path: path.to_owned(), source };
    make_directory(directory).map_err(|source| refuse(directory, source))?;
    let network = filesystem::network(directory).map_err(|source| refuse(directory, source))?;
    if let Some(filesystem::Network(kind)) = network {
        return Err(OpenError::Network { path: directory.to_owned(), kind });
    }
    let narrowed_from = private::narrow(directory).map_err(|error| not_private(directory, error))?;
    let lock_path = directory.join("lock");
    let lock = private::open_or_create(&lock_path).map_err(|source| refuse(&lock_path, source))?;
    let is_alone = match lock.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => {
            lock.lock_shared().map_err(|source| refuse(&lock_path, source))?;
            false
        }
        Err(TryLockError::Error(source)) => return Err(refuse(&lock_path, source)),
    };
    Ok(Entered { directory: directory.to_owned(), lock, is_alone, narrowed_from })
}

/// The directory that a file is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn not_private(directory: &Path, error: NotPrivate) -> OpenError {
    let path = directory.to_owned();
    match error {
        NotPrivate::Owner { owner } => OpenError::NotOwner { path, owner },
        NotPrivate::Mode { mode } => OpenError::Exposed { path, mode },
        NotPrivate::Io(path, source) => OpenError::Directory { path, source },
    }
}

/// Makes a directory and those above it, for this user alone, each durably: SQLite syncs the directory of its files, but nobody else would
/// sync the one that this directory is in.
fn make_directory(directory: &Path) -> std::io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    make_directory(directory_of(directory))?;
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(directory_of(directory))?.sync_all(),
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

pub(crate) fn refuse(location: &Location, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => witness::not_a_database(&location.path),
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
            let what = "SQLite cannot read it".to_owned();
            OpenError::Damaged { path: location.path.to_path_buf(), what }
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
