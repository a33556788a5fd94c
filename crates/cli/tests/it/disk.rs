//! Full and read-only disks. They are small file systems of memory, mounted in a mount namespace of the test's own.

use std::process::{Command, Stdio};

use crate::weir::Ran;

/// Runs a script with `$disk` as the place to mount at and `$weir` as the binary. Root has mount namespaces for the
/// asking; everybody else has them inside a user namespace. A machine that allows neither fails these tests.
fn on_a_disk(script: &str) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let namespace: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-Urm"] };
    let mut command = Command::new("unshare");
    command.args(namespace).args(["sh", "-euc", script]).stdin(Stdio::null());
    command.env("disk", directory.path()).env("weir", env!("CARGO_BIN_EXE_weir"));
    command.env("WEIR_DATA_DIR", directory.path().join("data")).env_remove("NO_COLOR");
    let ran = Ran::from(command.output().expect("`unshare` of util-linux is needed"));
    Ran { stdout: mask(&ran.stdout, directory.path()), stderr: mask(&ran.stderr, directory.path()), ..ran }
}

fn mask(text: &str, directory: &std::path::Path) -> String {
    crate::weir::mask(&text.replace(&*directory.to_string_lossy(), "[disk]"))
}

#[test]
fn a_full_disk_is_said_and_nothing_is_lost() {
    let ran = on_a_disk(
        r#"
        mount -t tmpfs -o size=2m none "$disk"
        "$weir" append --stream s --kind a.b --payload 1
        dd if=/dev/zero of="$disk/filler" bs=4k 2>/dev/null || true
        "$weir" append --stream s --kind a.b --payload 2 2>&1 || echo "exit $?"
        head -c 100000 /dev/urandom | "$weir" blob put - 2>&1 || echo "exit $?"
        rm "$disk/filler"
        ls "$disk" "$disk/data/blobs/tmp"
        "$weir" append --stream s --kind a.b --payload 3
        "$weir" verify 2>/dev/null
        "#,
    );
    insta::assert_snapshot!(ran, @"
    exit 0
    -- stdout
    appended event 1 of s@main ([id])
    error: cannot use the journal at `[disk]/data/journal.db`: the disk is full
      caused by: disk I/O error
    help: free some space on this disk; nothing of this was stored
    exit 1
    error: cannot write to the blob store at `[disk]/data/blobs/tmp/[temporary]`
      caused by: No space left on device (os error 28)
    help: free some space on this disk; nothing of this was stored
    exit 1
    [disk]:
    data

    [disk]/data/blobs/tmp:
    appended event 2 of s@main ([id])
    checked 1 stream, 1 branch, 2 events, 0 blobs: sound
    ");
}

/// The journal has room here; the place where the output goes has not.
#[test]
fn an_output_on_a_full_disk_leaves_nothing_behind() {
    let ran = on_a_disk(
        r#"
        mount -t tmpfs -o size=8m none "$disk"
        mkdir "$disk/full"
        mount -t tmpfs -o size=64k none "$disk/full"
        head -c 100000 /dev/urandom > "$disk/large"
        "$weir" append --stream s --kind a.b --payload-file "$disk/large" > "$disk/out"
        blob=$("$weir" blob put "$disk/large")
        "$weir" backup "$disk/full/b.tar" 2>&1 || echo "exit $?"
        "$weir" export --output "$disk/full/out" 2>&1 || echo "exit $?"
        "$weir" blob get "$blob" --output "$disk/full/blob" 2>&1 || echo "exit $?"
        ls -A "$disk/full"
        "#,
    );
    insta::assert_snapshot!(ran, @"
    exit 0
    -- stdout
    error: cannot copy the journal to `[disk]/full`
      caused by: cannot use the journal at `[disk]/data/journal.db`: the disk is full
      caused by: database or disk is full
    help: check free space and permissions there; no partial file was left behind
    exit 1
    error: cannot write `[disk]/full/out`
      caused by: No space left on device (os error 28)
    help: check free space and permissions there; no partial file was left behind
    exit 1
    error: cannot write `[disk]/full/blob`
      caused by: No space left on device (os error 28)
    help: check free space and permissions there; no partial file was left behind
    exit 1
    ");
}

#[test]
fn a_disk_too_full_to_begin_on_is_left_as_it_was() {
    let ran = on_a_disk(
        r#"
        mount -t tmpfs -o size=64k none "$disk"
        dd if=/dev/zero of="$disk/filler" bs=4k 2>/dev/null || true
        "$weir" append --stream s --kind a.b 2>&1 || echo "exit $?"
        rm "$disk/filler"
        mount -o remount,size=2m "$disk"
        "$weir" append --stream s --kind a.b
        "$weir" verify 2>/dev/null
        "#,
    );
    insta::assert_snapshot!(ran, @"
    exit 0
    -- stdout
    error: cannot use the journal at `[disk]/data/journal.db`: the disk is full
      caused by: database or disk is full
    help: free some space on this disk; nothing of this was stored
    exit 1
    appended event 1 of s@main ([id])
    checked 1 stream, 1 branch, 1 event, 0 blobs: sound
    ");
}

#[test]
fn a_read_only_disk_is_said_for_what_it_is() {
    let ran = on_a_disk(
        r#"
        mount -t tmpfs -o size=2m none "$disk"
        "$weir" append --stream s --kind a.b
        mount -o remount,ro "$disk"
        "$weir" append --stream s --kind a.b 2>&1 || echo "exit $?"
        "$weir" append --stream s --kind a.b --data-dir "$disk/other" 2>&1 || echo "exit $?"
        echo hello | "$weir" blob put - 2>&1 || echo "exit $?"
        "$weir" doctor 2>&1 | grep -v -e identity -e sandbox || true
        "#,
    );
    insta::assert_snapshot!(ran, @"
    exit 0
    -- stdout
    appended event 1 of s@main ([id])
    error: cannot use `[disk]/data/lock`
      caused by: Read-only file system (os error 30)
    help: make the data directory writable for this user, or choose another with `--data-dir DIR`
    exit 1
    error: cannot write to the blob store at `[disk]/other/blobs`
      caused by: Read-only file system (os error 30)
    help: make the data directory writable for this user, or choose another with `--data-dir DIR`
    exit 1
    error: cannot write to the blob store at `[disk]/data/blobs/tmp`
      caused by: Read-only file system (os error 30)
    help: make the data directory writable for this user, or choose another with `--data-dir DIR`
    exit 1
    fail  data directory  `[disk]/data` cannot be written: Read-only file system (os error 30)
                          help: make the data directory writable for this user, or choose another with `--data-dir DIR`
    error: 1 check failed
    help: take the steps named above, then run `weir doctor` again
    ");
}
