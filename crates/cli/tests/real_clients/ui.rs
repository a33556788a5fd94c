//! The AI SDK's chat, as web pages use it: its transport, its UI messages, approvals, and taking up an answer again.

use serde_json::{Value, json};

use crate::clients::node;
use crate::kit::{Project, Server};

/// The parts of a UI message of this type.
fn of<'a>(parts: &'a Value, kind: &str) -> Vec<&'a Value> {
    let parts = parts.as_array().unwrap_or_else(|| panic!("no parts: {parts}"));
    parts.iter().filter(|part| part["type"] == kind).collect()
}

fn text(parts: &Value) -> String {
    of(parts, "text").iter().map(|part| part["text"].as_str().unwrap()).collect()
}

/// The one part that is about a call.
fn call(parts: &Value) -> &Value {
    let is_call = |part: &&Value| {
        part["type"].as_str().is_some_and(|kind| kind == "dynamic-tool" || kind.starts_with("tool-"))
    };
    let calls: Vec<&Value> = parts.as_array().unwrap().iter().filter(is_call).collect();
    assert_eq!(calls.len(), 1, "{parts}");
    calls[0]
}

/// How much was said on a branch and before it.
fn said(server: &Server, session: &Value) -> usize {
    let (id, branch) = (session["id"].as_str().unwrap(), session["branch"].as_str().unwrap());
    let stream = format!("session:{id}");
    let events = server.project.lines(&["cat", "--stream", &stream, "--branch", branch]);
    events.iter().filter(|event| event["kind"] == "user.message").count()
}

#[tokio::test]
async fn ai_sdk_chat() {
    let server = Project::new().serve().start().await;
    let out = node("ai_ui", &json!({"base": server.base}));

    let turn = &out["turn"];
    assert_eq!(of(turn, "reasoning")[0]["text"], "I need the forecast.");
    assert_eq!(text(turn), "Let me look.It is 18 degrees in Lisbon.");
    let used = call(turn);
    assert_eq!(
        (&used["state"], &used["input"]),
        (&json!("output-available"), &json!({"city": "Lisbon"})),
        "{used}"
    );
    assert!(used["output"].to_string().contains("18"), "{used}");
    assert_eq!(text(&out["next"]), "You said: thanks");
    assert_eq!(out["roles"], json!(["user", "assistant", "user", "assistant"]));
    // What is had again is a fork, and the chat goes on there.
    let two = json!(["user", "assistant"]);
    assert_eq!(
        (text(&out["again"]["parts"]), &out["again"]["roles"]),
        ("You said: thanks".to_owned(), &out["roles"])
    );
    assert_eq!(text(&out["afterwards"]), "You said: what did I say?");
    for (name, said) in [
        ("first_again", "Let me look.It is 18 degrees in Lisbon."),
        ("changed", "Let me look.It is 12 degrees in Oslo."),
    ] {
        assert_eq!((text(&out[name]["parts"]).as_str(), &out[name]["roles"]), (said, &two), "{name}");
    }
    let branches: Vec<(String, usize)> = server
        .project
        .lines(&["session", "list"])
        .iter()
        .filter(|session| session["branch"].as_str().is_some_and(|branch| branch != "main"))
        .map(|session| (session["branch"].as_str().unwrap().to_owned(), said(&server, session)))
        .collect();
    let expected =
        [("again-1", 3), ("again-2", 1), ("again-3", 1)].map(|(name, said)| (name.to_owned(), said));
    assert_eq!(branches.into_iter().collect::<std::collections::BTreeSet<_>>(), expected.into());
    assert_eq!(text(&out["history"]), "You said: and now?");

    for (name, after, said) in
        [("approved", "output-available", "Done: refunded 5"), ("denied", "output-denied", "I did not: ")]
    {
        assert_eq!(call(&out[name]["asked"])["state"], "approval-requested", "{name}");
        let parts = &out[name]["after"];
        assert_eq!(call(parts)["state"], after, "{name}: {parts}");
        assert!(text(parts).contains(said), "{name}: {parts}");
    }
    // What was approved really ran, and what was not did not.
    let ran = |session: &Value| {
        let events = server.project.events(session["id"].as_str().unwrap());
        events.iter().filter(|event| event["kind"] == "tool.completed").count()
    };
    let careful = server.project.lines(&["session", "list"]);
    let mut ran: Vec<usize> =
        careful.iter().filter(|session| session["agent"] == "careful").map(ran).collect();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1]);

    assert!(text(&out["resumed"]).ends_with("on its way to whoever asked for it."), "{}", out["resumed"]);
    assert_eq!(out["nothing"], Value::Null);
}
