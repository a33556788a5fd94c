//! Decisions about calls, by every way there is to decide.

use serde_json::{Value, json};

use crate::kit::{Person, Project, Server, token};
use crate::mcp::Mcp;

/// A server over the same data that only pretends to write.
async fn pretending(server: Server) -> Server {
    let project = server.project.clone();
    server.kill();
    project.serve_as(&["serve", "--manifest", "latest"]).start().await
}

fn granted(project: &Project, session: &str) -> usize {
    project.events(session).iter().filter(|event| event["kind"] == "approval.granted").count()
}

/// What the AI SDK sends when someone has said yes.
fn approved(asked: &Value) -> Value {
    let user = json!({"id": "u", "role": "user", "parts": [{"type": "text", "text": "refund 5"}]});
    let part = json!({
        "type": "dynamic-tool", "toolName": "refund", "toolCallId": asked["id"], "input": {"amount": "5"},
        "state": "approval-responded", "approval": {"id": asked["id"], "approved": true},
    });
    let assistant = json!({"id": "m", "role": "assistant", "parts": [part]});
    json!({"id": "chat", "messages": [user, assistant], "trigger": "submit-message"})
}

#[tokio::test]
async fn a_yes_over_http_is_not_taken_for_a_call_that_would_only_pretend() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turn = server.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let server = pretending(server).await;
    let call = turn["approvals"][0]["id"].as_str().unwrap();
    for (path, body) in [
        (format!("/sessions/{session}/approvals/{call}"), json!({"decision": "allow"})),
        (format!("/sessions/{session}/gate"), json!({"decision": "allow"})),
    ] {
        assert_eq!(server.post(&path, &body).await.error(), (409, "server::would-pretend".into()), "{path}");
    }
    assert_eq!(granted(&project, session), 0, "it still waits");
    // A no is a no anywhere.
    server.post(&format!("/sessions/{session}/gate"), &json!({"decision": "deny"})).await.ok();
}

#[tokio::test]
async fn a_yes_in_a_chat_is_not_taken_for_a_call_that_would_only_pretend() {
    let project = Project::new();
    let server = project.serve().start().await;
    let user = json!({"id": "u", "role": "user", "parts": [{"type": "text", "text": "refund 5"}]});
    let asking = json!({"id": "chat", "messages": [user], "trigger": "submit-message"});
    server.stream("/agents/careful/ui", &asking).await.all().await;
    let asked = server.get("/approvals").await.ok()["approvals"][0].clone();
    let session = asked["session"].as_str().unwrap();
    let server = pretending(server).await;
    let said = server.post("/agents/careful/ui", &approved(&asked)).await;
    assert_eq!(said.error(), (409, "server::would-pretend".into()));
    assert_eq!(granted(&project, session), 0, "it still waits");
    project_writes_for_real(server, &asked).await;
}

/// Where it really happens the same yes is taken.
async fn project_writes_for_real(server: Server, asked: &Value) {
    let project = server.project.clone();
    server.kill();
    let server = project.serve().start().await;
    let frames = server.stream("/agents/careful/ui", &approved(asked)).await.all().await;
    assert!(frames.iter().any(|frame| frame.data.contains("refunded 5")), "{frames:?}");
}

/// The same rules as those of `weir approve`: for a dry run one says so.
#[tokio::test]
async fn a_yes_over_mcp_says_that_a_dry_run_is_wanted() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turn = server.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let server = pretending(server).await;
    let capabilities = json!({"elicitation": {}});
    let careful = Mcp::new(&server, "/agents/careful/mcp").begin("2025-11-25", capabilities).await;
    let hurry = || json!({"message": "hurry", "session": session});
    for content in [json!({"approve": true}), json!({"approve": true, "runs_as": "live_writes"})] {
        let (asked, words) = careful.answering("careful", hurry(), content).await;
        let asked = &asked.expect("they are asked")["params"];
        assert!(asked["message"].as_str().unwrap().contains("it would be a dry run"), "{asked}");
        let words_of_it = &asked["requestedSchema"]["properties"]["runs_as"]["enum"];
        assert_eq!(*words_of_it, json!(["live_writes", "dry_run"]), "{asked}");
        assert!(words.contains("waits for approval"), "{words}");
        assert_eq!(granted(&project, session), 0, "it still waits");
    }
    careful.answering("careful", hurry(), json!({"approve": true, "runs_as": "dry_run"})).await;
    server.until(session, "idle").await;
    assert_eq!(stubs(&project, session), [true]);
    let event = project.events(session).into_iter().find(|event| event["kind"] == "approval.granted");
    assert_eq!(event.unwrap()["payload"]["runs"], "dry_run");
}

