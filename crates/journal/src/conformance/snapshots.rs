//! Fold snapshots.

use bytes::Bytes;
use weir_types::{BranchId, Hash, Seq};

use super::Make;
use super::kit::*;
use crate::port::Journal;
use crate::snapshot::{FoldVersion, SNAPSHOT_MAX, Snapshot};

fn fold(name: &str, version: u32) -> FoldVersion {
    FoldVersion { fold: name.to_owned(), version }
}

async fn snapshot(journal: &dyn Journal, branch: &BranchId, seq: u64, fold: FoldVersion) -> Snapshot {
    let event = journal.read(branch, Seq(seq - 1), 1).await.unwrap().remove(0);
    let state = Bytes::from(format!("{branch} {seq} {fold:?}"));
    Snapshot { branch: branch.clone(), seq: event.seq, chain: event.chain, fold, state }
}

async fn keep(journal: &dyn Journal, branch: &BranchId, seq: u64, fold: FoldVersion) -> Snapshot {
    let snapshot = snapshot(journal, branch, seq, fold).await;
    put(journal, snapshot.clone()).await;
    snapshot
}

/// Storing waits for nothing; but it happens before whatever is appended after it.
async fn put(journal: &dyn Journal, snapshot: Snapshot) {
    journal.put_snapshot(snapshot).await.unwrap();
    grow(journal, &at("later"), 1).await;
}

/// The newest of the same fold and version; several folds live side by side; one that is too large is not kept.
pub async fn a_snapshot_is_found_by_its_fold(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 40).await;
    let (state, other) = (fold("state", 1), fold("other", 1));
    assert_eq!(journal.snapshot(&a, &state).await.unwrap(), None);
    for seq in 1..=30 {
        let kept = keep(journal, &a, seq, state.clone()).await;
        assert_eq!(journal.snapshot(&a, &state).await.unwrap(), Some(kept));
    }
    let kept = journal.snapshot(&a, &state).await.unwrap();
    let second = keep(journal, &a, 9, other.clone()).await;
    let newer = keep(journal, &a, 31, fold("state", 2)).await;
    assert_eq!(journal.snapshot(&a, &state).await.unwrap(), kept);
    assert_eq!(journal.snapshot(&a, &other).await.unwrap(), Some(second));
    assert_eq!(journal.snapshot(&a, &fold("state", 2)).await.unwrap(), Some(newer));
    assert_eq!(journal.snapshot(&a, &fold("state", 3)).await.unwrap(), None);

    let fits =
        Snapshot { state: vec![1; SNAPSHOT_MAX].into(), ..snapshot(journal, &a, 33, state.clone()).await };
    put(journal, fits.clone()).await;
    let too_large = Snapshot {
        state: vec![1; SNAPSHOT_MAX + 1].into(),
        ..snapshot(journal, &a, 35, state.clone()).await
    };
    put(journal, too_large).await;
    assert_eq!(journal.snapshot(&a, &state).await.unwrap(), Some(fits));
}

/// A snapshot whose chain is not the journal's is never returned.
pub async fn a_snapshot_of_other_events_is_ignored(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    grow(journal, &a, 4).await;
    let state = fold("state", 1);
    let good = keep(journal, &a, 2, state.clone()).await;
    let third = snapshot(journal, &a, 3, state.clone()).await;
    let forged = [
        Snapshot { chain: Hash::ZERO, ..third.clone() },
        Snapshot { seq: Seq(4), ..third.clone() },
        Snapshot { seq: Seq(99), ..third.clone() },
        Snapshot { seq: Seq(0), chain: Hash::ZERO, ..third },
    ];
    for forged in forged {
        put(journal, forged).await;
        assert_eq!(journal.snapshot(&a, &state).await.unwrap(), Some(good.clone()));
    }
}

/// A fork is served by its ancestors' snapshots up to the fork point, and by no others.
pub async fn a_fork_inherits_snapshots(make: Make) {
    let fixture = make().await;
    let (journal, a) = (&*fixture.journal, at("a"));
    let state = fold("state", 1);
    grow(journal, &a, 6).await;
    let side = fork(journal, &a, 4, "side").await;
    grow(journal, &side, 3).await;
    let deep = fork(journal, &side, 5, "deep").await;
    let early = keep(journal, &a, 3, state.clone()).await;
    keep(journal, &a, 5, state.clone()).await;
    assert_eq!(journal.snapshot(&side, &state).await.unwrap(), Some(early.clone()));
    assert_eq!(journal.snapshot(&deep, &state).await.unwrap(), Some(early.clone()));

    let at_fork = keep(journal, &a, 4, state.clone()).await;
    assert_eq!(journal.snapshot(&deep, &state).await.unwrap(), Some(at_fork.clone()));
    let own = keep(journal, &side, 6, state.clone()).await;
    assert_eq!(journal.snapshot(&side, &state).await.unwrap(), Some(own));
    assert_eq!(journal.snapshot(&deep, &state).await.unwrap(), Some(at_fork), "6 is after the fork at 5");
    let low = fork(journal, &deep, 3, "low").await;
    assert_eq!(journal.snapshot(&low, &state).await.unwrap(), Some(early));
    assert_eq!(journal.snapshot(&a, &state).await.unwrap().unwrap().seq, Seq(5));
}
