//! The witnesses beside the file: the log, the anchor, and what else says that there was a journal here.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};
use weir_types::Hash;

use crate::anchor_file::{self, AnchorFile, AnchorRecord, AnchorState};
use crate::damage::{self, DamageKind, DamageRecord};
use crate::log_check::{self, LogDamage, LogInspection};
use crate::open_error::OpenError;
use crate::private;

/// More copies of damaged logs than this are not kept.
const COPIES_MAX: usize = 8;

/// A log that holds more than its header.
const LOG_BYTES_MIN: u64 = 33;

/// Every journal has this table in its schema, which SQLite keeps as text in the first pages.
const SCHEMA_TEXT: &[u8] = b"CREATE TABLE kind_blocks";
const SCHEMA_BYTES: u64 = 256 * 1024;

/// SQLite never uses the page at this byte.
const LOCK_BYTE: u64 = 0x4000_0000;

/// A file whose name is that of the journal's and a suffix.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Looks at the files before SQLite does. Returns whether the end of the journal may be missing: see [`confirm_cut`].
///
/// # Errors
/// When the journal is gone, and others tell that there was one.
pub(crate) fn look_at_files(path: &Path, directory: &Path, is_alone: bool) -> Result<bool, OpenError> {
    let size = std::fs::metadata(path).map_or(0, |facts| facts.len());
    if size <= 1 {
        // SQLite would make a new one, and remove the log.
        return match remains(path, directory) {
            Some(what) => Err(OpenError::Damaged { path: path.to_owned(), what }),
            None => Ok(false),
        };
    }
    if !is_alone {
        // Others have recovered the log, and are writing it.
        return Ok(false);
    }
    let log_path = beside(path, "-wal");
    let inspection = inspect(path, &log_path).unwrap_or_default();
    let is_cut = may_be_cut(path, size, &inspection).unwrap_or(false);
    if let Some(damage) = inspection.damage
        && let Err(error) = keep_log_damage(directory, &log_path, damage, inspection.recovered_bytes)
    {
        tracing::error!(target: "weir", %error, "damage in the write-ahead log was found and cannot be recorded");
    }
    Ok(is_cut)
}

fn inspect(path: &Path, log: &Path) -> io::Result<LogInspection> {
    match File::open(log) {
        Ok(log) => {
            let mut log = BufReader::with_capacity(256 * 1024, log);
            log_check::inspect_log(&mut log, &mut BufReader::new(File::open(path)?))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LogInspection::default()),
        Err(error) => Err(error),
    }
}

/// Copies the log aside, records the damage, and cuts off what cannot be recovered, so that it is not found again.
fn keep_log_damage(directory: &Path, log: &Path, damage: LogDamage, recovered: u64) -> io::Result<()> {
    let copy = copy_aside(log)?;
    let what = match damage {
        LogDamage::Header { transactions } => format!(
            "its header is damaged, so {} in it cannot be recovered",
            counted(transactions, "committed transaction")
        ),
        LogDamage::Frame { frame, offset, transactions } => format!(
            "frame {frame} (byte {offset}) is damaged, so at least {} behind it cannot be recovered",
            counted(transactions, "committed transaction")
        ),
    };
    let is_kept = copy.is_some();
    let record = damage::record(directory, DamageKind::Log, what, copy)?;
    tracing::error!(target: "weir", "the journal is damaged: {record}");
    if is_kept {
        let log = File::options().write(true).open(log)?;
        log.set_len(recovered)?;
        log.sync_all()?;
    }
    Ok(())
}

fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Copies a damaged log durably; returns the name of the copy, if there is room for one more.
fn copy_aside(log: &Path) -> io::Result<Option<String>> {
    for number in 1..=COPIES_MAX {
        let path = beside(log, &format!(".damaged-{number}"));
        if path.exists() {
            continue;
        }
        let mut copy = private::open_or_create(&path)?;
        let copied = io::copy(&mut File::open(log)?, &mut copy).and_then(|_| copy.sync_all());
        if let Err(error) = copied {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        return Ok(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    Ok(None)
}

/// What tells that there was a journal where the file is missing or empty now.
fn remains(path: &Path, directory: &Path) -> Option<String> {
    let state = if path.exists() { "the file is empty" } else { "the file is missing" };
    if let Ok(AnchorState::Anchored(record)) = anchor_file::read(&directory.join(anchor_file::FILE)) {
        return Some(format!("{state}, but {} events were acknowledged in it", record.position));
    }
    let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |facts| facts.len());
    (log >= LOG_BYTES_MIN).then(|| format!("{state}, but its write-ahead log is there"))
}

/// Whether pages at the end are neither in the file nor in the log. A page that was never used need not be anywhere, so
/// this is a suspicion.
fn may_be_cut(path: &Path, size: u64, inspection: &LogInspection) -> io::Result<bool> {
    let mut start = [0; 100];
    if File::open(path)?.read_exact(&mut start).is_err() {
        return Ok(false);
    }
    let Some(page_size) = log_check::page_size_of(&start).map(u64::from) else { return Ok(false) };
    let number = |at: usize| u32::from_be_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
    // The header's own count is kept only by writers that also keep this pair equal.
    let counted = (number(24) == number(92)).then(|| number(28));
    let Some(pages) = inspection.pages.or(counted) else { return Ok(false) };
    let unused = LOCK_BYTE / page_size + 1;
    let in_file = size / page_size;
    let mut missing = (in_file + 1..=u64::from(pages)).filter(|page| *page != unused);
    Ok(missing.any(|page| u32::try_from(page).is_ok_and(|page| !inspection.found.contains(&page))))
}

/// Whether the pages that are missing are used.
///
/// # Errors
/// When they are: the file has been cut.
pub(crate) fn confirm_cut(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let result = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match result {
        Ok(word) if word == "ok" => Ok(()),
        Ok(_) | Err(_) => {
            let what = "it has been cut: pages at its end are missing".to_owned();
            Err(OpenError::Damaged { path: path.to_owned(), what })
        }
    }
}

/// The error for a journal that is empty where it can only be read.
pub(crate) fn missing(path: &Path) -> OpenError {
    match remains(path, crate::open::directory_of(path)) {
        Some(what) => OpenError::Damaged { path: path.to_owned(), what },
        None => OpenError::NotAJournal { path: path.to_owned() },
    }
}

/// What is known about the damage of a journal that is only read: what was recorded, and what the anchor tells now.
pub(crate) fn read_findings(connection: &Connection, directory: &Path) -> Vec<DamageRecord> {
    let recorded = damage::DamageLog::read(directory).map(damage::DamageLog::into_open);
    let mut found = recorded.unwrap_or_default();
    if let Ok(AnchorState::Anchored(anchored)) = anchor_file::read(&directory.join(anchor_file::FILE))
        && let Ok(Some((kind, what))) = difference(connection, &anchored)
    {
        let id = found.last().map_or(0, |last| last.id) + 1;
        let found_at = weir_journal::now();
        found.push(DamageRecord { id, found_at, kind, what, copy: None, accepted: None });
    }
    found
}

/// The error for a file that SQLite does not take for a database.
pub(crate) fn not_a_database(path: &Path) -> OpenError {
    let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |facts| facts.len());
    if log >= LOG_BYTES_MIN || beside(path, "-shm").exists() || was_ours(path) {
        let what = "the beginning of the file is not that of a database".to_owned();
        return OpenError::Damaged { path: path.to_owned(), what };
    }
    OpenError::NotAJournal { path: path.to_owned() }
}

/// The error for a database without a journal's marks.
pub(crate) fn foreign(path: &Path) -> OpenError {
    if was_ours(path) {
        let what = "the marks in its header are wrong".to_owned();
        return OpenError::Damaged { path: path.to_owned(), what };
    }
    OpenError::NotAJournal { path: path.to_owned() }
}

/// Whether a file that is no journal now was one.
fn was_ours(path: &Path) -> bool {
    let directory = crate::open::directory_of(path);
    let anchor = anchor_file::read(&directory.join(anchor_file::FILE));
    matches!(anchor, Ok(AnchorState::Anchored(_) | AnchorState::Damaged))
        || damage::path(directory).exists()
        || has_schema(path).unwrap_or(false)
}

fn has_schema(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(SCHEMA_BYTES).read_to_end(&mut start)?;
    Ok(start.windows(SCHEMA_TEXT.len()).any(|window| window == SCHEMA_TEXT))
}

/// Opens the anchor and compares it with the journal. `None` if the file cannot be used: then no anchor is kept.
pub(crate) fn compare_anchor(connection: &Connection, directory: &Path) -> Option<AnchorFile> {
    let path = directory.join(anchor_file::FILE);
    let opened = anchor_file::read(&path).and_then(|state| Ok((state, AnchorFile::open(&path)?)));
    let (state, anchor) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tracing::warn!(target: "weir", %error, "the anchor cannot be used: a lost tail would not be found");
            return None;
        }
    };
    // A journal that cannot be read says so when it is used.
    if let Err(error) = settle_anchor(connection, directory, &state, &anchor) {
        tracing::warn!(target: "weir", %error, "the anchor could not be compared with the journal");
    }
    Some(anchor)
}

