//! Into a directory and back, with a store on the disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tempfile::tempdir;
use weir_blobs::{Blobs, DirBlobs, MemoryBlobs};
use weir_types::{Explain, Fault};
use weir_workspace::{
    Change, CheckoutError, Entry, Files, Found, LeaveOut, LeftOut, Mode, Scan, changes_in, checkout,
};

use crate::meddling::Meddling;
use crate::support::{apply, deleted, entry, import, look, set_mode, write, written};

#[tokio::test]
async fn a_directory_comes_back_as_it_was() {
    let (place, store) = (tempdir().unwrap(), tempdir().unwrap());
    let blobs = DirBlobs::open(store.path().join("blobs")).unwrap();
    let large = "x".repeat(3_000_000);
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for (path, content) in
        [("empty", ""), (".hidden/file", "h"), ("a/b/large", large.as_str()), ("run", "#!")]
    {
        write(&source, path, content);
    }
    set_mode(&source.join("run"), 0o700);
    fs::create_dir(source.join("nothing")).unwrap();

    let found = look(&source, &Files::new(), &blobs).await.unwrap();
    let run = Change::Written {
        path: "run".parse().unwrap(),
        entry: Entry { mode: Mode::Executable, ..entry("#!") },
    };
    let changes = vec![written(".hidden/file", "h"), written("a/b/large", &large), written("empty", ""), run];
    assert_eq!(found, Found { changes, skipped: vec![], left_out: LeftOut::new() });

    let files = apply(&Files::new(), &found.changes);
    checkout(&files, &target, &blobs).await.unwrap();
    assert_eq!(fs::read_to_string(target.join("a/b/large")).unwrap(), large);
    assert_eq!(fs::read(target.join("empty")).unwrap(), b"");
    let mode = |path| fs::metadata(target.join(path)).unwrap().permissions().mode() & 0o700;
    assert_eq!((mode("run"), mode("empty")), (0o700, 0o600));
    let names = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(
        look(&target, &files, &blobs).await.unwrap(),
        Found { changes: vec![], skipped: vec![], left_out: LeftOut::new() }
    );
}

#[tokio::test]
async fn only_what_changed_is_stored() {
    let directory = tempdir().unwrap();
    for (path, content) in [("a", "same"), ("b", "old"), ("c", "gone"), ("d", "mode"), ("e", "long")] {
        write(directory.path(), path, content);
    }
    let blobs = Meddling::new();
    let files = import(directory.path(), &blobs).await;
    assert_eq!(blobs.puts.swap(0, Ordering::Relaxed), 5);

    write(directory.path(), "b", "new");
    write(directory.path(), "e", "longer");
    write(directory.path(), "f/g", "fresh");
    fs::remove_file(directory.path().join("c")).unwrap();
    set_mode(&directory.path().join("d"), 0o755);
    let found = look(directory.path(), &files, &blobs).await.unwrap();
    let mode = Change::Written {
        path: "d".parse().unwrap(),
        entry: Entry { mode: Mode::Executable, ..entry("mode") },
    };
    let expected = [deleted("c"), written("b", "new"), mode, written("e", "longer"), written("f/g", "fresh")];
    assert_eq!(found.changes, expected);
    assert_eq!(blobs.puts.load(Ordering::Relaxed), 3, "b, e and f/g");
}

#[tokio::test]
async fn a_file_becomes_a_directory_and_the_other_way_round() {
    let directory = tempdir().unwrap();
    write(directory.path(), "a", "file");
    write(directory.path(), "b/c", "below");
    let blobs = MemoryBlobs::new();
    let files = import(directory.path(), &blobs).await;

    fs::remove_file(directory.path().join("a")).unwrap();
    fs::remove_dir_all(directory.path().join("b")).unwrap();
    write(directory.path(), "a/x", "below");
    write(directory.path(), "b", "file");
    let found = look(directory.path(), &files, &blobs).await.unwrap();
    let expected = [deleted("a"), deleted("b/c"), written("a/x", "below"), written("b", "file")];
    assert_eq!(found.changes, expected);
}

#[tokio::test]
async fn what_is_ignored_is_neither_taken_nor_missed() {
    let directory = tempdir().unwrap();
    for path in [".git/config", "src/main.rs", "src/main.o"] {
        write(directory.path(), path, "on the disk");
    }
    let blobs = MemoryBlobs::new();
    let base = [written(".git/config", "known"), written("old.o", "known"), written("old.rs", "known")];
    let leave_out = LeaveOut::new(&["*.o".to_owned()], &[]).unwrap();
    let scan = Scan { leave_out: Some(Arc::new(leave_out)), ..Scan::default() };
    let found = changes_in(directory.path(), &apply(&Files::new(), &base), &scan, &blobs).await.unwrap();
    assert_eq!(found.changes, [deleted("old.rs"), written("src/main.rs", "on the disk")]);
}

#[tokio::test]
async fn only_an_empty_directory_is_written_to() {
    let place = tempdir().unwrap();
    let blobs = MemoryBlobs::new();
    (&blobs as &dyn Blobs).put_bytes("new".into()).await.unwrap();
    let files = apply(&Files::new(), &[written("a", "new")]);

    let full = place.path().join("full");
    write(&full, ".hidden", "old");
    let error = checkout(&files, &full, &blobs).await.unwrap_err();
    assert!(matches!(&error, CheckoutError::NotEmpty { directory } if *directory == full), "{error:?}");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);

    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    checkout(&files, &empty, &blobs).await.unwrap();
    assert_eq!(import(&empty, &blobs).await, files);

    let error = checkout(&files, &place.path().join("no/such"), &blobs).await.unwrap_err();
    assert!(matches!(error, CheckoutError::Write { .. }), "{error:?}");
    let error = look(&place.path().join("absent"), &files, &blobs).await.unwrap_err();
    assert_eq!((error.code(), error.fault()), ("workspace::unreadable", Fault::Missing));
}
