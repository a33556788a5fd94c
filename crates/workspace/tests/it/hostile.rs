//! What a program may leave in a directory to make us read, write or wait elsewhere.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode as Bits;
use tempfile::tempdir;
use weir_blobs::MemoryBlobs;
use weir_workspace::{Files, PathError, Reason, Skipped};

use crate::support::{apply, deleted, look, write, written};

fn skipped(path: &str, reason: Reason) -> Skipped {
    Skipped { path: path.to_owned(), reason }
}

#[tokio::test]
async fn links_are_not_followed() {
    let place = tempdir().unwrap();
    let (outside, inside) = (place.path().join("outside"), place.path().join("inside"));
    write(&outside, "secret", "not yours");
    write(&inside, "d/file", "fine");
    symlink(outside.join("secret"), inside.join("to-file")).unwrap();
    symlink(&outside, inside.join("to-directory")).unwrap();
    symlink("..", inside.join("d/up")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    symlink("nowhere", inside.join("dangling")).unwrap();

    // What was a file and is a link now is gone.
    let base =
        apply(&Files::new(), &[written("to-file", "it was one"), written("to-directory/secret", "too")]);
    let found = look(&inside, &base, &MemoryBlobs::new()).await.unwrap();
    let gone = [deleted("to-directory/secret"), deleted("to-file")];
    assert_eq!(found.changes, [&gone[..], &[written("d/file", "fine")]].concat());
    let links = ["d/up", "dangling", "loop", "to-directory", "to-file"];
    assert_eq!(found.skipped, links.map(|path| skipped(path, Reason::Link)));
}

#[tokio::test]
async fn pipes_and_sockets_are_left_out() {
    let directory = tempdir().unwrap();
    nix::unistd::mkfifo(&directory.path().join("pipe"), Bits::S_IRWXU).unwrap();
    let _listening = UnixListener::bind(directory.path().join("socket")).unwrap();
    let base = apply(&Files::new(), &[written("pipe", "it was one")]);
    let found = look(directory.path(), &base, &MemoryBlobs::new()).await.unwrap();
    assert_eq!(found.changes, [deleted("pipe")]);
    assert_eq!(found.skipped, ["pipe", "socket"].map(|path| skipped(path, Reason::Special)));
}

#[tokio::test]
async fn names_that_cannot_be_paths_are_left_out_and_told() {
    let directory = tempdir().unwrap();
    write(directory.path(), "d/a\nb", "");
    write(directory.path(), "d/\u{1b}[2J/below", "");
    write(directory.path(), "d/$(reboot) `x` ; -rf *", "odd, but a name");
    fs::write(directory.path().join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
    let deep = ["e"; 66].join("/");
    write(directory.path(), &deep, "");

    let found = look(directory.path(), &Files::new(), &MemoryBlobs::new()).await.unwrap();
    assert_eq!(found.changes, [written("d/$(reboot) `x` ; -rf *", "odd, but a name")]);
    let character = |path: &str, bad| Reason::Path(PathError::Character { path: path.to_owned(), bad });
    let lossy = "\u{fffd}\u{fffd}";
    let expected = [
        skipped("d/\u{1b}[2J", character("d/\u{1b}[2J", '\u{1b}')),
        skipped("d/a\nb", character("d/a\nb", '\n')),
        skipped(&["e"; 65].join("/"), Reason::Path(PathError::TooDeep)),
        skipped(lossy, Reason::Path(PathError::Encoding { path: lossy.to_owned() })),
    ];
    assert_eq!(found.skipped, expected);
}
