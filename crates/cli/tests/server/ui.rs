//! The routes of the AI SDK's chat transport.

use serde_json::{Value, json};

use crate::kit::{Answer, Frame, Project, Server};

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
    let other = json!({ "id": "chat-1", "messages": [user("first")], "trigger": "guess" });
    assert_eq!(server.post("/agents/helper/ui", &other).await.error().0, 400);
    assert_eq!(server.post("/agents/nobody/ui", &other).await.error().0, 404);
}

/// What the client has: what was said, each with an answer but the last.
fn chat(said: &[&str]) -> Value {
    let answer =
        json!({ "id": "a", "role": "assistant", "parts": [{ "type": "text", "text": "An answer." }] });
    let mut messages: Vec<Value> = said.iter().flat_map(|said| [user(said), answer.clone()]).collect();
    messages.pop();
    messages.into()
}

fn regenerate(said: &[&str]) -> Value {
    json!({ "id": "chat", "messages": chat(said), "trigger": "regenerate-message", "messageId": "a" })
}

/// What the model was given last in the chat, in words.
fn given(server: &Server, address: &str, n: usize) -> String {
    let shown = server.project.json(&["session", "show", address, "--request", &n.to_string()]);
    shown["body"]["messages"].to_string()
}

#[tokio::test]
async fn an_answer_is_given_again_and_the_chat_goes_on_from_there() {
    let server = Project::new().serve().start().await;
    for said in [&["one"][..], &["one", "two"], &["one", "two", "three"]] {
        submit(&server, "helper", "chat", chat(said)).await;
    }
    let again = async |said: &[&str], key: Option<&str>| {
        let mut request = server.posting("/agents/helper/ui", &regenerate(said));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = Answer::to(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        (answer.header("x-weir-session").unwrap().to_owned(), answer.text().to_owned())
    };
    // The newest answer: the model is asked again, with all that came before it.
    let (third, told) = again(&["one", "two", "three"], None).await;
    assert!(told.contains("You said: three") && third.ends_with("@again-1"), "{third}: {told}");
    let heard = given(&server, &third, 3);
    assert!(heard.contains("You said: two") && !heard.contains("You said: three"), "{heard}");
    // What is said then is said there; another server knows that as well.
    submit(&server, "helper", "chat", chat(&["one", "two", "three", "four"])).await;
    let server = server.kill().start_again().await;
    let heard = given(&server, &third, 4);
    assert!(heard.contains("You said: three"), "{heard}");
    let body = json!({ "id": "chat", "messages": chat(&["one", "two", "three", "four", "slow"]) });
    let mut frames = server.stream("/agents/helper/ui", &body).await;
    assert_eq!(frames.header("x-weir-session"), Some(third.as_str()));
    while frames.next().await.unwrap().json()["type"] != "text-delta" {}
    drop(frames);
    // Whoever comes back hears of it there.
    let resumed = server.follow("/agents/helper/ui/chat/stream", None).await;
    assert_eq!((resumed.status.as_u16(), resumed.header("x-weir-session")), (200, Some(third.as_str())));
    resumed.all().await;
    // An earlier one: what came after it is not there any more. With a key, once.
    let again = async |said: &[&str], key: &str| {
        let request = server.posting("/agents/helper/ui", &regenerate(said)).header("idempotency-key", key);
        let answer = Answer::to(request).await;
        (answer.header("x-weir-session").unwrap().to_owned(), answer.text().to_owned())
    };
    let (second, told) = again(&["one", "two"], "k").await;
    assert!(told.contains("You said: two") && second.ends_with("@again-2"), "{second}: {told}");
    assert_eq!(again(&["one", "two"], "k").await.0, second);
    let heard = given(&server, &second, 2);
    assert!(heard.contains("You said: one") && !heard.contains("three"), "{heard}");
    let said = |branch: &str| {
        let stream = format!("session:{}", second.split('@').next().unwrap());
        let events = server.project.lines(&["cat", "--stream", &stream, "--branch", branch]);
        events.iter().filter(|event| event["kind"] == "user.message").count()
    };
    assert_eq!((said("main"), said("again-1"), said("again-2")), (3, 5, 2));
    // The first one, in other words: a message that is changed is a submission that names it.
    let mut changed = regenerate(&["uno"]);
    changed["trigger"] = "submit-message".into();
    let changed = Answer::to(server.posting("/agents/helper/ui", &changed)).await;
    assert!(changed.text().contains("You said: uno"), "{}", changed.text());
    let first = changed.header("x-weir-session").unwrap();
    assert!(first.ends_with("@again-3") && !given(&server, first, 1).contains("one"), "{first}");
    // What is not there cannot be said again.
    let refused = server.post("/agents/helper/ui", &regenerate(&["one", "two", "three"])).await;
    assert_eq!(refused.error(), (409, "server::no-such-message".to_owned()));
    let nothing = server.post("/agents/helper/ui", &regenerate(&[""])).await;
    assert_eq!(nothing.error().0, 400);
    let stream = format!("session:{}", second.split('@').next().unwrap());
    let branches = server.project.ok(&["branch", "list", "--stream", &stream]);
    assert!(branches.contains("again-3") && !branches.contains("again-4"), "{branches}");
    // A chat that began elsewhere has its history here, too.
    let mut moved = regenerate(&["one", "two"]);
    moved["id"] = "moved".into();
    let moved = Answer::to(server.posting("/agents/helper/ui", &moved)).await;
    let session = moved.header("x-weir-session").unwrap();
    assert!(moved.text().contains("You said: two"), "{}", moved.text());
    assert!(!session.contains('@') && given(&server, session, 1).contains("An answer."), "{session}");
}

#[tokio::test]
async fn an_answer_is_had_again_while_it_is_being_given() {
    let server = Project::new().serve().start().await;
    let body = json!({ "id": "chat", "messages": chat(&["slow"]) });
    let mut first = server.stream("/agents/helper/ui", &body).await;
    while first.next().await.unwrap().json()["type"] != "text-delta" {}
    let again = server.stream("/agents/helper/ui", &regenerate(&["slow"])).await;
    assert!(again.header("x-weir-session").unwrap().ends_with("@again-1"));
    // Both come to their ends, whichever is the first.
    for frames in [first.all().await, again.all().await] {
        let parts: Vec<Value> = frames[..frames.len() - 1].iter().map(Frame::json).collect();
        assert!(text(&parts).ends_with("asked for it."), "{parts:?}");
        assert_eq!(parts.last().unwrap()["finishReason"], "stop");
    }
}

#[tokio::test]
async fn an_approval_is_decided_on_the_branch_that_the_chat_goes_on_with() {
    let server = Project::new().serve().start().await;
    submit(&server, "careful", "chat", json!([user("refund 5")])).await;
    let again = Answer::to(server.posting("/agents/careful/ui", &regenerate(&["refund 5"]))).await;
    let asked = again.text().lines().find(|line| line.contains("tool-approval-request")).unwrap();
    let asked: Value = serde_json::from_str(asked.strip_prefix("data: ").unwrap()).unwrap();
    let part = json!({
        "type": "dynamic-tool", "toolName": "refund", "toolCallId": asked["toolCallId"], "input": { "amount": "5" },
        "state": "approval-responded", "approval": { "id": asked["approvalId"], "approved": true },
    });
    let assistant = json!({ "id": "m", "role": "assistant", "parts": [part] });
    let told = submit(&server, "careful", "chat", json!([user("refund 5"), assistant])).await;
    assert!(text(&told).starts_with("Done"), "{told:?}");
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

#[tokio::test]
async fn a_call_of_another_agent_is_decided_in_the_chat() {
    let project = Project::new();
    project.write(
        "agents/chief/spec.yaml",
        "name: chief\nmodel: scripted/chief\ndescription: You ask.\ntools: [{ server: \"weir://careful\", access: write }]\n",
    );
    project.write(
        "models/chief.yaml",
        "replies:\n  - when: { tool: careful }\n    say: \"It says: {{result}}\"\n  - when: { user: '(?s)(.*)' }\n    say: \"I ask.\"\n    call: [{ tool: careful, input: { message: \"{{1}}\" } }]\n",
    );
    project.build();
    let server = project.serve().start().await;
    for (chat, approved, says) in [("yes", true, "It says: Done"), ("no", false, "It says: I did not")] {
        let told = submit(&server, "chief", chat, json!([user("refund 5")])).await;
        let of =
            |kind: &str| told.iter().find(|part| part["type"] == kind).unwrap_or_else(|| panic!("{told:?}"));
        let (asked, called) = (of("tool-approval-request"), of("tool-input-available"));
        // The client knows the call of this agent; what it decides about is behind that.
        assert_eq!((&asked["toolCallId"], &called["toolName"]), (&called["toolCallId"], &json!("careful")));
        assert_ne!(asked["approvalId"], asked["toolCallId"]);
        assert_eq!(of("finish")["finishReason"], "tool-calls");
        let part = json!({
            "type": "dynamic-tool", "toolName": "careful", "toolCallId": asked["toolCallId"], "input": called["input"],
            "state": "approval-responded", "approval": { "id": asked["approvalId"], "approved": approved, "reason": "so be it" },
        });
        let assistant = json!({ "id": "m", "role": "assistant", "parts": [part] });
        let told = submit(&server, "chief", chat, json!([user("refund 5"), assistant])).await;
        assert!(text(&told).starts_with(says), "{told:?}");
    }
}
