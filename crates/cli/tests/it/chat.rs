//! `weir chat`, said once: what is printed, what is kept, how it ends.

use insta::assert_snapshot;

use crate::running::{DEADLINE, Running, eventually};
use crate::weir::{Ran, Weir};

const SPEC: &str = "\
name: helper
model: scripted/demo
description: You help.
tools: [{ name: get_time }]
limits: { iterations: 3 }
";

const SCRIPT: &str = r#"
replies:
  - when: { user: '(?i)what time' }
    think: "I need the clock."
    say: "Let me look."
    call: [{ tool: get_time }]
  - when: { user: 'again and again', failed: false }
    call: [{ tool: get_time }]
  - when: { user: 'again and again' }
    call: [{ tool: get_time }]
  - when: { tool: get_time }
    say: "It is {{result}} now."
  - when: { user: flaky }
    say: "half an ans"
    error: overloaded
    times: 1
  - when: { user: broken }
    error: auth
  - when: { user: 'cut (.*)' }
    say: "{{1}}"
    stop: max_tokens
  - when: { user: 'and then' }
    say: "Then nothing."
  - when: { user: '^drip$' }
    say: "One drop after another, and another, and another, and another, and another, and another."
    chunk: 1
    delay: 100ms
  - when: { user: '^steady$' }
    say: "One two three four five six."
    chunk: 4
    delay: 200ms
  - when: { user: '^slow$' }
    say: "One two three."
    chunk: 4
    delay: 60s
  - when: { user: '(?m)^(hello|flaky)' }
    say: "Hello, you."
    usage: { input: 1200, output: 80 }
"#;

/// A project with an agent that needs no network.
pub(crate) fn project() -> Weir {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", SPEC);
    weir.write("models/demo.yaml", SCRIPT);
    weir
}

impl Weir {
    /// Says something to the helper, and returns the session's id.
    pub(crate) fn say(&self, text: &str) -> String {
        let document = self.json(&["chat", "helper", "-m", text]);
        document["session"].as_str().unwrap().to_owned()
    }
}

