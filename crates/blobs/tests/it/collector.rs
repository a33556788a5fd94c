//! The collector against writers of the very contents it wants to remove.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::{BoxFuture, join_all};
use tempfile::TempDir;
use tokio::task::JoinSet;
use weir_blobs::{Blobs, DirBlobs, Live, Sweep, Swept};
use weir_types::Hash;

use crate::child;

const HOUR: Duration = Duration::from_secs(60 * 60);
const SWEEP: Sweep = Sweep { grace: HOUR, dry_run: false };
const WRITERS: usize = 8;
const CONTENTS: usize = 40;
/// Removals under the eyes of writers, before the writers may stop: how often the two meet is up to the scheduler.
const REMOVALS: u64 = 5;
/// A store that removes nothing must not keep the writers for ever.
const CONTENTS_MAX: usize = 20 * CONTENTS;

type Answer<'a> = BoxFuture<'a, Result<bool, Box<dyn std::error::Error + Send + Sync>>>;

/// References that several processes see: a blob is in use when there is a file of its name.
struct References(PathBuf);

impl References {
    fn add(&self, hash: Hash) {
        fs::write(self.0.join(hash.to_string()), "").expect("a reference");
    }
}

impl Live for References {
    fn is_live(&self, hash: Hash) -> Answer<'_> {
        Box::pin(async move {
            let found = self.0.join(hash.to_string()).exists();
            // Looking it up in a journal takes a while, and that is when a writer comes.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            Ok(found)
        })
    }
}

fn open(root: &Path) -> (DirBlobs, References) {
    (DirBlobs::open(root.join("blobs")).expect("a store"), References(root.join("references")))
}

/// Puts contents that seem to be old garbage, puts each of them again, three times at once, and refers to it: some
/// contents at least, and on until the collectors have removed enough. Answers with the number of contents.
async fn write(root: PathBuf, writer: usize, removed: Arc<AtomicU64>) -> u64 {
    let (dir, references) = open(&root);
    let blobs: &dyn Blobs = &dir;
    let mut written = 0;
    while written < CONTENTS || (written < CONTENTS_MAX && removed.load(Ordering::Relaxed) < REMOVALS) {
        let content = format!("content {written} of writer {writer}").repeat(1 + written % CONTENTS);
        let stored = blobs.put_bytes(content.clone().into()).await.expect("stored");
        let file = File::open(dir.path(stored.hash)).expect("young, so it is there");
        file.set_modified(SystemTime::now() - 2 * HOUR).expect("backdated");

        let again = join_all((0..3).map(|_| blobs.put_bytes(content.clone().into()))).await;
        for put in again {
            assert_eq!(put.expect("stored"), stored);
        }
        references.add(stored.hash);
        let read = blobs.get_bytes(stored.hash, 1 << 20).await.expect("what is referred to is there");
        assert!(read == content);
        written += 1;
    }
    written as u64
}

/// Sweeps until told to stop, and counts what it removes.
async fn collect(root: PathBuf, removed: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    let (dir, references) = open(&root);
    while !stop.load(Ordering::Relaxed) {
        let swept = dir.sweep(&references, SWEEP).await.expect("swept");
        removed.fetch_add(swept.removed, Ordering::Relaxed);
    }
}

