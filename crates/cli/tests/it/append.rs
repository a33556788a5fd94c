//! `weir append`: what it prints, what it refuses, and that a refusal changes nothing.

use insta::assert_snapshot;

use crate::weir::Weir;

const NOTE: [&str; 5] = ["append", "--stream", "notes", "--kind", "note.added"];

fn append(weir: &Weir, more: &[&str]) -> String {
    weir.show(&[&NOTE, more].concat())
}

#[test]
fn an_appended_event_is_there_with_its_actor() {
    let weir = Weir::new();
    assert_snapshot!(append(&weir, &["--payload", r#"{"text": "hello"}"#]), @"
    exit 0
    -- stdout
    appended event 1 of notes@main ([id])
    ");
    assert_snapshot!(append(&weir, &["--json"]), @r#"
    exit 0
    -- stdout
    {"stream":"notes","branch":"main","seq":2,"position":2,"id":"[id]","replayed":false}
    "#);
    assert_snapshot!(append(&weir, &["--meta", r#"{"source":"cron"}"#]), @"
    exit 0
    -- stdout
    appended event 3 of notes@main ([id])
    ");
    let lines = weir.ok(&["cat", "--stream", "notes", "--json"]);
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["payload"], serde_json::json!({"text": "hello"}));
    assert_eq!(events[1]["payload"], serde_json::json!({}));
    let actor = events[0]["meta"]["actor"].as_str().unwrap();
    assert!(actor.starts_with("user:") && actor.len() > "user:".len(), "{actor}");
    assert_eq!(events[2]["meta"], serde_json::json!({"actor": actor, "source": "cron"}));
}

#[test]
fn payloads_are_kept_byte_for_byte() {
    let weir = Weir::new();
    let binary: Vec<u8> = (0..=255).collect();
    let large = vec![b'x'; 200_000];
    let file = weir.path().join("payload");
    for content in [&b""[..], b" {\"a\" : 1}\n", &binary, b"\0", &large] {
        assert_eq!(weir.run_with(&[&NOTE[..], &["--payload", "-"]].concat(), content).code, 0);
        std::fs::write(&file, content).unwrap();
        assert_eq!(weir.run(&[&NOTE[..], &["--payload-file", "payload"]].concat()).code, 0);
    }
    let lines = weir.ok(&["cat", "--stream", "notes", "--json"]);
    let hashes: Vec<String> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["payload_hash"].as_str().unwrap().into()
        })
        .collect();
    let expected: Vec<String> = [&b""[..], b" {\"a\" : 1}\n", &binary, b"\0", &large]
        .iter()
        .flat_map(|content| {
            [weir_types::Hash::of(content).to_string(), weir_types::Hash::of(content).to_string()]
        })
        .collect();
    assert_eq!(hashes, expected);
}

#[test]
fn an_expectation_that_does_not_hold_changes_nothing() {
    let weir = Weir::new();
    assert_snapshot!(append(&weir, &["--expect", "1"]), @"
    exit 1
    -- stderr
    error: there is no journal at `.weir`
    help: go to the project, or name it with `--project DIR`; `--data-dir DIR` names the data itself, and `weir chat AGENT` or `weir append` begins a journal
    ");
    assert!(!weir.data().exists(), "a refused append made a data directory");
    assert_eq!(weir.run(&[&NOTE[..], &["--expect", "0"]].concat()).code, 0);
    assert_snapshot!(append(&weir, &["--expect", "0"]), @"
    exit 1
    -- stderr
    error: notes@main is at seq 1, not at 0
    help: read what is new with `weir cat --stream 'notes' --branch 'main'`, then decide again
    ");
    assert_snapshot!(append(&weir, &["--expect", "7"]), @"
    exit 1
    -- stderr
    error: notes@main is at seq 1, not at 7
    help: read what is new with `weir cat --stream 'notes' --branch 'main'`, then decide again
    ");
    assert_eq!(
        weir.error(&[&NOTE[..], &["--expect", "18446744073709551615"]].concat()),
        (1, "journal::conflict".into())
    );
    assert_eq!(weir.ok(&["count", "--stream", "notes"]), "1\n");
    assert_eq!(weir.run(&[&NOTE[..], &["--expect", "1"]].concat()).code, 0);
    assert_eq!(weir.ok(&["count", "--stream", "notes"]), "2\n");
}

#[test]
fn a_key_makes_an_append_repeatable() {
    let weir = Weir::new();
    let first = weir.json(&[&NOTE[..], &["--key", "k", "--payload", "1"]].concat());
    let again = weir.json(&[&NOTE[..], &["--key", "k", "--payload", "1"]].concat());
    let mut expected = first.clone();
    expected["replayed"] = true.into();
    assert_eq!(again, expected);
    assert_eq!(first["replayed"], false);
    assert_snapshot!(append(&weir, &["--key", "k", "--payload", "1"]), @"
    exit 0
    -- stdout
    already there: event 1 of notes@main ([id])
    ");
    assert_snapshot!(append(&weir, &["--key", "k", "--payload", "2"]), @"
    exit 2
    -- stderr
    error: key `k` was already used on notes@main for other content
    help: use a new key for new content; a key names one append for ever
    ");
    assert_eq!(weir.ok(&["count", "--stream", "notes"]), "1\n");
}

#[test]
fn a_payload_that_is_not_json_is_shown_where_it_is_wrong() {
    let weir = Weir::new();
    assert_snapshot!(append(&weir, &["--payload", r#"{"text": hello}"#]), @r#"
    exit 2
    -- stderr
    error: the payload is not JSON: expected value at line 1, column 10
       ╭─[--payload:1:10]
     1 │ {"text": hello}
       ·          ┬
       ·          ╰── expected value
       ╰────
    help: quote JSON for the shell, like `--payload '{"text":"hello"}'`; for anything else pass the bytes with `--payload -` or `--payload-file FILE`
    "#);
    assert_snapshot!(append(&weir, &["--payload", "{\"a\": 1,\n \"b\": \u{1b}[2J}", "--json"]), @r#"
    exit 2
    -- stderr
    {"error":{"code":"cli::not-json","message":"the payload is not JSON: expected value at line 2, column 7","help":"quote JSON for the shell, like `--payload '{\"text\":\"hello\"}'`; for anything else pass the bytes with `--payload -` or `--payload-file FILE`"}}
    "#);
    assert_snapshot!(append(&weir, &["--payload", "{\"a\": 1,\n \"b\": \u{1b}[2J}"]), @r#"
    exit 2
    -- stderr
    error: the payload is not JSON: expected value at line 2, column 7
       ╭─[--payload:2:7]
     1 │ {"a": 1,
     2 │  "b": ·[2J}
       ·       ┬
       ·       ╰── expected value
       ╰────
    help: quote JSON for the shell, like `--payload '{"text":"hello"}'`; for anything else pass the bytes with `--payload -` or `--payload-file FILE`
    "#);
    assert_snapshot!(append(&weir, &["--payload", ""]), @r#"
    exit 2
    -- stderr
    error: the payload is not JSON: EOF while parsing a value at line 1, column 0
    help: quote JSON for the shell, like `--payload '{"text":"hello"}'`; for anything else pass the bytes with `--payload -` or `--payload-file FILE`
    "#);
    let long = format!("[{}oops]", "1,".repeat(10_000));
    assert_snapshot!(append(&weir, &["--payload", &long]), @r#"
    exit 2
    -- stderr
    error: the payload is not JSON: expected value at line 1, column 20002
       ╭─[--payload:1:20002]
     1 │ …1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,oops]
       ·                                          ┬
       ·                                          ╰── expected value
       ╰────
    help: quote JSON for the shell, like `--payload '{"text":"hello"}'`; for anything else pass the bytes with `--payload -` or `--payload-file FILE`
    "#);
    assert!(!weir.data().exists(), "a refused append made a data directory");
}

#[test]
fn reserved_and_bad_names_are_refused() {
    let weir = Weir::new();
    let refused = |stream: &str, kind: &str| weir.show(&["append", "--stream", stream, "--kind", kind]);
    assert_snapshot!(refused("session:01J", "note.added"), @"
    exit 2
    -- stderr
    error: stream `session:01J` is reserved: only the runtime writes streams that begin with `session:`, `loop:`, `budget:`, `engine:`
    help: choose a name without that prefix, like `notes`
    ");
    assert_snapshot!(refused("notes", "tool.started"), @"
    exit 2
    -- stderr
    error: kind `tool.started` is reserved: only the runtime writes it, because it acts on what it says
    help: choose a kind of your own, like `my.started`
    ");
    assert_snapshot!(refused("", "note.added"), @"
    exit 2
    -- stderr
    error: a stream name cannot be empty
    help: give it a name, like `notes`
    ");
    assert_snapshot!(refused("tab\there", "note.added"), @r"
    exit 2
    -- stderr
    error: stream name `tab\there` contains the control character U+0009
    help: use visible characters, and spaces only inside the name
    ");
    assert_snapshot!(refused("notes", "two words"), @"
    exit 2
    -- stderr
    error: kind name `two words` contains white space (U+0020) where none may be
    help: a kind is written `area.verb`, like `invoice.paid`: no spaces, nothing invisible
    ");
    for stream in ["loop:x", "budget:", "engine:\u{1F980}"] {
        let error = weir.error(&["append", "--stream", stream, "--kind", "a.b"]);
        assert_eq!(error, (2, "cli::reserved-stream".to_owned()), "{stream}");
    }
    let long = "s".repeat(100_000);
    let ran = weir.run(&["append", "--stream", &long, "--kind", "a.b"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.len() < 500, "a name of 100,000 bytes was echoed");
    assert_eq!(weir.error(&[&NOTE[..], &["--key", ""]].concat()), (2, "cli::key".to_owned()));
    assert_eq!(weir.error(&[&NOTE[..], &["--meta", "[]"]].concat()), (2, "cli::meta".to_owned()));
    assert_snapshot!(append(&weir, &["--meta", r#"{"actor":"root"}"#]), @"
    exit 2
    -- stderr
    error: --meta cannot set `actor`: it is always the user who runs the command
    help: leave `actor` out
    ");
    assert!(!weir.data().exists(), "a refused append made a data directory");
}

#[test]
fn a_branch_must_be_forked_first() {
    let weir = Weir::with_notes();
    assert_snapshot!(append(&weir, &["--branch", "nowhere"]), @"
    exit 1
    -- stderr
    error: stream `notes` has no branch `nowhere`
    help: make it with `weir branch fork --stream 'notes' --at SEQ --name 'nowhere'`
    ");
    assert_snapshot!(append(&weir, &["--branch", "draft"]), @"
    exit 0
    -- stdout
    appended event 4 of notes@draft ([id])
    ");
}

#[test]
fn a_payload_that_cannot_be_read_or_kept_is_refused() {
    let weir = Weir::new();
    assert_snapshot!(append(&weir, &["--payload-file", "nowhere"]), @"
    exit 2
    -- stderr
    error: cannot read `nowhere`
      caused by: No such file or directory (os error 2)
    help: check the path and its permissions; `-` reads standard input
    ");
    assert_eq!(
        weir.error(&[&NOTE[..], &["--payload-file", "."]].concat()),
        (2, "cli::unreadable".to_owned())
    );
    let ran = weir.run_with(&[&NOTE[..], &["--payload", "-"]].concat(), &vec![0; 20_000_000]);
    assert_snapshot!(ran, @"
    exit 2
    -- stderr
    error: standard input has more than 16.8 MB
    help: give it less; `weir blob put FILE` stores large content, and an event can name its hash
    ");
    assert!(!weir.data().exists(), "a refused append made a data directory");
}
