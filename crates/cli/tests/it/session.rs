//! `weir session`: what is known about sessions, and what can be done to them.

use insta::assert_snapshot;

use crate::chat::project;
use crate::weir::Weir;

#[test]
fn sessions_are_listed_the_latest_first() {
    let weir = project();
    assert_eq!(weir.error(&["session", "list"]), (1, "cli::no-journal".to_owned()));
    let first = weir.say("hello");
    let second = weir.say("What time is it?");
    weir.ok(&["session", "set", &first, "--title", "Greetings \u{1b}[2J"]);
    weir.ok(&["session", "close", &second]);
    weir.run(&["chat", "helper", "-m", "broken"]);
    assert_snapshot!(masked_times(&weir.show(&["session", "list"])), @r"
    exit 0
    -- stdout
    SESSION                     AGENT   STATUS  UPDATED (UTC)        COST   TITLE
    [id]  helper  idle    [day] [time]  $0.00  broken
    [id]  helper  closed  [day] [time]  $0.00  What time is it?
    [id]  helper  idle    [day] [time]  $0.00  Greetings \u{1b}[2J
    ");
    assert_snapshot!(masked_times(&weir.show(&["session", "list", "--limit", "1"])), @"
    exit 0
    -- stdout
    SESSION                     AGENT   STATUS  UPDATED (UTC)        COST   TITLE
    [id]  helper  idle    [day] [time]  $0.00  broken
    -- stderr
    note: 2 more; `--limit 3` shows them
    ");
    assert_snapshot!(weir.show(&["session", "list", "--status", "halted"]), @"
    exit 0
    -- stderr
    note: there are no such sessions; begin one with `weir chat AGENT`
    ");
    assert_snapshot!(weir.show(&["session", "list", "--status", "idle", "--json"]), @r#"
    exit 0
    -- stdout
    {"id":"[id]","branch":"main","agent":"helper","status":"idle","title":null,"subject":"broken","parent":null,"principal":"[actor]","updated":"[time]","usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0}
    {"id":"[id]","branch":"main","agent":"helper","status":"idle","title":"Greetings \u001b[2J","subject":"hello","parent":null,"principal":"[actor]","updated":"[time]","usage":{"input_tokens":1200,"output_tokens":80,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0}
    "#);
    assert_eq!(weir.ok(&["session", "list", "--agent", "nobody", "--json"]), "");
}

/// The list shows times to the second.
fn masked_times(text: &str) -> String {
    let is_time = |word: &&str| word.len() == 8 && word.bytes().filter(|byte| *byte == b':').count() == 2;
    let is_day = |word: &&str| word.len() == 10 && word.starts_with("20") && word.as_bytes()[4] == b'-';
    let words = text.split(' ').map(|word| {
        let bare = word.split('\n').next().unwrap_or_default();
        if is_time(&bare) {
            word.replacen(bare, "[time]", 1)
        } else if is_day(&bare) {
            "[day]".to_owned()
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_session_at_a_glance() {
    let weir = project();
    let session = weir.say("What time is it?");
    weir.ok(&["session", "set", &session, "--title", "Clock", "--label", "team=time", "--label", "gone=x"]);
    weir.ok(&["session", "set", &session, "--label", "gone="]);
    assert_snapshot!(weir.show(&["session", "show", &session]), @"
    exit 0
    -- stdout
    session    [id]
    agent      helper
    principal  [actor]
    title      Clock
    label      team=time
    status     idle
    began      [time]
    updated    [time]
    events     17
    runs       1, the latest: end
    requests   2
    usage      331 tokens in, 18 out
    cost       $0.00
    ");
    assert_snapshot!(weir.mask(&weir.json(&["session", "show", &session]).to_string()), @r#"{"version":1,"id":"[id]","branch":"main","agent":"helper","manifest":"[hash]","principal":"[actor]","title":"Clock","labels":{"team":"time"},"status":"idle","pid":null,"began":"[time]","updated":"[time]","seq":17,"branches":["main"],"runs":1,"requests":2,"left_out":null,"stop":"end","usage":{"input_tokens":331,"output_tokens":18,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0,"open_calls":[]}"#);
}

#[test]
fn a_request_is_made_again_byte_for_byte() {
    let weir = project();
    let session = weir.say("What time is it?");
    let ran = weir.run(&["session", "show", &session, "--request", "2"]);
    assert_snapshot!(weir.mask(&ran.to_string()), @r#"
    exit 0
    -- stdout
    {"model":"demo","system":"You help.","tools":[{"name":"get_time","description":"Tells the date and time right now, in UTC (RFC 3339). Use it when an answer depends on today's date or on how much time has passed.","schema":{"type":"object","properties":{},"additionalProperties":false}}],"messages":[{"role":"user","content":[{"type":"text","text":"<runtime>\ntime: [time]\n</runtime>"},{"type":"text","text":"What time is it?"}]},{"role":"assistant","content":[{"type":"thinking","text":"I need the clock."},{"type":"text","text":"Let me look."},{"type":"tool_use","id":"call_1_0","name":"get_time","input":{}}]},{"role":"user","content":[{"type":"tool_result","id":"call_1_0","name":"get_time","content":[{"type":"text","text":"[time]"}]}]}],"output_tokens_max":8192,"purpose":"turn"}
    -- stderr
    note: request 2 (event 13, attempt 1): 827 bytes, as they were sent; SHA-256 [hash]
    "#);
    let document = weir.json(&["session", "show", &session, "--request", "1"]);
    assert_eq!((&document["exact"], &document["attempt"]), (&true.into(), &1.into()));
    assert_eq!(document["body"]["messages"][0]["content"][1]["text"], "What time is it?");
    assert_snapshot!(weir.show(&["session", "show", &session, "--request", "3"]), @"
    exit 1
    -- stderr
    error: session [id] has made 2 model requests; there is no request 3
    help: see `weir session show [id]`
    ");
    // Another model speaks another language: these are not the bytes that were sent.
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: acme/m\n");
    weir.write(
        "weir.yaml",
        "models: { acme/m: { wire: openai-chat, base_url: 'http://localhost:1/v1', context_window: 9000, output_max: 9 } }",
    );
    let ran = weir.run(&["session", "show", &session, "--request", "1"]);
    assert_eq!((ran.code, ran.stderr.contains("can no longer be made as it was sent")), (1, true), "{ran}");
}

#[test]
fn history_tells_everything_if_asked() {
    let weir = project();
    let session = weir.say("What time is it?");
    weir.ok(&["session", "signal", &session, "door.opened", "--data", r#"{"which":"front"}"#]);
    weir.run(&["chat", "helper", "--session", &session, "-m", "broken"]);
    assert_snapshot!(weir.show(&["session", "history", &session, "--all"]), @r#"
    exit 0
    -- stdout
    #2 [actor]
    What time is it?

    #7 helper
      thinks:
      I need the clock.
    Let me look.
      → get_time {}
      ← [time]
    It is [time] now.
      ! door.opened {"which":"front"}
      · attempt 1 failed: script has no reply for `<signal name="door.opened"> {"which":"front"} </signal>` (invalid)
      · the run failed: script has no reply for `<signal name="door.opened"> {"which":"front"} </signal>` (invalid)

    #23 [actor]
    broken
      · attempt 1 failed: the script fails here: auth (auth)
      · the run failed: the script fails here: auth (auth)
    "#);
    assert_snapshot!(weir.show(&["session", "history", &session, "--json"]), @r#"
    exit 0
    -- stdout
    {"seq":2,"ts":"[time]","type":"user","actor":"[actor]","text":"What time is it?"}
    {"seq":7,"ts":"[time]","type":"assistant","text":"Let me look."}
    {"seq":8,"ts":"[time]","type":"call","tool":"get_time","input":{},"text":""}
    {"seq":11,"ts":"[time]","type":"result","tool":"get_time","text":"[time]"}
    {"seq":14,"ts":"[time]","type":"assistant","text":"It is [time] now."}
    {"seq":16,"ts":"[time]","type":"signal","text":"door.opened {\"which\":\"front\"}"}
    {"seq":23,"ts":"[time]","type":"user","actor":"[actor]","text":"broken"}
    "#);
}

#[test]
fn a_fork_has_the_past_and_its_own_future() {
    let weir = project();
    let session = weir.say("hello");
    weir.ok(&["chat", "helper", "--session", &session, "-m", "What time is it?"]);
    assert_snapshot!(weir.show(&["session", "fork", &session, "--at", "8"]), @"
    exit 0
    -- stdout
    [id]@fork-1
    -- stderr
    note: go on there with `weir chat helper --session [id]@fork-1`
    ");
    assert_snapshot!(weir.show(&["session", "fork", &session, "--at", "8", "--name", "rainy", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"session":"[id]","branch":"rainy","seq":9}
    "#);
    let rainy = format!("{session}@rainy");
    weir.ok(&["chat", "helper", "--session", &rainy, "-m", "cut this"]);
    let texts = |name: &str| -> Vec<String> {
        let lines = weir.ok(&["session", "history", name, "--json"]);
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        lines.lines().map(|line| parse(line)["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&rainy), ["hello", "Hello, you.", "cut this", "this"]);
    assert_eq!(texts(&session)[2], "What time is it?");
    assert_eq!(weir.json(&["session", "show", "-1"])["branch"], "rainy");
    assert_eq!(weir.error(&["session", "fork", &session, "--at", "8", "--name", "rainy"]).0, 1);
    assert_eq!(weir.error(&["session", "fork", &session, "--at", "999"]).0, 1);
}

#[test]
fn the_state_of_any_moment() {
    let weir = project();
    let session = weir.say("What time is it?");
    assert_snapshot!(weir.show(&["session", "state", &session]), @"
    exit 0
    -- stdout
    session    [id]
    event      15 at [time]
    agent      helper
    principal  [actor]
    status     idle
    latest     end
    messages   3
    usage      331 tokens in, 18 out
    cost       $0.00
    ");
    assert_snapshot!(weir.show(&["session", "state", &session, "--at", "8"]), @"
    exit 0
    -- stdout
    session    [id]
    event      8 at [time]
    agent      helper
    principal  [actor]
    status     running
    run        [id], iteration 1
    latest     in progress
    messages   2
    usage      124 tokens in, 8 out
    cost       $0.00
    call       [id] get_time {}: requested
    ");
    let state = |at: &str| weir.json(&["session", "state", &session, "--at", at]);
    let ts = state("5")["ts"].as_str().unwrap().to_owned();
    // Several events may share a moment; the last of them is meant.
    let by_time = state(&ts);
    assert_eq!(by_time["ts"].as_str(), Some(ts.as_str()));
    assert!(by_time["seq"].as_u64() >= Some(5), "{by_time}");
    let after = by_time["seq"].as_u64().unwrap() + 1;
    assert!(state(&after.to_string())["ts"].as_str() > Some(ts.as_str()));
    let refused = |at: &str| weir.error(&["session", "state", &session, "--at", at]);
    assert_eq!(refused("0"), (1, "cli::no-event".to_owned()));
    assert_eq!(refused("999"), (1, "cli::no-event".to_owned()));
    assert_eq!(refused("2001-01-01T00:00:00Z"), (1, "cli::no-event".to_owned()));
    assert_eq!(refused("yesterday"), (2, "cli::at".to_owned()));
}

#[test]
fn sessions_can_be_stopped_and_ended() {
    let weir = project();
    let session = weir.say("hello");
    assert_snapshot!(weir.show(&["session", "cancel", &session]), @"
    exit 1
    -- stderr
    error: session [id] has no run to cancel
    help: see `weir session show [id]`
    ");
    assert_snapshot!(weir.show(&["session", "halt", &session, "-m", "wrong customer"]), @"
    exit 0
    -- stdout
    halted [id]
    ");
    assert_snapshot!(weir.show(&["chat", "helper", "--session", &session, "-m", "hello"]), @"
    exit 1
    -- stderr
    error: session [id] is halted
    help: go on with `weir session resume [id]`
    ");
    assert_snapshot!(weir.show(&["session", "resume", &session]), @"
    exit 0
    -- stderr
    note: it goes on with the next message; nothing was left to answer
    ");
    assert_snapshot!(weir.show(&["session", "resume", &session]), @"
    exit 1
    -- stderr
    error: session [id] has nothing to go on with
    help: say something: `weir chat AGENT --session [id]`
    ");
    assert_snapshot!(weir.show(&["session", "close", &session, "-m", "done", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"session":"[id]","branch":"main","seq":11}
    "#);
    assert_snapshot!(weir.show(&["session", "message", &session, "hello"]), @"
    exit 1
    -- stderr
    error: session [id] is closed
    help: begin a new session, or fork this one at an event before it was closed
    ");
    assert_eq!(weir.error(&["session", "resume", &session]), (1, "engine::closed".to_owned()));
    assert_eq!(
        weir.error(&["chat", "helper", "--session", &session, "-m", "x"]),
        (1, "engine::closed".to_owned())
    );
}

#[test]
fn a_message_for_later_is_answered_when_somebody_runs_the_session() {
    let weir = project();
    let session = weir.say("hello");
    assert_snapshot!(weir.show(&["session", "message", &session, "What time is it?"]), @"
    exit 0
    -- stdout
    left a message for [id]
    -- stderr
    note: nobody runs it now; `weir session resume [id]` does
    ");
    let answer = weir.json(&["session", "resume", &session]);
    assert_eq!((&answer["stop"], &answer["session"]), (&"end".into(), &session.as_str().into()));
    assert!(answer["answer"].as_str().unwrap().starts_with("It is 2"), "{answer}");
}

#[test]
fn wrong_words_are_refused() {
    let weir = project();
    let session = weir.say("hello");
    let refused = |args: &[&str]| weir.error(args);
    assert_eq!(refused(&["session", "set", &session]), (2, "cli::nothing-to-change".to_owned()));
    assert_eq!(refused(&["session", "set", &session, "--label", "=x"]), (2, "cli::label".to_owned()));
    assert_eq!(
        refused(&["session", "signal", &session, "x", "--data", "{"]),
        (2, "cli::not-json".to_owned())
    );
    assert_eq!(refused(&["session", "message", &session, " "]), (2, "cli::empty-message".to_owned()));
    assert_eq!(refused(&["session", "list", "--status", "asleep"]).0, 2);
}

#[test]
fn nothing_stored_reaches_a_terminal_raw() {
    let weir = Weir::new();
    weir.write("agents/parrot/spec.yaml", "name: parrot\nmodel: offline/echo\n");
    let evil = "a\u{1b}[2J\u{202e}b";
    // A pipe gets what was said; remarks and tables are always safe.
    let ran = weir.run(&["chat", "parrot", "-m", evil, "--title", evil]);
    assert_eq!(ran.stdout, format!("{evil}\n"));
    let shown = weir.ok(&["session", "show", "-1"]) + &weir.ok(&["session", "list"]);
    assert!(!shown.contains('\u{1b}') && shown.contains(r"a\u{1b}[2J\u{202e}b"), "{shown}");
}