const NAME: &str = "collector::nothing_that_is_referred_to_is_ever_missing";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_that_is_referred_to_is_ever_missing() {
    if let Some(root) = child::role() {
        return work_until_stdin_closes(root).await;
    }
    let root = TempDir::new().expect("a directory");
    let path = root.path().to_owned();
    fs::create_dir(path.join("references")).expect("a directory");
    let other_process = child::command(NAME, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child");

    let (stop, removed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let collectors: JoinSet<()> =
        (0..2).map(|_| collect(path.clone(), Arc::clone(&removed), Arc::clone(&stop))).collect();
    let writers: JoinSet<u64> =
        (0..WRITERS).map(|writer| write(path.clone(), writer, Arc::clone(&removed))).collect();
    let mut written: u64 = writers.join_all().await.into_iter().sum();
    stop.store(true, Ordering::Relaxed);
    collectors.join_all().await;
    written += end(other_process);

    let (dir, references) = open(&path);
    let mut found = 0;
    for reference in fs::read_dir(&references.0).expect("a directory") {
        let name = reference.expect("an entry").file_name();
        let hash: Hash = name.to_str().expect("ascii").parse().expect("a hash");
        (&dir as &dyn Blobs).get_bytes(hash, 1 << 20).await.expect("what is referred to is there");
        found += 1;
    }
    assert_eq!(found, written);
    let removed = removed.load(Ordering::Relaxed);
    assert!(removed >= REMOVALS, "the collectors removed {removed} blobs: too few for this to show anything");
}

/// The child: two writers and a collector.
async fn work_until_stdin_closes(root: PathBuf) {
    let stop = Arc::new(AtomicBool::new(false));
    // As if enough had been removed: the parent counts contents on its own, and knows how many these writers write.
    let enough = Arc::new(AtomicU64::new(REMOVALS));
    let collector = tokio::spawn(collect(root.clone(), Arc::clone(&enough), Arc::clone(&stop)));
    let writers: JoinSet<u64> =
        (0..2).map(|writer| write(root.clone(), WRITERS + writer, Arc::clone(&enough))).collect();
    let written: u64 = writers.join_all().await.into_iter().sum();
    assert_eq!(written, 2 * CONTENTS as u64);
    let closed = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    closed.await.expect("no panic").expect("a pipe");
    stop.store(true, Ordering::Relaxed);
    collector.await.expect("no panic");
}

/// Tells the child that we are done; answers with the number of contents it refers to.
fn end(mut child: Child) -> u64 {
    drop(child.stdin.take());
    child::check(&child.wait_with_output().expect("ended"));
    2 * CONTENTS as u64
}

/// Asks on a blocking thread, as a journal would, once all the writers of the same content are waiting.
struct AskedOnAThread {
    blobs: DirBlobs,
    writers: std::sync::Mutex<JoinSet<Hash>>,
}

impl Live for AskedOnAThread {
    fn is_live(&self, _: Hash) -> Answer<'_> {
        let mut writers = self.writers.lock().expect("not poisoned");
        for _ in 0..100 {
            let blobs = self.blobs.clone();
            writers.spawn(async move {
                (&blobs as &dyn Blobs).put_bytes("popular".into()).await.expect("stored").hash
            });
        }
        drop(writers);
        Box::pin(async {
            // Time for all of them to get as far as they can. It only gives a faulty store the chance to fail.
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(tokio::task::spawn_blocking(|| false).await?)
        })
    }
}

#[test]
fn writers_that_wait_for_the_collector_leave_it_a_thread_to_work_on() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(40)
        .enable_time()
        .build()
        .expect("a runtime");
    let root = TempDir::new().expect("a directory");
    let blobs = DirBlobs::open(root.path().to_owned()).expect("a store");
    let work = async {
        let stored = (&blobs as &dyn Blobs).put_bytes("popular".into()).await.expect("stored");
        let file = File::open(blobs.path(stored.hash)).expect("a file");
        file.set_modified(SystemTime::now() - 2 * HOUR).expect("backdated");
        let live = AskedOnAThread { blobs: blobs.clone(), writers: std::sync::Mutex::default() };
        let swept = blobs.sweep(&live, SWEEP).await.expect("swept");
        let removed_bytes = stored.stored_bytes;
        assert_eq!(swept, Swept { seen: 1, removed: 1, removed_bytes, ..Swept::default() });
        let writers = live.writers.into_inner().expect("not poisoned");
        assert_eq!(writers.join_all().await, [stored.hash; 100]);
        assert_eq!(blobs.stat(stored.hash).await.expect("sizes"), Some(stored));
    };
    let done = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await });
    // Threads that wait for a lock for ever would keep the runtime from going away.
    runtime.shutdown_background();
    done.expect("the collector and the writers wait for one another");
}
