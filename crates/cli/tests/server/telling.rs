//! What a server tells: its log, its refusals to start, its help.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{Answer, Project, asked_again, client};

/// What a server that is stopped at this line has told so far, for people.
fn told_until(project: &Project, args: &[&str], last: &str) -> String {
    let mut command = project.command();
    command.args(args).args(["--port", "0"]).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut pipe = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains(last) {
        assert_ne!(pipe.read_line(&mut text).unwrap(), 0, "{text}");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    pipe.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    text
}

/// Without what differs from run to run: times, ports, hashes.
fn masked(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let words = line.split(' ').map(|word| match word.split_once('=') {
            Some(("took_ms", _)) => "took_ms=[n]".to_owned(),
            Some(("manifest", _)) => "manifest=[hash]".to_owned(),
            Some(("url", _)) => "url=http://127.0.0.1:[port]".to_owned(),
            _ if word.len() == 27 && word.ends_with('Z') => "[time]".to_owned(),
            _ => word.to_owned(),
        });
        lines.push(words.collect::<Vec<_>>().join(" "));
    }
    lines.join("\n")
}

#[test]
fn each_stage_of_starting_and_stopping_is_a_line() {
    let text = told_until(&Project::new(), &["serve", "--manifest", "latest"], "listening");
    insta::assert_snapshot!(masked(&text), @r#"
    [time]  INFO journal opened data_dir=.weir took_ms=[n]
    [time]  INFO manifest loaded manifest=[hash] agents=4 took_ms=[n]
    [time]  INFO engine started took_ms=[n]
    [time]  INFO listening url=http://127.0.0.1:[port] took_ms=[n]
    [time]  INFO stopping: nothing new is accepted signal="SIGTERM"
    [time]  INFO stopped
    "#);
}

#[test]
fn mistakes_look_as_in_a_build_and_are_between_the_lines() {
    let project = Project::empty();
    project.write("weir.yaml", "project: p\n");
    project.write("agents/echo/spec.yaml", "name: echo\nmodel: offline/ekko\ndescription: Repeats.\n");
    let built = project.run(&["build"]).stderr;
    let text = told_until(&project, &["run"], "listening");
    assert!(text.contains(built.trim_end()), "{text}");
    insta::assert_snapshot!(masked(&text), @r#"
    [time]  INFO journal opened data_dir=.weir took_ms=[n]
    error[spec::unknown-model]: unknown model `offline/ekko`
       ╭─[agents/echo/spec.yaml:2:8]
     1 │ name: echo
     2 │ model: offline/ekko
       ·        ────────────
       ╰────
    help: write `provider/name`; add a model the catalog lacks under `models:` in weir.yaml; `offline/echo` needs no network
    [time] ERROR there is no build yet: it comes when the mistakes are mended
    [time]  INFO engine started took_ms=[n]
    [time]  INFO listening url=http://127.0.0.1:[port] took_ms=[n]
    [time]  INFO stopping: nothing new is accepted signal="SIGTERM"
    [time]  INFO stopped
    "#);
}

#[test]
fn what_stands_in_the_way_of_a_start_is_said() {
    let project = Project::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = |project: &Project, args: &[&str]| {
        let ran = project.run(&[&["serve"], args].concat());
        let text = ran.stderr.replace(&*project.path().to_string_lossy(), "[dir]");
        let text = masked(&text.replace(&port.to_string(), "[port]"));
        format!("exit {}\n{}", ran.code, text.trim_end())
    };
    insta::assert_snapshot!(refused(&project, &["--port", &port.to_string()]), @r#"
    exit 2
    error: cannot listen on 127.0.0.1:[port]
      caused by: Address already in use (os error 98)
    help: choose another port with `--port N`; `--port 0` takes any that is free
    "#);
    insta::assert_snapshot!(refused(&project, &["--port", "0", "--manifest", "feed"]), @r#"
    exit 1
    [time]  INFO journal opened data_dir=.weir took_ms=[n]
    error: there is no manifest `feed`
    help: manifests are in `build/` of the data directory; `weir build` makes one, and `latest` is the newest
    "#);
    insta::assert_snapshot!(refused(&project, &["--port", "70000"]), @r#"
    exit 2
    error: invalid value '70000' for '--port <PORT>': 70000 is not in 0..=65535

    For more information, try '--help'.
    "#);

    // A data directory that is none, and a journal that is none.
    let project = Project::empty();
    project.write("file", "not a directory");
    insta::assert_snapshot!(refused(&project, &["--port", "0", "--data-dir", "file"]), @r#"
    exit 2
    error: `file` is not a directory
    help: name a directory with `--data-dir DIR`
    "#);
    project.write("data/journal.db", &"this is no journal. ".repeat(100));
    insta::assert_snapshot!(refused(&project, &["--port", "0", "--data-dir", "data"]), @r#"
    exit 2
    error: `data/journal.db` is not a journal
    help: move that file away, or choose another directory with `--data-dir DIR`
    "#);
    // Nor is anything made where the port is taken, or the words are wrong.
    assert!(refused(&project, &["--port", &port.to_string()]).contains("cannot listen"));
    insta::assert_snapshot!(refused(&project, &["--host", "example.com"]), @r#"
    exit 2
    error: invalid value 'example.com' for '--host <ADDRESS>': write an address of this machine, such as 127.0.0.1, ::1 or 0.0.0.0

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(refused(&project, &["--host", "0.0.0.0"]), @r#"
    exit 2
    error: 0.0.0.0 can be reached from elsewhere, and nobody would have to say who they are
    help: listen on 127.0.0.1, which is the default, or ask everyone who they are: `--auth-tokens` for tokens of `weir token issue`, `--auth-jwks URL --auth-audience AUD` or a secret in $WEIR_AUTH_JWT_SECRET for JWTs, `--trust-proxy-header NAME --trust-proxy-from ADDRESS` for a proxy that knows
    "#);
    insta::assert_snapshot!(refused(&project, &["--auth-jwks", "keys.json", "--auth-audience", "a"]), @r#"
    exit 2
    error: the keys cannot be read: `keys.json`: No such file or directory (os error 2)
    help: give a JSON document with `keys` as in RFC 7517, RSA with at least 2048 bits or EC P-256
    "#);
    assert!(!project.data().exists(), "nothing was made");
}

#[tokio::test]
async fn a_server_is_called_by_names_of_this_machine_and_one_that_is_open_to_all_asks_everyone() {
    let project = Project::new();
    let local = project.serve().arg("--host").arg("localhost").start().await;
    assert_eq!(local.base, format!("http://127.0.0.1:{}", local.port));
    assert_eq!(local.get("/health").await.ok()["status"], "ok");

    let token = project.json(&["token", "issue", "--principal", "user:alice"])["token"].clone();
    let open = project.serve().arg("--host").arg("0.0.0.0").arg("--auth-tokens").start().await;
    assert_eq!(open.base, format!("http://0.0.0.0:{}", open.port));
    let asked = |token: Option<&str>| {
        let request = client().get(format!("http://127.0.0.1:{}/agents", open.port));
        token.map_or_else(
            || request.try_clone().unwrap(),
            |token| request.try_clone().unwrap().bearer_auth(token),
        )
    };
    assert_eq!(Answer::to(asked(None)).await.status, 401);
    assert_eq!(Answer::to(asked(token.as_str())).await.status, 200);
}

#[test]
fn what_is_wrong_about_a_token_is_said() {
    let project = Project::empty();
    let refused = |args: &[&str]| {
        let ran = project.run(&[&["token"], args].concat());
        format!("exit {}\n{}", ran.code, ran.stderr.trim_end())
    };
    insta::assert_snapshot!(refused(&["issue"]), @r#"
    exit 2
    error: the following required arguments were not provided:
      --principal <PRINCIPAL>

    Usage: weir token issue --principal <PRINCIPAL>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(refused(&["issue", "--principal", "ada"]), @r#"
    exit 2
    error: invalid value 'ada' for '--principal <PRINCIPAL>': `ada` is not a principal; write `user:NAME` or `serviceaccount:NAME`

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(refused(&["issue", "--principal", "group:staff"]), @r#"
    exit 2
    error: a token cannot say this: a name that nobody can have
    help: name someone: `--principal user:NAME` or `--principal serviceaccount:NAME`
    "#);
    insta::assert_snapshot!(refused(&["issue", "--principal", "user:ada", "--name", ""]), @r#"
    exit 2
    error: `` cannot be the name of a token
    help: use a few plain words on one line, or leave `--name` out
    "#);
    insta::assert_snapshot!(refused(&["issue", "--principal", "user:ada", "--expires", "soon"]), @r#"
    exit 2
    error: `soon` is not how long a token can count
    help: write it like `30d`, `12h` or `90m`
    "#);
    assert!(!project.data().exists(), "nothing was made");
    project.ok(&["token", "issue", "--principal", "user:ada"]);
    insta::assert_snapshot!(refused(&["revoke", "x"]), @r#"
    exit 1
    error: there is no token `x`
    help: see `weir token list`
    "#);
}

#[tokio::test]
async fn keys_that_cannot_be_had_yet_are_told_of() {
    let project = Project::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/jwks", silent.local_addr().unwrap());
    drop(silent);
    let server =
        project.serve().arg("--auth-jwks").arg(&address).arg("--auth-audience").arg("weir").start().await;
    let line = server.logged("the keys that tokens are signed with cannot be had yet").await;
    assert_eq!((&line["level"], &line["url"]), (&"WARN".into(), &address.into()));
    assert!(line["error"].as_str().unwrap().to_lowercase().contains("connection refused"), "{line}");
    assert!(line["help"].as_str().unwrap().contains("asked again"), "{line}");
}

#[tokio::test]
async fn an_address_that_leads_nowhere_says_where_to_look() {
    let server = Project::new().serve().start().await;
    let told = server.get("/").await;
    insta::assert_snapshot!(told.text(), @r#"{"error":{"code":"server::not-found","message":"there is no such page","help":"`/openapi.json` lists what there is"}}"#);
    assert_eq!((told.status, server.get("/no/such").await.body), (reqwest::StatusCode::NOT_FOUND, told.body));
    assert_eq!(server.get("/openapi.json").await.ok()["info"]["title"], "Weir");
}

#[test]
fn completions_know_every_command() {
    let project = Project::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = project.ok(&["completions", shell]);
        for word in ["serve", "deploy", "rollback", "ingest", "bridge-token", "--auth-tokens", "revoke"] {
            assert!(script.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
    }
}

#[test]
fn a_level_that_is_none_is_refused_and_one_that_is_decides_what_is_told() {
    let project = Project::new();
    let ran = project.serve().env("LOG_LEVEL", "loud").refused();
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("cli::log-level"), "{}", ran.stderr);
    let levels = |level: &str| {
        let mut command = project.command();
        command.args(["serve", "--json", "--port", "0", "--manifest", "feed"]).env("LOG_LEVEL", level);
        let text = String::from_utf8(command.output().unwrap().stderr).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.filter_map(|line| line["level"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(levels("debug"), ["DEBUG", "INFO"]);
    assert_eq!(levels("info"), ["INFO"]);
    assert_eq!(levels("warn"), [""; 0]);
}

#[tokio::test]
async fn the_flag_counts_more_than_the_environment() {
    let project = Project::new();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port, silent) = (free(), "off");
    let mut command = project.command();
    command.args(["serve"]).env("PORT", port.to_string()).env("LOG_LEVEL", silent);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let client = client();
    // It is told to be silent, and so it does not say that it listens.
    let answered = async || client.get(format!("http://127.0.0.1:{port}/health")).send().await.ok();
    asked_again("the port of the environment answers", answered).await;
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((child.wait().unwrap().code(), text.as_str()), (Some(0), ""), "silent as it was told to be");

    let server = project.serve().env("PORT", &port.to_string()).start().await;
    assert_ne!(server.port, port);
}

#[test]
fn help_has_examples() {
    let project = Project::empty();
    let help = project.ok(&["help", "serve"]);
    for words in ["weir build && weir serve --manifest latest\n", "PORT=3000 LOG_LEVEL=debug", "curl http://"]
    {
        assert!(help.contains(words), "{help}");
    }
    assert!(project.ok(&["help", "run"]).contains("weir init my-agents && cd my-agents && weir run"));
    let own = |command: &str| {
        let help = project.ok(&["help", command]);
        let (own, rest) = help.split_once("Global options:").unwrap();
        let (_, examples) = rest.split_once("Examples:").unwrap();
        let (about, options) = own.split_once("Options:\n").unwrap();
        (about.to_owned(), format!("{options}[…]\n\nExamples:{}", examples.trim_end()))
    };
    let [(deploy, rest), (rollback, same)] = ["deploy", "rollback"].map(own);
    insta::assert_snapshot!(deploy, @r#"
    Let new sessions begin with another build, also where a server runs

    Usage: weir deploy [OPTIONS] <HASH|latest>

    Arguments:
      <HASH|latest>
              The build: its hash, the beginning of one, or `latest`
    "#);
    insta::assert_snapshot!(rollback, @r#"
    Go back to the build that was deployed before

    Usage: weir rollback [OPTIONS]
    "#);
    assert_eq!(rest, same);
    insta::assert_snapshot!(rest, @r#"
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    […]

    Examples:
      weir build && weir deploy latest
      weir deploy 4f1c
      weir rollback
    "#);
}
