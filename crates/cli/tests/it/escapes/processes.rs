//! Other processes: signalled, looked into, slowed down. And what is inherited of them.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use libc::{
    SYS_add_key, SYS_ioprio_set, SYS_pidfd_getfd, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_prlimit64,
    SYS_process_vm_readv, SYS_ptrace, SYS_sched_setaffinity, SYS_setpriority, SYS_shmget,
};
use weir_tools::{End, Enforcement};

use super::{DEADLINE, ESCAPED, Lab, SECRET, attempt};

/// A process that is none of a command's business, with a secret.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        let child =
            Command::new("/bin/sleep").arg("1000").env("KEY", SECRET).stdin(Stdio::null()).spawn().unwrap();
        let environment = format!("/proc/{}/environ", child.id());
        super::until("it runs", || {
            std::fs::read_to_string(&environment).is_ok_and(|text| text.contains(SECRET))
        });
        Self(child)
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Its priority, limits and processors, as the kernel tells them.
    fn state(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap();
        let status: String = read("status").lines().filter(|line| line.starts_with("Cpus_allowed")).collect();
        let stat = read("stat");
        let nice = stat.split(' ').nth(18).unwrap();
        format!("{nice} {status} {}", read("limits"))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn nobody_outside_is_killed() {
    for command in [
        "kill -9 PID".to_owned(),
        "kill -TERM PID".to_owned(),
        "/bin/kill -9 PID".to_owned(),
        "perl -e 'kill 9, PID'".to_owned(),
        format!(
            "perl -e '$f = syscall({SYS_pidfd_open}, PID, 0); syscall({SYS_pidfd_send_signal}, $f, 9, 0, 0)'"
        ),
        // A file that belongs to a process sends it a signal of one's choice when there is something to read.
        "perl -e 'use Fcntl; pipe(R, W); fcntl(R, F_SETOWN, PID + 0); fcntl(R, 10, 9); \
         fcntl(R, F_SETFL, fcntl(R, F_GETFL, 0) | O_ASYNC); syswrite(W, \"x\")'"
            .to_owned(),
    ] {
        for (enforcement, lives) in [(Enforcement::Off, false), (Enforcement::Required, true)] {
            let mut bystander = Bystander::new();
            let ran = Lab::new(enforcement).run(&command.replace("PID", &bystander.0.id().to_string())).await;
            if lives {
                assert!(bystander.lives(), "{command}");
            } else {
                super::until(&format!("{command} kills: {ran:?}"), || !bystander.lives());
            }
        }
    }
}

#[tokio::test]
async fn the_supervisor_and_the_engine_outlive_every_command() {
    let lab = Lab::confined();
    let engine = std::process::id();
    for command in [
        "kill -9 $PPID",
        "kill -9 ENGINE",
        "kill -9 0",
        "kill -9 -1",
        "kill -9 -- -$PPID",
        "kill -STOP $PPID",
        "perl -e 'kill \"STOP\", $ARGV[0]; kill 9, -$ARGV[0]; kill 9, -1; exit' $PPID",
    ] {
        let ran =
            lab.run(&format!("{}; echo still here", command.replace("ENGINE", &engine.to_string()))).await;
        assert_eq!((ran.end, &*ran.stdout.text()), (End::Exited(0), "still here\n"), "{command}");
    }
}

#[tokio::test]
async fn nobody_outside_is_looked_into() {
    for command in [
        "cat /proc/PID/environ".to_owned(),
        "cat /proc/PID/cmdline | grep -a sleep && echo ESCAPED".to_owned(),
        "readlink /proc/PID/exe && echo ESCAPED".to_owned(),
        "ls /proc/PID/fd && echo ESCAPED".to_owned(),
        "ls /proc/PID/cwd/ && echo ESCAPED".to_owned(),
        // PTRACE_SEIZE
        format!("perl -e 'syscall({SYS_ptrace}, 0x4206, PID, 0, 0) == 0 and print \"ESCAPED\"'"),
        format!(
            "perl -e '$f = syscall({SYS_pidfd_open}, PID, 0); syscall({SYS_pidfd_getfd}, $f, 0, 0) >= 0 and print \"ESCAPED\"'"
        ),
    ] {
        let bystander = Bystander::new();
        attempt(&command.replace("PID", &bystander.0.id().to_string())).await;
    }
    // Memory is not even read within the sandbox.
    let vector = "$b = \"\\0\" x 8; $l = pack(\"QQ\", unpack(\"Q\", pack(\"p\", $b)), 8)";
    let command = format!(
        "perl -e '{vector}; $! = 0; syscall({SYS_process_vm_readv}, getppid, $l, 1, $l, 1, 0); \
         print \"ESCAPED\" if $! != 1'"
    );
    attempt(&command).await;
}

#[tokio::test]
async fn nobody_outside_is_slowed_down() {
    for command in [
        "renice -n 15 PID".to_owned(),
        format!("perl -e 'syscall({SYS_setpriority}, 0, PID, 15)'"),
        format!("perl -e '$m = pack(\"Q\", 1); syscall({SYS_sched_setaffinity}, PID, 8, $m)'"),
        format!("perl -e '$l = pack(\"QQ\", 10, 10); syscall({SYS_prlimit64}, PID, 7, $l, 0)'"),
    ] {
        for enforcement in [Enforcement::Off, Enforcement::Required] {
            let bystander = Bystander::new();
            let before = bystander.state();
            Lab::new(enforcement).run(&command.replace("PID", &bystander.0.id().to_string())).await;
            assert_eq!(bystander.state() == before, enforcement == Enforcement::Required, "{command}");
        }
    }
    // IOPRIO_WHO_PROCESS, the idle class
    let bystander = Bystander::new();
    let id = bystander.0.id();
    attempt(&format!("perl -e 'syscall({SYS_ioprio_set}, 1, {id}, 3 << 13) == 0 and print \"ESCAPED\"'"))
        .await;
}

#[tokio::test]
async fn nothing_is_left_in_the_kernel() {
    // Shared memory and keys outlive processes. The control removes what it makes.
    let (remove, key) = (libc::SYS_shmctl, libc::SYS_keyctl);
    for command in [
        format!(
            "perl -e '$i = syscall({SYS_shmget}, 0, 4096, 0600); $i >= 0 and print \"ESCAPED\"; syscall({remove}, $i, 0, 0)'"
        ),
        format!(
            "perl -e '($t, $n, $v) = (\"user\", \"weir\", \"x\"); $k = syscall({SYS_add_key}, $t, $n, $v, 1, -3); $k > 0 and print \"ESCAPED\"; syscall({key}, 3, $k)'"
        ),
    ] {
        attempt(&command).await;
    }
}

#[tokio::test]
async fn there_are_no_other_namespaces() {
    for command in [
        "unshare --user true && echo ESCAPED",
        "unshare --user --map-root-user --mount true && echo ESCAPED",
        "unshare --user --net true && echo ESCAPED",
        "unshare --user --pid --fork true && echo ESCAPED",
        "nsenter --user=/proc/$$/ns/user true; nsenter --mount=/proc/$PPID/ns/mnt true && echo ESCAPED",
    ] {
        attempt(command).await;
    }
}

#[tokio::test]
async fn nothing_of_the_engine_is_in_the_environment() {
    let lab = Lab::confined();
    let names = lab.prints("env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert_eq!(names, "HOME LANG PATH PWD SHLVL TMPDIR _ ");
    // Neither what the engine has, which the supervisor is not given, nor what the supervisor has.
    let mut launcher: Vec<OsString> = vec!["/usr/bin/env".into(), format!("KEY={SECRET}").into()];
    launcher.extend(super::launcher());
    let given = Lab::launched_by(launcher.clone(), Enforcement::Required, Default::default());
    assert_eq!(given.prints("env | cut -d= -f1 | sort | tr '\\n' ' '").await, names);
    let room = lab.room().await;
    let ran = lab
        .run_in(&room, "echo $HOME $TMPDIR $PWD $LANG; id -u", DEADLINE, &Default::default())
        .await
        .unwrap();
    let shown = |path: std::path::PathBuf| path.display().to_string();
    let expected = format!(
        "{} {} {} C.UTF-8\n{}\n",
        shown(room.home()),
        shown(room.temporary()),
        shown(room.files()),
        rustix::process::geteuid().as_raw()
    );
    assert_eq!(ran.stdout.text(), expected);
}

/// Root inside is root in name only.
#[tokio::test]
async fn there_are_no_capabilities_and_limits_stay() {
    for command in [
        "ulimit -n 2048 && echo ESCAPED",
        "ulimit -c unlimited && echo ESCAPED",
        "ulimit -f unlimited && echo ESCAPED",
    ] {
        let ran = Lab::confined().run(command).await;
        assert!(!ran.stdout.text().contains(ESCAPED), "{command}");
    }
    if super::is_root() {
        attempt("nice -n -15 true 2>&1 | grep -q . || echo ESCAPED").await;
        attempt("chroot / /bin/true && echo ESCAPED").await;
    }
}

/// A descriptor that the engine was started with, and did not mark: a shell's `3< file`.
#[tokio::test]
async fn open_files_are_not_inherited() {
    let canary = super::Canary::new();
    let script = format!("exec 7< {}/secret; exec \"$@\"", canary.path());
    let mut launcher: Vec<OsString> = ["/bin/bash", "--norc", "-c", &script, "bash"].map(Into::into).to_vec();
    launcher.extend(super::launcher());
    let command = "cat <&7; for fd in 3 4 5 6 8 9; do { true <&$fd; } 2> /dev/null && echo $fd; done; true";
    let lab = Lab::launched_by(launcher, Enforcement::Required, Default::default());
    let ran = lab.run(command).await;
    assert_eq!(ran.stdout.text(), "", "{}", ran.stderr.text());
    // Without the supervisor, it would be there.
    let bare = Command::new("/bin/bash")
        .args(["-c", &format!("exec 7< {}/secret; exec bash -c 'cat <&7'", canary.path())])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&bare.stdout).contains(SECRET));
}

