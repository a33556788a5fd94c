//! The disk fails at every single operation, once or for good: the user is told, and nothing is damaged.

use std::collections::BTreeSet;

use rusqlite::ErrorCode;
use weir_powercut::{Disk, Fault, IoFault, Loss};

use crate::workload::{DELETE_EXTRA, Setup, TRANSACTIONS, WAL_FULL, add, survivors};

#[test]
fn a_full_disk_is_reported_as_such_and_damages_nothing() {
    for setup in [WAL_FULL, DELETE_EXTRA] {
        assert_eq!(fail_everywhere(setup, from(IoFault::Full)), told([ErrorCode::DiskFull]), "{setup:?}");
        assert_eq!(fail_everywhere(setup, once(IoFault::Full)), told([ErrorCode::DiskFull]), "{setup:?}");
    }
}

#[test]
fn an_io_error_is_reported_as_such_and_damages_nothing() {
    for setup in [WAL_FULL, DELETE_EXTRA] {
        assert_eq!(
            fail_everywhere(setup, from(IoFault::IoErr)),
            told([ErrorCode::SystemIoFailure]),
            "{setup:?}"
        );
        assert_eq!(
            fail_everywhere(setup, once(IoFault::IoErr)),
            told([ErrorCode::SystemIoFailure]),
            "{setup:?}"
        );
    }
}

#[test]
fn a_disk_with_room_again_takes_writes_again() {
    let disk = Disk::new();
    let db = WAL_FULL.open(&disk).unwrap();
    add(&db, 1).unwrap();
    disk.arm(Fault::FailFrom { at: disk.operations(), error: IoFault::Full });
    assert_eq!(add(&db, 2).unwrap_err().sqlite_error_code(), Some(ErrorCode::DiskFull));
    assert!(disk.fired());
    disk.disarm();
    add(&db, 2).unwrap();
    assert_eq!(survivors(WAL_FULL, &disk.image(Loss::Everything)), Ok(Some(2)));
}

fn from(error: IoFault) -> impl Fn(u64) -> Fault {
    move |at| Fault::FailFrom { at, error }
}

fn once(error: IoFault) -> impl Fn(u64) -> Fault {
    move |at| Fault::FailOnce { at, error }
}

fn told<const N: usize>(codes: [ErrorCode; N]) -> BTreeSet<String> {
    codes.into_iter().map(|code| format!("{code:?}")).collect()
}

/// Runs the workload once per operation that it takes, with the fault at that operation, and looks at what a crash
/// of the process, or of the whole machine, would leave at the end. Returns the errors that the user got.
fn fail_everywhere(setup: Setup, fault: impl Fn(u64) -> Fault) -> BTreeSet<String> {
    let disk = Disk::new();
    run(setup, &disk, 1, &mut BTreeSet::new());

    let mut errors = BTreeSet::new();
    for at in 0..disk.operations() {
        let disk = Disk::new();
        disk.arm(fault(at));
        // A commit that the user was told had failed may still be found after a restart.
        let (attempts, unsure) = match fault(at) {
            Fault::FailOnce { .. } => (2, 0),
            Fault::FailFrom { .. } | Fault::StopPersisting { .. } => (1, 1),
        };
        let acknowledged = run(setup, &disk, attempts, &mut errors);
        let possible = acknowledged..=Some(acknowledged.map_or(0, |n| n + unsure));
        assert!(disk.fired());
        assert!(
            attempts == 1 || acknowledged == Some(TRANSACTIONS),
            "stuck at {acknowledged:?}, {:?}",
            fault(at)
        );
        for loss in [Loss::Nothing, Loss::Everything, Loss::Random { seed: at }] {
            let survived = survivors(setup, &disk.image(loss));
            assert!(
                survived.as_ref().is_ok_and(|survived| possible.contains(survived)),
                "{survived:?} instead of {possible:?} after {:?} and {loss:?}, {setup:?}",
                fault(at)
            );
        }
    }
    errors
}

/// Runs the workload until a step fails for the last time, and returns the last item acknowledged.
fn run(setup: Setup, disk: &Disk, attempts: usize, errors: &mut BTreeSet<String>) -> Option<i64> {
    let mut attempt = |step: &mut dyn FnMut() -> rusqlite::Result<()>| {
        (0..attempts).any(|_| match step() {
            Ok(()) => true,
            Err(error) => {
                errors.insert(format!("{:?}", error.sqlite_error_code().unwrap()));
                false
            }
        })
    };
    let mut opened = None;
    attempt(&mut || setup.open(disk).map(|db| opened = Some(db)));
    let db = opened?;
    let failed = (1..=TRANSACTIONS).find(|n| !attempt(&mut || add(&db, *n)));
    Some(failed.map_or(TRANSACTIONS, |n| n - 1))
}
