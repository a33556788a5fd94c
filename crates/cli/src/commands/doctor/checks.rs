//! The checks. Each one looks, changes nothing, and leaves the judgement in its [`Check`].

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use weir_journal::{Journal, ReadError};
use weir_journal_sqlite::{Facts, SqliteJournal};
use weir_support::new_file::plain;
use weir_tools::Sandbox;
use weir_types::{BranchId, Explain};

use super::Check;
use super::damage;
use super::locks::holders;
use crate::identity;
use crate::report::Outcome;
use crate::show::{count, size};
use crate::store::{BLOBS, IfAbsent, JOURNAL, LOCK, Store, blocking};

/// With less room than this, the next hours may end in a full disk.
const FREE_BYTES_MIN: u64 = 500_000_000;

/// A log this long means that nobody copied it into the file for a while.
const WAL_BYTES_MAX: u64 = 256_000_000;

/// How many streams have their newest event read.
const STREAMS_READ: usize = 100;

/// A temporary file this old belongs to nobody.
const STRAY_AGE: Duration = Duration::from_secs(24 * 60 * 60);

const WRITABLE_HELP: &str =
    "make the data directory writable for this user, or choose another with `--data-dir DIR`";

/// Whether the kernel can confine what agents run. Only those with `bash` need it.
async fn sandbox() -> Check {
    match Sandbox::default().support().await {
        // A machine that confines commands can do what every profile asks for.
        Ok(support) => {
            Check::ok("sandbox", format!("{support}; MCP programs can have every `sandbox:` profile"))
        }
        Err(error) => Check::warn("sandbox", error.to_string(), error.help()),
    }
}

/// Everything, in the order in which one thing depends on another.
pub(super) async fn all(directory: &Path) -> Outcome<Vec<Check>> {
    let mut checks = vec![Check::ok("identity", identity::principal()), sandbox().await];
    let here = directory.to_owned();
    let (entered, surroundings) = blocking(move || (enter(&here), surroundings(&here))).await?;
    let usable = entered.is_usable();
    checks.push(entered);
    if !usable {
        return Ok(checks);
    }
    checks.extend(surroundings);
    match Store::open(directory, IfAbsent::Fail).await {
        Err(failure) => {
            let (detail, help) = failure.words();
            checks.push(Check::fail("journal", detail, help));
        }
        Ok(store) => {
            checks.push(access(store.journal.findings().narrowed_from));
            checks.extend(journal(&store.journal).await);
            checks.push(newest_events(&store.journal).await);
            store.close().await;
        }
    }
    let here = directory.to_owned();
    checks.extend(blocking(move || damage::checks(&here)).await?);
    let blobs = directory.join(BLOBS);
    checks.extend(blocking(move || [blob_store(&blobs), strays(&blobs)]).await?);
    Ok(checks)
}

impl Check {
    fn is_usable(&self) -> bool {
        self.status != super::Status::Fail
    }
}

/// Is there a directory, and can we write to it?
fn enter(directory: &Path) -> Check {
    let name = "data directory";
    let shown = format!("`{}`", directory.display());
    match fs::metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let help =
                "name the right directory with `--data-dir DIR`, or begin a journal here with `weir append`";
            return Check::fail(name, format!("there is no {shown}"), help);
        }
        Err(error) => return Check::fail(name, format!("{shown}: {error}"), WRITABLE_HELP),
        Ok(metadata) if !metadata.is_dir() => {
            let detail = format!("{shown} is not a directory");
            return Check::fail(name, detail, "name a directory with `--data-dir DIR`");
        }
        Ok(_) => {}
    }
    match tempfile::Builder::new().prefix(".weir-doctor-").tempfile_in(directory) {
        Ok(_) => Check::ok(name, format!("{shown}, writable")),
        Err(error) => {
            Check::fail(name, format!("{shown} cannot be written: {}", plain(error)), WRITABLE_HELP)
        }
    }
}

fn surroundings(directory: &Path) -> Vec<Check> {
    vec![file_system(directory), lock(directory)]
}

fn file_system(directory: &Path) -> Check {
    let name = "file system";
    let facts = match rustix::fs::statfs(directory) {
        Ok(facts) => facts,
        Err(error) => return Check::warn(name, format!("unknown: {error}"), "check the disk"),
    };
    let free = facts.f_bavail.saturating_mul(facts.f_bsize as u64);
    let detail = format!("{}, {} free", file_system_name(facts.f_type as u32), size(free));
    if free < FREE_BYTES_MIN {
        return Check::warn(name, detail, "free some space soon: a full disk stops every append");
    }
    Check::ok(name, detail)
}

