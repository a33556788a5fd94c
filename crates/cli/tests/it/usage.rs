//! The command line itself: help, wrong usage, colour, completions, where the data is.

use insta::assert_snapshot;

use crate::weir::Weir;

#[test]
fn help_and_version_are_answers() {
    let weir = Weir::new();
    assert_snapshot!(weir.show(&["--help"]), @r#"
    exit 0
    -- stdout
    A durable, governed runtime for AI agents. An agent is a file; every step it takes is kept in a
    journal that loses nothing it acknowledged, so that a session goes on after any crash

    Usage: weir [OPTIONS] <COMMAND>

    Commands:
      demo         A guided tour, offline: a turn with a tool, a kill in the middle of it, resume, fork,
                   verify, cost
      init         Make a project that builds, chats and passes its tests at once, offline
      new          Add an agent, a loop or a tool to a project
      build        Compile the project: every mistake at once, or one manifest
      check        Look for every mistake of the project; start, fetch and write nothing
      test         Run the scenarios of tests/*.yaml
      chat         Talk to an agent, line by line or once
      run          Serve the agents of the project while they are written: what is edited takes effect
      serve        Serve the agents of a build over HTTP
      deploy       Let new sessions begin with another build, also where a server runs
      rollback     Go back to the build that was deployed before
      session      Look at sessions, speak to them, and take them in hand
      approvals    List the calls that wait for someone's approval
      approve      Say yes to a call, and go on with the session that waited for it
      deny         Say no to a call, and go on with the session that waited for it
      budget       Look at what may be used, and what is left of it
      token        Make, list and revoke the tokens that a server lets people in with
      tools        List the tools of an agent, and try one
      policy       See who may do what, why a call is allowed or denied, and what another policy would
                   have decided
      fs           Look at the files of a session, at any of its events
      prompt       Look at what agents are told
      diff         Show what agents of one build may do that those of another may not
      lock         Pin skills and the tools of MCP servers in weir.lock, and accept what has changed
      schema       Print what can be written in a project's files, as JSON Schema
      auth         Keep what convinces MCP servers of who is asking, on this machine
      append       Append one event to a stream
      ingest       Append what a recorded stream of server-sent events says
      streams      List the streams
      count        Print how many events a stream has
      cat          Print the events of a branch, oldest first
      branch       Fork and list branches
      verify       Check every event, every index and every blob against the hash chains
      export       Write streams as JSON Lines
      import       Read streams from JSON Lines, as `weir export` writes them
      backup       Write the journal and its blobs into one archive, while others go on writing
      blob         Store, read and collect content by its hash
      doctor       Look for what is wrong with this set-up
      config       Show the configuration that is in force, and where each value comes from
      whoami       Say who asks: which principal, in which groups, and whether that one is an admin
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Global options:
      -C <DIR>
              Do as if started in this directory

          --project <DIR>
              The project's directory, with `weir.yaml` and `agents/` in it [default: the current
              directory, else the nearest one above it that has a `weir.yaml`]
              
              [env: WEIR_PROJECT]

          --data-dir <DIR>
              Where the data is [default: `.weir` in the project; without a project, in the current
              directory]
              
              [env: WEIR_DATA_DIR]

          --json
              Print for programs: one JSON document, or one object a line

          --color <WHEN>
              When to use colour; `NO_COLOR` is obeyed too

              Possible values:
              - auto:   On a terminal, unless `NO_COLOR` is set
              - always: Always
              - never:  Never
              
              [default: auto]

          --as <PRINCIPAL>
              Act as someone else, with their grants and no others: `[actor]`, `serviceaccount:NAME`.
              Only the owner of the data directory may

    Examples:
      weir demo
      weir init my-agents
      weir build
      weir chat helper -m 'What time is it?'
      weir session list
      weir append --stream notes --kind note.added --payload '{"text":"hello"}'
      weir cat --stream notes
      weir verify

    Exit codes:
        0  done
        1  it ran and failed
        2  wrong usage or configuration
        3  denied by policy
        4  a service cannot be reached
        5  parked: waits for an approval, a budget or a limit
       70  a bug in weir
      130  interrupted
    "#);
    assert_eq!(weir.ok(&["--version"]), format!("weir {}\n", env!("CARGO_PKG_VERSION")));
    let commands: [&[&str]; 17] = [
        &["demo"],
        &["append"],
        &["streams"],
        &["count"],
        &["cat"],
        &["branch", "fork"],
        &["branch", "list"],
        &["verify"],
        &["export"],
        &["import"],
        &["backup"],
        &["blob", "put"],
        &["blob", "get"],
        &["blob", "stat"],
        &["blob", "gc"],
        &["doctor"],
        &["completions"],
    ];
    for args in commands {
        let help = weir.ok(&[args, &["--help"]].concat());
        for part in ["Examples:", "--json", "--data-dir", "--color"] {
            assert!(help.contains(part), "`weir {} --help` has no {part}", args.join(" "));
        }
    }
}

#[test]
fn wrong_usage_is_told() {
    let weir = Weir::new();
    assert_snapshot!(weir.show(&["apend"]), @"
    exit 2
    -- stderr
    error: unrecognized subcommand 'apend'

      tip: a similar subcommand exists: 'append'

    Usage: weir [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(weir.show(&["append", "--stream", "s"]), @"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      --kind <KIND>

    Usage: weir append --stream <STREAM> --kind <KIND>

    For more information, try '--help'.
    ");
    assert_snapshot!(weir.show(&["append", "--stream", "s", "--json"]), @r#"
    exit 2
    -- stderr
    {"error":{"code":"cli::usage","message":"the following required arguments were not provided: --kind <KIND>","help":"see `weir --help`, or `weir COMMAND --help`"}}
    "#);
    assert_snapshot!(weir.show(&["cat", "--stream", "s", "--after", "x", "--json"]), @r#"
    exit 2
    -- stderr
    {"error":{"code":"cli::usage","message":"invalid value 'x' for '--after <SEQ>': invalid digit found in string","help":"see `weir --help`, or `weir COMMAND --help`"}}
    "#);
    assert_eq!(weir.run(&[""; 0]).code, 2);
    assert_eq!(weir.run(&["branch"]).code, 2);
    let both = ["append", "--stream", "s", "--kind", "a.b", "--payload", "1", "--payload-file", "f"];
    assert_eq!(weir.error(&both), (2, "cli::usage".to_owned()));
}

#[test]
fn colour_is_for_terminals_unless_asked_for() {
    let weir = Weir::new();
    let coloured = |args: &[&str], variable: Option<(&str, &str)>| {
        let output = weir.command().args(args).envs(variable).output().unwrap();
        String::from_utf8(output.stderr).unwrap().contains('\u{1b}')
    };
    assert!(!coloured(&["streams"], None));
    assert!(coloured(&["streams", "--color", "always"], None));
    assert!(coloured(&["streams", "--color=always"], Some(("NO_COLOR", "1"))));
    assert!(!coloured(&["streams", "--color", "never"], None));
    assert!(coloured(&["nonsense", "--color", "always"], None));
    assert!(!coloured(&["nonsense"], None));
}

#[test]
fn the_flag_beats_the_environment() {
    let weir = Weir::new();
    let append = ["append", "--stream", "s", "--kind", "a.b"];
    let run = |args: &[&str]| {
        assert!(weir.command().args(args).env("WEIR_DATA_DIR", "from-env").status().unwrap().success());
    };
    run(&append);
    assert!(weir.path().join("from-env/journal.db").exists());
    run(&[&append[..], &["--data-dir", "from-flag"]].concat());
    assert!(weir.path().join("from-flag/journal.db").exists());
    assert!(!weir.data().exists());
}

#[test]
fn completions_know_every_command() {
    let weir = Weir::new();
    let commands = [
        "demo", "append", "streams", "count", "cat", "branch", "verify", "export", "import", "backup",
        "blob", "doctor",
    ];
    for shell in ["bash", "zsh", "fish"] {
        let script = weir.ok(&["completions", shell]);
        for command in commands {
            assert!(script.contains(command), "{shell} does not know `{command}`");
        }
        assert_eq!(weir.json(&["completions", shell])["script"], script);
    }
    // The shell that every machine has must be able to read its script and complete with it.
    std::fs::write(weir.path().join("weir.bash"), weir.ok(&["completions", "bash"])).unwrap();
    let completed = |words: &[&str]| {
        let [.., before, last] = words else { panic!("{words:?} are too few") };
        let (line, at) = (words.join(" "), words.len() - 1);
        let script = format!(
            "source weir.bash; COMP_WORDS=({line}); COMP_CWORD={at}; _weir weir {last} {before}; echo ${{COMPREPLY[@]}}"
        );
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", &script]).current_dir(weir.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(completed(&["weir", "str"]), "streams");
    // A kind may be any text; offered are those that the runtime writes.
    assert_eq!(completed(&["weir", "cat", "--kind", "budget.se"]), "budget.settled");
    assert_eq!(weir.error(&["completions", "tcsh"]), (2, "cli::usage".to_owned()));
}

#[test]
fn a_planned_command_is_not_taken_for_another_one() {
    let weir = Weir::new();
    assert_snapshot!(weir.show(&["search", "words"]), @"
    exit 2
    -- stderr
    error: `weir search` is planned, and not in this version
    help: `weir --help` lists the commands of this version
    ");
    assert_snapshot!(weir.show(&["session", "merge", "--json"]), @r#"
    exit 2
    -- stderr
    {"error":{"code":"cli::planned","message":"`weir session merge` is planned, and not in this version","help":"`weir --help` lists the commands of this version"}}
    "#);
    assert_snapshot!(weir.show(&["rollback", "4f1c"]), @"
    exit 2
    -- stderr
    error: `weir rollback` goes back to the build that was deployed before, and takes no build
    help: `weir deploy 4f1c` deploys that one
    ");
}

#[test]
fn variables_that_do_nothing_yet_are_named() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\n");
    let set = [
        ("WEIR_MANAGED", "0"),
        ("WEIR_CANARY_PCT", "5"),
        ("TRACE_BACKEND", "otlp"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"),
    ];
    let mut command = weir.command();
    command.args(["chat", "helper", "-m", "hello"]).envs(set);
    let ran = crate::weir::Ran::from(command.output().unwrap());
    assert_eq!(ran.code, 0, "{ran}");
    assert_snapshot!(weir.mask(&ran.stderr), @"
    warning: OTEL_EXPORTER_OTLP_ENDPOINT is set and not used: this version exports no traces
    warning: TRACE_BACKEND is set and not used: this version keeps no traces
    warning: WEIR_MANAGED is set and not used: this version has no managed lane, so it switches nothing on or off: every session runs in this process
    warning: WEIR_CANARY_PCT is set and not used: this version has no managed lane, so no session is sent to one
    session [id]
    ");
    // What is empty is not set.
    let mut command = weir.command();
    let ran = command.args(["chat", "helper", "-m", "hello"]).env("WEIR_MANAGED", "").output().unwrap();
    assert!(!String::from_utf8_lossy(&ran.stderr).contains("WEIR_MANAGED"));
}

#[test]
fn a_mistake_of_another_agent_is_told_as_one() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\n");
    weir.write("agents/other/spec.yaml", "name: other\nmodle: offline/echo\n");
    let said = weir.run(&["chat", "helper", "-m", "hello"]);
    assert_eq!(said.code, 2, "{said}");
    assert!(said.stderr.contains("these files are not those of `helper`"), "{said}");
    let said = weir.run(&["chat", "other", "-m", "hello"]);
    assert!(!said.stderr.contains("these files are not those"), "{said}");
}
