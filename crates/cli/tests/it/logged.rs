//! The log of `weir chat`: nothing unless `LOG_LEVEL` asks for it, and never a secret or a message.

use crate::chat::project;
use crate::weir::{Ran, Weir};

const SECRET: &str = "hunter2-of-the-environment";

fn chat(weir: &Weir, level: Option<&str>, more: &[&str]) -> Ran {
    let mut command = weir.command();
    command.args(["chat", "helper", "-m", "What time is it, dear xylophone?"]).args(more);
    command.env("ANTHROPIC_API_KEY", SECRET).env("HELPER_TOKEN", SECRET);
    if let Some(level) = level {
        command.env("LOG_LEVEL", level);
    }
    Ran::from(command.output().unwrap())
}

const TOLD: [&str; 8] = [
    "session claimed",
    "run started",
    "model call started",
    "model call completed",
    "tool call started",
    "tool call completed",
    "run finished",
    "session released",
];

#[test]
fn chat_logs_what_is_asked_for_and_no_more() {
    let weir = project();
    for quiet in [None, Some("off"), Some("warn"), Some("info")] {
        let ran = chat(&weir, quiet, &[]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(!TOLD.iter().any(|told| ran.stderr.contains(told)), "{quiet:?}: {}", ran.stderr);
    }
    for loud in ["debug", "trace"] {
        let ran = chat(&weir, Some(loud), &[]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for told in TOLD {
            assert!(ran.stderr.contains(told), "{loud}: {told}: {}", ran.stderr);
        }
        assert!(!ran.stdout.contains("run started"), "{}", ran.stdout);
        for hidden in [SECRET, "xylophone", "Let me look", "I need the clock"] {
            assert!(!ran.stderr.contains(hidden), "{loud}: {hidden}: {}", ran.stderr);
        }
        assert_eq!(ran.stderr.contains("append "), loud == "trace", "{}", ran.stderr);
    }
}

#[test]
fn the_records_of_a_program_are_objects() {
    let ran = chat(&project(), Some("debug"), &["--json"]);
    let records: Vec<serde_json::Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |message: &str| records.iter().find(|record| record["message"] == message).unwrap();
    let (run, call) = (told("run started"), told("tool call started"));
    assert!(run["session"].is_string() && run["run"].is_string(), "{run}");
    assert_eq!((&run["session"], &run["run"]), (&call["session"], &call["run"]));
    assert_eq!(call["tool"], "get_time");
}

#[test]
fn a_level_that_is_none_is_refused() {
    let ran = chat(&project(), Some("loud"), &["--json"]);
    assert_eq!(ran.error(), (2, "cli::log-level".to_owned()));
}
