//! Chats of the AI SDK: decisions, what is tried again, and what is not taken.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::kit::{Answer, Project, Server, within};

fn user(text: &str) -> Value {
    json!({ "id": "u", "role": "user", "parts": [{ "type": "text", "text": text }] })
}

fn agent(text: &str) -> Value {
    json!({ "id": "a", "role": "assistant", "parts": [{ "type": "text", "text": text }] })
}

async fn submit(server: &Server, agent: &str, messages: Value) -> Answer {
    server.post(&format!("/agents/{agent}/ui"), &json!({ "id": "chat", "messages": messages })).await
}

/// The parts of a stream that was read to its end.
fn parts(answer: &Answer) -> Vec<Value> {
    let data = answer.text().lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn of<'a>(parts: &'a [Value], kind: &str) -> Vec<&'a Value> {
    parts.iter().filter(|part| part["type"] == kind).collect()
}

/// A message of the agent in which calls were decided about.
fn decided(asked: &[&Value]) -> Value {
    let part = |asked: &&Value| {
        json!({
            "type": "dynamic-tool", "toolName": "refund", "toolCallId": asked["toolCallId"], "input": {},
            "state": "approval-responded", "approval": { "id": asked["approvalId"], "approved": true },
        })
    };
    json!({ "id": "m", "role": "assistant", "parts": asked.iter().map(part).collect::<Vec<_>>() })
}

#[tokio::test]
async fn what_came_of_a_call_that_was_approved_elsewhere_is_told_in_the_chat() {
    let project = Project::new();
    let careful = include_str!("../kit/project/careful.yaml").replace("careful", "pair");
    project.write("agents/pair/spec.yaml", &careful);
    project.write(
        "models/pair.yaml",
        "replies:\n  - when: { user: '^refund' }\n    say: \"Both.\"\n    call: [{ tool: refund, input: { amount: \"1\" } }, { tool: refund, input: { amount: \"2\" } }]\n  - when: { tool: refund }\n    say: \"Done.\"\n",
    );
    project.build();
    let server = project.serve().start().await;
    let told = submit(&server, "pair", json!([user("refund")])).await;
    let session = told.header("x-weir-session").unwrap();
    let told = parts(&told);
    let asked = of(&told, "tool-approval-request");
    let [first, second] = asked[..] else { panic!("{told:?}") };
    let call = first["approvalId"].as_str().unwrap();
    let path = format!("/sessions/{session}/approvals/{call}");
    server.post(&path, &json!({ "decision": "allow" })).await.ok();
    let done = async {
        while !project.events(session).iter().any(|event| event["kind"] == "tool.completed") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    within("the first call", done).await;
    let told = submit(&server, "pair", json!([user("refund"), decided(&[second])])).await;
    let told = parts(&told);
    let outputs: Vec<&Value> =
        of(&told, "tool-output-available").iter().map(|part| &part["toolCallId"]).collect();
    assert_eq!(outputs, [&first["toolCallId"], &second["toolCallId"]], "{told:?}");
    assert!(of(&told, "tool-input-available").is_empty() && of(&told, "start").is_empty(), "{told:?}");
}

#[tokio::test]
async fn a_decision_that_is_sent_again_is_answered_again() {
    let server = Project::new().serve().start().await;
    let told = parts(&submit(&server, "careful", json!([user("refund 5")])).await);
    let messages = json!([user("refund 5"), decided(&of(&told, "tool-approval-request"))]);
    let decide = || {
        let body = json!({ "id": "chat", "messages": messages });
        Answer::to(server.posting("/agents/careful/ui", &body).header("idempotency-key", "k"))
    };
    let first = decide().await;
    assert!(first.text().contains("Done"), "{}", first.text());
    let again = decide().await;
    assert_eq!((again.status.as_u16(), again.text()), (200, first.text()));
    // Whatever was said since.
    submit(&server, "careful", json!([user("refund 5"), agent("Done"), user("hello")])).await;
    assert_eq!(decide().await.text(), first.text());
}

#[tokio::test]
async fn what_never_arrived_is_said_when_it_is_tried_again() {
    let server = Project::new().serve().start().await;
    let said = |texts: &[&str]| {
        let mut messages: Vec<Value> =
            texts.iter().flat_map(|text| [user(text), agent("An answer.")]).collect();
        messages.pop();
        messages
    };
    submit(&server, "helper", said(&["one"]).into()).await;
    // `regenerate()`, and `sendMessage()` without anything new.
    for (trigger, texts) in
        [("regenerate-message", &["one", "two"][..]), ("submit-message", &["one", "two", "three"])]
    {
        let body = json!({ "id": "chat", "messages": said(texts), "trigger": trigger, "messageId": "u" });
        let told = server.post("/agents/helper/ui", &body).await;
        assert_eq!(told.status, 200, "{trigger}: {}", told.text());
        let last = texts.last().unwrap();
        assert!(told.text().contains(&format!("You said: {last}")), "{}", told.text());
        assert!(!told.header("x-weir-session").unwrap().contains('@'), "nothing is said again");
    }
    // What has a gap in it is none of this chat.
    let body = json!({ "id": "chat", "messages": said(&["1", "2", "3", "4", "5"]), "trigger": "regenerate-message" });
    let refused = server.post("/agents/helper/ui", &body).await;
    assert_eq!(refused.error(), (409, "server::no-such-message".to_owned()));
}

#[tokio::test]
async fn media_are_checked_wherever_they_are_sent() {
    let server = Project::new().serve().start().await;
    let api = |kind: &str, media_type: &str, source: &str, content: &str| {
        let block = json!({ "type": kind, "media_type": media_type, source: content });
        ("/agents/helper/chat", json!({ "message": [{ "type": "text", "text": "look" }, block] }))
    };
    let ui = |media_type: &str, url: &str| {
        let file = json!({ "type": "file", "mediaType": media_type, "url": url });
        let message = json!({ "role": "user", "parts": [{ "type": "text", "text": "look" }, file] });
        ("/agents/helper/ui", json!({ "id": "chat", "messages": [message] }))
    };
    let long = format!("https://a.example/{}", "x".repeat(3_000));
    for (path, body) in [
        api("image", "image/png", "base64", "%%%"),
        api("image", "image/png", "base64", ""),
        api("image", "nonsense", "base64", "AAAA"),
        api("image", "nonsense", "url", "https://a.example/a.png"),
        api("image", "image/png", "url", "file:///etc/passwd"),
        api("image", "image/png", "url", "https://a.example/a b"),
        api("image", "image/png", "url", &long),
        api("document", "application/pdf", "base64", "%%%"),
        api("document", "nonsense", "base64", "AAAA"),
        api("document", "application/pdf", "url", "javascript:alert(1)"),
        api("document", "text/plain", "base64", "/w=="),
        ui("image/png", "data:image/png;base64,%%%"),
        ui("image/png", "data:image/png;base64,"),
        ui("nonsense", "data:nonsense;base64,AAAA"),
        ui("image/bmp", "data:image/bmp;base64,AAAA"),
        ui("application/zip", "https://a.example/a.zip"),
        ui("image/png", "file:///etc/passwd"),
        ui("image/png", "https://a.example/a b"),
        ui("image/png", &long),
    ] {
        let refused = server.post(path, &body).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.text());
        refused.error();
    }
    let sessions = server.get("/sessions").await.ok();
    assert_eq!(sessions["sessions"], json!([]), "nothing of it was written down");
    for (path, body) in [
        api("image", "image/png", "base64", "AA=="),
        api("image", "image/webp", "url", "https://a.example/a"),
        api("document", "application/pdf", "url", "https://a.example/a"),
        api("document", "text/plain", "base64", "aGVsbG8="),
        ui("image/png", "data:image/png;base64,AA=="),
        ui("text/plain", "data:text/plain;charset=utf-8;base64,aGVsbG8="),
        ui("application/pdf", "https://a.example/a"),
    ] {
        let taken = server.post(path, &body).await;
        assert_eq!(taken.status, 200, "{body}: {}", taken.text());
    }
}