/// The way an unprivileged user is confined, whoever runs the tests.
#[tokio::test]
async fn another_user_is_confined_the_same() {
    if !super::is_root() {
        // Then all the other tests show it.
        return;
    }
    let weir = super::launcher();
    // The binary may be where only root gets to.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = directory.path().join("weir");
    std::fs::copy(&weir[0], &copy).unwrap();
    let mut launcher: Vec<OsString> =
        ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(Into::into).to_vec();
    launcher.extend([copy.into_os_string(), weir[1].clone()]);
    let lab = Lab::launched_by(launcher, Enforcement::Required, Default::default());
    let canary = super::Canary::new();
    for path in [canary.path().to_owned(), format!("{}/secret", canary.path())] {
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
    }
    let before = super::look(canary.directory.path());
    let room = lab.room().await;
    std::fs::set_permissions(lab.rooms.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for path in [room.path().to_owned(), room.files(), room.home(), room.temporary(), room.shared()] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let command = format!(
        "cd {0}; cat secret; chmod 777 secret; touch -c -d 2001-01-01 secret; rm secret; echo x > new; kill -9 {1}; \
         cd ~; echo mine > f; chmod 700 f; stat -c %a f; id -u",
        canary.path(),
        std::process::id()
    );
    let ran = lab.run_in(&room, &command, DEADLINE, &Default::default()).await.unwrap();
    assert_eq!(ran.stdout.text(), "700\n65534\n", "{}", ran.stderr.text());
    assert_eq!(super::look(canary.directory.path()), before);
    Arc::into_inner(room).unwrap().remove().await;
    assert_eq!(lab.rooms_left(), 0);
}
