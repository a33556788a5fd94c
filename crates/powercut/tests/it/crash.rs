//! The power goes out at every single operation, and comes back on every kind of leftover.

use weir_powercut::{Disk, Fault, Loss};

use crate::workload::{DELETE_EXTRA, Setup, TRANSACTIONS, WAL_FULL, add, survivors};

/// What all the power cuts did to one setup, as sentences to read when a test fails.
#[derive(Debug, Default, PartialEq)]
struct Losses {
    /// Acknowledged, and gone.
    lost: Vec<String>,
    /// Not what SQLite would ever write: pages that do not fit, half a transaction, a gap.
    damaged: Vec<String>,
}

#[test]
fn wal_with_full_sync_loses_nothing() {
    assert_eq!(cut_everywhere(WAL_FULL), Losses::default());
}

#[test]
fn wal_with_padded_sectors_loses_nothing() {
    assert_eq!(cut_everywhere(Setup { path: "file:a.db?psow=0", ..WAL_FULL }), Losses::default());
}

#[test]
fn rollback_journal_with_extra_sync_loses_nothing() {
    assert_eq!(cut_everywhere(DELETE_EXTRA), Losses::default());
}

/// SQLite documents this gap: the deletion of the journal is the commit, and only `EXTRA` syncs the directory.
#[test]
fn rollback_journal_with_full_sync_may_lose_the_last_commit_and_nothing_else() {
    let losses = cut_everywhere(Setup { synchronous: "FULL", ..DELETE_EXTRA });
    assert_eq!(losses.damaged, Vec::<String>::new());
    assert_ne!(losses.lost, Vec::<String>::new());
}

#[test]
fn wal_with_normal_sync_loses_commits_and_stays_whole() {
    let losses = cut_everywhere(Setup { synchronous: "NORMAL", ..WAL_FULL });
    assert_eq!(losses.damaged, Vec::<String>::new());
    assert_ne!(losses.lost, Vec::<String>::new());
}

/// The disk of these tests can lose data: without it, the tests above would prove nothing.
#[test]
fn without_sync_commits_are_lost_and_databases_damaged() {
    for journal in ["WAL", "DELETE"] {
        let losses = cut_everywhere(Setup { journal, synchronous: "OFF", ..WAL_FULL });
        assert_ne!(losses.lost, Vec::<String>::new(), "{journal}");
        assert_ne!(losses.damaged, Vec::<String>::new(), "{journal}");
    }
}

/// Runs the workload once per operation that it takes, the power going out at that operation, and looks at the
/// leftovers of each run.
fn cut_everywhere(setup: Setup) -> Losses {
    let disk = Disk::new();
    acknowledged(setup, &disk);
    let operations = disk.operations();
    assert!(operations > 100, "{operations} operations are not much of a test");

    let mut losses = Losses::default();
    for at in 0..=operations {
        let disk = Disk::new();
        disk.arm(Fault::StopPersisting { at });
        let acknowledged = acknowledged(setup, &disk);
        let random = (0..4).map(|nth| Loss::Random { seed: at * 4 + nth });
        for loss in [Loss::Everything, Loss::Nothing].into_iter().chain(random) {
            match survivors(setup, &disk.image(loss)) {
                Ok(survived) if survived >= acknowledged => {}
                Ok(survived) => losses.lost.push(format!("{acknowledged:?} → {survived:?} ({at}, {loss:?})")),
                Err(damage) => losses.damaged.push(format!("{damage} ({at}, {loss:?})")),
            }
        }
    }
    losses
}

/// Runs the workload to its end, and returns the last item acknowledged before the power went out; `Some(0)` stands
/// for the empty tables.
fn acknowledged(setup: Setup, disk: &Disk) -> Option<i64> {
    let mut acknowledged = None;
    let db = setup.open(disk).unwrap();
    if !disk.fired() {
        acknowledged = Some(0);
    }
    for n in 1..=TRANSACTIONS {
        add(&db, n).unwrap();
        if !disk.fired() {
            acknowledged = Some(n);
        }
    }
    acknowledged
}
