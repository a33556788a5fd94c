//! What a store looks like from outside: the place, the format, the permissions, and files that are not its own.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use weir_blobs::conformance::noise;
use weir_blobs::{Blobs, DirBlobs, Live, Stored, Sweep, Swept};
use weir_types::Hash;

const HOUR: Duration = Duration::from_secs(60 * 60);

struct NothingIsLive;

impl Live for NothingIsLive {
    fn is_live(&self, _: Hash) -> BoxFuture<'_, Result<bool, Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async { Ok(false) })
    }
}

fn new_store() -> (TempDir, DirBlobs) {
    let root = TempDir::new().expect("a directory");
    let blobs = DirBlobs::open(root.path().join("deep/down/blobs")).expect("a store");
    (root, blobs)
}

async fn put(blobs: &dyn Blobs, content: Vec<u8>) -> Stored {
    blobs.put_bytes(content.into()).await.expect("stored")
}

fn set_age(path: &Path, age: Duration) {
    let file = File::open(path).expect("a file");
    file.set_modified(SystemTime::now() - age).expect("backdated");
}

#[tokio::test]
async fn any_zstd_tool_reads_a_blob() {
    let (_root, blobs) = new_store();
    for content in [Vec::new(), b"weir ".repeat(1000), noise(1, 600_000)] {
        let file = fs::read(blobs.path(put(&blobs, content.clone()).await.hash)).expect("a file");
        assert!(zstd::decode_all(&file[..]).expect("zstd") == content);

        let tool = Command::new("zstd").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut tool) = tool else {
            eprintln!("SKIPPED: there is no `zstd` command here; only the library was tried");
            continue;
        };
        let mut stdin = tool.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || stdin.write_all(&file));
        let output = tool.wait_with_output().expect("zstd");
        writer.join().expect("no panic").expect("zstd takes all of it");
        assert!(output.status.success() && output.stdout == content);
    }
}

/// Written by version 0.1.0: `a low dam, ` five times.
const FILE_0_1_0: &str = "28b52ffd00588d00005861206c6f772064616d2c200100d92c5e502a4d18180000003700000000000000235456580a7ea1464c18dd2d899a72cf";

#[tokio::test]
async fn files_of_released_versions_still_open() {
    let (_root, blobs) = new_store();
    let content = "a low dam, ".repeat(5);
    let hash = Hash::of(content.as_bytes());
    let digits = FILE_0_1_0.as_bytes().chunks(2);
    let digits = digits.map(|pair| std::str::from_utf8(pair).expect("ascii"));
    let file: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect();
    fs::create_dir(blobs.path(hash).parent().expect("a shard")).expect("a shard");
    fs::write(blobs.path(hash), &file).expect("placed");

    let expected = Stored { hash, bytes: content.len() as u64, stored_bytes: file.len() as u64 };
    assert_eq!(blobs.stat(hash).await.expect("sizes"), Some(expected));
    assert_eq!((&blobs as &dyn Blobs).get_bytes(hash, 100).await.expect("read"), content);
}

#[tokio::test]
async fn a_blob_is_where_its_hash_says_and_for_this_user_alone() {
    let (root, blobs) = new_store();
    let stored = put(&blobs, b"abc".to_vec()).await;
    let store = root.path().join("deep/down/blobs");
    let path = store.join("ba/7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(blobs.path(stored.hash), path);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    for directory in
        [root.path().join("deep"), root.path().join("deep/down"), store.clone(), store.join("ba")]
    {
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
    }
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::metadata(&path).expect("a file").len(), stored.stored_bytes);
}

#[tokio::test]
async fn the_same_content_keeps_its_file() {
    use std::os::unix::fs::MetadataExt;
    let (_root, blobs) = new_store();
    let stored = put(&blobs, noise(1, 1_000_000)).await;
    let inode = || fs::metadata(blobs.path(stored.hash)).expect("a file").ino();
    let before = inode();
    put(&blobs, noise(1, 1_000_000)).await;
    assert_eq!(inode(), before);
}