/// The AI SDK says it for one approval, or in the body of the request for all of them.
#[tokio::test]
async fn a_yes_in_a_chat_says_that_a_dry_run_is_wanted() {
    for all in [false, true] {
        let project = Project::new();
        let server = project.serve().start().await;
        let user = json!({"id": "u", "role": "user", "parts": [{"type": "text", "text": "refund 5"}]});
        let asking = json!({"id": "chat", "messages": [user], "trigger": "submit-message"});
        server.stream("/agents/careful/ui", &asking).await.all().await;
        let asked = server.get("/approvals").await.ok()["approvals"][0].clone();
        let session = asked["session"].as_str().unwrap();
        let mut dry = approved(&asked);
        match all {
            true => dry["runsAs"] = json!("dry_run"),
            false => dry["messages"][1]["parts"][0]["approval"]["runsAs"] = json!("dry_run"),
        }
        let refused = server.post("/agents/careful/ui", &dry).await;
        assert_eq!(refused.error(), (409, "engine::would-happen".into()));
        let server = pretending(server).await;
        let refused = server.post("/agents/careful/ui", &approved(&asked)).await;
        assert!(refused.text().contains("runsAs"), "{}", refused.text());
        assert_eq!(granted(&project, session), 0, "it still waits");
        server.stream("/agents/careful/ui", &dry).await.all().await;
        assert_eq!(stubs(&project, session), [true]);
    }
}

/// Which of the calls that answered were dry runs.
fn stubs(project: &Project, session: &str) -> Vec<bool> {
    let events = project.events(session);
    let done = events.iter().filter(|event| event["kind"] == "tool.completed");
    done.map(|event| event["payload"]["stub"].as_bool().unwrap()).collect()
}

/// `null` would be taken for a field that is left out.
#[tokio::test]
async fn null_is_no_approval_of_the_original_arguments() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turn = server.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let path = format!("/sessions/{session}/approvals/{}", turn["approvals"][0]["id"].as_str().unwrap());
    let refused = server.post(&path, &json!({"decision": "allow", "input": null})).await;
    assert_eq!(refused.error(), (400, "engine::approval-edit".into()), "{}", refused.text());
    assert_eq!(granted(&project, session), 0, "it still waits");
    server.post(&path, &json!({"decision": "allow"})).await.ok();
    server.until(session, "idle").await;
}

/// What is approved is what happens: a dry run only where it was asked for, and never where the call would really happen.
#[tokio::test]
async fn a_dry_run_is_approved_by_those_who_ask_for_one() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turn = server.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let path = format!("/sessions/{session}/approvals/{}", turn["approvals"][0]["id"].as_str().unwrap());
    let dry = json!({"decision": "allow", "dry_run": true});
    assert_eq!(server.post(&path, &dry).await.error(), (409, "engine::would-happen".into()));
    assert_eq!(granted(&project, session), 0, "it still waits");
    let server = pretending(server).await;
    server.post(&path, &dry).await.ok();
    server.until(session, "idle").await;
    let completed =
        project.events(session).into_iter().find(|event| event["kind"] == "tool.completed").unwrap();
    assert_eq!(completed["payload"]["stub"], true, "{completed}");
}

/// A call that nobody decided about for a while is there for the group that it was escalated to, and for nobody else.
#[tokio::test]
async fn the_group_that_a_call_was_escalated_to_sees_and_decides_it() {
    let project = Project::new();
    let text = |name: &str| std::fs::read_to_string(project.path().join(name)).unwrap();
    let spec = text("agents/careful/spec.yaml")
        .replace("approval: always", "approval: always\n    escalate: { to: \"group:night\", after: 1ms }");
    project.write("agents/careful/spec.yaml", &spec);
    let groups = "groups:\n  night: [\"user:eve\"]\n";
    project.write("weir.yaml", &text("weir.yaml").replace("groups:\n", groups));
    project.build();
    let [alices, eves, mallorys] =
        ["user:alice", "user:eve", "user:mallory"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let person = |token: &str| Person::new(&server, token);
    let (alice, eve, mallory) = (person(&alices), person(&eves), person(&mallorys));
    let turn = alice.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let call = &turn["approvals"][0]["id"];
    let path = format!("/sessions/{session}/approvals/{}", call.as_str().unwrap());
    let yes = json!({"decision": "allow"});
    assert_eq!(eve.get("/approvals").await.ok()["approvals"][0]["id"], *call);
    assert_eq!(mallory.get("/approvals").await.ok()["approvals"], json!([]));
    assert_eq!(mallory.post(&path, &yes).await.error().0, 404);
    assert_eq!(eve.get(&format!("/sessions/{session}")).await.error().0, 404, "the rest of it is not hers");
    eve.post(&path, &yes).await.ok();
    alice.until(session, "idle").await;
    assert_eq!(granted(&project, session), 1);
    assert_eq!(eve.post(&path, &yes).await.error().0, 404, "it waits no more");
}
