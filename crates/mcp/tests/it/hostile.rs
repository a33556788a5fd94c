//! Calls to a program that does not behave.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_mcp::Call;

use crate::PLENTY;
use crate::stage::{Stage, call, shown, until};

/// Time enough for a server that runs to be sent a call, and not too long to wait for.
const SOON: Duration = Duration::from_secs(2);

/// What follows a call that went wrong: the same server, or a new one, does its work.
async fn still_works(stage: &Stage, starts: usize) {
    assert_eq!(stage.shown("echo", r#"{"text":"still here"}"#).await, "still here");
    assert_eq!(stage.lines("starts").len(), starts);
}

#[tokio::test]
async fn a_server_that_hangs_costs_one_call_and_is_told() {
    let stage = Stage::new();
    still_works(&stage, 1).await;
    let hang = Call { deadline: SOON, ..call("hang", "{}") };
    assert_eq!(
        shown(&stage.connections.call(&stage.target, hang).await),
        "mcp::late (may have happened): the server did not answer within 2 s; the tool may have run all the same"
    );
    stage.until("cancelled", 1).await;
    still_works(&stage, 1).await;
    assert_eq!(stage.lines("calls"), ["echo", "hang", "echo"]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_at_once_and_the_server_is_told() {
    let stage = Stage::new();
    let cancelled = CancellationToken::new();
    let hang = Call { cancelled: cancelled.clone(), ..call("hang", "{}") };
    let hang = stage.connections.call(&stage.target, hang);
    let cancel = async {
        stage.until("calls", 1).await;
        cancelled.cancel();
    };
    let (answered, ()) = tokio::join!(hang, cancel);
    assert_eq!(
        shown(&answered),
        "mcp::cancelled (may have happened): the call was cancelled; the tool may have run all the same"
    );
    stage.until("cancelled", 1).await;
    still_works(&stage, 1).await;

    // What was cancelled before it began was never sent.
    let never = Call { cancelled, ..call("echo", "{}") };
    assert_eq!(
        shown(&stage.connections.call(&stage.target, never).await),
        "mcp::cancelled (did not happen): the call was cancelled"
    );
    assert_eq!(stage.lines("calls"), ["hang", "echo"]);
}

#[tokio::test]
async fn a_call_whose_caller_is_gone_is_taken_back() {
    let stage = Stage::new();
    tokio::select! {
        answered = stage.call("hang", "{}") => panic!("it answered: {}", shown(&answered)),
        () = stage.until("calls", 1) => {}
    }
    stage.until("cancelled", 1).await;
    still_works(&stage, 1).await;
}

#[tokio::test]
async fn progress_does_not_make_a_deadline_longer() {
    let stage = Stage::new();
    still_works(&stage, 1).await;
    let progress = Call { deadline: SOON, ..call("progress", "{}") };
    let answered = shown(&stage.connections.call(&stage.target, progress).await);
    assert!(answered.starts_with("mcp::late (may have happened)"), "{answered}");
    stage.until("cancelled", 1).await;
}

#[tokio::test]
async fn a_server_that_dies_in_mid_call_was_asked_once() {
    let stage = Stage::new();
    assert_eq!(
        stage.shown("die", "{}").await,
        "mcp::ended (may have happened): the server ended before it answered (exit status: 3); \
         it said: out of memory; the tool may have run all the same"
    );
    assert_eq!(stage.lines("calls"), ["die"]);
    still_works(&stage, 2).await;
    assert_eq!(stage.lines("calls"), ["die", "echo"]);
}

#[tokio::test]
async fn a_server_whose_children_outlive_it_is_dead_all_the_same() {
    let stage = Stage::new();
    assert_eq!(
        stage.shown("orphan", "{}").await,
        "mcp::ended (may have happened): the server ended before it answered (it closed the connection); \
         the tool may have run all the same"
    );
    let child = stage.lines("child")[0].clone();
    until(|| !crate::stdio::runs(&child)).await;
    still_works(&stage, 2).await;
}

#[tokio::test]
async fn calls_under_way_fall_with_their_server_and_are_not_repeated() {
    let stage = Stage::new();
    let wait = stage.call("wait", r#"{"file":"never"}"#);
    let die = async {
        stage.until("calls", 1).await;
        stage.call("die", "{}").await
    };
    let (waited, died) = tokio::join!(wait, die);
    for answered in [waited, died] {
        assert!(answered.unwrap_err().may_have_happened());
    }
    assert_eq!(stage.lines("calls"), ["wait", "die"]);
    still_works(&stage, 2).await;
}

#[tokio::test]
async fn a_server_that_died_unseen_is_replaced_without_a_failed_call() {
    let stage = Stage::new();
    still_works(&stage, 1).await;
    let id = stage.lines("starts")[0].clone();
    let killed = std::process::Command::new("kill").args(["-9", &id]).status().unwrap();
    assert!(killed.success());
    until(|| stage.connections.count() == 0).await;
    still_works(&stage, 2).await;
    assert_eq!(stage.lines("calls"), ["echo", "echo"]);
}

#[tokio::test]
async fn an_answer_that_is_too_long_costs_its_own_call_alone() {
    let stage = Stage::new();
    let wait = stage.shown("wait", r#"{"file":"go"}"#);
    let long = async {
        stage.until("calls", 1).await;
        let answered = stage.shown("long", r#"{"bytes":20000000}"#).await;
        stage.put("go");
        answered
    };
    let (waited, answered) = tokio::join!(wait, long);
    assert_eq!(
        answered,
        "mcp::too-much (may have happened): the server sends more than 16777216 bytes; the tool may have run all the same"
    );
    assert_eq!(waited, "waited");
    still_works(&stage, 1).await;
    // What just fits comes through.
    assert_eq!(stage.shown("long", r#"{"bytes":16000000}"#).await.len(), 16_000_000);
}

#[tokio::test]
async fn floods_are_cut_off() {
    for tool in ["endless_line", "endless_logs"] {
        let stage = Stage::new();
        assert_eq!(
            stage.shown(tool, "{}").await,
            "mcp::too-much (may have happened): the server sends more than 67108864 bytes; the tool may have run all the same"
        );
        still_works(&stage, 2).await;
        assert_eq!(stage.lines("calls"), [tool, "echo"]);
    }
}

#[tokio::test]
async fn some_babble_is_forgiven_and_much_is_not() {
    let stage = Stage::new();
    assert_eq!(stage.shown("babble", r#"{"lines":90}"#).await, "done");
    let answered = stage.shown("babble", r#"{"lines":100000}"#).await;
    let expected = "mcp::nonsense (may have happened): the server wrote `Listening on port 10`, which is not a message of MCP";
    assert!(answered.starts_with(expected), "{answered}");
    still_works(&stage, 2).await;
}

#[tokio::test]
async fn an_answer_that_is_none_costs_its_own_call_alone() {
    let stage = Stage::new();
    for (text, expected) in [
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":5}"#,
            "mcp::answer (may have happened): the server's answer cannot be used: its answer is no result of a tool",
        ),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":"text"}}"#,
            "mcp::answer (may have happened): the server's answer cannot be used: its answer is no result of a tool",
        ),
        (
            r#"{"jsonrpc":"2.0","id":ID,"error":"no"}"#,
            "mcp::call-refused (may have happened): the server refused the call (0): its error is not one of MCP: \"no\"",
        ),
        (
            r#"{"id":"ID","result":{"content":[{"type":"text","text":"an id as text, and no version"}]}}"#,
            "an id as text, and no version",
        ),
    ] {
        let arguments = serde_json::json!({ "text": text }).to_string();
        assert_eq!(stage.shown("garble", &arguments).await, expected, "{text}");
    }
    // Answers to nobody, and twice the same, are not listened to.
    for text in [
        r#"{"jsonrpc":"2.0","id":4000000000,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#,
    ] {
        let text = format!(
            "{text}\n{}",
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"x"}]}}"#
        );
        let arguments = serde_json::json!({ "text": text }).to_string();
        let answered = stage.call("garble", &arguments).await;
        assert!(answered.is_ok(), "{}", shown(&answered));
    }
    still_works(&stage, 1).await;
}

#[tokio::test]
async fn a_server_that_asks_too_much_is_not_answered_and_breaks_nothing() {
    let stage = Stage::new();
    assert_eq!(stage.shown("flood_questions", r#"{"count":20000}"#).await, "asked");
    still_works(&stage, 1).await;
}

#[tokio::test]
async fn a_server_that_does_not_read_is_replaced() {
    let stage = Stage::new();
    assert_eq!(stage.shown("deaf", "{}").await, "deaf from now on");
    // More than a pipe holds, so that it cannot even be sent.
    let text = "x".repeat(1_000_000);
    let echo = Call { deadline: SOON, ..call("echo", &format!(r#"{{"text":"{text}"}}"#)) };
    let answered = stage.connections.call(&stage.target, echo).await.unwrap_err();
    // Part of it has left.
    assert!(answered.may_have_happened());
    // This one waits behind it, and never leaves.
    let behind = Call { deadline: SOON, ..call("echo", "{}") };
    let answered = shown(&stage.connections.call(&stage.target, behind).await);
    assert_eq!(answered, "mcp::late (did not happen): the server did not answer within 2 s");
    let works = async { while stage.call("echo", "{}").await.is_err() {} };
    tokio::time::timeout(PLENTY, works).await.expect("a new one takes its place");
    assert_eq!(stage.lines("starts").len(), 2);
}

#[tokio::test]
async fn a_server_that_fails_again_and_again_is_left_alone_for_a_while() {
    let stage = Stage::new();
    stage.put("broken");
    let expected = "mcp::ended (did not happen): the server ended before it answered (exit status: 1); it said: cannot open the database";
    assert_eq!(stage.shown("echo", "{}").await, expected);
    // One failure may be chance.
    assert_eq!(stage.shown("echo", "{}").await, expected);
    let answered = stage.shown("echo", "{}").await;
    assert!(
        answered
            .starts_with("mcp::backing-off (did not happen): the server has failed and is tried again in "),
        "{answered}"
    );
    assert!(answered.ends_with("it said: cannot open the database"), "{answered}");
    assert_eq!(stage.lines("starts").len(), 2);

    // After that it is tried again.
    std::fs::remove_file(stage.directory.path().join("broken")).unwrap();
    let mut answered = Err("not called".to_owned());
    let again = async {
        while answered.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            answered = stage.call("echo", r#"{"text":"again"}"#).await.map_err(|error| error.to_string());
        }
    };
    tokio::time::timeout(PLENTY, again).await.expect("it is tried again");
    assert_eq!(stage.lines("starts").len(), 3);
}

#[tokio::test]
async fn a_server_that_does_not_list_its_tools_is_not_called() {
    let stage = Stage::new();
    for (file, expected) in [
        ("list-refused", "mcp::refused (did not happen): the server refused: not today"),
        (
            "list-odd",
            "mcp::definition (did not happen): the server describes a tool in a way that is not MCP: missing field `inputSchema`",
        ),
    ] {
        stage.put(file);
        assert_eq!(stage.shown("echo", "{}").await, expected);
        std::fs::remove_file(stage.directory.path().join(file)).unwrap();
    }
    stage.put("list-hangs");
    let echo = Call { deadline: SOON, ..call("echo", "{}") };
    assert_eq!(
        shown(&stage.connections.call(&stage.target, echo).await),
        "mcp::late (did not happen): the server did not answer within 2 s"
    );
    std::fs::remove_file(stage.directory.path().join("list-hangs")).unwrap();
    still_works(&stage, 1).await;
    assert_eq!(stage.lines("calls"), ["echo"]);
}

#[tokio::test]
async fn those_who_come_together_start_one_server() {
    let stage = Stage::new();
    stage.put("broken");
    let calls = (0..20).map(|_| stage.call("echo", "{}"));
    for answered in futures_util::future::join_all(calls).await {
        assert!(!answered.unwrap_err().may_have_happened());
    }
    assert_eq!(stage.lines("starts").len(), 1);
    std::fs::remove_file(stage.directory.path().join("broken")).unwrap();
    let calls = (0..20).map(|_| stage.call("echo", "{}"));
    for answered in futures_util::future::join_all(calls).await {
        assert!(answered.is_ok());
    }
    assert_eq!(stage.lines("starts").len(), 2);
    until(|| stage.lines("calls").len() == 20).await;
}