#[tokio::test]
async fn a_sweep_leaves_files_alone_that_are_not_its_own() {
    let (root, blobs) = new_store();
    let store = root.path().join("deep/down/blobs");
    let stored = put(&blobs, b"garbage".to_vec()).await;
    let path = blobs.path(stored.hash);
    let shard = path.parent().expect("a shard").to_owned();
    let name = path.file_name().expect("a name").to_str().expect("ascii").to_owned();
    let foreign = [
        store.join("README"),
        store.join("00"),
        store.join("tmp/notes.part"),
        store.join("tmp/1-2.part"),
        store.join("tmp/1-2-x.part"),
        shard.join(&name[1..]),
        shard.join(format!("{name}0")),
        shard.join(format!("g{}", &name[1..])),
        shard.join("A".repeat(62)),
    ];
    for path in &foreign {
        fs::write(path, "precious").expect("a file");
        set_age(path, 2 * HOUR);
    }
    // Young, and no name of ours: it is not even counted.
    fs::write(shard.join("B".repeat(62)), "precious").expect("a file");
    let directory = shard.join("0".repeat(62));
    fs::create_dir(&directory).expect("a directory");
    set_age(&directory, 2 * HOUR);
    set_age(&path, 2 * HOUR);

    let sweep = Sweep { grace: HOUR, dry_run: false };
    let swept = blobs.sweep(&NothingIsLive, sweep).await.expect("swept");
    let removed_bytes = stored.stored_bytes;
    assert_eq!(swept, Swept { seen: 1, removed: 1, removed_bytes, ..Swept::default() });
    assert!(!path.exists() && directory.exists());
    for path in &foreign {
        assert_eq!(fs::read(path).expect("still there"), b"precious", "{}", path.display());
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_keeps_blobs() {
    let (_root, blobs) = new_store();
    let stored = put(&blobs, b"from the future".to_vec()).await;
    let file = File::open(blobs.path(stored.hash)).expect("a file");
    file.set_modified(SystemTime::now() + 100 * HOUR).expect("postdated");
    for grace in [HOUR, Duration::ZERO] {
        let swept = blobs.sweep(&NothingIsLive, Sweep { grace, dry_run: false }).await.expect("swept");
        assert_eq!(swept, Swept { seen: 1, young: 1, ..Swept::default() });
    }
}

#[tokio::test]
async fn a_sweep_removes_what_crashed_writers_left_but_nothing_of_a_living_one() {
    let (root, blobs) = new_store();
    let temporary = root.path().join("deep/down/blobs/tmp");
    fs::create_dir(&temporary).expect("a directory");
    let (old, young) = (temporary.join("1-2-3.part"), temporary.join("1-2-4.part"));
    for path in [&old, &young] {
        fs::write(path, "half a blob").expect("a file");
    }
    set_age(&old, 2 * HOUR);

    // A writer that waits for its content for longer than the grace period.
    let (mut pipe, source) = tokio::io::duplex(64);
    let writer = tokio::spawn({
        let blobs = blobs.clone();
        async move { blobs.put(Box::new(source)).await }
    });
    let living = loop {
        let mut names =
            fs::read_dir(&temporary).expect("a directory").map(|entry| entry.expect("an entry").path());
        match names.find(|path| ![&old, &young].contains(&path)) {
            Some(path) => break path,
            None => tokio::task::yield_now().await,
        }
    };
    pipe.write_all(b"slow").await.expect("a reader");
    set_age(&living, 2 * HOUR);

    let found = Swept { temporary: 1, ..Swept::default() };
    for (dry_run, expected) in [(true, found), (false, found), (false, Swept::default())] {
        let sweep = Sweep { grace: HOUR, dry_run };
        assert_eq!(blobs.sweep(&NothingIsLive, sweep).await.expect("swept"), expected);
        assert_eq!((old.exists(), young.exists(), living.exists()), (dry_run, true, true));
    }
    drop(pipe);
    assert_eq!(writer.await.expect("no panic").expect("stored").hash, Hash::of(b"slow"));
}
