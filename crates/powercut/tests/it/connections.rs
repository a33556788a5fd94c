//! Several connections of one process: taking turns, and at once on threads of their own.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use weir_powercut::{Disk, Fault, Loss};

const THREADS: i64 = 3;
const ROWS_PER_THREAD: i64 = 60;

#[test]
fn connections_see_commits_at_once_and_keep_their_snapshots() {
    let disk = Disk::new();
    let writers = [open(&disk), open(&disk), open(&disk)];
    writers[0].execute_batch("CREATE TABLE t (thread INTEGER, n INTEGER)").unwrap();
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags_and_vfs("a.db", read_only, disk.vfs_name()).unwrap();
    for turn in 0..30 {
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(count(&reader), turn);
        let writer = &writers[turn as usize % writers.len()];
        assert_eq!(count(writer), turn);
        writer.execute("INSERT INTO t VALUES (0, ?1)", [turn]).unwrap();
        assert_eq!(count(&reader), turn, "the reader's snapshot is older");
        reader.execute_batch("COMMIT").unwrap();
    }
    assert_eq!(count(&reader), 30);
}

#[test]
fn there_is_one_writer_at_a_time() {
    for journal in ["WAL", "DELETE"] {
        let disk = Disk::new();
        let [first, second] = [(); 2].map(|()| {
            let db =
                Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), disk.vfs_name()).unwrap();
            db.execute_batch(&format!("PRAGMA journal_mode = {journal}; PRAGMA busy_timeout = 0")).unwrap();
            db
        });
        first.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = second.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{journal}");
        first.execute_batch("ROLLBACK").unwrap();
        second.execute_batch("BEGIN IMMEDIATE").unwrap();
    }
}

#[test]
fn a_reader_holds_back_the_checkpoint_of_what_it_does_not_see() {
    let disk = Disk::new();
    let [writer, reader] = [open(&disk), open(&disk)];
    writer.busy_timeout(Duration::ZERO).unwrap();
    writer.execute_batch("CREATE TABLE t (x)").unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&reader), 0);
    writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    let busy =
        || writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0)).unwrap();
    assert!(busy());
    reader.execute_batch("COMMIT").unwrap();
    assert!(!busy());
}

#[test]
fn three_connections_write_one_wal_database() {
    let disk = Disk::new();
    write_at_once(&disk, |_| ());
    assert_eq!(rows(&disk), all_rows());
    assert_eq!(rows(&Disk::from_image(&disk.image(Loss::Everything))), all_rows());
}

#[test]
fn what_any_thread_acknowledged_before_the_cut_is_there() {
    for at in (20..400).step_by(19) {
        let disk = Disk::new();
        disk.arm(Fault::StopPersisting { at });
        let acknowledged = Mutex::new(Vec::new());
        write_at_once(&disk, |row| {
            if !disk.fired() {
                acknowledged.lock().unwrap().push(row);
            }
        });
        for loss in [Loss::Everything, Loss::Nothing, Loss::Random { seed: at }] {
            let survived = rows(&Disk::from_image(&disk.image(loss)));
            let acknowledged = acknowledged.lock().unwrap();
            let lost: Vec<_> = acknowledged.iter().filter(|row| !survived.contains(row)).collect();
            assert_eq!(lost, Vec::<&(i64, i64)>::new(), "cut at {at}, {loss:?}");
        }
    }
}

/// Every thread inserts its rows, one transaction each, and sees each one's count grow.
fn write_at_once(disk: &Disk, acknowledge: impl Fn((i64, i64)) + Sync) {
    open(disk).execute_batch("CREATE TABLE t (thread INTEGER, n INTEGER)").unwrap();
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (start, acknowledge) = (&start, &acknowledge);
            scope.spawn(move || {
                let mut db = open(disk);
                start.wait();
                let mut seen = 0;
                for n in 0..ROWS_PER_THREAD {
                    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                    let before = count(&transaction);
                    assert!(before >= seen, "a committed row went away");
                    transaction.execute("INSERT INTO t VALUES (?1, ?2)", (thread, n)).unwrap();
                    transaction.commit().unwrap();
                    acknowledge((thread, n));
                    seen = count(&db);
                    assert!(seen > before);
                }
            });
        }
    });
}

fn open(disk: &Disk) -> Connection {
    let db = Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), disk.vfs_name()).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 20")
        .unwrap();
    db
}

fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn rows(disk: &Disk) -> Vec<(i64, i64)> {
    let db = open(disk);
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let Ok(mut statement) = db.prepare("SELECT thread, n FROM t ORDER BY thread, n") else {
        return Vec::new();
    };
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn all_rows() -> Vec<(i64, i64)> {
    (0..THREADS).flat_map(|thread| (0..ROWS_PER_THREAD).map(move |n| (thread, n))).collect()
}
