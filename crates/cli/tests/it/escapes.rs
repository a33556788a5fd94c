//! Attempts to get out of the sandbox, through the real `weir sandbox-exec`. Each is made twice: once with enforcement off, where it must
//! succeed (or it would show nothing), and once confined, where it must not. What counts is what is seen from outside.
#![cfg(target_os = "linux")]

mod bash;
mod ends;
mod files;
mod kernels;
mod limits;
mod network;
mod processes;
mod resources;
mod room;
mod tools;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use weir_tools::{End, Enforcement, Job, Limits, Ran, Room, SUBCOMMAND, Sandbox, SandboxError};

/// Longer than any healthy machine needs.
const DEADLINE: Duration = Duration::from_secs(60);

/// What nobody inside must ever read.
const SECRET: &str = "the-secret-of-the-canary";

/// What an attempt prints when it got somewhere.
const ESCAPED: &str = "ESCAPED";

fn launcher() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_weir").into(), SUBCOMMAND.into()]
}

/// A sandbox with a place for its rooms that is looked at afterwards.
struct Lab {
    rooms: TempDir,
    sandbox: Sandbox,
}

impl Lab {
    fn new(enforcement: Enforcement) -> Self {
        Self::launched_by(launcher(), enforcement, Limits::default())
    }

    fn confined() -> Self {
        Self::new(Enforcement::Required)
    }

    fn with_limits(limits: Limits) -> Self {
        Self::launched_by(launcher(), Enforcement::Required, limits)
    }

    fn launched_by(launcher: Vec<OsString>, enforcement: Enforcement, limits: Limits) -> Self {
        let rooms = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::new(launcher)
            .with_enforcement(enforcement)
            .with_limits(limits)
            .with_rooms_in(rooms.path());
        Self { rooms, sandbox }
    }

    async fn room(&self) -> Arc<Room> {
        Arc::new(self.sandbox.room().await.unwrap())
    }

    async fn try_run(&self, command: &str, deadline: Duration) -> Result<Ran, SandboxError> {
        let room = self.room().await;
        let ran = self.run_in(&room, command, deadline, &CancellationToken::new()).await;
        Arc::into_inner(room).unwrap().remove().await;
        assert_eq!(self.rooms_left(), 0, "a room was left behind");
        ran
    }

    async fn run_in(
        &self,
        room: &Arc<Room>,
        command: &str,
        deadline: Duration,
        cancelled: &CancellationToken,
    ) -> Result<Ran, SandboxError> {
        let argv = ["/bin/bash", "-c", command].map(str::to_owned).to_vec();
        self.sandbox.run(Job { argv, room: Arc::clone(room), deadline }, cancelled).await
    }

    /// Runs a command to its end, which must be its own.
    async fn run(&self, command: &str) -> Ran {
        let ran = self.try_run(command, DEADLINE).await.unwrap();
        assert!(matches!(ran.end, End::Exited(_) | End::Signalled(_)), "{command}: {ran:?}");
        ran
    }

    /// What a command prints, which must succeed.
    async fn prints(&self, command: &str) -> String {
        let ran = self.run(command).await;
        assert_eq!(ran.end, End::Exited(0), "{command}: {}{}", ran.stdout.text(), ran.stderr.text());
        ran.stdout.text()
    }

    fn rooms_left(&self) -> usize {
        std::fs::read_dir(self.rooms.path()).unwrap().count()
    }
}

/// Files that are none of a command's business.
struct Canary {
    directory: TempDir,
    before: Vec<Seen>,
}

/// All that can be seen of a file, but for when it was read.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    content: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Canary {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("weir-canary").tempdir().unwrap();
        let program = directory.path().join("program");
        std::fs::write(directory.path().join("secret"), format!("{SECRET}\n")).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\necho {SECRET}\n")).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::create_dir(directory.path().join("inner")).unwrap();
        std::fs::write(directory.path().join("inner").join(SECRET), "").unwrap();
        let before = look(directory.path());
        Self { directory, before }
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }

    fn is_untouched(&self) -> bool {
        look(self.directory.path()) == self.before
    }
}

fn look(directory: &Path) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let content = if found.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        if found.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen.push(Seen {
            path,
            content,
            mode: found.mode(),
            owner: (found.uid(), found.gid()),
            links: found.nlink(),
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (found.mtime(), found.mtime_nsec()),
        });
    }
    seen.sort_by(|one, other| one.path.cmp(&other.path));
    seen
}

/// Makes an attempt without and with enforcement. `CANARY` in it is where the canary is.
async fn attempt(command: &str) {
    attempt_in(&Lab::new(Enforcement::Off), command, true).await;
    attempt_in(&Lab::confined(), command, false).await;
}

async fn attempt_in(lab: &Lab, command: &str, succeeds: bool) {
    let canary = Canary::new();
    let ran = lab.run(&command.replace("CANARY", canary.path())).await;
    let said = format!("{}{}", ran.stdout.text(), ran.stderr.text());
    let escaped =
        ran.stdout.text().contains(SECRET) || ran.stdout.text().contains(ESCAPED) || !canary.is_untouched();
    let enforced = if succeeds { "not enforced" } else { "enforced" };
    assert_eq!(escaped, succeeds, "{command} ({enforced}) said {said:?}");
}

/// Until something is so. Nothing here sleeps to be on time.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let latest = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < latest, "{what}, in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process has this text among its arguments.
pub(crate) fn is_running(marker: &str) -> bool {
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path().join("cmdline")));
    processes.into_iter().any(|file| {
        std::fs::read(file).is_ok_and(|line| line.windows(marker.len()).any(|part| part == marker.as_bytes()))
    })
}

/// A number of seconds to sleep by which a process is recognised.
pub(crate) fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("1000.{}{:04}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn perl_is_here() {
    // Half of the attempts are system calls that no shell makes; without it they would fail for the wrong reason.
    assert!(Path::new("/usr/bin/perl").exists(), "install perl: the attempts are written in it");
}
