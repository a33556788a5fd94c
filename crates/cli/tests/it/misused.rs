//! The commands of the tool system with bad input: what they say, and with which exit code they end.

use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::weir::{Ran, Weir};

/// A new project, with a session whose one call is done.
fn begun() -> Weir {
    let weir = Weir::new();
    weir.ok(&["init"]);
    weir.ok(&["tools", "call", "helper", "get_time"]);
    weir
}

/// A command whose standard input is closed.
fn closed(weir: &Weir, args: &str) -> Ran {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("exec \"$0\" {args} <&-"), env!("CARGO_BIN_EXE_weir")]);
    Ran::from(shell.current_dir(weir.path()).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn agents_and_tools_that_are_not_there() {
    let nothing = Weir::new();
    assert_snapshot!(nothing.show(&["tools", "list", "helper"]), @"
    exit 2
    -- stderr
    error: there is no project in `[dir]`
    help: a project has a `weir.yaml`: go to its directory or one below it, name it with `--project DIR` or WEIR_PROJECT, or begin one with `weir init DIR`
    ");
    assert_snapshot!(nothing.show(&["tools", "call", "helper", "get_time"]), @"
    exit 2
    -- stderr
    error: there is no project in `[dir]`
    help: a project has a `weir.yaml`: go to its directory or one below it, name it with `--project DIR` or WEIR_PROJECT, or begin one with `weir init DIR`
    ");
    assert!(!nothing.data().exists(), "a command that fails has made nothing");
    let weir = begun();
    assert_snapshot!(weir.show(&["tools", "list", "nobody"]), @"
    exit 1
    -- stderr
    error: there is no agent `nobody` in `agents`
    help: the agents here are: editor, helper
    ");
    assert_snapshot!(weir.show(&["tools", "call", "nobody", "get_time"]), @"
    exit 1
    -- stderr
    error: there is no agent `nobody` in `agents`
    help: the agents here are: editor, helper
    ");
    assert_snapshot!(weir.show(&["tools", "call", "helper", "nothing"]), @"
    exit 3
    -- stderr
    error: tool 'nothing' blocked: allowlist: agent `helper` does not list it (it lists: count_words, editor, get_time, result_read); an entry under `tools` in the agent's spec would allow it
    help: see `weir tools list AGENT`; nothing was done
    ");
}

#[test]
fn arguments_that_are_none() {
    let weir = begun();
    assert_snapshot!(weir.show(&["tools", "call", "helper", "get_time", "{broken"]), @r#"
    exit 2
    -- stderr
    error: the arguments are not JSON: key must be a string at line 1 column 2
    help: write them like '{"city":"Lisbon"}'; `weir tools list AGENT --json` shows what a tool takes
    "#);
    assert_snapshot!(weir.show(&["tools", "call", "helper", "get_time", "[1]"]), @r#"
    exit 2
    -- stderr
    error: tool 'get_time' blocked: schema: the arguments do not fit: [1] is not of type "object"; call it again with arguments that fit its schema
    help: `weir tools list AGENT --json` shows what a tool takes; nothing was done
    "#);
    assert_snapshot!(weir.show(&["tools", "call", "helper", "count_words", r#"{"text":1}"#]), @r#"
    exit 2
    -- stderr
    error: tool 'count_words' blocked: schema: the arguments do not fit: 1 is not of type "string" at `/text`; call it again with arguments that fit its schema
    help: `weir tools list AGENT --json` shows what a tool takes; nothing was done
    "#);
    assert_snapshot!(weir.show(&["tools", "call", "helper", "get_time", "-"]), @r#"
    exit 2
    -- stderr
    error: the arguments are not JSON: EOF while parsing a value at line 1 column 0
    help: write them like '{"city":"Lisbon"}'; `weir tools list AGENT --json` shows what a tool takes
    "#);
    assert_snapshot!(closed(&weir, "tools call helper get_time -").to_string(), @r#"
    exit 2
    -- stderr
    error: the arguments are not JSON: EOF while parsing a value at line 1 column 0
    help: write them like '{"city":"Lisbon"}'; `weir tools list AGENT --json` shows what a tool takes
    "#);
    let huge = weir.run_with(&["tools", "call", "helper", "count_words", "-"], &vec![b' '; 20_000_000]);
    assert_snapshot!(huge.to_string(), @"
    exit 2
    -- stderr
    error: standard input has more than 16.8 MB
    help: give it less; `weir blob put FILE` stores large content, and an event can name its hash
    ");
    let deep =
        weir.run_with(&["tools", "call", "helper", "count_words", "-"], "[".repeat(1_000_000).as_bytes());
    assert_eq!(deep.code, 2, "{deep}");
    let not_text = weir.run_with(&["tools", "call", "helper", "count_words", "-"], b"{\"text\":\"\xff\"}");
    assert_snapshot!(not_text.to_string(), @r#"
    exit 2
    -- stderr
    error: what standard input says is not UTF-8 text
    help: write them like '{"city":"Lisbon"}'; `weir tools list AGENT --json` shows what a tool takes
    "#);
}

#[test]
fn people_who_are_none() {
    let weir = begun();
    assert_snapshot!(weir.show(&["tools", "call", "helper", "get_time", "--as", "eve"]), @"
    exit 2
    -- stderr
    error: invalid value 'eve' for '--as <PRINCIPAL>': `eve` is not a principal; write `[actor]` or `serviceaccount:NAME`

    For more information, try '--help'.
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "hi", "--as", "user:eve"]), @"
    exit 3
    -- stderr
    error: grant: `[actor]` may not talk to agent `helper`; an `acl` entry with role `execute` in agents/helper/spec.yaml would allow it
    help: ask an administrator of the data directory; nothing was done
    ");
}

#[test]
fn files_and_directories_that_are_not_there() {
    let weir = begun();
    weir.write("full/file", "x");
    assert_snapshot!(weir.show(&["fs", "ls", "-1"]), @"
    exit 0
    -- stderr
    note: the session has no files
    ");
    assert_snapshot!(weir.show(&["fs", "ls", "01J"]), @"
    exit 1
    -- stderr
    error: no session's id begins with `01J`
    help: see `weir session list`
    ");
    assert_snapshot!(weir.show(&["fs", "cat", "-1", "../weir.yaml"]), @"
    exit 1
    -- stderr
    error: session [id] has no file `../weir.yaml`
    help: see `weir fs ls [id]`
    ");
    assert_eq!(weir.error(&["fs", "ls", "-1", "--at", "999"]), (1, "cli::no-event".to_owned()));
    assert_snapshot!(weir.show(&["fs", "ls", "-1", "--at", "yesterday"]), @"
    exit 2
    -- stderr
    error: `yesterday` is neither the number of an event nor a time
    help: write a number from `weir session history`, or a time like `2026-01-31T12:00:00Z`
    ");
    assert_snapshot!(weir.show(&["fs", "export", "-1", "full"]), @"
    exit 2
    -- stderr
    error: the directory `full` is not empty
    help: name a directory that is empty, or one that is not there yet
    ");
    assert_snapshot!(weir.show(&["fs", "export", "-1", "weir.yaml"]), @"
    exit 1
    -- stderr
    error: cannot write `weir.yaml`
      caused by: Not a directory (os error 20)
    help: check free space and permissions, then check out into another directory
    ");
    assert_snapshot!(weir.show(&["fs", "import", "-1", "nowhere"]), @"
    exit 1
    -- stderr
    error: cannot read the directory `nowhere`
      caused by: No such file or directory (os error 2)
    help: check that it is a directory this user can read
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "hi", "--files", "weir.yaml"]), @"
    exit 2
    -- stderr
    error: cannot read the directory `weir.yaml`
      caused by: Not a directory (os error 20)
    help: check that it is a directory this user can read
    ");
    assert_eq!(weir.ok(&["session", "list", "--json"]).lines().count(), 1, "no session was begun");
}

#[test]
fn a_data_directory_that_is_none() {
    let weir = begun();
    for args in [
        &["tools", "call", "helper", "get_time"][..],
        &["fs", "ls", "-1"],
        &["fs", "import", "-1", "tools"],
        &["chat", "helper", "-m", "hi", "--files", "tools"],
        &["auth", "list"],
        &["auth", "add", "mcp://x.example/mcp"],
        &["auth", "remove", "mcp://x.example/mcp"],
    ] {
        for place in ["weir.yaml", "weir.yaml/below"] {
            let refused = weir.error(&[args, &["--data-dir", place]].concat());
            assert_eq!(refused, (2, "cli::not-a-directory".to_owned()), "{args:?}");
        }
    }
    let empty = Weir::new();
    assert_eq!(empty.error(&["fs", "ls", "-1"]).1, "cli::no-journal");
    assert!(!empty.data().exists());
    assert_snapshot!(closed(&weir, "auth add mcp://x.example/mcp").to_string(), @"
    exit 2
    -- stderr
    error: there is no secret in what was given
    help: type it when asked, pipe it in, or say where it is with `--from REF`
    ");
}

/// What failed is told in one line, and what it said before that as it was.
#[test]
fn a_command_that_fails_shows_what_it_printed() {
    let weir = Weir::new();
    weir.write(
        "agents/coder/spec.yaml",
        "name: coder\nmodel: offline/echo\ntools: [{ name: bash, access: write }]\n",
    );
    let input = r#"{"command":"echo one; echo two; printf 'red \\033[31m'; sleep 100","timeout_s":1}"#;
    assert_snapshot!(weir.show(&["tools", "call", "coder", "bash", input]), @r"
    exit 1
    -- stderr
    --- stdout
    one
    two
    red \u{1b}[31m
    error: `bash` failed (timeout): the command was killed, with all that it had started: it took longer than 1 s. Nothing that it changed was kept.
    help: mend what it says, then repeat it
    ");
    let (code, error) = weir.error(&["tools", "call", "coder", "bash", input]);
    assert_eq!((code, error.as_str()), (1, "tools::failed"));
}
