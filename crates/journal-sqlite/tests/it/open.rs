//! What is opened, what is made, and what is refused with nothing changed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rusqlite::Connection;
use weir_journal::{Journal, silent};
use weir_journal_sqlite::{OpenError, SqliteJournal};
use weir_types::Seq;

use crate::child::{self, Child, Role};
use crate::promises::{Promise, Session, Shape, broken};
use crate::support::{DataDir, append, event, main_of, read_whole, soak};

/// Opening must fail in the way that `expected` names, and leave the file as it was.
async fn check_refused(what: &str, dir: &DataDir, expected: impl Fn(&OpenError) -> bool) {
    let before = fs::read(dir.file()).ok();
    let error = dir.try_open().await.err().unwrap_or_else(|| panic!("{what} was opened"));
    assert!(expected(&error), "{what}: {error:?}");
    assert_eq!(fs::read(dir.file()).ok(), before, "{what} was changed");
    let names = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let left: Vec<String> = fs::read_dir(&dir.root).unwrap().map(names).collect();
    assert!(!left.iter().any(|name| name.starts_with("journal.db-")), "{what}: {left:?}");
}

fn is_not_a_journal(error: &OpenError) -> bool {
    matches!(error, OpenError::NotAJournal { .. })
}

/// A directory with a journal of a few events, closed.
async fn specimen() -> DataDir {
    let dir = DataDir::new();
    let journal = dir.open().await;
    for n in 0..100 {
        append(&journal, &main_of("a"), vec![event("k", format!("event {n}"))]).await;
    }
    journal.close().await;
    dir
}

#[tokio::test]
async fn files_that_are_not_journals_are_refused() {
    // SQLite takes a file of one byte for an empty one, and so do we.
    for content in ["not a database", "SQLite format 3", &"x".repeat(100_000), "\n\n", "\0\0"] {
        let dir = DataDir::new();
        fs::write(dir.file(), content).unwrap();
        check_refused(&format!("{:.20}", content), &dir, is_not_a_journal).await;
    }
    for sql in [
        "CREATE TABLE theirs (x)",
        "PRAGMA user_version = 1",
        "PRAGMA application_id = 7",
        "PRAGMA application_id = 1464161618; CREATE TABLE theirs (x)",
        "PRAGMA journal_mode = WAL; CREATE TABLE events (position INTEGER PRIMARY KEY)",
    ] {
        let dir = DataDir::new();
        Connection::open(dir.file()).unwrap().execute_batch(sql).unwrap();
        check_refused(sql, &dir, is_not_a_journal).await;
    }
}

#[tokio::test]
async fn a_newer_journal_is_refused() {
    let dir = specimen().await;
    Connection::open(dir.file()).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let is_newer = |error: &OpenError| matches!(error, OpenError::Newer { found: 999, supported, .. } if *supported < 999);
    check_refused("a newer journal", &dir, is_newer).await;
}

#[tokio::test]
async fn places_that_cannot_be_used_are_refused() {
    let dir = DataDir::new();
    fs::create_dir(dir.file()).unwrap();
    let error = dir.try_open().await.err().unwrap();
    assert!(matches!(error, OpenError::Storage(_)), "{error:?}");

    let dir = specimen().await;
    for below in [dir.file().join("journal.db"), dir.file().join("deeper/journal.db")] {
        let error = open_at(&below).await.err().unwrap();
        assert!(matches!(error, OpenError::Directory { .. }), "{error:?}");
    }
}

/// Opens a journal whose blobs are not beside it.
async fn open_at(path: &Path) -> Result<SqliteJournal, OpenError> {
    let blobs = std::sync::Arc::new(weir_blobs::MemoryBlobs::default());
    SqliteJournal::open(weir_journal_sqlite::Options { path: path.to_owned(), blobs, vfs: None }).await
}

/// A journal cannot live in a directory that cannot be written, or that belongs to another user.
#[test]
fn what_cannot_be_written_is_refused() {
    match child::role() {
        Some(role) => open_read_only(&role),
        None => prepare_read_only("open::what_cannot_be_written_is_refused"),
    }
}

/// A journal that everybody may read and nobody may write; at first, nobody may write to its directory either.
#[tokio::main]
async fn prepare_read_only(test: &str) {
    let dir = specimen().await;
    fs::remove_file(dir.root.join("lock")).unwrap();
    fs::set_permissions(dir.file(), Permissions::from_mode(0o444)).unwrap();
    let set_mode = |mode| fs::set_permissions(&dir.root, Permissions::from_mode(mode)).unwrap();
    set_mode(0o755);
    let mut child = Child::start_unprivileged(test, &dir);
    for mode in [0o555, 0o777] {
        assert_eq!(child.line().as_deref(), Some("ready"));
        set_mode(mode);
        child.go();
    }
    child.finish();
}

