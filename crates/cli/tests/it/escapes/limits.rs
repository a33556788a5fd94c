//! Too much of anything: time, processes, memory, disk, output. The session lives.

use std::time::{Duration, Instant};

use weir_tools::{End, Limits, Stop};

use super::{DEADLINE, Lab, is_running, marker};

const MIB: u64 = 1024 * 1024;

async fn stops(limits: Limits, command: &str, deadline: Duration, why: Stop) {
    let lab = Lab::with_limits(limits);
    let ran = lab.try_run(command, deadline).await.unwrap();
    assert_eq!(ran.end, End::Stopped(why), "{command}: {}", ran.stderr.text());
    // And the next command runs as if nothing had been.
    assert_eq!(lab.prints("echo fine").await, "fine\n");
}

#[tokio::test]
async fn a_deadline_cannot_be_ignored() {
    for command in [
        "sleep SECONDS",
        "trap '' TERM INT HUP XCPU; sleep SECONDS",
        "trap '' TERM; while :; do :; done # SECONDS",
        "trap '' TERM; (trap '' TERM; sleep SECONDS) & wait; sleep SECONDS",
        "perl -e '$SIG{$_} = \"IGNORE\" for keys %SIG; sleep SECONDS while 1'",
    ] {
        let marker = marker();
        let began = Instant::now();
        let command = command.replace("SECONDS", &marker);
        stops(Limits::default(), &command, Duration::from_millis(300), Stop::Deadline).await;
        assert!(began.elapsed() < DEADLINE);
        assert!(!is_running(&marker), "{command}");
    }
}

#[tokio::test]
async fn a_fork_bomb_is_defused() {
    let limits = Limits { tasks: 100, ..Limits::default() };
    // Should it not be stopped, they end by themselves: after some thousand processes, and in a while.
    for command in [
        "for i in $(seq 3000); do sleep SECONDS & done; wait",
        "f() { (( $1 > 10 )) && sleep SECONDS || { f $(($1 + 1)) | f $(($1 + 1)); } & }; f 0; sleep SECONDS",
        "perl -e 'for (1..11) { fork } sleep SECONDS'",
        "perl -e 'use threads; 1' 2> /dev/null; perl -e 'for (1..3000) { fork or do { exec \"sleep\", \"SECONDS\" } } sleep SECONDS'",
    ] {
        let marker = marker();
        let command = command.replace("SECONDS", &marker.replace("1000.", "30."));
        stops(limits, &command, DEADLINE, Stop::Tasks).await;
        assert!(!is_running(&marker.replace("1000.", "30.")), "{command}");
    }
}

#[tokio::test]
async fn memory_is_bounded_over_all_processes() {
    let hog = "perl -e '$x = \"x\" x 60_000_000; sleep 1000'";
    let limits = Limits { memory_bytes: 200 * MIB, ..Limits::default() };
    stops(limits, &format!("for i in 1 2 3 4 5; do {hog} & done; wait"), DEADLINE, Stop::Memory).await;
    // One process alone meets the kernel's own limit.
    let lab = Lab::with_limits(Limits { address_bytes: 500 * MIB, ..Limits::default() });
    let ran = lab.run("perl -e '$x = \"x\" x 600_000_000'").await;
    assert_ne!(ran.end, End::Exited(0));
}

#[tokio::test]
async fn a_huge_file_ends_its_writer() {
    let lab = Lab::with_limits(Limits { file_bytes: MIB, ..Limits::default() });
    let command =
        "head -c 10M /dev/zero > file; echo $?; stat -c %s file; truncate -s 1G file || echo refused";
    assert_eq!(lab.prints(command).await, "153\n1048576\nrefused\n");
}

#[tokio::test]
async fn many_files_end_everything() {
    let limits = Limits { disk_bytes: 20 * MIB, ..Limits::default() };
    let command = "perl -e 'for (1..1000) { open(F, \">\", \"$ENV{TMPDIR}/$_\"); print F \"x\" x 1_000_000 } sleep 1000'";
    stops(limits, command, DEADLINE, Stop::Disk).await;
    let limits = Limits { disk_entries: 1000, ..Limits::default() };
    stops(limits, "perl -e 'mkdir \"$ENV{HOME}/$_\" for 1..5000; sleep 1000'", DEADLINE, Stop::Disk).await;
    // Deeper than any path is long. The room is removed all the same.
    let deep = "perl -e 'for (1..500) { mkdir \"d\"; chdir \"d\" } chmod 0, \".\"; sleep 1000'";
    stops(Limits::default(), deep, DEADLINE, Stop::Disk).await;
}

#[tokio::test]
async fn huge_output_is_cut_and_then_ends_it() {
    let lab = Lab::confined();
    let ran = lab.run("head -c 10M /dev/zero | tr '\\0' x; echo the end").await;
    let text = ran.stdout.text();
    assert_eq!(ran.stdout.total(), 10 * MIB + 8);
    assert!(text.contains("bytes left out]") && text.ends_with("the end\n") && text.len() < 1_000_000);
    let limits = Limits { output_bytes: 10 * MIB, ..Limits::default() };
    stops(limits, "yes", DEADLINE, Stop::Output).await;
    stops(limits, "cat /dev/zero >&2", DEADLINE, Stop::Output).await;
}

#[tokio::test]
async fn an_end_comes_through_as_it_was() {
    let lab = Lab::confined();
    for (command, end) in [
        ("true", End::Exited(0)),
        ("exit 7", End::Exited(7)),
        ("exit 255", End::Exited(255)),
        ("no-such-program", End::Exited(127)),
        ("kill -TERM $$", End::Signalled(15)),
        ("kill -SEGV $$", End::Signalled(11)),
    ] {
        assert_eq!(lab.run(command).await.end, end, "{command}");
    }
    let ran = lab.run("echo out; echo err >&2").await;
    assert_eq!((&*ran.stdout.text(), &*ran.stderr.text()), ("out\n", "err\n"));
}
