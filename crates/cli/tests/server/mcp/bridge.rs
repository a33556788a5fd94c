//! `/bridge/mcp`: the tools of a session's agent, for a remote runner.

use reqwest::Method;
use serde_json::{Value, json};

use super::wire::Mcp;
use crate::kit::{Answer, Project, Server, within};

const SECRET: &str = "a secret that is long enough for tests";

async fn server() -> Server {
    Project::new().serve().env("WEIR_BRIDGE_SECRET", SECRET).start().await
}

/// What a call may come to.
const ENDS: [&str; 2] = ["tool.completed", "tool.failed"];

/// A session, and its token.
async fn session(server: &Server, agent: &str) -> (String, String) {
    let session = server.say(agent, "hi", None).await.session;
    let token = token(server, &session);
    (session, token)
}

fn token(server: &Server, session: &str) -> String {
    let mut command = server.project.command();
    let output = command
        .args(["session", "bridge-token", session])
        .env("WEIR_BRIDGE_SECRET", SECRET)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn bridge<'a>(server: &'a Server, token: &str) -> Mcp<'a> {
    Mcp::new(server, "/bridge/mcp").token(token)
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_runner_has_the_agents_tools_through_the_one_gate() {
    let server = server().await;
    let (session, token) = session(&server, "helper").await;
    for version in ["2025-06-18", "2025-11-25"] {
        let bridge = bridge(&server, &token);
        assert_eq!(bridge.hello(version, json!({})).await.result()["protocolVersion"], version);
        let bridge = bridge.with("mcp-protocol-version", version).with("x-weir-session", &session);
        let tools = bridge.ask("tools/list", json!({})).await.result()["tools"].clone();
        let names: Vec<&Value> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["weather", "result_read"], "as the model sees them");
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], json!(true));
        let before = server.project.events(&session).len();
        let called = bridge.call("weather", json!({"city": "Lisbon"})).await;
        assert_eq!(
            serde_json::from_str::<Value>(called.words()).unwrap(),
            json!({"city": "Lisbon", "temp": 18})
        );
        let events = server.project.events(&session);
        let expected =
            ["tool.requested", "session.resumed", "tool.decided", "tool.started", "tool.completed"];
        assert_eq!(kinds(&events[before..]), expected, "every call is written down");
    }
    // The conversation knows nothing of it.
    let told = server.say("helper", "and you?", Some(&session)).await;
    assert_eq!(told.answer, "You said: and you?");
    let shown = server.project.ok(&["session", "show", &session, "--request", "2"]);
    assert!(!shown.contains("Lisbon"), "{shown}");
}

