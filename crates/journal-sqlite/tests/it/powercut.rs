//! The power goes out, or the disk fails, at every write and every sync: what was promised is still there.

mod run;

use std::collections::BTreeSet;
use std::io::Cursor;

use weir_journal::{AppendError, Expected, Journal, Part};
use weir_journal_sqlite::inspect_log;
use weir_powercut::{Disk, Fault, Image, IoFault, Loss, SyncCounts};
use weir_types::Seq;

pub(crate) use self::run::{Run, connect, open};
use self::run::{Work, writes_ahead};
use crate::promises::{Session, Shape, broken, everything, has_group, repeat};
use crate::support::{event, main_of, soak};

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_at_any_operation_breaks_no_promise() {
    cut_everywhere(Work::Small, Every { short: 1, long: 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_around_the_journals_own_checkpoint_breaks_no_promise() {
    cut_everywhere(Work::Bulk, Every { short: 97, long: 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_once_is_reported_and_survived() {
    let fault = |at, error| Fault::FailOnce { at, error };
    fail_everywhere(Work::Small, Every { short: 6, long: 1 }, fault).await;
    // Twice as many runs, each checked twice as often: not every one of these thousands.
    fail_everywhere(Work::Bulk, Every { short: 499, long: 7 }, fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_goes_on_failing_is_reported_and_survived() {
    let fault = |at, error| Fault::FailFrom { at, error };
    fail_everywhere(Work::Small, Every { short: 6, long: 1 }, fault).await;
    // Twice as many runs, each checked twice as often: not every one of these thousands.
    fail_everywhere(Work::Bulk, Every { short: 499, long: 7 }, fault).await;
}

/// How many operations a workload takes when nothing goes wrong.
async fn operations(work: Work) -> u64 {
    let mut run = Run::new(None);
    let journal = run.go(work).await.unwrap();
    assert_eq!(broken(&journal, &run.promises).await, Vec::<String>::new());
    journal.close().await;
    assert!(work == Work::Small || journal.stats().checkpoints > 0, "it was to be checkpointed");
    run.disk.operations()
}

/// Which operations are tried: every so many, in the short version of the tests and in the long one.
#[derive(Clone, Copy, Debug)]
struct Every {
    short: usize,
    long: usize,
}

async fn points(work: Work, every: Every) -> impl ExactSizeIterator<Item = u64> {
    let operations = operations(work).await as usize;
    assert!(operations > 100, "{operations} operations are not much of a test");
    (0..operations).step_by(if soak() { every.long } else { every.short }).map(|at| at as u64)
}

/// What a power cut at operation `at` may leave of what was not synced.
fn losses(at: u64) -> impl Iterator<Item = Loss> {
    let seeds = if soak() { 4 } else { 1 };
    let random = (0..seeds).map(move |nth| Loss::Random { seed: at * seeds + nth });
    [Loss::Everything, Loss::Nothing].into_iter().chain(random)
}

async fn cut_everywhere(work: Work, every: Every) {
    let points = points(work, every).await;
    println!("{} power cuts in {work:?}", points.len());
    for at in points {
        let mut run = Run::new(Some(Fault::StopPersisting { at }));
        let journal = run.go(work).await.unwrap();
        for loss in losses(at) {
            assert_eq!(
                after_restart(&run, loss).await,
                Vec::<String>::new(),
                "{work:?}, cut at {at}, {loss:?}"
            );
        }
        journal.close().await;
    }
}

/// What is wrong with the journal after the power came back, and one more append to each stream.
async fn after_restart(run: &Run, loss: Loss) -> Vec<String> {
    let image = run.disk.image(loss);
    let mut wrong = called_damage(&image);
    let disk = Disk::from_image(&image);
    let journal = open(&disk, &run.blobs).await.unwrap();
    let mut promises = run.promises.clone();
    let mut session = Session::new("later".to_owned());
    for stream in ["a", "b"] {
        let branch = main_of(stream);
        promises.extend(session.append(&journal, &[(&branch, 1)], Shape::SMALL).await.unwrap());
    }
    wrong.extend(broken(&journal, &promises).await);
    journal.close().await;
    wrong
}

/// No power cut and no failure of the disk may look like damage in the log, or like a file that was cut.
fn called_damage(image: &Image) -> Vec<String> {
    let file = |name| image.files().find(|(other, _)| *other == name).map_or(&[][..], |(_, content)| content);
    let (log, database) = (file("journal.db-wal"), file("journal.db"));
    let found = inspect_log(&mut Cursor::new(log), &mut Cursor::new(database)).unwrap();
    found.damage.iter().map(|damage| format!("a false alarm: {damage:?}")).collect()
}

async fn fail_everywhere(work: Work, every: Every, fault: impl Fn(u64, IoFault) -> Fault) {
    for (error, told) in [(IoFault::IoErr, "the storage failed"), (IoFault::Full, "the disk is full")] {
        let mut errors = BTreeSet::new();
        let points = points(work, every).await;
        println!("{} failures in {work:?}, {error:?}", points.len());
        for at in points {
            let mut run = Run::new(Some(fault(at, error)));
            let journal = run.go(work).await;
            let context = format!("{work:?}, {:?}", fault(at, error));
            if let Some(journal) = journal {
                check_alive(&mut run, &journal, &context).await;
                journal.close().await;
            }
            for loss in losses(at) {
                assert_eq!(after_restart(&run, loss).await, Vec::<String>::new(), "{context}, {loss:?}");
            }
            errors.append(&mut run.errors);
        }
        assert_eq!(errors, BTreeSet::from([told.to_owned()]));
    }
}

/// The journal that saw the disk fail has kept its promises, has kept nothing that it refused, and goes on as soon as
/// the disk does.
async fn check_alive(run: &mut Run, journal: &weir_journal_sqlite::SqliteJournal, context: &str) {
    assert!(writes_ahead(&run.disk), "{context}");
    assert_eq!(broken(journal, &run.promises).await, Vec::<String>::new(), "{context}, still open");
    let events = everything(journal).await;
    for group in &run.refused {
        assert!(!has_group(&events, group), "{context}: {group} was refused, and is there");
    }
    assert_eq!(after_restart(run, Loss::Everything).await, Vec::<String>::new(), "{context}, while open");
    run.repair();
    run.append_again(journal).await;
    assert_eq!(broken(journal, &run.promises).await, Vec::<String>::new(), "{context}, repaired");
}

/// Without this, the tests above would prove nothing: promises made after the power went out are found to be broken.
#[tokio::test(flavor = "multi_thread")]
async fn a_promise_made_without_power_is_seen_to_be_broken() {
    let mut run = Run::new(None);
    let journal = open(&run.disk, &run.blobs).await.unwrap();
    run.append_again(&journal).await;
    run.disk.arm(Fault::StopPersisting { at: run.disk.operations() });
    run.append_again(&journal).await;
    journal.close().await;
    let wrong = after_restart(&run, Loss::Nothing).await;
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong.iter().all(|what| what.starts_with("not kept: Event")), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_costs_one_sync() {
    let run = Run::new(None);
    let journal = open(&run.disk, &run.blobs).await.unwrap();
    let (branch, mut session) = (main_of("a"), Session::new("s".to_owned()));
    session.append(&journal, &[(&branch, 1)], Shape::SMALL).await.unwrap();
    let (syncs, stats) = (run.disk.syncs(), journal.stats());
    let mut promises = Vec::new();
    for _ in 0..40 {
        promises.extend(session.append(&journal, &[(&branch, 3)], Shape::KEYED).await.unwrap());
    }
    assert_eq!(journal.stats().commits - stats.commits, 40);
    assert_eq!(journal.stats().checkpoints, 0);
    assert_eq!(run.disk.syncs(), SyncCounts { wal: syncs.wal + 40, ..syncs });

    // Nothing is written, and nothing synced, for a refusal or a repetition.
    let syncs = run.disk.syncs();
    let part = Part { expected: Expected::Exactly(Seq(7)), ..Part::new(branch, vec![event("k", "")]) };
    assert!(matches!(journal.append(vec![part]).await, Err(AppendError::Conflict { .. })));
    repeat(&journal, promises.last().unwrap()).await;
    assert_eq!(run.disk.syncs(), syncs);
    journal.close().await;
}

/// Checkpoints have syncs of their own: one of the log before its pages are copied, one of the file after that, and one
/// of the log's new header when it starts over.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_are_what_the_other_syncs_are_for() {
    let mut run = Run::new(None);
    open(&run.disk, &run.blobs).await.unwrap().close().await;
    let before = run.disk.syncs();
    let journal = run.go(Work::Bulk).await.unwrap();
    journal.close().await;
    let (after, stats) = (run.disk.syncs(), journal.stats());
    let (of_file, of_log) = (after.database - before.database, after.wal - before.wal);
    // Closing is a checkpoint, too.
    let checkpoints = stats.checkpoints + 1;
    println!("{of_file} syncs of the file, {of_log} of the log, {stats:?}");
    assert!((1..=checkpoints).contains(&of_file), "{of_file} of {checkpoints}");
    assert!((1..=2 * checkpoints).contains(&(of_log - stats.commits)), "{of_log} for {stats:?}");
    assert_eq!(after.other, before.other);
}
