//! Decisions about calls, by every way there is to decide.

use serde_json::{Value, json};

use crate::kit::{Project, Server};
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

#[tokio::test]
async fn nobody_is_asked_over_mcp_about_a_call_that_would_only_pretend() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turn = server.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let server = pretending(server).await;
    let capabilities = json!({"elicitation": {}});
    let careful = Mcp::new(&server, "/agents/careful/mcp").begin("2025-11-25", capabilities).await;
    let reply = careful.call("careful", json!({"message": "hurry", "session": session})).await;
    let asked = reply.messages.iter().find(|message| message["method"] == "elicitation/create");
    assert_eq!(asked, None);
    assert_eq!(reply.result()["structuredContent"]["approvals"][0]["id"], turn["approvals"][0]["id"]);
    assert!(reply.words().contains("waits for approval"), "{}", reply.words());
    assert_eq!(granted(&project, session), 0, "it still waits");
}