/// The common ones; `open` refuses network file systems by itself and says so.
fn file_system_name(magic: u32) -> String {
    let known = match magic {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x0102_1994 => "tmpfs (gone after a restart)",
        0x794C_7630 => "overlayfs (gone with its container)",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0x6573_5546 => "FUSE",
        0x6969 => "NFS",
        0x517B | 0xFE53_4D42 | 0xFF53_4D42 => "SMB",
        _ => return format!("type {magic:#x}"),
    };
    known.to_owned()
}

fn lock(directory: &Path) -> Check {
    let holders = holders(&directory.join(LOCK));
    if holders.is_empty() {
        return Check::ok("in use by", "nobody else");
    }
    let names: Vec<String> =
        holders.iter().map(|holder| format!("{} ({})", holder.pid, holder.name)).collect();
    Check::ok("in use by", format!("{}: {}", count(holders.len() as u64, "process"), names.join(", ")))
}

/// Whether other users can use the data directory. Opening it has shut them out.
fn access(narrowed_from: Option<u32>) -> Check {
    let name = "access";
    match narrowed_from {
        None => Check::ok(name, "only this user"),
        Some(mode) => {
            let detail =
                format!("other users could use the data directory (mode {mode:04o}); now only this user can");
            Check::warn(
                name,
                detail,
                "if someone else may have read it, change the secrets that are in the journal",
            )
        }
    }
}

/// The file and its log.
async fn journal(journal: &SqliteJournal) -> Vec<Check> {
    let facts = match journal.facts().await {
        Ok(facts) => facts,
        Err(error) => return vec![Check::fail("journal", error.to_string(), error.help())],
    };
    let Facts { format, sqlite, bytes, wal_bytes, .. } = facts;
    let detail = format!("{JOURNAL}, format {format}, {}, SQLite {sqlite}", size(bytes));
    let wal = format!("{} waiting to be copied into the file", size(wal_bytes));
    let wal = if wal_bytes > WAL_BYTES_MAX {
        let help = "a reader or writer has kept the log from being copied: see `in use by`, and restart it";
        Check::warn("log", wal, help)
    } else {
        Check::ok("log", wal)
    };
    vec![Check::ok("journal", detail), wal]
}

/// Reads the newest event of some streams: quick, and finds a file whose end is torn.
async fn newest_events(journal: &SqliteJournal) -> Check {
    let name = "newest events";
    let fail = |error: &ReadError| Check::fail(name, error.to_string(), error.help());
    let streams = match journal.streams(None, STREAMS_READ).await {
        Ok(streams) => streams,
        Err(error) => return fail(&error),
    };
    let read = streams.len() as u64;
    for summary in streams {
        if let Err(error) = journal.read_back(&BranchId::main(summary.stream), None, 1).await {
            return fail(&error);
        }
    }
    Check::ok(name, format!("of {} read and checked; `weir verify` checks all", count(read, "stream")))
}

fn blob_store(blobs: &Path) -> Check {
    let name = "blobs";
    let listed = fs::read_dir(blobs).and_then(|shards| {
        shards
            .collect::<Result<Vec<_>, _>>()?
            .iter()
            .map(|shard| count_blobs(&shard.path()))
            .sum::<io::Result<u64>>()
    });
    match listed {
        Ok(blobs) => Check::ok(name, format!("{blobs} stored")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Check::ok(name, "none stored"),
        Err(error) => Check::fail(name, format!("`{}`: {error}", blobs.display()), WRITABLE_HELP),
    }
}

/// Blobs have names of 62 hex digits in directories of two; all else there is not a blob.
fn count_blobs(shard: &Path) -> io::Result<u64> {
    if shard.file_name().is_none_or(|name| name.len() != 2) || !shard.is_dir() {
        return Ok(0);
    }
    let names = fs::read_dir(shard)?.map(|entry| entry.map(|entry| entry.file_name().len() == 62));
    names.collect::<io::Result<Vec<_>>>().map(|names| names.into_iter().filter(|blob| *blob).count() as u64)
}

/// Files that dead writers left behind.
fn strays(blobs: &Path) -> Check {
    let name = "left-overs";
    let is_old = |entry: &fs::DirEntry| {
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        age.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > STRAY_AGE))
    };
    let entries = fs::read_dir(blobs.join("tmp")).into_iter().flatten().flatten();
    let old = entries.filter(is_old).count() as u64;
    if old == 0 {
        return Check::ok(name, "none");
    }
    let detail = format!("{} of writers that died", count(old, "temporary file"));
    Check::warn(name, detail, "remove them with `weir blob gc`")
}