#[test]
fn the_answer_is_on_stdout_and_the_rest_is_not() {
    let weir = project();
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "What time is it?"]), @"
    exit 0
    -- stdout
    Let me look.
    It is [time] now.
    -- stderr
    → get_time {}
    session [id]
    ");
    // The agent's text is printed as it is for programs that read it; `--session -1` goes on with the same session.
    assert_snapshot!(weir.show(&["chat", "helper", "--session", "-1", "-m", "hello"]), @"
    exit 0
    -- stdout
    Hello, you.
    ");
    assert_snapshot!(weir.show(&["session", "history", "-1"]), @"
    exit 0
    -- stdout
    #2 [actor]
    What time is it?

    #7 helper
    Let me look.
      → get_time {}
      ← [time]
    It is [time] now.

    #16 [actor]
    hello

    #21 helper
    Hello, you.
    ");
}

#[test]
fn programs_get_exactly_what_is_promised() {
    let weir = project();
    let text = weir.ok(&["chat", "helper", "-m", "hello", "--json", "--title", "Greetings"]);
    assert_snapshot!(weir.mask(&text), @r#"{"session":"[id]","branch":"main","run":"[id]","answer":"Hello, you.","stop":"end","usage":{"input_tokens":1200,"output_tokens":80,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0,"approvals":[]}"#);
    let parked = weir.run(&["chat", "helper", "-m", "again and again", "--json"]);
    assert_snapshot!(weir.mask(&parked.to_string()), @r#"
    exit 5
    -- stdout
    {"session":"[id]","branch":"main","run":"[id]","answer":null,"stop":"iterations","usage":{"input_tokens":558,"output_tokens":3,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0,"approvals":[]}
    "#);
    let failed = weir.run(&["chat", "helper", "-m", "broken", "--json"]);
    assert_snapshot!(weir.mask(&failed.to_string()), @r#"
    exit 1
    -- stdout
    {"session":"[id]","branch":"main","run":"[id]","answer":null,"stop":"failed","usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0,"approvals":[]}
    -- stderr
    {"error":{"code":"engine::run-failed","message":"the run failed: the script fails here: auth","help":"check the provider's key, then try again with `weir session resume [id]`"}}
    "#);
}

#[test]
fn what_is_piped_in_is_said() {
    let weir = project();
    let ran = weir.run_with(&["chat", "helper"], b"hello\n\nfrom a pipe\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Hello, you.\n"));
    let history = weir.ok(&["session", "history", "-1", "--json"]);
    let said: serde_json::Value = serde_json::from_str(history.lines().next().unwrap()).unwrap();
    assert_eq!(said["text"], "hello\n\nfrom a pipe\n");
}

#[test]
fn runs_end_in_many_ways() {
    let weir = project();
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "again and again"]), @"
    exit 5
    -- stderr
    → get_time {}
    → get_time {}
    → get_time {}
    note: the run reached its limit of 3 iterations; go on with `weir session resume [id]`
    ");
    assert_snapshot!(weir.show(&["session", "resume", "-1", "--max-iterations", "1"]), @"
    exit 5
    -- stderr
    → get_time {}
    note: the run reached its limit of 1 iterations; go on with `weir session resume [id]`
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "again and again", "--max-iterations", "1"]), @"
    exit 5
    -- stderr
    → get_time {}
    note: the run reached its limit of 1 iterations; go on with `weir session resume [id]`
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "broken"]), @"
    exit 1
    -- stderr
    error: the run failed: the script fails here: auth
    help: check the provider's key, then try again with `weir session resume [id]`
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "unheard of"]), @"
    exit 1
    -- stderr
    error: the run failed: script has no reply for `unheard of`
    help: mend what the message says, then try again with `weir session resume [id]`
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "cut short"]), @"
    exit 0
    -- stdout
    short
    -- stderr
    note: the answer reached its limit of tokens
    session [id]
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "flaky"]), @"
    exit 0
    -- stdout
    Hello, you.
    -- stderr
    attempt 1 failed: the script fails here: overloaded; trying again in less than a second
    session [id]
    ");
}

