//! Recorded streams of all formats, read into the journal: over HTTP and on the command line.

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Answer, Project, Server};

/// A run that calls a tool, as it is sent in a format.
async fn recorded(server: &Server, format: &str) -> Vec<u8> {
    let path = format!("/agents/helper/chat/stream?format={format}");
    server.post(&path, &json!({ "message": "weather in Oslo" })).await.body.to_vec()
}

async fn ingest(server: &Server, path: &str, bytes: &[u8], key: Option<&str>) -> Answer {
    let mut request = server.request(Method::POST, path).header("content-type", "text/event-stream");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    Answer::to(request.body(bytes.to_vec())).await
}

async fn events(server: &Server, stream: &str) -> Vec<Value> {
    let page = server.get(&format!("/streams/{stream}/events")).await.ok();
    page["events"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

fn texts(events: &[Value], channel: &str) -> String {
    let texts = events.iter().filter(|event| event["kind"] == "ingested.text");
    let texts = texts.filter(|event| event["payload"]["channel"] == channel);
    texts.map(|event| event["payload"]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn streams_of_all_formats_become_events() {
    let server = Project::new().serve().start().await;
    for format in ["native", "openai", "anthropic", "vercel"] {
        let bytes = recorded(&server, format).await;
        let told =
            ingest(&server, &format!("/ingest/{format}-recording?format={format}"), &bytes, None).await.ok();
        assert_eq!(
            (&told["cut"], &told["first"], &told["replayed"]),
            (&json!(false), &json!(1), &json!(false))
        );
        let there = events(&server, &format!("{format}-recording")).await;
        assert_eq!(there.len() as u64, told["events"].as_u64().unwrap());
        assert_eq!(texts(&there, "reasoning"), "I need the forecast.", "{format}");
        let gap = if ["openai", "anthropic"].contains(&format) { "\n\n" } else { "" };
        assert_eq!(texts(&there, "text"), format!("Let me look.{gap}It is 12 degrees in Oslo."), "{format}");
        let kinds: Vec<&str> = there.iter().map(|event| event["kind"].as_str().unwrap()).collect();
        assert!(kinds.iter().all(|kind| kind.starts_with("ingested.")), "{kinds:?}");
        assert_eq!(kinds.last(), Some(&"ingested.finished"));
        if format == "vercel" {
            assert!(kinds.contains(&"ingested.called") && kinds.contains(&"ingested.answered"), "{kinds:?}");
        }
    }
}

#[tokio::test]
async fn what_is_cut_hostile_or_repeated_is_dealt_with() {
    let server = Project::new().serve().start().await;
    let bytes = recorded(&server, "anthropic").await;
    let cut = ingest(&server, "/ingest/cut?format=anthropic", &bytes[..bytes.len() / 2], None).await.ok();
    assert_eq!(cut["cut"], true);
    assert!(!events(&server, "cut").await.is_empty());
    // With a key, once.
    let first = ingest(&server, "/ingest/once?format=anthropic", &bytes, Some("k")).await.ok();
    let again = ingest(&server, "/ingest/once?format=anthropic", &bytes, Some("k")).await.ok();
    assert_eq!(first["seq"], again["seq"]);
    assert_eq!(events(&server, "once").await.len() as u64, first["events"].as_u64().unwrap());
    // Kinds of somebody's own keep their kind and their payload; those of the runtime do not act.
    let own = "event: note.added\ndata: {\"seq\":1,\"kind\":\"note.added\",\"payload\":{\"b\": 1.50}}\n\nevent: session.created\ndata: {\"seq\":2,\"kind\":\"session.created\",\"payload\":{\"agent\":\"helper\"}}\n\n";
    ingest(&server, "/ingest/own?format=lago", own.as_bytes(), None).await.ok();
    let there = events(&server, "own").await;
    assert_eq!((&there[0]["kind"], &there[0]["payload"]), (&json!("note.added"), &json!({ "b": 1.50 })));
    assert_eq!(
        (&there[1]["kind"], &there[1]["payload"]["kind"]),
        (&json!("ingested.event"), &json!("session.created"))
    );
    for (path, body, status) in [
        ("/ingest/x?format=openai", "data: {\n\n", 400),
        ("/ingest/x?format=openai", "", 400),
        ("/ingest/x?format=openai", "hello", 400),
        ("/ingest/x?format=xml", "data: {}\n\n", 400),
        ("/ingest/x?format=native", "data: {\"kind\":\"Not a kind!\",\"payload\":1}\n\n", 400),
        ("/ingest/session:x?format=vercel", "data: [DONE]\n\n", 403),
        ("/ingest/budget:x?format=vercel", "data: [DONE]\n\n", 403),
    ] {
        assert_eq!(ingest(&server, path, body.as_bytes(), None).await.error().0, status, "{path} {body}");
    }
    assert_eq!(server.get("/streams/x/events").await.error().0, 404);
    let typed = server
        .request(Method::POST, "/ingest/x?format=openai")
        .header("content-type", "text/plain")
        .body("x");
    assert_eq!(Answer::to(typed).await.error().0, 415);
    let huge = vec![b'x'; 5 * 1024 * 1024];
    assert_eq!(ingest(&server, "/ingest/x?format=openai", &huge, None).await.error().0, 413);
}

#[tokio::test]
async fn the_command_line_does_the_same() {
    let project = Project::new();
    let server = project.serve().start().await;
    let bytes = recorded(&server, "openai").await;
    project.write("answer.sse", std::str::from_utf8(&bytes).unwrap());
    let told =
        project.json(&["ingest", "--format", "openai", "--stream", "answers", "--key", "k", "answer.sse"]);
    let again =
        project.json(&["ingest", "--format", "openai", "--stream", "answers", "--key", "k", "answer.sse"]);
    assert_eq!((&told["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(told["seq"], again["seq"]);
    let there = project.lines(&["cat", "--stream", "answers"]);
    assert_eq!(texts(&there, "text"), "Let me look.\n\nIt is 12 degrees in Oslo.");
    let refused = project.run(&["ingest", "--format", "openai", "--stream", "session:x", "answer.sse"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    project.write("broken.sse", "data: {\n\n");
    let refused = project.run(&["ingest", "--format", "openai", "broken.sse"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("frame 1 is not openai"), "{}", refused.stderr);
}

#[tokio::test]
async fn what_is_not_taken_is_told_with_its_count_and_its_place() {
    let project = Project::new();
    let server = project.serve().start().await;
    let choice = |index: u32| {
        format!(r#"{{"index":{index},"delta":{{"content":"a","refusal":"no","images":["i"]}}}}"#)
    };
    let chunk = |choices: &str| format!("data: {{\"id\":\"c\",\"choices\":[{choices}]}}\n\n");
    let both = format!("{},{}", choice(0), choice(1));
    let recording = [chunk(&choice(0)), chunk(&both), chunk(&both), "data: [DONE]\n\n".to_owned()].concat();
    let left_out = json!([{ "part": "choices[1]", "count": 2, "frame": 2 }]);
    let told = ingest(&server, "/ingest/some?format=openai", recording.as_bytes(), None).await.ok();
    assert_eq!(told["left_out"], left_out);
    let there = events(&server, "some").await;
    assert_eq!((texts(&there, "text"), texts(&there, "refusal")), ("aaa".to_owned(), "nonono".to_owned()));
    let part = there.iter().find(|event| event["kind"] == "ingested.part").unwrap();
    assert_eq!(part["payload"], json!({ "part": "delta.images", "data": [["i"], ["i"], ["i"]] }));

    project.write("some.sse", &recording);
    assert_eq!(project.json(&["ingest", "--format", "openai", "some.sse"])["left_out"], left_out);
    let ran = project.run(&["ingest", "--format", "openai", "some.sse"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("not taken: choices[1], 2 times, first in frame 2"), "{}", ran.stderr);
    // Nothing is told where all of it is taken.
    let whole =
        ingest(&server, "/ingest/whole?format=openai", &recorded(&server, "openai").await, None).await.ok();
    assert_eq!(whole["left_out"], json!([]));
}