#[tokio::test]
async fn every_outcome_has_its_code() {
    let server = server().await;
    let (session, token) = session(&server, "helper").await;
    let bridge = bridge(&server, &token);
    let outcomes = [
        ("nope", json!({}), -32001),
        ("weather", json!({}), -32003),
        ("weather", json!({"city": 7}), -32003),
        ("weather", json!({"city": "Atlantis"}), -32004),
    ];
    for (tool, arguments, code) in outcomes {
        let before = server.project.events(&session).len();
        let refused = bridge.call(tool, arguments.clone()).await;
        assert_eq!((refused.status(), refused.code()), (200, code), "{tool} {arguments}: {refused:?}");
        let events = server.project.events(&session);
        assert_eq!(kinds(&events[before..]).last(), Some(&"tool.failed"), "refusals are written down, too");
    }
    assert_eq!(bridge.ask("no/such", json!({})).await.code(), -32601);
    // What a rule or a grant is against: a project in which nobody may use the tool.
    let project = Project::new();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    let rule = "rules: [{ id: no-weather, when: { tool: weather }, then: deny, why: it rains }]";
    project.write("weir.yaml", &format!("{text}{rule}\n"));
    let built = project.run(&["build"]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let server = project.serve().env("WEIR_BRIDGE_SECRET", SECRET).start().await;
    let (_, token) = self::session(&server, "helper").await;
    let denied =
        Mcp::new(&server, "/bridge/mcp").token(&token).call("weather", json!({"city": "Lisbon"})).await;
    assert_eq!(denied.code(), -32001, "{denied:?}");
}

#[tokio::test]
async fn a_key_makes_a_call_happen_once_across_a_restart_too() {
    let server = server().await;
    let (session, token) = session(&server, "helper").await;
    let arguments = json!({"city": "Lisbon"});
    let calls = (0..8).map(|_| async {
        bridge(&server, &token).keyed("weather", arguments.clone(), "k").await.result()["content"].clone()
    });
    let first: Vec<Value> = within("calls", futures_util::future::join_all(calls)).await;
    assert!(first.iter().all(|content| *content == first[0]));
    let asked = |server: &Server| {
        kinds(&server.project.events(&session)).iter().filter(|kind| **kind == "tool.started").count()
    };
    assert_eq!(asked(&server), 1);
    let server = server.kill().start_again().await;
    let again = bridge(&server, &token).keyed("weather", arguments.clone(), "k").await;
    assert_eq!((&again.result()["content"], asked(&server)), (&first[0], 1));
    // The header says the same as the field.
    let by_header = bridge(&server, &token).with("idempotency-key", "k").call("weather", arguments).await;
    assert_eq!((&by_header.result()["content"], asked(&server)), (&first[0], 1));
    let other = bridge(&server, &token).keyed("weather", json!({"city": "Porto"}), "k").await;
    assert_eq!(other.code(), -32003);
    let other = bridge(&server, &token).keyed("weather", json!({"city": "Porto"}), "k2").await;
    assert_ne!(other.result()["content"], first[0]);
    assert_eq!(bridge(&server, &token).keyed("weather", json!({"city": "Porto"}), "").await.code(), -32602);
}

#[tokio::test]
async fn a_call_that_needs_a_yes_waits_and_is_told_of_later() {
    let server = server().await;
    let (session, token) = session(&server, "careful").await;
    let bridge = bridge(&server, &token);
    let waits = bridge.keyed("refund", json!({"amount": "5"}), "k").await;
    assert_eq!(waits.code(), -32001);
    let data = &waits.last()["error"]["data"];
    assert_eq!((&data["waits"], &data["session"]), (&json!(true), &json!(session)));
    let call = data["approvals"][0]["id"].as_str().unwrap();
    assert_eq!(data["call"], call);
    assert_eq!(bridge.keyed("refund", json!({"amount": "5"}), "k").await.code(), -32001);
    let decided =
        server.post(&format!("/sessions/{session}/approvals/{call}"), &json!({"decision": "allow"})).await;
    assert!(decided.status.is_success(), "{}", decided.text());
    let ended = server.event(&session, &ENDS).await.json();
    assert_eq!((&ended["kind"], &ended["payload"]["call"]), (&json!("tool.completed"), &json!(call)));
    assert_eq!(bridge.keyed("refund", json!({"amount": "5"}), "k").await.words(), "refunded 5");
    let events = server.project.events(&session);
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "tool.started").count(), 1);
    // A no is one for good.
    let waits = bridge.keyed("refund", json!({"amount": "6"}), "k2").await;
    let call = waits.last()["error"]["data"]["call"].as_str().unwrap().to_owned();
    let no = json!({"decision": "deny", "message": "not today"});
    assert!(server.post(&format!("/sessions/{session}/approvals/{call}"), &no).await.status.is_success());
    let seq = ended["seq"].as_u64().unwrap();
    let ended = server.event_after(&session, seq, &ENDS).await.json();
    assert_eq!((&ended["kind"], &ended["payload"]["call"]), (&json!("tool.failed"), &json!(call)));
    let told = bridge.keyed("refund", json!({"amount": "6"}), "k2").await;
    assert_eq!((told.code(), &told.last()["error"]["data"]["waits"]), (-32001, &json!(null)));
    assert!(told.last()["error"]["message"].as_str().unwrap().contains("not today"), "{told:?}");
}

#[tokio::test]
async fn an_agent_that_is_a_tool_is_called_like_any_other() {
    let server = server().await;
    let (session, token) = session(&server, "boss").await;
    let bridge = bridge(&server, &token);
    let tools = bridge.ask("tools/list", json!({})).await.result()["tools"].clone();
    let names: Vec<&Value> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["helper", "result_read"]);
    let sessions = || server.project.lines(&["session", "list"]).len();
    let before = (server.project.events(&session).len(), sessions());
    for _ in 0..2 {
        let called = bridge.keyed("helper", json!({"message": "weather in Lisbon"}), "k").await;
        assert_eq!(called.words(), "It is 18 degrees in Lisbon.");
    }
    let events = server.project.events(&session);
    let expected = ["tool.requested", "session.resumed", "tool.decided", "tool.started", "tool.completed"];
    assert_eq!(kinds(&events[before.0..]), expected);
    assert_eq!(sessions(), before.1 + 1, "a session of its own, once");
    let started = events[before.0..].iter().find(|event| event["kind"] == "tool.started").unwrap();
    let child = server.project.events(started["payload"]["child"].as_str().unwrap());
    assert_eq!(child[0]["payload"]["parent"]["session"], session, "{}", child[0]);
    assert_eq!(bridge.call("helper", json!({})).await.code(), -32003);
    let failed = bridge.call("helper", json!({"message": "fail"})).await;
    assert_eq!(failed.code(), -32004, "{failed:?}");
}

