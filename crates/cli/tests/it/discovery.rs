//! Which project a command uses and where its data is, from wherever it is started.

use crate::chat::project;
use crate::weir::{Ran, Weir};

const SPEC: &str = "name: helper\nmodel: offline/echo\n";

fn run_in(weir: &Weir, directory: &str, args: &[&str]) -> Ran {
    Ran::from(weir.command().current_dir(weir.path().join(directory)).args(args).output().unwrap())
}

/// Every command that works on a project says that there is none, and leaves nothing behind.
#[test]
fn no_project_is_an_error_that_leaves_nothing_behind() {
    let weir = Weir::new();
    weir.write("elsewhere/readme.md", "");
    for args in [
        &["check"][..],
        &["build"],
        &["build", "--check"],
        &["build", "--offline"],
        &["lock"],
        &["test"],
        &["chat", "helper", "-m", "hello"],
        &["run", "--port", "0"],
        &["tools", "list", "helper"],
        &["prompt", "show", "helper"],
        &["policy", "show"],
    ] {
        let ran = run_in(&weir, "elsewhere", &[args, &["--json"]].concat());
        assert_eq!(ran.error(), (2, "cli::no-project".to_owned()), "{args:?}: {ran}");
        assert!(ran.stderr.contains("/elsewhere"), "{ran}");
        let left: Vec<_> = std::fs::read_dir(weir.path().join("elsewhere")).unwrap().collect();
        assert_eq!(left.len(), 1, "{args:?} left {left:?}");
    }
}

#[test]
fn a_project_is_found_from_the_directories_below_it() {
    let weir = Weir::new();
    weir.write("p/weir.yaml", "project: p\n");
    weir.write("p/agents/helper/spec.yaml", SPEC);
    for directory in ["p", "p/agents", "p/agents/helper"] {
        let checked = run_in(&weir, directory, &["check"]);
        assert_eq!(checked.code, 0, "{checked}");
        assert!(checked.stdout.contains("1 agent"), "{checked}");
        assert_eq!(checked.stdout.contains(" in .."), directory != "p", "{checked}");
        let said = run_in(&weir, directory, &["chat", "helper", "-m", "hello"]);
        assert_eq!(said.code, 0, "{said}");
    }
    // All of it is in one journal, wherever one stands, and nothing is anywhere else.
    for directory in ["p", "p/agents"] {
        let listed = run_in(&weir, directory, &["session", "list", "--json"]);
        assert_eq!(listed.stdout.lines().count(), 3, "{listed}");
    }
    let streams = run_in(&weir, "p/agents/helper", &["streams"]);
    assert!(streams.stdout.contains("session:"), "{streams}");
    assert!(weir.path().join("p/.weir/journal.db").exists());
    assert!(!weir.path().join("p/agents/.weir").exists() && !weir.path().join(".weir").exists());
    // A hint to paste works from where it was given.
    let wrong = run_in(&weir, "p/agents", &["chat", "helpr", "-m", "hello"]);
    assert!(wrong.stderr.contains("no agent `helpr` in `../agents`"), "{wrong}");
}

#[test]
fn a_project_that_is_named_takes_its_data_along() {
    let weir = Weir::new();
    weir.write("p/weir.yaml", "project: p\n");
    weir.write("p/agents/helper/spec.yaml", SPEC);
    weir.write("else/x", "");
    type Way<'a> = &'a dyn Fn(&[&str]) -> Ran;
    let ways: [Way<'_>; 4] = [
        &|args| run_in(&weir, "", &[args, &["--project", "p"]].concat()),
        &|args| run_in(&weir, "else", &[&["-C", "../p"], args].concat()),
        &|args| run_in(&weir, "else", &[&["-C", "..", "--project", "p"], args].concat()),
        &|args| {
            let mut command = weir.command();
            command.current_dir(weir.path().join("else")).env("WEIR_PROJECT", "../p").args(args);
            Ran::from(command.output().unwrap())
        },
    ];
    for (n, way) in ways.iter().enumerate() {
        let said = way(&["chat", "helper", "-m", "hello"]);
        assert_eq!(said.code, 0, "{said}");
        let listed = way(&["session", "list", "--json"]);
        assert_eq!(listed.stdout.lines().count(), n + 1, "{listed}");
    }
    assert!(!weir.data().exists() && !weir.path().join("else/.weir").exists());
    // A flag is stronger than a variable, and data that is named is stronger than both.
    let mut command = weir.command();
    command.env("WEIR_PROJECT", "nowhere").args(["check", "--project", "p"]);
    assert_eq!(Ran::from(command.output().unwrap()).code, 0);
    let said = run_in(&weir, "", &["chat", "helper", "-m", "hi", "--project", "p", "--data-dir", "data"]);
    assert_eq!(said.code, 0, "{said}");
    assert!(weir.path().join("data/journal.db").exists());
    let ran = run_in(&weir, "", &["-C", "nowhere", "check", "--json"]);
    assert_eq!(ran.error(), (2, "cli::chdir".to_owned()));
    let ran = run_in(&weir, "", &["check", "--project", "nowhere", "--json"]);
    assert_eq!(ran.error(), (2, "cli::no-project".to_owned()));
}

/// Without a project, the data is where one stands; a journal that is passed over is named.
#[test]
fn events_need_no_project() {
    let weir = Weir::new();
    weir.write("a/x", "");
    let args = ["append", "--stream", "notes", "--kind", "note.added"];
    assert_eq!(run_in(&weir, "a", &args).code, 0);
    assert!(weir.path().join("a/.weir/journal.db").exists());
    weir.write("weir.yaml", "project: p\n");
    let passed_over = run_in(&weir, "a", &args);
    assert!(passed_over.stderr.contains("the data is in ../.weir"), "{passed_over}");
    assert!(weir.journal().exists());
    let there = run_in(&weir, "a", &["count", "--stream", "notes", "--data-dir", ".weir"]);
    assert_eq!(there.stdout.trim(), "1", "{there}");
}

