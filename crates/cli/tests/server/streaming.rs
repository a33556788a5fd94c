//! Runs as streams: what they say in each format, and how they end.

use serde_json::{Value, json};

use crate::kit::{Frame, Frames, Project, Server};

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

/// Data of all frames that are JSON.
fn parts(frames: &[Frame]) -> Vec<Value> {
    frames.iter().filter(|frame| frame.data != "[DONE]").map(Frame::json).collect()
}

fn kinds(frames: &[Frame]) -> Vec<String> {
    let of = |frame: &Frame| {
        serde_json::from_str::<Value>(&frame.data)
            .map_or_else(|_| frame.data.clone(), |data| data["type"].as_str().unwrap_or_default().to_owned())
    };
    let mut kinds: Vec<String> = frames.iter().map(of).collect();
    kinds.dedup();
    kinds
}

#[tokio::test]
async fn anthropic_tells_text_and_thinking_in_blocks() {
    let server = Project::new().serve().start().await;
    let frames = run(&server, "helper", "anthropic", "weather in Oslo").await;
    for frame in &frames {
        assert_eq!(frame.event.as_deref(), frame.json()["type"].as_str());
    }
    assert_eq!(
        kinds(&frames),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ],
    );
    let block = |index: u64, field: &str| -> String {
        let deltas = parts(&frames).into_iter().filter(|part| part["index"] == index);
        deltas.filter_map(|part| Some(part["delta"][field].as_str()?.to_owned())).collect()
    };
    assert_eq!(block(0, "thinking"), "I need the forecast.");
    assert_eq!([block(1, "text"), block(2, "text")], ["Let me look.", "\n\nIt is 12 degrees in Oslo."]);
    let last = &parts(&frames)[frames.len() - 2];
    assert_eq!(
        (&last["delta"]["stop_reason"], &last["usage"]["output_tokens"]),
        (&json!("end_turn"), &json!(24))
    );
}

#[tokio::test]
async fn vercel_shows_tools_as_run_here() {
    let server = Project::new().serve().start().await;
    let path = "/agents/helper/chat/stream?format=vercel";
    let frames = server.stream(path, &json!({ "message": "weather in Oslo" })).await;
    assert_eq!(frames.header("x-vercel-ai-ui-message-stream"), Some("v1"));
    let run = frames.header("x-weir-run").unwrap().to_owned();
    let frames = frames.all().await;
    assert_eq!(
        kinds(&frames),
        [
            "start",
            "start-step",
            "reasoning-start",
            "reasoning-delta",
            "reasoning-end",
            "text-start",
            "text-delta",
            "text-end",
            "tool-input-available",
            "tool-output-available",
            "finish-step",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
            "[DONE]",
        ],
    );
    let parts = parts(&frames);
    assert_eq!(parts[0]["messageId"], run);
    let of = |kind: &str| parts.iter().find(|part| part["type"] == kind).unwrap();
    let (input, output) = (of("tool-input-available"), of("tool-output-available"));
    assert_eq!((&input["toolName"], &input["input"]), (&json!("weather"), &json!({ "city": "Oslo" })));
    assert_eq!((&input["providerExecuted"], &input["dynamic"]), (&json!(true), &json!(true)));
    assert_eq!(
        (&output["toolCallId"], &output["output"]),
        (&input["toolCallId"], &json!({ "city": "Oslo", "temp": 12 }))
    );
    assert_eq!(of("finish")["finishReason"], "stop");
}

/// The place of a run that something is said for, and its frames.
async fn placed(server: &Server, agent: &str, format: &str, message: &str) -> (String, Vec<Frame>) {
    let path = format!("/agents/{agent}/chat/stream?format={format}");
    let frames = server.stream(&path, &json!({ "message": message })).await;
    let id = |name: &str| frames.header(name).unwrap().to_owned();
    let place =
        format!("/sessions/{}/runs/{}/stream?format={format}", id("x-weir-session"), id("x-weir-run"));
    (place, frames.all().await)
}

