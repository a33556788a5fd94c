//! Lists that tell sessions apart, and names for sessions and calls that work everywhere.

use crate::chat::project;
use crate::outside::Desk;
use crate::weir::{Ran, Weir};

fn list_in(weir: &Weir, zone: &str, args: &[&str]) -> Vec<String> {
    let mut command = weir.command();
    command.env("TZ", zone).args(["session", "list"]).args(args);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_list_has_first_words_cost_and_local_time() {
    let weir = project();
    weir.say("hello   from the\nother side of the street, where nobody has ever been before and nobody goes");
    weir.ok(&["chat", "helper", "-m", "hello", "--title", "Greetings"]);
    let here = list_in(&weir, "Asia/Tokyo", &[]);
    assert!(
        here[0].starts_with("SESSION") && here[0].contains("UPDATED  ") && here[0].contains("COST"),
        "{here:?}"
    );
    assert!(here[1].ends_with("Greetings") && here[1].contains("$0.00"), "{here:?}");
    assert!(
        here[2].contains("hello from the other side of the street, where nobody") && here[2].ends_with('…'),
        "{here:?}"
    );
    // Tokyo is nine hours ahead, whatever this machine knows about zones.
    let there = list_in(&weir, "Asia/Tokyo", &["--utc"]);
    assert!(there[0].contains("UPDATED (UTC)"), "{there:?}");
    let hour =
        |line: &str| line.split(':').next().unwrap()[line.find(':').unwrap() - 2..].parse::<u32>().unwrap();
    assert_eq!((hour(&there[1]) + 9) % 24, hour(&here[1]), "{here:?} {there:?}");
    assert!(list_in(&weir, "UTC", &[])[0].contains("UPDATED (UTC)"));
    let listed = weir.ok(&["session", "list", "--json"]);
    let second: serde_json::Value = serde_json::from_str(listed.lines().nth(1).unwrap()).unwrap();
    assert!(second["subject"].as_str().unwrap().starts_with("hello from the other"), "{second}");
    assert!(
        second["title"].is_null()
            && second["parent"].is_null()
            && second["updated"].as_str().unwrap().ends_with('Z')
    );
}

/// Each file that a session begins with is an event before its first message.
#[test]
fn first_words_are_shown_behind_any_number_of_files() {
    let weir = project();
    for n in 0..40 {
        weir.write(&format!("given/f{n}"), "x");
    }
    weir.ok(&["chat", "helper", "--files", "given", "-m", "hello behind forty files"]);
    let listed = weir.ok(&["session", "list"]);
    assert!(listed.lines().nth(1).unwrap().ends_with("hello behind forty files"), "{listed}");
    assert_eq!(weir.json(&["session", "list"])["subject"], "hello behind forty files");
}

/// The text of a message and what was piped in beside it are words apart.
#[test]
fn parts_of_a_first_message_are_words_apart() {
    let weir = project();
    weir.run_with(&["chat", "helper", "-m", "hello"], b"from a pipe\n");
    let subject = weir.json(&["session", "list"])["subject"].clone();
    assert!(subject.as_str().unwrap().starts_with("hello [standard input, "), "{subject}");
}

#[test]
fn children_stand_under_the_session_they_work_for() {
    let desk = Desk::new();
    desk.ask("boss", "ring", &["--live-writes"]);
    desk.ask("helper", "ring", &["--live-writes"]);
    let listed = desk.project.ok(&["session", "list"]);
    let rows: Vec<&str> = listed.lines().skip(1).collect();
    assert_eq!(rows.len(), 3, "{listed}");
    let boss = rows.iter().position(|row| row.contains("boss")).unwrap();
    assert!(rows[boss + 1].starts_with("└ ") && rows[boss + 1].contains("helper"), "{listed}");
    let parent = rows[boss].split(' ').next().unwrap();
    let child =
        desk.project.lines(&["session", "list"]).into_iter().find(|row| !row["parent"].is_null()).unwrap();
    assert_eq!(child["parent"], parent, "{child}");
}

#[test]
fn sessions_are_named_the_same_everywhere() {
    let weir = project();
    let first = weir.say("hello");
    let second = weir.say("What time is it?");
    for (name, session) in [("-1", &second), ("--last", &second), ("-2", &first), (&first[..25], &first)] {
        for args in [
            &["session", "show", name, "--json"][..],
            &["session", "state", name, "--json"],
            &["session", "history", name, "--json"],
            &["fs", "ls", name, "--json"],
            &["budget", "show", "--session", name, "--json"],
            &["approvals", "--session", name, "--json"],
        ] {
            let ran = weir.run(args);
            assert_eq!(ran.code, 0, "{args:?}: {ran}");
        }
        assert_eq!(&weir.json(&["session", "show", name])["id"], &serde_json::json!(session), "{name}");
        let stream = if name.starts_with('-') { name.to_owned() } else { format!("session:{name}") };
        let whole = weir.ok(&["cat", "--stream", &format!("session:{session}"), "--json"]);
        assert_eq!(weir.ok(&["cat", "--stream", &stream, "--json"]), whole, "{name}");
        let count = weir.ok(&["count", "--stream", &stream]);
        assert_eq!(count.trim(), whole.lines().count().to_string(), "{name}");
        let exported = weir.ok(&["export", "--stream", &format!("session:{session}")]);
        assert_eq!(weir.ok(&["export", "--stream", &stream]), exported, "{name}");
        let branches = weir.json(&["branch", "list", "--stream", &stream]);
        assert_eq!(branches["stream"], format!("session:{session}"), "{name}");
        assert_eq!(weir.json(&["verify", "--stream", &stream])["streams"], 1, "{name}");
    }
    assert_eq!(weir.error(&["session", "show", "-3"]), (1, "engine::no-session".to_owned()));
    for command in [&["cat"][..], &["export"], &["verify"], &["branch", "list"]] {
        let error = weir.error(&[command, &["--stream", "-3"]].concat());
        assert_eq!(error, (1, "engine::no-session".to_owned()), "{command:?}");
    }
    let forked = weir.json(&["branch", "fork", "--stream", "-1", "--at", "2", "--name", "draft"]);
    assert_eq!(forked["stream"], format!("session:{second}"));
    assert_eq!(weir.error(&["session", "show", "-0"]), (2, "cli::session".to_owned()));
    let said = weir.json(&["chat", "helper", "--session", "-2", "-m", "hello"]);
    assert_eq!(said["session"], serde_json::json!(first));
}

#[test]
fn the_only_call_that_waits_needs_no_name() {
    let desk = Desk::new();
    desk.ask("helper", "ring", &["--live-writes"]);
    let ran = desk.project.run(&["approve", "--live-writes"]);
    assert_eq!((ran.code, desk.rings()), (0, 1), "{ran}");
    let (_, calls) = desk.ask("helper", "ring twice", &["--live-writes"]);
    let several = desk.project.run(&["approve", "--live-writes", "--json"]);
    assert_eq!(several.error(), (2, "cli::ambiguous-call".to_owned()));
    assert!(calls.iter().all(|call| several.stderr.contains(call.as_str())), "{several}");
    assert_eq!(desk.rings(), 0);
    desk.project.ok(&["deny", &calls[0], "--no-run"]);
    let ran = desk.project.run(&["deny", "-1", "-m", "enough"]);
    assert_eq!((ran.code, desk.rings()), (0, 0), "{ran}");
    let none = desk.project.run(&["approve", "--json"]);
    assert_eq!(none.error(), (1, "engine::no-approval".to_owned()));
}

/// What help shows can be copied: no line of an example is broken, however narrow the terminal is.
#[test]
fn examples_in_help_are_never_broken() {
    let weir = Weir::new();
    for command in ["run", "serve", "ingest", "policy explain", "chat", "fs import", "approve", "tools call"]
    {
        for columns in ["60", "100", "200"] {
            let mut help = weir.command();
            help.env("COLUMNS", columns).arg("help").args(command.split(' '));
            let ran = Ran::from(help.output().unwrap());
            let examples =
                ran.stdout.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{command}: {ran}"));
            let examples: Vec<&str> = examples.lines().take_while(|line| !line.is_empty()).collect();
            assert!(!examples.is_empty() && !ran.stdout.contains('\u{a0}'), "{command}: {ran}");
            for line in examples {
                let quotes = line.matches('\'').count();
                assert!(line.starts_with("  ") && quotes % 2 == 0, "{command} at {columns}: {line:?}");
            }
        }
    }
    let run = weir.ok(&["help", "run"]);
    assert!(run.lines().any(|line| line.contains("curl") && line.ends_with("/agents/helper/chat")), "{run}");
}

#[test]
fn help_and_version_are_found_however_they_are_asked_for() {
    let weir = Weir::new();
    let version = weir.ok(&["--version"]);
    assert_eq!(weir.ok(&["version"]), version);
    let document = weir.json(&["--version"]);
    assert_eq!(format!("weir {}\n", document["release"].as_str().unwrap()), version);
    assert!(document.get("commit").is_some(), "{document}");
    assert_eq!(weir.json(&["version"]), document);
    let help = weir.ok(&["help", "chat"]);
    assert_eq!(weir.ok(&["help", "chat", "-h"]), help);
    assert_eq!(weir.ok(&["help", "chat", "--help"]), help);
}
