//! Who can use a data directory, and what of it can be read where nothing can be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::weir::{Ran, Weir};

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Everything below `directory`, and itself, that another user can do something with.
fn exposed(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        let facts = fs::symlink_metadata(&path).unwrap();
        if facts.mode() & 0o077 != 0 && !facts.is_symlink() {
            found.push(format!("{:04o} {}", facts.mode() & 0o7777, path.display()));
        }
        if facts.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

/// Runs `script` in the directory of `weir`, with `$weir` as the binary.
fn sh(weir: &Weir, script: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(weir.path()).stdin(Stdio::null());
    command.env("weir", env!("CARGO_BIN_EXE_weir")).env_remove("WEIR_DATA_DIR");
    Ran::from(command.output().unwrap())
}

#[test]
fn a_data_directory_ends_private_whoever_made_it_and_whatever_the_umask_is() {
    let use_it = r#"
        head -c 100000 /dev/urandom | "$weir" append --stream a --kind b.c --payload - >/dev/null
        "$weir" blob put "$weir" >/dev/null
        "$weir" chat --help >/dev/null
    "#;
    for before in [
        "umask 022",
        "umask 0",
        "umask 022; mkdir .weir",
        "umask 0; mkdir -m 0777 .weir",
        "umask 022; mkdir .weir; touch .weir/journal.db .weir/lock; mkdir .weir/blobs .weir/owners",
    ] {
        let weir = Weir::new();
        let ran = sh(&weir, &format!("{before}{use_it}"));
        assert_eq!(ran.code, 0, "{before}: {ran}");
        assert_eq!(exposed(&weir.data()), Vec::<String>::new(), "{before}");
    }
    // What was opened later is closed again, and said once.
    let weir = Weir::with_notes();
    for path in [weir.data(), weir.journal(), weir.data().join("lock"), weir.data().join("blobs")] {
        let mode = fs::metadata(&path).unwrap().mode() | 0o055;
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    assert_snapshot!(weir.show(&["count", "--stream", "notes"]), @"
    exit 0
    -- stdout
    4
    -- stderr
    warning: other users could use `.weir` (mode 0755); now only you can (0700, files 0600)
    ");
    assert_eq!(weir.run(&["count", "--stream", "notes"]).stderr, "");
    assert_eq!(exposed(&weir.data()), Vec::<String>::new());
}

#[test]
fn a_restored_backup_ends_private() {
    let weir = Weir::with_notes();
    let ran = sh(
        &weir,
        r#"umask 022; "$weir" backup b.tar >/dev/null 2>&1; mkdir restored && tar -xf b.tar -C restored
           "$weir" verify --data-dir restored"#,
    );
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(exposed(&weir.path().join("restored")), Vec::<String>::new());
}

#[test]
fn a_directory_that_is_not_weirs_alone_is_not_closed_but_refused() {
    let weir = Weir::new();
    let shared = weir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
    fs::write(shared.join("theirs"), "").unwrap();
    assert_snapshot!(weir.show(&["append", "--data-dir", "shared", "--stream", "a", "--kind", "b.c"]), @"
    exit 2
    -- stderr
    error: other users can use the data directory `shared` (mode 0755), and it holds other files
    help: close it to others with `chmod 700 'shared'`, or choose a directory for weir alone with `--data-dir DIR`
    ");
    assert_eq!(fs::metadata(&shared).unwrap().mode() & 0o777, 0o755);
    fs::set_permissions(&shared, Permissions::from_mode(0o700)).unwrap();
    weir.ok(&["append", "--data-dir", "shared", "--stream", "a", "--kind", "b.c"]);
}

/// The binary where another user may run it.
fn for_all(weir: &Weir) -> PathBuf {
    let binary = weir.path().join("weir-for-all");
    if fs::hard_link(env!("CARGO_BIN_EXE_weir"), &binary).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_weir"), &binary).unwrap();
    }
    fs::set_permissions(weir.path(), Permissions::from_mode(0o755)).unwrap();
    binary
}

/// Runs a program as a user that owns nothing.
fn as_nobody(weir: &Weir, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Ran {
    let mut command = Command::new(program);
    command.args(args).current_dir(weir.path()).stdin(Stdio::null()).env("HOME", "/nonexistent");
    command.env_remove("WEIR_DATA_DIR").uid(NOBODY).gid(NOBODY);
    Ran::from(command.output().unwrap())
}

#[test]
fn another_user_can_neither_read_nor_lock_a_data_directory() {
    if !is_root() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let weir = Weir::new();
    // The documented trap: the directory was there before.
    fs::create_dir(weir.data()).unwrap();
    fs::set_permissions(weir.data(), Permissions::from_mode(0o755)).unwrap();
    weir.ok(&["append", "--stream", "notes", "--kind", "note.added"]);
    let binary = for_all(&weir);
    for file in ["journal.db", "lock", "anchor"] {
        let path = weir.data().join(file);
        let path = path.to_str().unwrap();
        assert_ne!(as_nobody(&weir, "cat", &[path]).code, 0, "{file}");
        assert_ne!(as_nobody(&weir, "flock", &["--nonblock", path, "true"]).code, 0, "{file}");
    }
    let ran = as_nobody(&weir, &binary, &["append", "--stream", "notes", "--kind", "note.added"]);
    assert_ne!(ran.code, 0, "{ran}");
    weir.ok(&["append", "--stream", "notes", "--kind", "note.added"]);

    // Even where everybody may write, another user's directory is refused, with the command that mends it.
    fs::set_permissions(weir.data(), Permissions::from_mode(0o777)).unwrap();
    let ran = as_nobody(&weir, &binary, &["append", "--stream", "notes", "--kind", "note.added"]);
    assert_snapshot!(weir.mask(&ran.to_string()), @r#"
    exit 2
    -- stderr
    error: the data directory `.weir` belongs to another user (uid 0)
    help: run weir as that user, or give the directory to yourself with `sudo chown -R "$(id -u)" '.weir'`
    "#);
}

const READING: &[&[&str]] = &[
    &["cat", "--stream", "notes"],
    &["verify"],
    &["export"],
    &["streams"],
    &["count", "--stream", "notes"],
    &["session", "list"],
];

/// Makes everything readable to everybody, as evidence on a read-only medium is.
fn open_to_all(directory: &Path) {
    for path in [directory.to_owned(), directory.join("blobs")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
    }
}

fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// A journal whose process was killed: everything is in the log.
fn killed() -> Weir {
    let weir = Weir::with_notes();
    let follow = weir.command().args(["cat", "--stream", "notes", "--follow"]).stdout(Stdio::piped()).spawn();
    let mut follow = follow.unwrap();
    std::io::Read::read_exact(follow.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    // While another process has it open, the log stays when a writer ends.
    weir.ok(&["append", "--stream", "notes", "--kind", "note.added"]);
    follow.kill().unwrap();
    follow.wait().unwrap();
    assert!(fs::metadata(weir.data().join("journal.db-wal")).unwrap().len() > 0);
    weir
}

#[test]
fn a_directory_of_another_user_can_be_read_and_is_not_changed() {
    if !is_root() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    for (what, weir, memory) in [
        ("closed", Weir::with_notes(), true),
        ("killed", killed(), true),
        ("killed, no memory", killed(), false),
    ] {
        let expected = weir.ok(&["cat", "--stream", "notes"]).lines().count();
        let weir = if what == "closed" { weir } else { killed() };
        if !memory {
            fs::remove_file(weir.data().join("journal.db-shm")).unwrap();
        }
        let binary = for_all(&weir);
        open_to_all(&weir.data());
        let before = contents(&weir.data());
        for args in READING {
            let ran = as_nobody(&weir, &binary, args);
            assert_eq!(ran.code, 0, "{what}: {args:?}: {ran}");
            if args[0] == "cat" {
                assert_eq!(ran.stdout.lines().count(), expected, "{what}: {ran}");
            }
        }
        let ran = as_nobody(&weir, &binary, &["append", "--stream", "notes", "--kind", "note.added"]);
        assert_eq!(ran.code, 2, "{what}: {ran}");
        assert_eq!(contents(&weir.data()), before, "{what}");
    }
}

#[test]
fn a_read_only_medium_can_be_read() {
    for (what, weir) in [("closed", Weir::with_notes()), ("killed", killed())] {
        let before = contents(&weir.data());
        let commands: String = READING
            .iter()
            .map(|args| {
                format!("\"$weir\" {} >/dev/null || echo \"{}: $?\"\n", args.join(" "), args.join(" "))
            })
            .collect();
        let script = format!(
            "mount --bind .weir .weir; mount -o remount,bind,ro .weir .weir\n{commands}\"$weir\" count --stream notes\n\
             \"$weir\" append --stream notes --kind note.added 2>&1 || echo \"exit $?\""
        );
        let namespace: &[&str] = if is_root() { &["-m"] } else { &["-Urm"] };
        let mut command = Command::new("unshare");
        command.args(namespace).args(["sh", "-euc", &script]).current_dir(weir.path()).stdin(Stdio::null());
        command.env("weir", env!("CARGO_BIN_EXE_weir")).env_remove("WEIR_DATA_DIR");
        let ran = Ran::from(command.output().expect("`unshare` of util-linux is needed"));
        let count = if what == "closed" { "4" } else { "5" };
        assert_eq!(ran.stdout.lines().next(), Some(count), "{what}: {ran}");
        assert!(ran.stdout.ends_with("exit 1\n"), "{what}: {ran}");
        assert!(ran.stdout.contains("Read-only file system"), "{what}: {ran}");
        assert_eq!(contents(&weir.data()), before, "{what}");
    }
}