#[tokio::test]
async fn what_an_agent_that_is_a_tool_may_not_do_alone_is_asked_for() {
    let project = Project::new();
    project.write(
        "agents/lead/spec.yaml",
        "name: lead\nmodel: offline/echo\ndescription: Leads.\ntools:\n  - { server: 'weir://careful', access: write }\n",
    );
    project.build();
    let server = project.serve().env("WEIR_BRIDGE_SECRET", SECRET).start().await;
    let (session, token) = session(&server, "lead").await;
    let bridge = bridge(&server, &token);
    let waits = bridge.keyed("careful", json!({"message": "refund 5"}), "k").await;
    assert_eq!(waits.code(), -32001, "{waits:?}");
    let asked = &waits.last()["error"]["data"]["approvals"][0];
    let (child, call) = (asked["session"].as_str().unwrap(), asked["id"].as_str().unwrap());
    assert_eq!((&asked["tool"], &asked["input"]), (&json!("refund"), &json!({"amount": "5"})));
    let allowed = json!({"decision": "allow"});
    let decided = server.post(&format!("/sessions/{child}/approvals/{call}"), &allowed).await;
    assert!(decided.status.is_success(), "{}", decided.text());
    assert_eq!(server.event(&session, &ENDS).await.event.as_deref(), Some("tool.completed"));
    let done = bridge.keyed("careful", json!({"message": "refund 5"}), "k").await;
    assert_eq!(done.words(), "Done: refunded 5");
}

#[tokio::test]
async fn a_token_is_good_for_its_session_while_that_is_open() {
    let server = server().await;
    let (session, token) = session(&server, "helper").await;
    let (other, _) = self::session(&server, "helper").await;
    let proof = token.split_once('.').unwrap().1;
    let bad = [
        String::new(),
        "x".to_owned(),
        session.clone(),
        token[..token.len() - 1].to_owned(),
        format!("{token}A"),
        format!("{other}.{proof}"),
        format!("01ARZ3NDEKTSV4RRFFQ69G5FAV.{proof}"),
    ];
    let mut told = Vec::new();
    for token in bad {
        let refused = bridge(&server, &token).ask("tools/list", json!({})).await;
        assert_eq!(refused.status(), 401, "{token}");
        told.push(refused.answer.body.clone());
    }
    told.push(Mcp::new(&server, "/bridge/mcp").ask("tools/list", json!({})).await.answer.body);
    // One that is good, for a session that is elsewhere.
    let elsewhere = self::server().await;
    let (_, foreign) = self::session(&elsewhere, "helper").await;
    let foreign = bridge(&server, &foreign).ask("tools/list", json!({})).await;
    assert_eq!(foreign.status(), 401);
    told.push(foreign.answer.body);
    let mismatched =
        bridge(&server, &token).with("x-weir-session", &other).ask("tools/list", json!({})).await;
    assert_eq!(mismatched.status(), 401);
    told.push(mismatched.answer.body);
    server.project.ok(&["session", "halt", &session]);
    let halted = bridge(&server, &token).call("weather", json!({"city": "Lisbon"})).await;
    assert_eq!(halted.status(), 401);
    told.push(halted.answer.body);
    server.project.ok(&["session", "close", &session]);
    let closed = bridge(&server, &token).ask("tools/list", json!({})).await;
    assert_eq!(closed.status(), 401);
    told.push(closed.answer.body);
    assert!(told.iter().all(|body| *body == told[0]), "all of them are told the same: {told:?}");
    assert!(!kinds(&server.project.events(&session)).contains(&"tool.requested"));
}

#[tokio::test]
async fn without_a_good_secret_there_is_no_bridge() {
    let project = Project::new();
    let silent = project.serve().start().await;
    assert_eq!(bridge(&silent, "x").ask("tools/list", json!({})).await.status(), 404);
    let short = project.serve().env("WEIR_BRIDGE_SECRET", "hunter2").start().await;
    assert_eq!(bridge(&short, "x").ask("tools/list", json!({})).await.status(), 404);
    let line = short.log().into_iter().find(|line| line["variable"] == "WEIR_BRIDGE_SECRET").unwrap();
    assert_eq!(line["level"], "WARN");
    assert!(!line.to_string().contains("hunter2"), "{line}");
    let mut command = project.command();
    command.args(["session", "bridge-token", "-1"]).env("WEIR_BRIDGE_SECRET", "hunter2");
    let output = command.output().unwrap();
    assert!(
        !output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("hunter2"),
        "{output:?}"
    );
}

