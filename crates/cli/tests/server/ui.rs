//! The routes of the AI SDK's chat transport.

use serde_json::{Value, json};

use crate::kit::{Frame, Project, Server};

fn user(text: &str) -> Value {
    json!({ "id": "u", "role": "user", "parts": [{ "type": "text", "text": text }] })
}

async fn submit(server: &Server, agent: &str, chat: &str, messages: Value) -> Vec<Value> {
    let body = json!({ "id": chat, "messages": messages, "trigger": "submit-message", "messageId": null });
    let frames = server.stream(&format!("/agents/{agent}/ui"), &body).await;
    assert_eq!(frames.status, 200);
    assert_eq!(frames.header("x-vercel-ai-ui-message-stream"), Some("v1"));
    let frames = frames.all().await;
    assert_eq!(frames.last().unwrap().data, "[DONE]");
    frames[..frames.len() - 1].iter().map(Frame::json).collect()
}

fn text(parts: &[Value]) -> String {
    let deltas = parts.iter().filter(|part| part["type"] == "text-delta");
    deltas.map(|part| part["delta"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_chat_is_a_session_of_whoever_has_it() {
    let server = Project::new().serve().start().await;
    let earlier = json!({ "id": "a", "role": "assistant", "parts": [{ "type": "text", "text": "Hello!" }] });
    let told = submit(&server, "helper", "chat-1", json!([user("hi"), earlier, user("first")])).await;
    assert_eq!(text(&told), "You said: first");
    // The client sends all of it each time; only the newest is said.
    let told =
        submit(&server, "helper", "chat-1", json!([user("hi"), earlier, user("first"), user("second")]))
            .await;
    assert_eq!(text(&told), "You said: second");
    let sessions = server.get("/sessions").await.ok();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1), "{sessions}");
    let id = sessions["sessions"][0]["id"].as_str().unwrap();
    let said: Vec<Value> =
        server.project.events(id).into_iter().filter(|event| event["kind"] == "user.message").collect();
    let words: Vec<&Value> = said.iter().map(|event| &event["payload"]["content"][0]["text"]).collect();
    assert_eq!(words, ["hi", "Hello!", "first", "second"]);
    let again = json!({ "id": "chat-1", "messages": [user("first")], "trigger": "regenerate-message" });
    assert_eq!(server.post("/agents/helper/ui", &again).await.error().0, 400);
    assert_eq!(server.post("/agents/nobody/ui", &again).await.error().0, 404);
}

#[tokio::test]
async fn what_is_being_said_in_a_chat_is_taken_up() {
    let server = Project::new().serve().start().await;
    let path = "/agents/helper/ui/chat-2/stream";
    assert_eq!(server.get(path).await.status, 204);
    let body = json!({ "id": "chat-2", "messages": [user("slow")], "trigger": "submit-message" });
    let mut frames = server.stream("/agents/helper/ui", &body).await;
    while frames.next().await.unwrap().json()["type"] != "text-delta" {}
    drop(frames);
    let mut resumed = server.follow(path, None).await;
    assert_eq!(resumed.status, 200);
    assert_eq!(resumed.next().await.unwrap().json()["type"], "start");
    let rest = resumed.all().await;
    let parts: Vec<Value> = rest[..rest.len() - 1].iter().map(Frame::json).collect();
    assert!(text(&parts).starts_with("This answer (attempt 1) comes"), "{parts:?}");
    assert!(text(&parts).ends_with("asked for it."), "{parts:?}");
    assert_eq!(server.get(path).await.status, 204);
}

#[tokio::test]
async fn an_approval_is_decided_in_the_chat() {
    let server = Project::new().serve().start().await;
    for (chat, approved, last) in
        [("yes", true, "tool-output-available"), ("no", false, "tool-output-denied")]
    {
        let told = submit(&server, "careful", chat, json!([user("refund 5")])).await;
        let asked = told.iter().find(|part| part["type"] == "tool-approval-request").unwrap();
        assert_eq!(told.last().unwrap()["finishReason"], "tool-calls");
        assert_eq!(server.get(&format!("/agents/careful/ui/{chat}/stream")).await.status, 204);
        let part = json!({
            "type": "dynamic-tool", "toolName": "refund", "toolCallId": asked["toolCallId"], "input": { "amount": "5" },
            "state": "approval-responded", "approval": { "id": asked["approvalId"], "approved": approved, "reason": "so be it" },
        });
        let assistant = json!({ "id": "m", "role": "assistant", "parts": [part] });
        let told = submit(&server, "careful", chat, json!([user("refund 5"), assistant])).await;
        let kinds: Vec<&str> = told.iter().map(|part| part["type"].as_str().unwrap()).collect();
        assert!(kinds.contains(&last), "{kinds:?}");
        // What the client has is not told again.
        assert!(!kinds.contains(&"tool-input-available") && !kinds.contains(&"start"), "{kinds:?}");
        assert!(text(&told).starts_with(if approved { "Done" } else { "I did not" }), "{told:?}");
        let again =
            json!({ "id": chat, "messages": [user("refund 5"), assistant], "trigger": "submit-message" });
        assert_eq!(
            server.post("/agents/careful/ui", &again).await.error(),
            (409, "server::nothing-asked".to_owned())
        );
    }
}
