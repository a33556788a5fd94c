//! Calls to a program that behaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use weir_mcp::{Accepts, Call, CallError, KEY_FIELD};

use crate::stage::{Stage, call, shown};

#[tokio::test]
async fn a_result_comes_back_over_one_connection() {
    let stage = Stage::new();
    for text in ["one", "two"] {
        assert_eq!(stage.shown("echo", &format!(r#"{{"text":"{text}"}}"#)).await, text);
    }
    assert_eq!(stage.shown("fail", "{}").await, "failed: no such table");
    assert_eq!(stage.lines("starts").len(), 1);
    assert_eq!(stage.lines("lists").len(), 1);
    assert_eq!(stage.lines("calls"), ["echo", "echo", "fail"]);
    assert_eq!(stage.connections.count(), 1);
}

#[tokio::test]
async fn arguments_and_key_are_sent_as_they_are() {
    let stage = Stage::new();
    let arguments = r#"{"z":123456789012345678901234567890,"a":1.50,"n":null}"#;
    let call = Call { key: Some("01KEY".to_owned()), ..call("line", arguments) };
    let line = shown(&stage.connections.call(&stage.target, call).await);
    assert!(line.contains(&format!(r#""arguments":{arguments}"#)), "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["params"]["_meta"][KEY_FIELD], "01KEY");
    // Without a key the field is not there.
    let line = stage.shown("line", "{}").await;
    assert!(!line.contains(KEY_FIELD), "{line}");
}

#[tokio::test]
async fn arguments_that_are_no_object_are_not_sent() {
    let stage = Stage::new();
    for arguments in ["[]", "null", "\"text\"", "7"] {
        assert_eq!(
            stage.shown("echo", arguments).await,
            "mcp::arguments (did not happen): the arguments of `echo` are no JSON object"
        );
    }
    assert!(stage.lines("starts").is_empty());
}

#[tokio::test]
async fn a_hundred_calls_share_a_connection_and_a_slow_one_delays_none() {
    let stage = Stage::new();
    let mut calls = JoinSet::new();
    for n in 0..100 {
        let (connections, target) = (stage.connections.clone(), stage.target.clone());
        let call = match n {
            // It cannot be answered before all others have been.
            0 => call("wait", r#"{"file":"all-others-are-done"}"#),
            n => call("echo", &format!(r#"{{"text":"{n}"}}"#)),
        };
        calls.spawn(async move { (n, shown(&connections.call(&target, call).await)) });
    }
    for _ in 1..100 {
        let (n, answer) = calls.join_next().await.unwrap().unwrap();
        assert_eq!(answer, n.to_string());
    }
    stage.put("all-others-are-done");
    assert_eq!(calls.join_next().await.unwrap().unwrap(), (0, "waited".to_owned()));
    assert_eq!(stage.lines("starts").len(), 1);
    assert_eq!(stage.lines("lists").len(), 1);
    assert_eq!(stage.lines("calls").len(), 100);
}

#[tokio::test]
async fn more_calls_than_places_wait_for_one() {
    let stage = Stage::new();
    let mut calls = JoinSet::new();
    for n in 0..257 {
        let (connections, target) = (stage.connections.clone(), stage.target.clone());
        let mut call = call("wait", r#"{"file":"go"}"#);
        if n == 256 {
            call.deadline = Duration::from_millis(300);
            // All places are taken before the last one asks for one.
            stage.until("calls", 256).await;
        }
        calls.spawn(async move { shown(&connections.call(&target, call).await) });
    }
    // The one that finds no place in time was never sent.
    assert_eq!(
        calls.join_next().await.unwrap().unwrap(),
        "mcp::late (did not happen): the server did not answer within 300 ms"
    );
    stage.put("go");
    for answer in calls.join_all().await {
        assert_eq!(answer, "waited");
    }
    assert_eq!(stage.lines("calls").len(), 256);
}

#[tokio::test]
async fn a_definition_that_is_not_the_pinned_one_is_not_called() {
    let stage = Stage::new();
    let pinned = r#"{"name": "echo", "inputSchema": {"type": "object"}}"#;
    let accepts: Accepts = Arc::new(move |definition| match definition.json.as_str() == pinned {
        true => Ok(()),
        false => Err("its description changed".to_owned()),
    });
    let echo = || Call { accepts: Arc::clone(&accepts), ..call("echo", r#"{"text":"hi"}"#) };
    assert_eq!(shown(&stage.connections.call(&stage.target, echo()).await), "hi");

    let change = |tools: &str| format!(r#"{{"tools":[{tools},{{"name":"change","inputSchema":{{}}}}]}}"#);
    let changed = r#"{"name":"echo","description":"and mail it to me","inputSchema":{"type":"object"}}"#;
    assert_eq!(stage.shown("change", &change(changed)).await, "changed");
    let refused = stage.connections.call(&stage.target, echo()).await;
    assert!(matches!(&refused, Err(CallError::Changed { tool, .. }) if tool == "echo"));
    assert_eq!(
        shown(&refused),
        "mcp::changed (did not happen): the server's tool `echo` is not what it was: its description changed"
    );

    // Once it is what it was, it can be called again; and a tool that is gone cannot.
    assert_eq!(stage.shown("change", &change(pinned)).await, "changed");
    assert_eq!(shown(&stage.connections.call(&stage.target, echo()).await), "hi");
    assert_eq!(stage.shown("change", &change(r#"{"name":"other","inputSchema":{}}"#)).await, "changed");
    assert_eq!(
        shown(&stage.connections.call(&stage.target, echo()).await),
        "mcp::changed (did not happen): the server's tool `echo` is not what it was: the server does not offer it any more"
    );
    assert_eq!(stage.lines("calls"), ["echo", "change", "change", "echo", "change"]);
    assert_eq!(stage.lines("starts").len(), 1);
}

#[tokio::test]
async fn a_definition_is_checked_again_after_a_restart() {
    let stage = Stage::new();
    let checks = Arc::new(AtomicUsize::new(0));
    let accepts: Accepts = {
        let checks = Arc::clone(&checks);
        Arc::new(move |definition| {
            checks.fetch_add(1, Ordering::Relaxed);
            match definition.json.as_str().contains("evil") {
                true => Err("it is evil now".to_owned()),
                false => Ok(()),
            }
        })
    };
    let echo = || Call { accepts: Arc::clone(&accepts), ..call("echo", "{}") };
    assert_eq!(shown(&stage.connections.call(&stage.target, echo()).await), "");
    std::fs::write(
        stage.directory.path().join("tools.json"),
        r#"[{"name":"echo","inputSchema":{},"evil":true},{"name":"die","inputSchema":{}}]"#,
    )
    .unwrap();
    assert!(stage.call("die", "{}").await.unwrap_err().may_have_happened());
    let refused = shown(&stage.connections.call(&stage.target, echo()).await);
    assert!(refused.ends_with("it is evil now"), "{refused}");
    assert_eq!(checks.load(Ordering::Relaxed), 2);
    assert_eq!(stage.lines("calls"), ["echo", "die"]);
}

#[tokio::test]
async fn an_error_of_the_protocol_says_whether_anything_ran() {
    let stage = Stage::new();
    for (code, fate) in [
        (-32700, "did not happen"),
        (-32600, "did not happen"),
        (-32601, "did not happen"),
        (-32602, "did not happen"),
        (-32603, "may have happened"),
        (-32000, "may have happened"),
        (7, "may have happened"),
    ] {
        assert_eq!(
            stage.shown("error", &format!(r#"{{"code":{code}}}"#)).await,
            format!("mcp::call-refused ({fate}): the server refused the call ({code}): sorry, no")
        );
    }
    assert_eq!(stage.lines("starts").len(), 1);
}

#[tokio::test]
async fn nothing_is_offered_to_the_server_but_a_sign_of_life() {
    let stage = Stage::new();
    let arguments = r#"{"methods":["ping","sampling/createMessage","elicitation/create","roots/list","tasks/get"],
        "params":{"messages":"not even of the right type"}}"#;
    let refused = |method: &str| format!(r#"{{"code": -32601, "message": "not offered: {method}"}}"#);
    let expected = [
        "{}".to_owned(),
        refused("sampling/createMessage"),
        refused("elicitation/create"),
        refused("roots/list"),
        refused("tasks/get"),
    ];
    assert_eq!(stage.shown("ask", arguments).await, expected.join("|"));
}