fn settle_anchor(
    connection: &Connection,
    directory: &Path,
    state: &AnchorState,
    anchor: &AnchorFile,
) -> Result<(), Box<dyn std::error::Error>> {
    let finding = match state {
        AnchorState::Empty => {
            if let Some(newest) = newest_event(connection)? {
                anchor.advance(&newest)?;
            }
            return Ok(());
        }
        AnchorState::Damaged => {
            let what =
                "it cannot be read, so events at the end of the journal may be missing without a trace";
            Some((DamageKind::Anchor, what.to_owned()))
        }
        AnchorState::Anchored(anchored) => difference(connection, anchored)?,
    };
    let Some((kind, what)) = finding else { return Ok(()) };
    let record = damage::record(directory, kind, what, None)?;
    tracing::error!(target: "weir", "the journal is damaged: {record}");
    anchor.reset(state, newest_event(connection)?.as_ref())?;
    Ok(())
}

/// How the journal differs from what was acknowledged.
fn difference(
    connection: &Connection,
    anchored: &AnchorRecord,
) -> rusqlite::Result<Option<(DamageKind, String)>> {
    let sql = "SELECT chain FROM events WHERE position = ?1";
    let position = i64::try_from(anchored.position).unwrap_or(i64::MAX);
    let chain = connection.query_row(sql, [position], |row| row.get::<_, Vec<u8>>(0)).optional()?;
    let AnchorRecord { position, seq, stream, branch, .. } = anchored;
    let event = format!("event {seq} of {stream}@{branch} (position {position})");
    Ok(match chain {
        Some(chain) if chain == anchored.chain.as_bytes() => None,
        Some(_) => Some((DamageKind::TailChanged, format!("{event} is not the one that was acknowledged"))),
        None => {
            let end = newest_event(connection)?.map_or(0, |newest| newest.position);
            let missing = position.saturating_sub(end);
            let what = if missing == 0 {
                format!("{event} was acknowledged and is missing")
            } else {
                let missing = counted(missing, "event");
                format!(
                    "it ends at position {end}, but {event} was acknowledged: {missing} at its end are missing"
                )
            };
            Some((DamageKind::TailLost, what))
        }
    })
}

fn newest_event(connection: &Connection) -> rusqlite::Result<Option<AnchorRecord>> {
    let sql = "SELECT events.position, events.seq, events.chain, streams.name, branches.name FROM events
        JOIN branches ON branches.no = events.branch JOIN streams ON streams.no = branches.stream
        WHERE events.position = (SELECT max(position) FROM events)";
    let row = connection.query_row(sql, [], |row| {
        let number = |at| row.get::<_, i64>(at).map(|number| number.unsigned_abs());
        let chain = Hash::from_slice(&row.get::<_, Vec<u8>>(2)?);
        Ok((number(0)?, number(1)?, chain, row.get::<_, String>(3)?, row.get::<_, String>(4)?))
    });
    let Some((position, seq, Some(chain), stream, branch)) = row.optional()? else { return Ok(None) };
    Ok(Some(AnchorRecord { position, seq, chain, stream, branch }))
}