/// A message and what is piped in beside it are two blocks of one message.
#[test]
fn standard_input_beside_a_message_is_context() {
    let weir = project();
    let said = |args: &[&str], stdin: &str| {
        let ran = weir.run_with(&[&["chat", "helper"], args].concat(), stdin.as_bytes());
        assert_eq!(ran.code, 0, "{ran}");
        let events = weir.ok(&["session", "history", "-1", "--json"]);
        let line = events.lines().find(|line| line.contains("\"user\"")).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["text"].as_str().unwrap().to_owned()
    };
    let text = said(&["-m", "hello"], "the diff content\n");
    assert!(
        text.contains("hello") && text.contains("[standard input, 17 bytes]\nthe diff content"),
        "{text}"
    );
    assert_eq!(said(&["-m", "hello"], ""), "hello");
    assert_eq!(said(&["-m", "hello", "--no-stdin"], "not this"), "hello");
    assert_eq!(said(&["-m", "-"], "hello"), "hello");
    assert_eq!(said(&[], "hello"), "hello");
    let error = |args: &[&str], stdin: &[u8]| {
        let args = [&["chat", "helper", "--json"], args].concat();
        weir.run_with(&args, stdin).error()
    };
    assert_eq!(error(&["-m", "hello"], b"\xff\xfe"), (2, "cli::not-text".to_owned()));
    assert_eq!(error(&["-m", "hello"], &[b'x'; 1_048_577]), (2, "cli::too-long".to_owned()));
    assert_eq!(error(&["-m", "-"], b" "), (2, "cli::empty-message".to_owned()));
    let ran = weir.run_with(&["chat", "helper", "-m", "hello", "--json"], b"x");
    assert!(ran.stdout.contains(r#""stdin":"read""#), "{ran}");
}

/// A parent that keeps its pipe open without a word holds nothing up.
#[test]
fn a_pipe_that_was_inherited_and_stays_open_holds_nothing_up() {
    let weir = project();
    let mut command = weir.command();
    command.args(["chat", "helper", "-m", "hello"]).stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let open = child.stdin.take();
    let ran = Ran::from(child.wait_with_output().unwrap());
    drop(open);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("Hello, you.") && ran.stderr.contains("standard input is open"), "{ran}");
}

/// The journal is append-only, so that what is left out is said, to people and to programs.
#[test]
fn files_that_are_left_out_are_told() {
    let weir = project();
    for (name, content) in [
        ("given/.gitignore", "node_modules/\n"),
        ("given/.env", "SECRET_TOKEN=planted-env-77f1\n"),
        ("given/node_modules/junk/blob.bin", "planted-junk-0a3c"),
        ("given/.env.test", "planted-test-51d0"),
        ("given/data.csv", "planted-csv-9e8b"),
        ("given/main.rs", "planted-main-c3d2"),
    ] {
        weir.write(name, content);
    }
    std::os::unix::fs::symlink("main.rs", weir.path().join("given/link")).unwrap();
    let flags = ["--files", "given", "--exclude", "*.csv", "--include", ".env.test"];
    let ran = weir.run(&[&["chat", "helper", "-m", "hello"], &flags[..]].concat());
    assert_eq!(ran.code, 0, "{ran}");
    insta::assert_snapshot!(weir.mask(&ran.stderr), @"
    warning: left out: link (a symbolic link)
    warning: left out, because it usually holds secrets: .env (`--include GLOB` takes it)
    note: left out by --exclude: data.csv
    note: left out by .gitignore or .weirignore: node_modules/ (`--include GLOB` takes it)
    session [id]
    ");
    let ran = weir.run(&[&["chat", "helper", "-m", "hello", "--json"], &flags[..]].concat());
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    insta::assert_snapshot!(document["left_out"].to_string(), @r#"[{"why":"secret","count":1,"first":[".env"]},{"why":"excluded","count":1,"first":["data.csv"]},{"why":"ignored","count":1,"first":["node_modules/"]},{"why":"not-a-file","count":1,"first":["link (a symbolic link)"]}]"#);
    let listed = weir.ok(&["fs", "ls", "-1", "--json"]);
    let paths: Vec<String> = listed
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["path"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(paths, [".env.test", ".gitignore", "main.rs"]);
    let stored = crate::secrets::decoded(&weir);
    assert!(stored.contains("planted-main-c3d2") && stored.contains("planted-test-51d0"));
    for secret in ["planted-env-77f1", "planted-junk-0a3c", "planted-csv-9e8b"] {
        assert!(!stored.contains(secret), "{secret}");
    }
    // The same for a session that has begun; what it has already stays.
    let taken = weir.json(&["fs", "import", "-1", "given"]);
    assert_eq!((&taken["written"], &taken["deleted"]), (&1.into(), &0.into()), "{taken}");
    assert_eq!(taken["left_out"].as_array().unwrap().len(), 2, "{taken}");
    assert_eq!(weir.error(&["chat", "helper", "-m", "x", "--exclude", "a"]), (2, "cli::no-files".to_owned()));
    let wrong = ["chat", "helper", "-m", "x", "--files", "given", "--exclude", "[z-a]"];
    assert_eq!(weir.error(&wrong), (2, "cli::pattern".to_owned()));
}