#[tokio::test]
async fn of_those_who_begin_a_chat_at_once_everybody_is_heard() {
    let server = Project::new().serve().start().await;
    let texts: Vec<String> = (0..6).map(|n| format!("hello {n}")).collect();
    let answers = join_all(texts.iter().map(|text| submit(&server, "helper", json!([user(text)])))).await;
    let session = answers[0].header("x-weir-session").unwrap_or_else(|| panic!("{}", answers[0].text()));
    let runs = super::heard(&server.project.events(session));
    for (text, answer) in texts.iter().zip(&answers) {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(runs[answer.header("x-weir-run").unwrap()].contains(text), "{text}: {runs:?}");
    }
}

#[tokio::test]
async fn what_says_nothing_is_refused() {
    let server = Project::new().serve().start().await;
    let refused = submit(&server, "helper", json!([user(" \n\t")])).await;
    assert_eq!(refused.error().0, 400);
}

#[tokio::test]
async fn a_chat_begins_with_so_much_history_and_no_more() {
    let server = Project::new().serve().start().await;
    let long = |messages: usize| -> Value {
        (0..messages).map(|n| if n % 2 == 0 { user("hi") } else { agent("Hello.") }).collect()
    };
    let refused = submit(&server, "helper", long(1_001)).await;
    assert_eq!(refused.error().0, 400);
    // A chat that is known here may be as long as it likes: nothing of it is written down again.
    submit(&server, "helper", json!([user("hi")])).await;
    assert_eq!(submit(&server, "helper", long(1_001)).await.status, 200);
}
