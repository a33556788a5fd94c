//! Whoever ends first, nothing is left: no process, no room.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;
use weir_tools::{End, Enforcement, Job, Sandbox, SandboxError, Stop};
use weir_types::SandboxProfile;

use super::{DEADLINE, Lab, is_running, marker, until};

/// Tells a copy of this test that it is the engine.
const ENGINE: &str = "WEIR_TEST_ENGINE";
const ROOMS: &str = "WEIR_TEST_ROOMS";

const DAEMONS: [&str; 7] = [
    "sleep SECONDS &",
    "nohup sleep SECONDS > /dev/null 2>&1 &",
    "(sleep SECONDS & disown)",
    "(setsid sleep SECONDS || sleep SECONDS) &",
    "set -m; sleep SECONDS & disown",
    "perl -e 'use POSIX; fork and exit; setsid; setpgid(0, 0); fork and exit; $SIG{HUP} = \"IGNORE\"; exec \"sleep\", \"SECONDS\"'",
    "trap '' TERM HUP; sleep SECONDS & exit",
];

#[tokio::test]
async fn nothing_outlives_its_command() {
    for command in DAEMONS {
        for enforcement in [Enforcement::Required, Enforcement::Off] {
            let marker = marker();
            // By the end of the command, what it leaves behind is there.
            let command = format!("{}\nsleep 0.1", command.replace("SECONDS", &marker));
            let ran = Lab::new(enforcement).run(&command).await;
            assert!(!is_running(&marker), "{command} {enforcement:?} {ran:?}");
        }
        // A shell alone would leave it behind.
        let marker = marker();
        let mut alone = Command::new("/bin/bash");
        alone.args(["-c", &command.replace("SECONDS", &marker)]);
        alone.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        until("it is left behind", || !sleepers(&marker).is_empty());
        until("it is gone", || {
            for left in sleepers(&marker) {
                let _ = kill_process(left, Signal::KILL);
            }
            !is_running(&marker)
        });
    }
}

/// The processes that sleep for so long.
fn sleepers(marker: &str) -> Vec<Pid> {
    let ids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let sleeping = format!("sleep\0{marker}\0");
    let sleep =
        |id: &i32| std::fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|line| line == sleeping);
    ids.filter(sleep).filter_map(Pid::from_raw).collect()
}

/// The supervisor among the ancestors of a process, as they are seen from outside.
fn supervisor_of(process: Pid) -> Option<Pid> {
    let id = process.as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    let parent = Pid::from_raw(parent.trim().parse().ok()?)?;
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", parent.as_raw_nonzero())).ok()?;
    if line.ends_with("\0sandbox-exec\0") { Some(parent) } else { supervisor_of(parent) }
}

