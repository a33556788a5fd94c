//! Runs as streams: what they say in each format, and how they end.

use serde_json::{Value, json};

use crate::kit::{Frame, Project, Server};

/// All frames of a run that something is said for.
async fn run(server: &Server, agent: &str, format: &str, message: &str) -> Vec<Frame> {
    let path = format!("/agents/{agent}/chat/stream?format={format}");
    let frames = server.stream(&path, &json!({ "message": message })).await;
    assert_eq!(frames.status, 200);
    assert_eq!(frames.header("content-type"), Some("text/event-stream"));
    frames.all().await
}

#[tokio::test]
async fn native_tells_every_event_and_every_word() {
    let server = Project::new().serve().start().await;
    let frames = run(&server, "helper", "native", "weather in Oslo").await;
    let kinds: Vec<&str> = frames.iter().filter_map(|frame| frame.event.as_deref()).collect();
    let mut kinds_joined = kinds.clone();
    kinds_joined.dedup();
    assert_eq!(
        kinds_joined,
        [
            "run.started",
            "iteration.started",
            "model.requested",
            "text.delta",
            "assistant.message",
            "tool.requested",
            "tool.decided",
            "tool.started",
            "tool.completed",
            "iteration.started",
            "model.requested",
            "text.delta",
            "assistant.message",
            "run.finished",
            "end",
        ],
    );
    let said = |channel: &str| -> String {
        let deltas = frames.iter().filter(|frame| frame.event.as_deref() == Some("text.delta"));
        let deltas = deltas.map(Frame::json).filter(|delta| delta["channel"] == channel);
        deltas.map(|delta| delta["delta"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(said("thinking"), "I need the forecast.");
    assert_eq!(said("text"), "Let me look.It is 12 degrees in Oslo.");
    assert_eq!(frames.last().unwrap().json()["stop"], "end");
}

#[tokio::test]
async fn openai_tells_text_and_reasoning_in_chunks() {
    let server = Project::new().serve().start().await;
    let mut frames = run(&server, "helper", "openai", "weather in Oslo").await;
    assert_eq!(frames.pop().unwrap().data, "[DONE]");
    let chunks: Vec<Value> = frames.iter().map(Frame::json).collect();
    let joined = |field: &str| -> String {
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
    };
    assert_eq!(joined("reasoning_content"), "I need the forecast.");
    assert_eq!(joined("content"), "Let me look.\n\nIt is 12 degrees in Oslo.");
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"][0]["finish_reason"], &last["model"]), (&json!("stop"), &json!("helper")));
}
