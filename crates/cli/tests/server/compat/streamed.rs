//! Streams of vendors' endpoints.

use serde_json::{Value, json};

use super::{CHAT, MESSAGES, RESPONSES, chat, server, user};
use crate::kit::Frame;

#[tokio::test]
async fn the_flag_in_the_body_decides_and_nothing_else() {
    let server = server().await;
    for (stream, accept, kind) in [
        (json!(true), "application/json", "text/event-stream"),
        (json!(false), "text/event-stream", "application/json"),
        (Value::Null, "text/event-stream", "application/json"),
    ] {
        for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
            let body = json!({"model": "helper", "messages": [user("hi")], "input": "hi", "stream": stream});
            let request = server.posting(path, &body).header("accept", accept);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 200, "{path}");
            let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(header("content-type"), kind, "{path} {stream} {accept}");
            assert!(header("x-weir-session").len() == 26 && header("x-weir-run").len() == 26);
        }
    }
}

#[tokio::test]
async fn usage_comes_last_if_it_is_asked_for() {
    let server = server().await;
    for wanted in [true, false] {
        let mut body = chat("helper", json!([user("hi")]));
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": wanted});
        let mut frames = server.stream(CHAT, &body).await.all().await;
        assert_eq!(frames.pop().unwrap().data, "[DONE]");
        let with: Vec<Value> =
            frames.iter().map(Frame::json).filter(|chunk| chunk["usage"].is_object()).collect();
        assert_eq!(with.len(), usize::from(wanted));
        if let [chunk] = &with[..] {
            assert_eq!(chunk["choices"], json!([]));
            let usage = &chunk["usage"];
            assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(10), &json!(5)));
        }
    }
}

/// The events of a streamed response.
async fn response(agent: &str, message: &str) -> Vec<Value> {
    let server = server().await;
    let body = json!({"model": agent, "input": message, "stream": true});
    let frames = server.stream(RESPONSES, &body).await.all().await;
    let events: Vec<Value> = frames.iter().map(Frame::json).collect();
    for (at, (event, frame)) in events.iter().zip(&frames).enumerate() {
        assert_eq!(event["sequence_number"], at);
        assert_eq!(event["type"].as_str(), frame.event.as_deref());
    }
    events
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}

#[tokio::test]
async fn a_streamed_response_is_told_item_by_item() {
    let events = response("helper", "weather in Oslo").await;
    let message = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ];
    let reasoning = [
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ];
    let expected = [
        &["response.created", "response.in_progress"][..],
        &reasoning,
        &message,
        &message,
        &["response.completed"],
    ];
    assert_eq!(kinds(&events), expected.concat());
    // What was told piece by piece is what the end says.
    let whole = &events.last().unwrap()["response"];
    assert_eq!(whole["status"], "completed");
    for (at, item) in whole["output"].as_array().unwrap().iter().enumerate() {
        let of_item = events.iter().filter(|event| event["output_index"] == at);
        let deltas: String = of_item.clone().filter_map(|event| event["delta"].as_str()).collect();
        let text = item["content"][0]["text"].as_str().or(item["summary"][0]["text"].as_str()).unwrap();
        assert_eq!(deltas, text);
        let done: Vec<&Value> =
            of_item.filter(|event| event["type"] == "response.output_item.done").collect();
        assert_eq!((done.len(), &done[0]["item"]), (1, item));
    }
    assert!(whole["usage"]["total_tokens"].as_u64().unwrap() > 132, "{whole}");
}

#[tokio::test]
async fn a_streamed_response_ends_as_its_run_does() {
    let events = response("careful", "refund 5").await;
    let whole = &events.last().unwrap()["response"];
    let asked = whole["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap();
    assert!(asked.starts_with("\n\ntool 'refund' requires approval"), "{asked}");
    assert_eq!(whole["status"], "completed");

    let events = response("brief", "weather in Oslo").await;
    assert_eq!(kinds(&events).last(), Some(&"response.incomplete"));

    for (agent, message, code) in [("helper", "fail", "server_error"), ("poor", "hi", "insufficient_quota")] {
        let events = response(agent, message).await;
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!("response.failed"), &json!("failed"))
        );
        assert_eq!(last["response"]["error"]["code"], code);
    }
}

/// Two attempts are never spliced: whoever has heard of the first is told that it is gone, in the only way the format has.
#[tokio::test]
async fn an_attempt_that_breaks_off_ends_the_stream() {
    let events = response("blunt", "stumble").await;
    let said: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert!(!said.is_empty() && "Half an answer".starts_with(&said), "{said}");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert!(
        last["response"]["error"]["message"].as_str().unwrap().contains("ask for its stream again"),
        "{last}"
    );

    let server = server().await;
    for path in [CHAT, MESSAGES] {
        let mut body = chat("blunt", json!([user("stumble")]));
        body["stream"] = true.into();
        let mut frames = server.stream(path, &body).await;
        let (session, run) = (
            frames.header("x-weir-session").unwrap().to_owned(),
            frames.header("x-weir-run").unwrap().to_owned(),
        );
        let mut last = None;
        while let Some(frame) = frames.next().await {
            last = Some(frame.json());
        }
        assert!(last.unwrap()["error"]["message"].as_str().unwrap().contains("ask for its stream again"));
        // And there it is.
        let format = if path == CHAT { "openai" } else { "anthropic" };
        let again = server
            .follow(&format!("/sessions/{session}/runs/{run}/stream?format={format}"), None)
            .await
            .all()
            .await;
        let text: String = again.iter().map(|frame| frame.data.as_str()).collect();
        assert!(!text.contains("Half") && !text.contains("error"), "{text}");
    }
}