/// The first process of a command's namespace holds on to the supervisor alone: with it everything ends, whether or not the engine lives to kill the group.
#[tokio::test]
async fn without_an_engine_and_a_supervisor_nothing_is_left_either() {
    let lab = Lab::confined();
    if !lab.sandbox.support().await.unwrap().own_processes {
        // Then the engine kills the group, which other tests show.
        return;
    }
    let marker = marker();
    let room = lab.room().await;
    let (never, command) =
        (CancellationToken::new(), format!("trap '' TERM HUP; sleep {marker}; sleep {marker}"));
    let running = lab.run_in(&room, &command, DEADLINE, &never);
    let killing = async {
        let supervisor = loop {
            if let Some(found) = sleepers(&marker).into_iter().find_map(supervisor_of) {
                break found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        kill_process(supervisor, Signal::KILL).unwrap();
        // This test is the engine, and does not get to run here until everything is gone.
        until("everything is gone", || !is_running(&marker));
    };
    let (ran, ()) = tokio::join!(running, killing);
    assert!(matches!(ran, Err(SandboxError::Lost)), "{ran:?}");
}

#[tokio::test]
async fn a_cancelled_command_is_gone_when_the_answer_comes() {
    let lab = Lab::confined();
    let marker = marker();
    let (room, cancelled) = (lab.room().await, CancellationToken::new());
    let command = format!("trap '' TERM; (setsid sleep {marker}; sleep {marker}) & sleep {marker}");
    let running = lab.run_in(&room, &command, DEADLINE, &cancelled);
    let cancelling = async {
        while !is_running(&format!("sleep\0{marker}")) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        cancelled.cancel();
    };
    let (ran, ()) = tokio::join!(running, cancelling);
    assert_eq!(ran.unwrap().end, End::Stopped(Stop::Cancelled));
    assert!(!is_running(&marker));
}

#[tokio::test]
async fn a_command_nobody_waits_for_any_more_ends_and_its_room_goes() {
    let lab = Lab::confined();
    let marker = marker();
    {
        let room = lab.room().await;
        let (command, never) = (format!("trap '' TERM; sleep {marker}"), CancellationToken::new());
        let running = lab.run_in(&room, &command, DEADLINE, &never);
        let begun = async {
            while !is_running(&format!("sleep\0{marker}")) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            ran = running => panic!("{ran:?}"),
            () = begun => {}
        }
    }
    lab.sandbox.settled().await;
    assert!(!is_running(&marker));
    until("the room is gone", || lab.rooms_left() == 0);
}

#[tokio::test]
async fn a_supervisor_that_is_killed_takes_everything_along() {
    let lab = Lab::confined();
    let marker = marker();
    let room = lab.room().await;
    let command = format!("sleep {marker} & sleep {marker}");
    let never = CancellationToken::new();
    let running = lab.run_in(&room, &command, DEADLINE, &never);
    let killing = async {
        let supervisor = loop {
            if let Some(found) = sleepers(&marker).into_iter().find_map(supervisor_of) {
                break found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        kill_process(supervisor, Signal::KILL).unwrap();
    };
    let (ran, ()) = tokio::join!(running, killing);
    assert!(matches!(ran, Err(SandboxError::Lost)), "{ran:?}");
    until("everything is gone", || !is_running(&marker));
}

/// The engine is a copy of this test, which finds that it is.
#[test]
fn an_engine_that_is_killed_takes_everything_along() {
    if let (Ok(marker), Ok(rooms)) = (std::env::var(ENGINE), std::env::var(ROOMS)) {
        return be_the_engine(&marker, &rooms);
    }
    for _ in 0..3 {
        let (marker, rooms) = (marker(), tempfile::tempdir().unwrap());
        let mut engine = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "escapes::ends::an_engine_that_is_killed_takes_everything_along",
                "--nocapture",
            ])
            .env(ENGINE, &marker)
            .env(ROOMS, rooms.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("the command runs", || is_running(&format!("sleep\0{marker}\0")));
        until("the server runs", || is_running(&format!("sleep\0{marker}9\0")));
        let room = std::fs::read_dir(rooms.path()).unwrap().next().unwrap().unwrap().path();
        assert!(room.join("files/left").exists());
        engine.kill().unwrap();
        engine.wait().unwrap();
        until("everything is gone", || !is_running(&marker));
        until("the room is empty", || !room.join("files/left").exists());
        // The next engine removes what is left of it.
        let sandbox = Sandbox::new(super::launcher()).with_rooms_in(rooms.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let next = runtime.block_on(sandbox.room()).unwrap();
        assert!(next.path().exists() && !room.exists());
    }
}

fn be_the_engine(marker: &str, rooms: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sandbox = Sandbox::new(super::launcher()).with_rooms_in(rooms);
        let prefix = sandbox.supervised_prefix(SandboxProfile::Off);
        let mut server = Command::new(&prefix[0])
            .args(&prefix[1..])
            .args(["/bin/bash", "-c", &format!("trap '' TERM; setsid sleep {marker}9 & sleep {marker}9")])
            .spawn()
            .unwrap();
        let command =
            format!("echo x > left; trap '' TERM HUP; nohup sleep {marker} > /dev/null & sleep {marker}");
        let job = Job {
            argv: ["/bin/bash", "-c", &command].map(str::to_owned).to_vec(),
            room: sandbox.room().await.unwrap().into(),
            // Much longer than the test waits.
            deadline: 10 * DEADLINE,
        };
        let _ = sandbox.run(job, &CancellationToken::new()).await;
        let _ = server.wait();
    });
}

#[test]
fn a_supervised_child_has_its_streams_its_environment_and_its_status() {
    let prefix = Sandbox::new(super::launcher()).supervised_prefix(SandboxProfile::Off);
    let marker = marker();
    let mut child = Command::new(&prefix[0])
        .args(&prefix[1..])
        .args([
            "/bin/bash",
            "-c",
            &format!("setsid sleep {marker} & read line; echo $line $KEY; echo err >&2; exit 7"),
        ])
        .env_clear()
        .env("KEY", "value")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hello\n").unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    let status = child.wait().unwrap();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((status.code(), &*out, &*err), (Some(7), "hello value\n", "err\n"));
    assert!(!is_running(&marker));
    let missing = Command::new(&prefix[0]).args(&prefix[1..]).arg("/nowhere/at/all").output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nowhere/at/all"));
    // The prefix of one process is of no use to a child of another.
    let other = Command::new(&prefix[0])
        .args(["sandbox-exec", "--supervise", "--parent", "1", "--", "/bin/true"])
        .output();
    assert_eq!(other.unwrap().status.code(), Some(2));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_and_a_deadline_of_nothing_too() {
    let lab = Lab::confined();
    let room = lab.room().await;
    let job = |argv: &[&str]| Job {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        room: std::sync::Arc::clone(&room),
        deadline: DEADLINE,
    };
    let error = lab.sandbox.run(job(&["/nowhere/at/all"]), &CancellationToken::new()).await.unwrap_err();
    assert!(
        matches!(&error, SandboxError::NotStarted { why } if why.contains("/nowhere/at/all")),
        "{error:?}"
    );
    let ran = Lab::confined().try_run("sleep 1000", Duration::ZERO).await;
    assert_eq!(ran.unwrap().end, End::Stopped(Stop::Deadline));
}