#[tokio::main]
async fn open_read_only(role: &Role) {
    let (file, deeper) = (role.dir.file(), role.dir.root.join("deeper/journal.db"));
    let before = fs::read(&file).unwrap();
    child::wait_for_go();
    for path in [&file, &deeper] {
        let error = open_at(path).await.err().unwrap();
        let is_refused = matches!(error, OpenError::NotOwner { owner: 0, .. } | OpenError::Directory { .. });
        assert!(is_refused, "{error:?}");
    }
    child::wait_for_go();
    // A directory of another user that everybody may write is no place for a journal either.
    if fs::metadata(&role.dir.root).unwrap().uid() != rustix::process::geteuid().as_raw() {
        let error = open_at(&file).await.err().unwrap();
        assert!(matches!(error, OpenError::NotOwner { owner: 0, .. }), "{error:?}");
    }
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_becomes_a_journal() {
    let dir = DataDir::new();
    fs::write(dir.file(), "").unwrap();
    let journal = dir.open().await;
    append(&journal, &main_of("a"), vec![event("k", "1")]).await;
    journal.close().await;
    assert_eq!(read_whole(&dir.open().await, &main_of("a")).await.len(), 1);
}

/// A file that was cut is refused, or `verify` says so; whatever can still be read is right.
#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_journal_is_noticed() {
    let dir = specimen().await;
    let journal = dir.open().await;
    let original = read_whole(&journal, &main_of("a")).await;
    journal.close().await;
    let whole = fs::read(dir.file()).unwrap();
    let step = if soak() { 512 } else { 4_096 };
    for length in (2..whole.len()).step_by(step).chain([16, 100, 512, 4_095, whole.len() - 1]) {
        let cut = dir.copy();
        fs::write(cut.file(), &whole[..length]).unwrap();
        let Ok(journal) = cut.try_open().await else { continue };
        let report = journal.verify(None, silent()).await;
        assert!(!report.is_ok_and(|report| report.is_sound()), "cut at {length}, and nobody noticed");
        for (seq, event) in (1..).zip(&original) {
            if let Ok(found) = journal.read(&main_of("a"), Seq(seq - 1), 1).await {
                assert!(found.iter().all(|found| found == event), "cut at {length}: {found:?}");
            }
        }
        journal.close().await;
    }
}

/// What a machine that was switched off leaves: a log that nobody has copied, and shared memory that means nothing.
#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_hard_stop_are_recovered() {
    let dir = specimen().await;
    let journal = dir.open().await;
    let (branch, mut session) = (main_of("b"), Session::new("s".to_owned()));
    for _ in 0..20 {
        session.append(&journal, &[(&branch, 2)], Shape::KEYED).await.unwrap();
    }
    let appended = read_whole(&journal, &branch).await;
    // Nothing is going on: a copy of the files is what a stop leaves.
    let garbage = vec![0xa5; 32 * 1024];
    for shared_memory in [None, Some(&b""[..]), Some(&garbage)] {
        let copy = dir.copy();
        let (log, memory) = (copy.root.join("journal.db-wal"), copy.root.join("journal.db-shm"));
        assert_ne!(fs::metadata(log).unwrap().len(), 0);
        match shared_memory {
            None => fs::remove_file(&memory).unwrap(),
            Some(content) => fs::write(&memory, content).unwrap(),
        }
        let journal = copy.open().await;
        let report = journal.verify(None, silent()).await.unwrap();
        assert_eq!((report.events, report.problems), (140, vec![]));
        assert_eq!(read_whole(&journal, &branch).await, appended);
        journal.close().await;
    }
    journal.close().await;
}

#[test]
fn processes_that_make_the_same_journal_at_once_share_it() {
    match child::role() {
        Some(role) => make(&role),
        None => make_together("open::processes_that_make_the_same_journal_at_once_share_it"),
    }
}

const MAKERS: u64 = 4;

#[tokio::main]
async fn make(role: &Role) {
    child::wait_for_go();
    let journal = role.dir.open().await;
    let mut session = Session::new(role.number.to_string());
    let promises = session.append(&journal, &[(&main_of("a"), 1)], Shape::SMALL).await.unwrap();
    child::say(&promises.iter().map(Promise::to_line).collect::<Vec<_>>());
    journal.close().await;
}

#[tokio::main]
async fn make_together(test: &str) {
    for _ in 0..if soak() { 200 } else { 10 } {
        let dir = DataDir::new();
        let children = Child::start_together(test, &dir, MAKERS);
        let lines: Vec<String> = children.into_iter().flat_map(Child::finish).collect();
        let promises: Vec<Promise> = lines.iter().map(|line| Promise::from_line(line)).collect();
        let journal = dir.open().await;
        assert_eq!(broken(&journal, &promises).await, Vec::<String>::new());
        assert_eq!(journal.head(&main_of("a")).await.unwrap().unwrap().seq, Seq(MAKERS));
        journal.close().await;
    }
}