#[tokio::test]
async fn only_messages_are_taken() {
    let server = server().await;
    let (_, token) = session(&server, "helper").await;
    let bridge = bridge(&server, &token);
    for body in ["", "nonsense", "[]", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
        let status = bridge.post(body).await.status();
        assert!((400..500).contains(&status), "{body}: {status}");
    }
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        assert_eq!(Answer::to(bridge.request(method)).await.status, 405);
    }
    for version in ["2024-11-05", "2025-03-26", "1999-01-01"] {
        let refused = bridge.clone().with("mcp-protocol-version", version).ask("tools/list", json!({})).await;
        assert_eq!(refused.status(), 400, "{version}");
    }
    let foreign = bridge.clone().with("origin", "http://evil.example").ask("ping", json!({})).await;
    assert_eq!(foreign.status(), 403);
    assert_eq!(bridge.call("weather", json!({"city": "Lisbon"})).await.status(), 200);
    let huge = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "weather", "arguments": {"city": "x".repeat(5 << 20)}}});
    assert_eq!(bridge.post(huge.to_string()).await.status(), 413);
}

#[tokio::test]
async fn a_token_of_a_branch_acts_on_that_branch() {
    let server = server().await;
    let (session, main) = session(&server, "helper").await;
    server.project.ok(&["session", "fork", &session, "--at", "3", "--name", "alt"]);
    let address = format!("{session}@alt");
    let alt = token(&server, &address);
    assert_ne!(main, alt);
    let seqs = |branch: &str| {
        let stream = format!("session:{session}");
        server.project.lines(&["cat", "--stream", &stream, "--branch", branch]).len()
    };
    let before = seqs("main");
    let arguments = json!({"city": "Lisbon"});
    let called =
        bridge(&server, &alt).with("x-weir-session", &address).call("weather", arguments.clone()).await;
    assert!(called.words().contains("Lisbon"), "{called:?}");
    assert_eq!(seqs("main"), before, "nothing of it is on `main`");
    assert!(seqs("alt") > 3);
    for header in ["x-weir-session", "x-lavern-session-id"] {
        let refused = bridge(&server, &alt).with(header, &session).call("weather", arguments.clone()).await;
        assert_eq!(refused.status(), 401, "{header} names another branch");
    }
    server.project.ok(&["session", "halt", &address]);
    assert_eq!(bridge(&server, &alt).call("weather", arguments.clone()).await.status(), 401);
    assert_eq!(bridge(&server, &main).call("weather", arguments).await.status(), 200);
    // No token is printed for what would take no calls.
    let print = |address: &str| {
        let mut command = server.project.command();
        command.args(["session", "bridge-token", address]).env("WEIR_BRIDGE_SECRET", SECRET).output().unwrap()
    };
    let refused = print(&address);
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is halted"), "{refused:?}");
    assert!(print(&session).status.success());
}

#[tokio::test]
async fn what_is_no_request_is_refused_in_the_words_of_json_rpc() {
    let server = server().await;
    let (_, token) = session(&server, "helper").await;
    let bridge = bridge(&server, &token);
    for (body, status, code) in [
        ("{nope", 400, -32_700),
        ("", 400, -32_700),
        (r#"{"id": 1, "method": "tools/list"}"#, 400, -32_600),
        (r#"{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}"#, 400, -32_600),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, 400, -32_600),
        ("[]", 400, -32_600),
        ("7", 400, -32_600),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#, 200, -32_602),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}"#, 200, -32_602),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}"#, 200, -32_602),
    ] {
        let refused = bridge.post(body).await;
        assert_eq!((refused.status(), refused.code()), (status, code), "{body}: {refused:?}");
    }
}

#[tokio::test]
async fn a_client_without_keys_asks_once_and_collects_by_the_id_of_the_call() {
    let server = server().await;
    let (session, token) = session(&server, "careful").await;
    let bridge = bridge(&server, &token);
    let arguments = json!({"amount": "11"});
    let first = bridge.call("refund", arguments.clone()).await;
    let again = bridge.call("refund", arguments.clone()).await;
    let call = first.last()["error"]["data"]["call"].as_str().unwrap().to_owned();
    assert_eq!(again.last()["error"]["data"]["call"], call, "the same call still waits");
    let words = first.last()["error"]["message"].as_str().unwrap();
    assert!(words.contains("`data.call`") && words.contains("`Idempotency-Key`"), "{words}");
    assert_eq!(server.project.lines(&["approvals"]).len(), 1);
    let path = format!("/sessions/{session}/approvals/{call}");
    assert!(server.post(&path, &json!({"decision": "allow"})).await.status.is_success());
    server.event(&session, &ENDS).await;
    assert_eq!(bridge.keyed("refund", arguments.clone(), &call).await.words(), "refunded 11");
    let by_header = bridge.with("idempotency-key", &call).call("refund", arguments).await;
    assert_eq!(by_header.words(), "refunded 11");
    let started =
        kinds(&server.project.events(&session)).iter().filter(|kind| **kind == "tool.started").count();
    assert_eq!(started, 1);
    // It collects what was asked, and nothing else.
    let bridge = self::bridge(&server, &token);
    assert_eq!(bridge.keyed("refund", json!({"amount": "12"}), &call).await.code(), -32_003);
}
