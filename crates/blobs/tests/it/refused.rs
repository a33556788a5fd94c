//! A storage that refuses: the error names the place, and nothing is left behind.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use weir_blobs::conformance::noise;
use weir_blobs::{Blobs, DirBlobs, PutError};
use weir_types::{Explain, Fault};

use crate::child;

fn storage(error: PutError) -> (String, ErrorKind) {
    assert_eq!((error.code(), error.fault()), ("blobs::storage", Fault::Storage));
    match error {
        PutError::Storage { path, source } => (path.display().to_string(), source.kind()),
        PutError::Source(source) => panic!("the content was fine: {source}"),
    }
}

#[test]
fn a_root_that_is_a_file() {
    let root = TempDir::new().expect("a directory");
    let path = root.path().join("file");
    fs::write(&path, "").expect("a file");
    let error = DirBlobs::open(path.clone()).expect_err("no store");
    assert_eq!(storage(error), (path.display().to_string(), ErrorKind::NotADirectory));
    let below = path.join("below");
    let error = DirBlobs::open(below.clone()).expect_err("no store");
    assert_eq!(storage(error), (below.display().to_string(), ErrorKind::NotADirectory));
}

#[tokio::test]
async fn a_shard_that_is_a_file() {
    let root = TempDir::new().expect("a directory");
    let blobs: &dyn Blobs = &DirBlobs::open(root.path().to_owned()).expect("a store");
    let shard = root.path().join(&weir_types::Hash::of(b"content").to_string()[..2]);
    fs::write(&shard, "in the way").expect("a file");
    let error = blobs.put_bytes("content".into()).await.expect_err("no shard");
    assert_eq!(storage(error), (shard.display().to_string(), ErrorKind::NotADirectory));
    assert_eq!(everything_under(root.path()), [shard.display().to_string()]);
}

#[test]
fn a_disk_that_takes_no_more() {
    const NAME: &str = "refused::a_disk_that_takes_no_more";
    if let Some(directory) = child::role() {
        return fill_up(&directory);
    }
    let root = TempDir::new().expect("a directory");
    let test = child::command(NAME, root.path());
    // A limit on the size of files stands in for a full disk; without the trap it would end the process.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 256; exec \"$0\" \"$@\""]).arg(test.get_program());
    shell.args(test.get_args()).envs(test.get_envs().filter_map(|(key, value)| Some((key, value?))));
    child::check(&shell.output().expect("a child"));
    assert_eq!(everything_under(root.path()), Vec::<String>::new());
}

#[tokio::main(flavor = "current_thread")]
async fn fill_up(directory: &Path) {
    let blobs: &dyn Blobs = &DirBlobs::open(directory.to_owned()).expect("a store");
    // The first fails while it arrives, the second when its frame is finished.
    for length in [10 * 1024 * 1024, 270_000] {
        let error = blobs.put_bytes(noise(1, length).into()).await.expect_err("too much");
        assert_eq!(storage(error).1, ErrorKind::FileTooLarge);
    }
}

/// All files below a directory.
fn everything_under(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            files.extend(everything_under(&entry.path()));
        } else {
            files.push(entry.path().display().to_string());
        }
    }
    files
}
