use std::sync::Arc;

use weir_blobs::MemoryBlobs;
use weir_journal::{Fork, Journal, NewEvent, Part, silent};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_types::{BranchId, Seq};

#[tokio::test(flavor = "multi_thread")]
async fn append_fork_read_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    let blobs: Arc<dyn weir_blobs::Blobs> = Arc::new(MemoryBlobs::default());
    let open = || SqliteJournal::open(Options { path: path.clone(), blobs: blobs.clone(), vfs: None });
    let journal = open().await.unwrap();
    let main = BranchId::main("s".parse().unwrap());
    let event = |n: u32| NewEvent::new(format!("k.{}", n % 3).parse().unwrap(), n.to_string());
    for n in 1..=150 {
        journal.append(vec![Part::new(main.clone(), vec![event(n)])]).await.unwrap();
    }
    let fork = Fork { from: main.clone(), at: Seq(70), name: "b".parse().unwrap() };
    journal.fork(fork).await.unwrap();
    let side = BranchId { branch: "b".parse().unwrap(), ..main.clone() };
    journal.append(vec![Part::new(side.clone(), (0..100).map(event).collect())]).await.unwrap();
    journal.close().await;
    let journal = open().await.unwrap();
    assert_eq!(journal.read(&side, Seq(0), 1000).await.unwrap().len(), 170);
    assert_eq!(journal.read_back(&main, None, 100).await.unwrap().len(), 100);
    assert_eq!(journal.by_kind(&side, &"k.1".parse().unwrap(), Seq(0), 1000).await.unwrap().len(), 24 + 33);
    let report = journal.verify(None, silent()).await.unwrap();
    assert_eq!((report.events, report.problems), (250, vec![]));
}
