//! Several processes at once, readers that go away, and Ctrl-C.

use std::collections::BTreeSet;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::running::{DEADLINE, Running};
use crate::weir::{Ran, Weir};

#[test]
fn a_follower_sees_what_another_process_appends() {
    let weir = Weir::with_notes();
    let follower = Running::start(
        weir.command().args(["cat", "--stream", "notes", "--after", "2", "--follow", "--json"]),
    );
    let seq_and_payload = |line: String| {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        (event["seq"].as_u64().unwrap(), event["payload"].clone())
    };
    assert_eq!(seq_and_payload(follower.line()), (3, serde_json::json!({"n": 3})));
    for n in 4..8 {
        weir.ok(&["append", "--stream", "notes", "--kind", "note.added", "--payload", &n.to_string()]);
        assert_eq!(seq_and_payload(follower.line()), (n, n.into()));
    }
    let ran = follower.interrupt();
    assert_eq!((ran.code, &*ran.stderr), (130, ""));
}

#[test]
fn a_follower_waits_for_a_stream_and_filters_by_kind() {
    let weir = Weir::with_notes();
    let follower =
        Running::start(weir.command().args(["cat", "--stream", "later", "--follow", "--kind", "b.b"]));
    weir.ok(&["append", "--stream", "later", "--kind", "a.a"]);
    weir.ok(&["append", "--stream", "later", "--kind", "b.b", "--payload", "\"seen\""]);
    assert!(follower.line().ends_with("\"seen\""));
    let ran = follower.interrupt();
    assert_eq!(ran.code, 130);
    assert!(ran.stderr.is_empty() || ran.stderr.contains("later@main is not there yet"), "{ran}");
}

#[test]
fn ctrl_c_while_waiting_for_input_is_an_interruption() {
    let weir = Weir::new();
    for args in [&["blob", "put", "-"][..], &["append", "--stream", "s", "--kind", "a.b", "--payload", "-"]] {
        let mut command = weir.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        wait_for_handler(child.id());
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let ran = Ran::from(child.wait_with_output().unwrap());
        drop(stdin);
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (130, "", ""), "{args:?}");
    }
}

/// Until the process has a handler for SIGINT, Ctrl-C would end it the crude way.
fn wait_for_handler(pid: u32) {
    let deadline = std::time::Instant::now() + DEADLINE;
    let interrupt = 1_u64 << (Signal::INT.as_raw() - 1);
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        if u64::from_str_radix(caught, 16).unwrap() & interrupt != 0 {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "no handler in time");
        std::thread::yield_now();
    }
}

#[test]
fn processes_that_append_to_one_stream_lose_and_double_nothing() {
    let weir = Weir::new();
    let ran: Vec<Ran> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let weir = &weir;
                scope.spawn(move || {
                    let append = ["append", "--stream", "shared", "--kind", "a.b", "--json"];
                    (0..40).map(|_| weir.run(&append)).collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let seqs: BTreeSet<u64> = ran
        .iter()
        .map(|ran| {
            assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran}");
            serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["seq"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(seqs, (1..=120).collect());
    assert_eq!(weir.ok(&["count", "--stream", "shared"]), "120\n");
    weir.ok(&["verify"]);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let weir = Weir::with_notes();
    weir.run_with(&["append", "--stream", "big", "--kind", "a.b", "--payload", "-"], &vec![b'x'; 1_000_000]);
    let blob = weir_types::Hash::of(&vec![b'x'; 1_000_000]).to_string();
    weir.write("agents/parrot/spec.yaml", "name: parrot\nmodel: offline/echo\n");
    let commands: [&[&str]; 15] = [
        &["chat", "parrot", "-m", "hello"],
        &["session", "list"],
        &["session", "history", "-1"],
        &["session", "show", "-1", "--json"],
        &["cat", "--stream", "notes"],
        &["cat", "--stream", "big", "--json"],
        &["cat", "--stream", "notes", "--follow"],
        &["streams"],
        &["branch", "list", "--stream", "notes"],
        &["export"],
        &["blob", "get", &blob],
        &["completions", "bash"],
        &["verify", "--print-anchor"],
        &["demo"],
        &["--help"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = weir.command().args(args).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("error") && !stderr.contains("panic"), "{args:?}: {stderr}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let weir = Weir::with_notes();
    for args in [&["streams"][..], &["export"], &["cat", "--stream", "notes"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = weir.command().args(args).arg("--json").stdout(full).output().unwrap();
        assert_eq!(Ran::from(output).error(), (1, "cli::stdout".to_owned()), "{args:?}");
    }
}
