//! The room: who gets in, and what of it a command can change.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use super::{DEADLINE, Lab, SECRET, is_root};

/// Whether another user of this machine can read or write this file.
fn is_open_to_others(path: &std::path::Path) -> bool {
    let script = "cat \"$0\" > /dev/null || (echo x >> \"$0\")";
    let mut other = Command::new("/usr/bin/setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh", "-c", script]).arg(path);
    other.stderr(std::process::Stdio::null()).status().unwrap().success()
}

/// Whatever modes a command gives to what is its own, the directory around it keeps other users out: that one is not its to change.
#[tokio::test]
async fn a_command_cannot_open_its_room_to_other_users() {
    let lab = Lab::confined();
    // Others get as far as to the room.
    std::fs::set_permissions(lab.rooms.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let room = lab.room().await;
    let before = std::fs::metadata(room.path()).unwrap().mode();
    assert_eq!(before & 0o077, 0);
    std::fs::write(room.files().join("secret"), SECRET).unwrap();
    let lock = room.path().join("lock");
    let command = "chmod -R 777 .; chmod 777 .. ../lock ../../*; chmod 777 $(dirname $HOME); \
                   perl -e 'chmod 0777, \"..\", \"../lock\"; open(D, \"<\", \"..\") and chmod 0777, *D'; \
                   touch ../new; rm -f ../lock; mkdir ../../beside; stat -c %a . secret | tr '\\n' ' '";
    let ran = lab.run_in(&room, command, DEADLINE, &Default::default()).await.unwrap();
    // What is its own is its own.
    assert_eq!(ran.stdout.text(), "777 777 ", "{}", ran.stderr.text());
    assert_eq!(std::fs::metadata(room.path()).unwrap().mode(), before);
    assert!(lock.exists() && std::fs::metadata(&lock).unwrap().mode() & 0o022 == 0);
    let mut names: Vec<_> =
        std::fs::read_dir(room.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["files", "home", "lock", "shm", "tmp"]);
    if is_root() {
        let secret = room.files().join("secret");
        assert!(!is_open_to_others(&secret) && !is_open_to_others(&lock));
        // The control: it is the directory that keeps them out.
        std::fs::set_permissions(room.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert!(is_open_to_others(&secret));
    }
}

/// Names of files that others make in a directory that a command may not list.
#[tokio::test]
async fn nothing_is_told_of_what_others_do_with_their_files() {
    use libc::{SYS_inotify_add_watch, SYS_inotify_init1};
    let watch = |directory: &str| {
        format!(
            "perl -e '$f = syscall({SYS_inotify_init1}, 0); $d = \"{directory}\"; \
             syscall({SYS_inotify_add_watch}, $f, $d, 0x100) > 0 or exit 3; print \"watching\\n\"; \
             open(F, \"+<&=\", $f) or exit 4; open(R, \">\", \"ready\"); close(R); sysread(F, $b, 4096); print unpack(\"x16 A*\", $b)'"
        )
    };
    let told = async |lab: &Lab| {
        let canary = super::Canary::new();
        let room = lab.room().await;
        let (command, never) = (watch(canary.path()), Default::default());
        let running = lab.run_in(&room, &command, DEADLINE, &never);
        let mut running = std::pin::pin!(running);
        loop {
            tokio::select! {
                ran = &mut running => return ran.unwrap().stdout.text(),
                () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {
                    if room.files().join("ready").exists() {
                        let _ = std::fs::write(canary.directory.path().join("offer-letter"), "");
                    }
                }
            }
        }
    };
    let free = told(&Lab::new(weir_tools::Enforcement::Off)).await;
    assert!(free.contains("offer-letter"), "{free}");
    assert_eq!(told(&Lab::confined()).await, "");
    // Programs that would rather be told look for themselves.
    let lab = Lab::confined();
    assert_eq!(
        lab.prints("echo a > f; (sleep 0.2; echo b >> f) & timeout 5 tail -n 1 -f f | head -n 2").await,
        "a\nb\n"
    );
}
