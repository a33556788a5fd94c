//! Commands in a control group, on a kernel that has cgroup v2 for memory. `cargo xtask cgroups` boots one in a virtual machine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails like the test itself")]
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use weir_tools::{End, Enforcement, Job, Limits, Ran, SUBCOMMAND, Sandbox, Stop};

/// An emulated processor is slow.
const DEADLINE: Duration = Duration::from_secs(600);

const MIB: u64 = 1024 * 1024;

/// Limits of which only that of memory can be met.
fn only_memory() -> Limits {
    Limits { memory_bytes: 64 * MIB, open_files: 8192, open_files_all: 60_000, ..Limits::default() }
}

struct Lab {
    sandbox: Sandbox,
    rooms: TempDir,
}

impl Lab {
    fn new(limits: Limits) -> Self {
        let rooms = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::new(vec![env!("CARGO_BIN_EXE_weir").into(), SUBCOMMAND.into()])
            .with_enforcement(Enforcement::Required)
            .with_limits(limits)
            .with_rooms_in(rooms.path());
        Self { sandbox, rooms }
    }

    async fn run(&self, command: &str) -> Ran {
        let room = Arc::new(self.sandbox.room().await.unwrap());
        let argv = ["/bin/bash", "-c", command].map(str::to_owned).to_vec();
        let job = Job { argv, room: Arc::clone(&room), deadline: DEADLINE };
        let ran = self.sandbox.run(job, &CancellationToken::new()).await.unwrap();
        Arc::into_inner(room).unwrap().remove().await;
        assert_eq!(std::fs::read_dir(self.rooms.path()).unwrap().count(), 0);
        ran
    }
}

/// The groups of commands. The tests are in a group of their own, beside which they are made.
fn groups() -> Vec<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    let own = Path::new("/sys/fs/cgroup").join(own);
    let beside = std::fs::read_dir(own.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    beside
        .filter(|path| path.file_name().unwrap().to_str().is_some_and(|name| name.starts_with("weir-")))
        .collect()
}

#[tokio::test]
async fn a_command_has_a_control_group_that_is_removed_afterwards() {
    let lab = Lab::new(Limits::default());
    assert!(lab.sandbox.support().await.unwrap().control_group);
    let ran = lab.run("true").await;
    assert_eq!(ran.end, End::Exited(0), "{ran:?}");
    assert_eq!(groups(), [] as [PathBuf; 0]);
}

/// Buffers of sockets belong to no process: only a group counts them.
#[tokio::test]
async fn memory_of_the_kernel_counts_for_one_process_and_for_sixteen() {
    for processes in [1, 16] {
        let lab = Lab::new(only_memory());
        let ran = lab
            .run(&format!(
                "exec perl -e 'use Socket; use IO::Handle; $b = \"x\" x 200_000; \
                 for (2..{processes}) {{ fork or last }} \
                 for (1..1500) {{ socketpair(my $r, my $h, AF_UNIX, SOCK_STREAM, 0) or last; \
                 $h->blocking(0); 1 while syswrite($h, $b); push @k, $r, $h }} print \"ESCAPED\\n\"'"
            ))
            .await;
        assert_eq!(ran.end, End::Stopped(Stop::Memory), "{processes}: {ran:?}");
    }
    assert_eq!(groups(), [] as [PathBuf; 0]);
}

/// Memory that many processes share out among themselves, none of which has much.
#[tokio::test]
async fn processes_are_counted_together() {
    let lab = Lab::new(only_memory());
    let ran =
        lab.run("exec perl -e 'for (2..16) { fork or last } $x = \"x\" x (10 << 20); sleep 1000'").await;
    assert_eq!(ran.end, End::Stopped(Stop::Memory), "{ran:?}");
}

/// Files in memory, which no process has mapped.
#[tokio::test]
async fn shared_memory_counts() {
    let limits = Limits { disk_bytes: 2048 * MIB, file_bytes: 2048 * MIB, ..only_memory() };
    let ran = Lab::new(limits).run("dd if=/dev/zero of=/dev/shm/f bs=1M count=256; sleep 1000").await;
    assert_eq!(ran.end, End::Stopped(Stop::Memory), "{ran:?}");
}

/// A supervisor that is killed cannot remove its group; the next command does.
#[tokio::test]
async fn a_group_that_a_kill_left_behind_is_removed_by_the_next_command() {
    let lab = Arc::new(Lab::new(Limits::default()));
    let room = Arc::new(lab.sandbox.room().await.unwrap());
    let argv = ["/bin/sleep", "1000"].map(str::to_owned).to_vec();
    let (sandbox, job) = (lab.sandbox.clone(), Job { argv, room, deadline: DEADLINE });
    let running = tokio::spawn(async move { sandbox.run(job, &CancellationToken::new()).await });
    let began = Instant::now();
    let group = loop {
        if let Some(group) = groups().pop() {
            break group;
        }
        assert!(!running.is_finished(), "it never had a group: {:?}", running.await);
        assert!(began.elapsed() < DEADLINE, "the command has no group");
        tokio::task::yield_now().await;
    };
    let supervisor: i32 = group.to_str().unwrap().rsplit('-').next().unwrap().parse().unwrap();
    let supervisor = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
    running.await.unwrap().unwrap_err();
    assert_eq!(groups(), [group]);
    let lab = Lab::new(Limits::default());
    assert_eq!(lab.run("true").await.end, End::Exited(0));
    assert_eq!(groups(), [] as [PathBuf; 0]);
}