#[test]
fn a_chat_that_cannot_begin_leaves_nothing_behind() {
    let weir = project();
    assert_snapshot!(weir.show(&["chat", "nobody", "-m", "hello"]), @"
    exit 1
    -- stderr
    error: there is no agent `nobody` in `agents`
    help: the agents here are: helper
    ");
    assert_eq!(weir.error(&["chat", "helper", "-m", "  "]), (2, "cli::empty-message".to_owned()));
    assert_eq!(
        weir.run_with(&["chat", "helper", "--json"], b"\xff").error(),
        (2, "cli::not-text".to_owned())
    );
    weir.write("agents/remote/spec.yaml", "name: remote\nmodel: anthropic/claude-sonnet-4-5\n");
    let mut command = weir.command();
    command.args(["chat", "remote", "-m", "hello"]).env_remove("ANTHROPIC_API_KEY");
    assert_snapshot!(weir.mask(&Ran::from(command.output().unwrap()).to_string()), @"
    exit 2
    -- stderr
    error: the model `anthropic/claude-sonnet-4-5` needs a key, and `ANTHROPIC_API_KEY` is not set
    help: set it with `export ANTHROPIC_API_KEY=…`, or try `model: offline/echo`, which needs none
    ");
    assert!(!weir.data().exists());
}

#[test]
fn sessions_are_found_by_their_beginning() {
    let weir = project();
    assert_eq!(weir.error(&["chat", "helper", "--session", "-1", "-m", "x"]).1, "cli::no-journal");
    let (one, two) = (weir.say("hello"), weir.say("hello"));
    let common: String = one.chars().zip(two.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let unique = &two[..=common.len()];
    let session = |name: &str| weir.json(&["session", "show", name])["id"].as_str().unwrap().to_owned();
    assert_eq!(session(unique), two);
    assert_eq!(session(&unique.to_lowercase()), two);
    assert_eq!(session(&one), one);
    assert_eq!(session("-1"), two);
    assert_eq!(weir.error(&["session", "show", &common]), (2, "cli::ambiguous-session".to_owned()));
    assert_eq!(weir.error(&["session", "show", "7ZZ"]), (1, "engine::no-session".to_owned()));
    assert_eq!(weir.error(&["session", "show", "no-id"]), (2, "cli::session".to_owned()));
    assert_eq!(
        weir.error(&["session", "show", &format!("{one}@draft")]),
        (1, "engine::no-session".to_owned())
    );
    weir.write("agents/other/spec.yaml", "name: other\nmodel: offline/echo\n");
    assert_snapshot!(weir.show(&["chat", "other", "--session", &one, "-m", "hello"]), @"
    exit 2
    -- stderr
    error: session [id] is a chat with `helper`, not `other`
    help: go on with `weir chat helper --session [id]`
    ");
}

/// Whoever waits for an answer sees that the run has begun in the list of sessions.
fn running(weir: &Weir, args: &[&str]) -> (Running, String) {
    let started = Running::start(weir.command().args(args));
    let session = eventually(|| {
        let listed = weir.run(&["session", "list", "--status", "running", "--json"]);
        let row: serde_json::Value = serde_json::from_str(listed.stdout.lines().next()?).ok()?;
        let id = row["id"].as_str()?.to_owned();
        // Its request is out: from here on it waits for a model that takes its time.
        let shown = weir.json(&["session", "show", &id]);
        (shown["requests"] == 1).then_some(id)
    });
    (started, session)
}

#[test]
fn ctrl_c_cancels_the_run_and_not_the_session() {
    let weir = project();
    let (chat, session) = running(&weir, &["chat", "helper", "-m", "slow"]);
    let ran = chat.interrupt();
    assert_snapshot!(weir.mask(&ran.to_string()), @"
    exit 130
    -- stderr
    note: cancelled; say something else with `--session [id]`
    ");
    assert_eq!(weir.json(&["session", "show", &session])["status"], "idle");
    assert_eq!(weir.ok(&["chat", "helper", "--session", &session, "-m", "hello"]), "Hello, you.\n");
}

#[test]
fn a_session_that_another_process_runs_is_left_to_it() {
    let weir = project();
    let (chat, session) = running(&weir, &["chat", "helper", "-m", "slow"]);
    let pid = chat.pid().to_string();
    let shown = |args: &[&str]| weir.show(args).replace(&pid, "[pid]");
    assert_snapshot!(shown(&["chat", "helper", "--session", &session, "-m", "hello"]), @"
    exit 1
    -- stderr
    error: session [id] is being run by process [pid]
    help: wait for it, say something to it with `weir session message [id] TEXT`, or stop it with `weir session cancel [id]`
    ");
    assert_eq!(weir.error(&["session", "resume", &session]), (1, "engine::owned".to_owned()));
    assert_snapshot!(shown(&["session", "show", &session]).lines().nth(5).unwrap_or_default(), @"status     running in process [pid]");
    assert_snapshot!(shown(&["session", "message", &session, "and then?"]), @"
    exit 0
    -- stdout
    left a message for [id]
    -- stderr
    note: process [pid] runs it and takes this up
    ");
    assert_snapshot!(shown(&["session", "cancel", &session]), @"
    exit 0
    -- stdout
    asked to stop: [id]
    -- stderr
    note: process [pid] runs it and takes this up
    ");
    let ran = chat.wait(DEADLINE);
    // What was said meanwhile is answered after the run that was cancelled.
    assert_snapshot!(weir.mask(&ran.to_string()), @"
    exit 0
    -- stdout
    Then nothing.
    -- stderr
    somebody said: and then?
    session [id]
    ");
}

#[test]
fn what_a_killed_process_left_is_answered_first() {
    let weir = project();
    let (chat, session) = running(&weir, &["chat", "helper", "-m", "slow"]);
    chat.kill();
    let status = weir.show(&["session", "show", &session]) + &weir.show(&["session", "list"]);
    assert!(status.contains("helper  interrupted"), "{status}");
    assert!(status.contains("running, but nobody runs it"), "{status}");
    weir.write(
        "models/demo.yaml",
        "replies: [{ when: { user: '^hello$' }, say: Hello. }, { say: Here I am again. }]\n",
    );
    assert_snapshot!(weir.show(&["chat", "helper", "--session", &session, "-m", "hello"]), @"
    exit 0
    -- stdout
    Here I am again.
    Hello.
    -- stderr
    note: something is still unanswered; that comes first
    ");
}

/// An agent with a narrow window whose summaries fail.
fn narrow() -> Weir {
    let weir = Weir::new();
    weir.write(
        "agents/helper/spec.yaml",
        "name: helper\nmodel: scripted/demo\nlimits: { context_tokens: 3600, output_tokens: 200 }\n",
    );
    let script = "replies:\n  - when: { summarize: true }\n    error: overloaded\n  - say: understood\n";
    weir.write("models/demo.yaml", script);
    weir
}

#[test]
fn messages_that_no_longer_fit_are_told() {
    let weir = narrow();
    let long = "word ".repeat(240);
    let session = weir.say(&long);
    let warned = (0..20).find_map(|_| {
        let ran = weir.run(&["chat", "helper", "--session", &session, "-m", &long]);
        assert_eq!(ran.code, 0, "{ran}");
        ran.stderr.contains("no longer fit").then_some(ran.stderr)
    });
    let warned = warned.expect("a window of 3,600 tokens does not take 20 messages of 300");
    assert!(warned.contains("older message"), "{warned}");
    // The summary that would have replaced them was tried twice: the second time promises no third.
    assert!(warned.contains("attempt 1 failed: the script fails here: overloaded; trying again"), "{warned}");
    assert!(
        warned.contains("attempt 2 failed: the script fails here: overloaded; going on without a summary"),
        "{warned}"
    );
    let shown = weir.json(&["session", "show", &session]);
    assert!(shown["left_out"]["messages"].as_u64().unwrap() > 0, "{shown}");
    assert!(weir.show(&["session", "show", &session]).contains("no longer fit"));
    let events = weir.ok(&["cat", "--stream", &format!("session:{session}"), "--format", "json"]);
    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let requested = events.iter().filter(|event| event["kind"] == "model.requested").collect::<Vec<_>>();
    let newest = requested.last().unwrap();
    assert_eq!(newest["payload"]["context"], shown["left_out"], "{newest}");
    assert!(requested[0]["payload"].get("context").is_none(), "everything fits at first");
}

#[test]
fn a_dry_run_says_which_call_it_is_and_patterns_that_match_nothing_are_told() {
    let weir = Weir::new();
    weir.write(
        "agents/helper/spec.yaml",
        "name: helper\nmodel: scripted/demo\ntools: [ { name: tools/notify, access: write } ]\n",
    );
    weir.write(
        "tools/notify.ts",
        "import { defineTool } from 'weir';\n\
         export default defineTool({ name: 'notify', description: 'Tells someone.', parameters: { to: { type: 'string' } }, execute: async () => 'told' });\n",
    );
    let script = "replies:\n  - when: { tool: notify }\n    say: done\n  - call: [ { tool: notify, input: { to: ada } }, { tool: notify, input: { to: bob } } ]\n";
    weir.write("models/demo.yaml", script);
    let ran = weir.run(&["chat", "helper", "-m", "go", "--live-writes=tools/notfy"]);
    for to in ["ada", "bob"] {
        let expected = format!("dry run: nothing happened: notify {{\"to\":\"{to}\"}}; `--live-writes`");
        assert!(ran.stderr.contains(&expected), "{ran}");
    }
    assert!(
        ran.stderr.contains(
            "`--live-writes=tools/notfy` matches no tool of the project; did you mean `tools/notify`"
        ),
        "{ran}"
    );
    let ran = weir.run(&["chat", "helper", "-m", "go", "--live-writes=tools/*"]);
    assert!(!ran.stderr.contains("dry run") && !ran.stderr.contains("matches no tool"), "{ran}");
}
