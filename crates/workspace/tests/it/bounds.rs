//! Too much is an error, and nothing of it is taken.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tempfile::{TempDir, tempdir};
use weir_types::Explain;
use weir_workspace::{ChangesError, Files, LeaveOut, Limits, Scan, changes_in};

use crate::meddling::Meddling;
use crate::support::write;

/// Three files of 1, 2 and 3 bytes and a directory.
fn four_entries() -> TempDir {
    let directory = tempdir().unwrap();
    for (path, content) in [("a", "1"), ("d/b", "22"), ("d/c", "333")] {
        write(directory.path(), path, content);
    }
    directory
}

async fn check(limits: Limits, expected: Result<usize, &str>) {
    let directory = four_entries();
    let blobs = Meddling::new();
    let scan = Scan { limits, ..Scan::default() };
    let found = changes_in(directory.path(), &Files::new(), &scan, &blobs).await;
    let outcome =
        found.map(|found| found.changes.len()).map_err(|error| format!("{}: {error}", error.code()));
    assert_eq!(outcome, expected.map_err(str::to_owned));
    assert_eq!(blobs.puts.load(Ordering::Relaxed), expected.unwrap_or(0), "stored before it was refused");
}

#[tokio::test]
async fn each_limit_is_met_exactly() {
    let limits = Limits { entries: 4, file_bytes: 3, bytes: 6 };
    check(limits, Ok(3)).await;
    let too_many = "workspace::too-many: the directory has more than 3 files and directories";
    check(Limits { entries: 3, ..limits }, Err(too_many)).await;
    let long = "workspace::too-large: `d/c` has more than 2 bytes";
    check(Limits { file_bytes: 2, ..limits }, Err(long)).await;
    let sum = "workspace::too-large: the files have more than 5 bytes together";
    check(Limits { bytes: 5, ..limits }, Err(sum)).await;
}

#[tokio::test]
async fn what_is_ignored_does_not_count() {
    let directory = four_entries();
    let limits = Limits { entries: 1, file_bytes: 1, bytes: 1 };
    let leave_out = LeaveOut::new(&["/d".to_owned()], &[]).unwrap();
    let scan = Scan { limits, leave_out: Some(Arc::new(leave_out)) };
    let found = changes_in(directory.path(), &Files::new(), &scan, &Meddling::new()).await.unwrap();
    assert_eq!(found.changes.len(), 1);
}

#[tokio::test]
async fn a_file_that_grows_while_it_is_read_is_bounded_too() {
    for (limits, expected) in [
        (Limits { entries: 9, file_bytes: 100, bytes: 1000 }, "`log` has more than 100 bytes"),
        (Limits { entries: 9, file_bytes: 1000, bytes: 100 }, "the files have more than 100 bytes together"),
    ] {
        let directory = tempdir().unwrap();
        write(directory.path(), "log", "small");
        let log = directory.path().join("log");
        let blobs = Meddling::in_put(move |_| {
            let mut log = OpenOptions::new().append(true).open(&log).unwrap();
            log.write_all(&[b'x'; 500]).unwrap();
        });
        let scan = Scan { limits, ..Scan::default() };
        let error: ChangesError =
            changes_in(directory.path(), &Files::new(), &scan, &blobs).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
