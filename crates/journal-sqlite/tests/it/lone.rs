//! A caller that is alone commits by itself; what it was promised is the same, and so is what everybody else sees.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::task::{JoinSet, LocalSet};
use weir_journal::{Journal, Part};
use weir_journal_sqlite::SqliteJournal;
use weir_types::{BranchId, Event, Position, Seq};

use crate::powercut::{Run, connect, open};
use crate::promises::everything;
use crate::support::{append, event, main_of};

/// Long enough for anything that is not stuck.
const DEADLINE: Duration = Duration::from_secs(30);

/// A journal on a disk in memory: commits are quick there, whatever the machine's disk is like.
async fn quick_journal(run: &Run) -> Arc<SqliteJournal> {
    Arc::new(open(&run.disk, &run.blobs).await.unwrap())
}

async fn append_some(journal: &SqliteJournal, branch: &BranchId, count: usize) {
    for n in 0..count {
        append(journal, branch, vec![event("k", n.to_string())]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_caller_commits_by_itself_and_the_log_still_starts_over() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    append_some(&journal, &main_of("a"), 2_000).await;
    let stats = journal.stats();
    assert_eq!((stats.commits, stats.events), (2_000, 2_000));
    assert!(stats.in_place > 100, "{stats:?}");
    // At least 4 pages each, and 1,000 in the log at most.
    assert!(stats.checkpoints >= 4, "{stats:?}");
    journal.close().await;
}

#[tokio::test]
async fn on_a_runtime_of_one_thread_nobody_blocks_it() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    append_some(&journal, &main_of("a"), 50).await;
    assert_eq!((journal.stats().commits, journal.stats().in_place), (50, 0));
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_local_set_the_thread_commits() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    let others = journal.clone();
    let local = LocalSet::new();
    local.spawn_local(async move { append_some(&others, &main_of("a"), 50).await });
    local.await;
    assert_eq!((journal.stats().commits, journal.stats().in_place), (50, 0));
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn futures_of_one_task_are_company() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    append_some(&journal, &main_of("a"), 20).await;
    let before = journal.stats().commits;
    let branches: Vec<BranchId> = (0..200).map(|n| main_of(&format!("b{n}"))).collect();
    join_all(branches.iter().map(|branch| append_some(&journal, branch, 1))).await;
    let commits = journal.stats().commits - before;
    assert!(commits < 100, "200 appends of one task took {commits} commits");
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_see_no_difference_between_who_commits() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    let branch = main_of("followed");
    let (all, one) = (journal.tail_all(Position(0)), journal.tail(&branch, Seq(0)));
    for round in 0..20 {
        append_some(&journal, &branch, 20).await;
        let mut crowd = JoinSet::new();
        for n in 0..4 {
            let (journal, branch) = (journal.clone(), branch.clone());
            crowd.spawn(async move {
                append_some(&journal, &branch, 5).await;
                append_some(&journal, &main_of(&format!("r{round}-{n}")), 5).await;
            });
        }
        crowd.join_all().await;
    }
    let stats = journal.stats();
    assert!((1..stats.requests).contains(&stats.in_place), "both happened: {stats:?}");

    let events = everything(&journal).await;
    let seqs = events.iter().filter(|event| event.branch_id() == branch).map(|event| event.seq.0);
    assert!(seqs.eq(1..=800), "the branch has no gap");
    let ids = |events: &[Arc<Event>]| events.iter().map(|event| event.id).collect::<Vec<_>>();
    let take = |tail: weir_journal::Tail, count| async move {
        let seen = tail.take(count).map(Result::unwrap).collect::<Vec<_>>();
        tokio::time::timeout(DEADLINE, seen).await.expect("every event is told")
    };
    assert_eq!(ids(&take(all, events.len()).await), events.iter().map(|event| event.id).collect::<Vec<_>>());
    let followed: Vec<_> =
        events.iter().filter(|event| event.branch_id() == branch).map(|event| event.id).collect();
    assert_eq!(ids(&take(one, followed.len()).await), followed);
    journal.close().await;
}

/// Appends until the last one was committed by its caller: then the next one will be, too, if nothing is in its way.
async fn be_alone(journal: &SqliteJournal, branch: &BranchId) {
    let alone = async {
        loop {
            let before = journal.stats().in_place;
            append_some(journal, branch, 1).await;
            if journal.stats().in_place > before {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, alone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_never_waits_for_another_process() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    let branch = main_of("a");
    be_alone(&journal, &branch).await;
    let head = journal.head(&branch).await.unwrap().unwrap().seq;
    let other = connect(&run.disk);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The caller can give up; its append is made when the other process is done.
    let parts = vec![Part::new(branch.clone(), vec![event("k", "late")])];
    let began = Instant::now();
    let waited = tokio::time::timeout(Duration::from_millis(50), journal.append(parts)).await;
    assert!(waited.is_err(), "the file is locked, so there is no answer: {waited:?}");
    assert!(began.elapsed() < DEADLINE, "it gave up only when the journal did");
    other.execute_batch("ROLLBACK").unwrap();
    tokio::time::timeout(DEADLINE, append_some(&journal, &branch, 1)).await.unwrap();
    assert_eq!(journal.head(&branch).await.unwrap().unwrap().seq, Seq(head.0 + 2));
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_commits_is_told_at_once() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    let branch = main_of("a");
    // Each is in a task of its own and waits most of the time; the journal has nothing else to do that would wake it.
    let (told, mut heard) = tokio::sync::mpsc::channel(2);
    let mut followers = JoinSet::new();
    for mut tail in [journal.tail_all(Position(0)), journal.tail(&branch, Seq(0))] {
        let told = told.clone();
        followers.spawn(async move {
            while let Some(event) = tail.next().await {
                told.send(event.unwrap().seq).await.unwrap();
            }
        });
    }
    for n in 1..=500 {
        append_some(&journal, &branch, 1).await;
        for _ in 0..2 {
            let seq = tokio::time::timeout(DEADLINE, heard.recv()).await.expect("nobody was told");
            assert_eq!(seq, Some(Seq(n)));
        }
    }
    followers.shutdown().await;
    assert!(journal.stats().in_place > 0);
    journal.close().await;
}

#[test]
fn a_runtime_that_ends_in_the_middle_leaves_the_journal_usable() {
    let run = Run::new(None);
    let build =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let journal = build().block_on(quick_journal(&run));
    for round in 0..20 {
        let runtime = build();
        let (begun, mut appended) = tokio::sync::mpsc::channel(1);
        for n in 0..=round % 3 {
            let (journal, begun) = (journal.clone(), begun.clone());
            runtime.spawn(async move {
                loop {
                    append_some(&journal, &main_of(&format!("s{n}")), 1).await;
                    let _ = begun.try_send(());
                }
            });
        }
        runtime.block_on(appended.recv());
        drop(runtime);
    }
    build().block_on(async {
        let before = everything(&journal).await.len();
        tokio::time::timeout(DEADLINE, append_some(&journal, &main_of("after"), 5)).await.unwrap();
        let report = journal.verify(None, weir_journal::silent()).await.unwrap();
        assert_eq!(report.problems.len(), 0, "{:?}", report.problems);
        // What the callers that are gone had queued may still have come in between.
        assert!(report.events >= before as u64 + 5);
        tokio::time::timeout(DEADLINE, journal.close()).await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_closes_under_a_caller_that_goes_on() {
    let run = Run::new(None);
    let journal = quick_journal(&run).await;
    append_some(&journal, &main_of("a"), 20).await;
    let busy = journal.clone();
    let caller = tokio::spawn(async move {
        let mut count = 0;
        while busy.append(vec![Part::new(main_of("a"), vec![event("k", "")])]).await.is_ok() {
            count += 1;
        }
        count
    });
    tokio::time::timeout(DEADLINE, journal.close()).await.unwrap();
    let count = tokio::time::timeout(DEADLINE, caller).await.unwrap().unwrap();
    assert_eq!(journal.stats().events, 20 + count);
}
