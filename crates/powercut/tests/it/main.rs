//! Plain SQLite on a disk that fails: what SQLite promises holds, and what it does not promise is seen to be lost.

#![allow(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod connections;
mod crash;
mod faults;
mod workload;

use rusqlite::{Connection, OpenFlags};
use weir_powercut::{Disk, Loss, SyncCounts};

#[test]
fn a_clean_restart_keeps_everything_and_clones_are_one_disk() {
    let disk = Disk::new();
    let db = open(&disk);
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
    drop(db);
    let clone = disk.clone();
    drop(disk);

    let restarted = Disk::from_image(&clone.image(Loss::Nothing));
    let x: i64 = open(&restarted).query_row("SELECT x FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(x, 7);
    assert_ne!(clone.vfs_name(), restarted.vfs_name());
}

#[test]
fn an_image_lists_the_files_a_killed_process_leaves() {
    let disk = Disk::new();
    let db = open(&disk);
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
    let image = disk.image(Loss::Nothing);
    assert_eq!(image.files().map(|(name, _)| name).collect::<Vec<_>>(), ["a.db", "a.db-wal"]);
    drop(db);
    assert_eq!(disk.image(Loss::Nothing).files().map(|(name, _)| name).collect::<Vec<_>>(), ["a.db"]);
}

#[test]
fn syncs_are_counted_by_the_role_of_the_file() {
    let disk = Disk::new();
    let db = open(&disk);
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (x)").unwrap();
    let since = |before: SyncCounts| {
        let now = disk.syncs();
        [now.wal - before.wal, now.database - before.database, now.other - before.other]
    };

    let before = disk.syncs();
    (0..10).for_each(|x| assert_eq!(db.execute("INSERT INTO t VALUES (?1)", [x]).unwrap(), 1));
    assert_eq!(since(before), [10, 0, 0], "one sync per commit");

    let before = disk.syncs();
    db.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).unwrap();
    assert_eq!(since(before), [1, 1, 0], "a checkpoint syncs both files");
}

#[test]
fn temporary_files_leave_no_trace() {
    let disk = Disk::new();
    let db = open(&disk);
    db.execute_batch(
        "PRAGMA temp_store = FILE; PRAGMA cache_size = 2; CREATE TEMP TABLE t (x);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)
         INSERT INTO t SELECT printf('%0500d', x) FROM n",
    )
    .unwrap();
    let sum: i64 =
        db.query_row("SELECT sum(x) FROM (SELECT x FROM t ORDER BY x DESC)", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 2000 * 2001 / 2);
    assert!(disk.operations() > 0, "the table must not have fitted into memory");
    assert_eq!(disk.image(Loss::Nothing).files().filter(|(_, content)| !content.is_empty()).count(), 0);
}

#[test]
fn a_disk_outlives_its_last_clone_while_a_connection_is_open() {
    let disk = Disk::new();
    let name = disk.vfs_name().to_owned();
    let db = open(&disk);
    drop(disk);
    db.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    let late = Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), name.as_str());
    assert!(late.unwrap_err().to_string().contains("no such vfs"));
}

fn open(disk: &Disk) -> Connection {
    Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), disk.vfs_name()).unwrap()
}