#[tokio::test]
async fn a_run_that_waits_for_an_approval_ends_its_stream_and_goes_on_in_another() {
    let server = Project::new().serve().start().await;
    for format in ["native", "openai", "anthropic", "vercel"] {
        let (place, waiting) = placed(&server, "careful", format, "refund 5").await;
        let asked = server.get("/approvals").await.ok();
        let call = asked["approvals"][0]["id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
        let told = waiting.iter().map(|frame| frame.data.as_str()).collect::<String>();
        assert!(told.contains(&call), "{format}: {told}");
        match format {
            "native" => assert_eq!(waiting.last().unwrap().json()["stop"], "approval"),
            "vercel" => {
                let kinds = kinds(&waiting);
                assert_eq!(
                    kinds[kinds.len() - 4..],
                    ["tool-approval-request", "finish-step", "finish", "[DONE]"]
                );
            }
            "openai" => assert_eq!(waiting.last().unwrap().data, "[DONE]"),
            _ => assert_eq!(waiting.last().unwrap().event.as_deref(), Some("message_stop")),
        }
        // There is nothing more, until someone has decided.
        let last = waiting.last().unwrap().id.clone().unwrap();
        assert_eq!(server.follow(&place, Some(&last)).await.status, 204);
        let session = place.split('/').nth(2).unwrap();
        let decided = server
            .post(&format!("/sessions/{session}/approvals/{call}"), &json!({ "decision": "allow" }))
            .await;
        decided.ok();
        let rest = server.follow(&place, Some(&last)).await.all().await;
        let told = rest.iter().map(|frame| frame.data.as_str()).collect::<String>();
        assert!(told.contains("Done"), "{format}: {told}");
        // Whoever comes after all of it gets it in one.
        let whole = server.follow(&place, None).await.all().await;
        let ends = |frames: &[Frame]| frames.last().unwrap().id.clone();
        assert_eq!(ends(&whole), ends(&rest));
        assert!(whole.len() < waiting.len() + rest.len(), "{format}");
    }
}

const FRAGILE: &[(&str, &str)] = &[
    (
        "agents/fragile/spec.yaml",
        "name: fragile\nmodel: scripted/fragile\ndescription: You break off.\nacl: [{ principal: \"group:staff\", role: execute }]\n",
    ),
    (
        "models/fragile.yaml",
        r#"replies:
  - when: { user: '^break' }
    say: "This is what attempt {{attempt}} says before it breaks off."
    error: overloaded
    times: 1
    chunk: 5
    delay: 20ms
  - when: { user: '^break' }
    say: "Answered on attempt {{attempt}}."
    chunk: 5
    delay: 20ms
  - when: { user: '^fail' }
    say: "I try."
    error: invalid
    chunk: 3
    delay: 20ms
  - when: { user: '^long' }
    say: "As long as it may"
    stop: max_tokens
  - when: { user: '^no' }
    say: "I would rather not."
    stop: refused
  - when: { user: '(?s)(.*)' }
    say: "{{1}}"
    chunk: 40
    delay: 20ms
"#,
    ),
];

fn fragile() -> Project {
    let project = Project::new();
    for (name, text) in FRAGILE {
        project.write(name, text);
    }
    project.build();
    project
}

#[tokio::test]
async fn an_attempt_that_breaks_off_is_taken_back_and_never_joined_with_the_next() {
    let server = fragile().serve().start().await;
    for format in ["native", "openai", "anthropic", "vercel"] {
        let (place, live) = placed(&server, "fragile", format, "break").await;
        let told = live.iter().map(|frame| frame.data.as_str()).collect::<String>();
        match format {
            "native" => {
                let events: Vec<&str> = live.iter().map(|frame| frame.event.as_deref().unwrap()).collect();
                let reset = events
                    .iter()
                    .position(|event| *event == "reset")
                    .unwrap_or_else(|| panic!("a reset: {live:#?}"));
                assert_eq!(events[reset - 1..=reset + 1], ["text.delta", "reset", "model.failed"]);
                assert!(told.contains("Answere"), "{told}");
            }
            "vercel" => {
                let kinds = kinds(&live);
                let reset = kinds
                    .iter()
                    .position(|kind| kind == "reset-step")
                    .unwrap_or_else(|| panic!("a reset: {live:#?}"));
                assert_eq!(kinds[reset - 1..=reset + 1], ["text-delta", "reset-step", "text-start"]);
            }
            _ => {
                assert!(live.last().unwrap().json()["error"]["message"].is_string(), "{told}");
                assert!(!told.contains("Answer"), "{told}");
                // It has said its last word to whoever has heard it.
                let last = live.last().unwrap().id.clone();
                assert_eq!(server.follow(&place, last.as_deref()).await.status, 204);
            }
        }
        // Who was cut off in the middle of the attempt is told that it is gone.
        let piece = live.iter().find(|frame| frame.id.as_ref().unwrap().split('.').count() > 2).unwrap();
        let rest = server.follow(&place, piece.id.as_deref()).await.all().await;
        let told: String = rest[0].data.clone();
        assert!(["reset", "error"].iter().any(|word| told.contains(word)), "{format}: {told}");
        // Who comes later hears of the answer alone; and who comes when it is over, in one piece.
        server.follow(&place, None).await.all().await;
        let later = server.follow(&place, None).await.all().await;
        let told = later.iter().map(|frame| frame.data.as_str()).collect::<String>();
        assert!(
            !told.contains("breaks off")
                && !told.contains("reset")
                && told.contains("Answered on attempt 2."),
            "{format}: {told}"
        );
    }
}

#[tokio::test]
async fn how_a_run_ends_is_told_in_each_vendors_words() {
    let server = fragile().serve().start().await;
    let last = async |format: &str, message: &str| {
        let frames = run(&server, "fragile", format, message).await;
        let parts = parts(&frames);
        let of = |kind: &str| parts.iter().find(|part| part["type"] == kind).cloned().unwrap_or_default();
        match format {
            "native" => parts.last().unwrap()["stop"].clone(),
            "openai" => {
                let last = parts.last().unwrap();
                if last["error"].is_object() {
                    last["error"]["code"].clone()
                } else {
                    last["choices"][0]["finish_reason"].clone()
                }
            }
            "anthropic" => {
                let error = of("error");
                if error.is_object() {
                    error["error"]["type"].clone()
                } else {
                    of("message_delta")["delta"]["stop_reason"].clone()
                }
            }
            _ => of("finish")["finishReason"].clone(),
        }
    };
    for (message, expected) in [
        ("long", ["max_tokens", "length", "max_tokens", "length"]),
        ("no", ["refused", "content_filter", "refusal", "content-filter"]),
        ("fail", ["failed", "model_failed", "api_error", "error"]),
        ("hello", ["end", "stop", "end_turn", "stop"]),
    ] {
        for (format, word) in ["native", "openai", "anthropic", "vercel"].into_iter().zip(expected) {
            assert_eq!(last(format, message).await, word, "{format}: {message}");
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_nothing_unless_it_asked_to() {
    let project = Project::new();
    let server = project.serve().start().await;
    for (query, kind) in [("", "run.finished"), ("?cancel_on_disconnect=true", "run.cancelled")] {
        let path = format!("/agents/helper/chat/stream{query}");
        let mut frames = server.stream(&path, &json!({ "message": "slow" })).await;
        let session = frames.header("x-weir-session").unwrap().to_owned();
        while frames.next().await.unwrap().event.as_deref() != Some("text.delta") {}
        drop(frames);
        let mut events = server.follow(&format!("/sessions/{session}/events/stream"), None).await;
        let ended = loop {
            let event = events.next().await.unwrap().event.unwrap();
            if event.starts_with("run.") && event != "run.started" && event != "run.cancel_requested" {
                break event;
            }
        };
        assert_eq!(ended, kind, "{query}");
    }
}

#[tokio::test]
async fn ids_that_are_not_of_the_stream_are_refused() {
    let server = Project::new().serve().start().await;
    let (place, frames) = placed(&server, "helper", "native", "weather in Oslo").await;
    let piece = frames.iter().find(|frame| frame.event.as_deref() == Some("text.delta")).unwrap();
    let piece = piece.id.clone().unwrap();
    let (request, _) = piece.split_once('.').unwrap();
    let beyond = format!("{request}.1.9999");
    let wrong_attempt = format!("{request}.7.3");
    // In the middle of nothing: the second byte of a frame that has one.
    let nowhere = format!("{request}.1.3.4");
    for id in [
        "x",
        "-1.1",
        "1",
        "1.1.1.1.1",
        "01.1",
        "99.1",
        "1.1",
        "2.1",
        "4.9",
        &beyond,
        &wrong_attempt,
        &nowhere,
        "0.0",
    ] {
        let refused = server.request(reqwest::Method::GET, &place).header("last-event-id", id);
        let refused = crate::kit::Answer::to(refused).await;
        assert_eq!(refused.error(), (400, "server::no-such-frame".to_owned()), "{id}");
    }
    let posted = server
        .posting("/agents/helper/chat/stream", &json!({ "message": "hi" }))
        .header("last-event-id", "4.1");
    assert_eq!(crate::kit::Answer::to(posted).await.error().0, 400);
    let refused = server.post("/agents/helper/chat/stream?format=xml", &json!({ "message": "hi" })).await;
    assert_eq!(refused.error().0, 400);
    for format in ["native", "openai", "anthropic", "vercel"] {
        assert!(refused.text().contains(format), "{}", refused.text());
    }
    for path in [place.replace("/runs/", "/runs/0"), place.replace("/sessions/0", "/sessions/1")] {
        assert_eq!(server.get(&path).await.error().0, 404);
    }
    // The other name of the native format.
    assert_eq!(server.get(&place.replace("native", "lago")).await.status, 200);
}

#[tokio::test]
async fn the_events_of_a_session_are_followed_from_anywhere() {
    let server = Project::new().serve().start().await;
    let mut run = server.stream("/agents/helper/chat/stream", &json!({ "message": "slow" })).await;
    let session = run.header("x-weir-session").unwrap().to_owned();
    let path = format!("/sessions/{session}/events/stream");
    // Somebody who comes while it is being said.
    while run.next().await.unwrap().event.as_deref() != Some("text.delta") {}
    let mut joined = Vec::new();
    let mut events = server.follow(&path, None).await;
    while joined.iter().filter(|frame: &&Frame| frame.event.as_deref() == Some("text.delta")).count() < 3 {
        joined.push(events.next().await.unwrap());
    }
    let last = joined.last().unwrap().id.clone();
    let mut events = server.follow(&path, last.as_deref()).await;
    while joined.last().unwrap().event.as_deref() != Some("run.finished") {
        joined.push(events.next().await.unwrap());
    }
    let mut seqs: Vec<u64> = joined.iter().filter_map(|frame| frame.json()["seq"].as_u64()).collect();
    assert_eq!(seqs[0], 1);
    let durable = server.project.events(&session);
    let durable = durable.iter().filter(|event| event["kind"] != "text.delta");
    assert_eq!(seqs, durable.map(|event| event["seq"].as_u64().unwrap()).collect::<Vec<_>>());
    let said: String =
        joined.iter().filter_map(|frame| Some(frame.json()["delta"].as_str()?.to_owned())).collect();
    let message =
        joined.iter().find(|frame| frame.event.as_deref() == Some("assistant.message")).unwrap().json();
    assert_eq!(said, message["payload"]["content"][0]["text"]);
    // From every frame on, the rest is the same.
    for (at, frame) in joined.iter().enumerate().take(joined.len() - 1) {
        let next = server.follow(&path, frame.id.as_deref()).await.next().await.unwrap();
        let is_piece =
            frame.event.as_deref() == Some("text.delta") && next.event.as_deref() == Some("text.delta");
        if !is_piece {
            assert_eq!(next.event, joined[at + 1].event, "after {:?}", frame.id);
        }
    }
    let mut after = server.follow(&format!("{path}?since={}", seqs.pop().unwrap() - 1), None).await;
    assert_eq!(after.next().await.unwrap().event.as_deref(), Some("run.finished"));
}

#[tokio::test]
async fn streams_end_when_the_server_does() {
    let server = Project::new().serve().start().await;
    let chat = server.post("/agents/helper/chat", &json!({ "message": "hello" })).await.ok();
    let session = chat["session"].as_str().unwrap();
    let mut events = server.follow(&format!("/sessions/{session}/events/stream"), None).await;
    while events.next().await.unwrap().event.as_deref() != Some("run.finished") {}
    let ends = tokio::spawn(async move { (events.next().await, events.broken) });
    let down = server.terminate().await;
    assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
    assert_eq!(ends.await.unwrap(), (None, false));
}

#[tokio::test]
async fn what_is_streamed_is_said_once_with_a_key() {
    let server = Project::new().serve().start().await;
    let user = json!({ "role": "user", "content": "slow", "parts": [{ "type": "text", "text": "slow" }] });
    let vendor =
        json!({ "model": "helper", "messages": [user], "input": "slow", "stream": true, "max_tokens": 9 });
    let chat = json!({ "id": "c", "messages": [user] });
    let native = json!({ "message": "slow" });
    for (path, body) in [
        ("/agents/helper/chat/stream", &native),
        ("/agents/helper/chat/stream?format=openai", &native),
        ("/agents/helper/chat/stream?format=anthropic", &native),
        ("/agents/helper/chat/stream?format=vercel", &native),
        ("/agents/helper/ui", &chat),
        ("/v1/chat/completions", &vendor),
        ("/v1/responses", &vendor),
        ("/v1/messages", &vendor),
    ] {
        let keyed = async || {
            let request = server.posting(path, body).header("idempotency-key", "k");
            Frames::of(request.send().await.unwrap())
        };
        // Whoever repeats it while the run goes on, or when it is over, follows the same one from its start.
        let mut first = keyed().await;
        let ids = |frames: &Frames| {
            ["x-weir-session", "x-weir-run"].map(|name| frames.header(name).unwrap().to_owned())
        };
        let there = ids(&first);
        let begins = first.next().await.unwrap();
        let second = keyed().await;
        assert_eq!(ids(&second), there, "{path}");
        let last = first.all().await.pop().unwrap();
        let second = second.all().await;
        let third = keyed().await;
        assert_eq!(ids(&third), there, "{path}");
        for frames in [second, third.all().await] {
            let first_and_last = [frames.first(), frames.last()].map(|frame| frame.unwrap().id.clone());
            assert_eq!(first_and_last, [begins.id.clone(), last.id.clone()], "{path}");
        }
        let said = server.project.events(&there[0]);
        assert_eq!(said.iter().filter(|event| event["kind"] == "user.message").count(), 1, "{path}");
        let other = server.posting(path, &json!({})).header("idempotency-key", "k");
        assert_eq!(crate::kit::Answer::to(other).await.status, 422, "{path}");
    }
}
