//! Requests that nobody should send: the right status, in the vendor's shape, and nothing is begun.

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAT, MESSAGES, RESPONSES, chat, said, server, user};
use crate::kit::{Answer, Server};

/// Checks that a body is refused, and which field is named; for Anthropic, that its message names it.
async fn refused(server: &Server, path: &str, body: &Value, param: &str) {
    let answer = server.post(path, body).await;
    assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text());
    shaped(path, &answer);
    let error = answer.json()["error"].clone();
    if path == MESSAGES {
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("`{param}` ")), "{message}");
    } else {
        assert_eq!(error["param"], param, "{body}: {error}");
    }
}

/// An error as the vendor's clients know it.
fn shaped(path: &str, answer: &Answer) {
    let told = answer.json();
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    if path == MESSAGES {
        assert_eq!(told["type"], "error", "{told}");
        assert!(
            text(&told["error"]["type"]) && text(&told["error"]["message"]) && text(&told["request_id"]),
            "{told}"
        );
    } else {
        let fields: Vec<&String> = told["error"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["message", "type", "param", "code"], "{told}");
        assert!(text(&told["error"]["message"]) && text(&told["error"]["type"]), "{told}");
    }
}

#[tokio::test]
async fn what_no_agent_does_is_refused() {
    let server = server().await;
    let tool = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let schema = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}});
    let of_chat = [
        ("tools", tool.clone()),
        ("functions", json!([{"name": "f"}])),
        ("tool_choice", json!("required")),
        ("n", json!(2)),
        ("n", json!("1")),
        ("logprobs", json!(true)),
        ("top_logprobs", json!(3)),
        ("logit_bias", json!({"1": 5})),
        ("stop", json!("x")),
        ("stop", json!(["x"])),
        ("response_format", schema.clone()),
        ("response_format", json!({"type": "json_object"})),
        ("audio", json!({"voice": "x"})),
        ("modalities", json!(["text", "audio"])),
        ("max_tokens", json!(0)),
        ("max_tokens", json!("many")),
        ("max_completion_tokens", json!(-1)),
        ("temperature", json!("hot")),
        ("seed", json!({})),
        ("stream", json!("yes")),
        ("stream_options", json!(1)),
    ];
    for (field, value) in of_chat {
        let mut body = chat("helper", json!([user("hi")]));
        body[field] = value;
        let param = if field == "modalities" { "modalities[1]" } else { field };
        refused(&server, CHAT, &body, param).await;
    }
    let of_responses = [
        ("tools", tool.clone()),
        ("tool_choice", json!({"type": "function", "name": "f"})),
        ("background", json!(true)),
        ("conversation", json!("conv_1")),
        ("prompt", json!({"id": "p"})),
        ("top_logprobs", json!(1)),
        ("max_output_tokens", json!(0)),
        ("instructions", json!(["x"])),
        ("previous_response_id", json!(5)),
        ("stream", json!(1)),
    ];
    for (field, value) in of_responses {
        let mut body = json!({"model": "helper", "input": "hi"});
        body[field] = value;
        refused(&server, RESPONSES, &body, field).await;
    }
    let body = json!({"model": "helper", "input": "hi", "text": {"format": schema}});
    refused(&server, RESPONSES, &body, "text.format").await;
    let body = json!({"model": "helper", "input": "hi", "include": ["message.output_text.logprobs"]});
    refused(&server, RESPONSES, &body, "include[0]").await;
    let of_messages = [
        ("tools", json!([{"name": "f", "input_schema": {}}])),
        ("tool_choice", json!({"type": "any"})),
        ("mcp_servers", json!([{"type": "url"}])),
        ("stop_sequences", json!(["x"])),
        ("container", json!("c")),
        ("output_format", json!({"type": "json_schema"})),
        ("max_tokens", json!("x")),
        ("system", json!(5)),
        ("stream", json!([])),
    ];
    for (field, value) in of_messages {
        let mut body = chat("helper", json!([user("hi")]));
        body[field] = value;
        refused(&server, MESSAGES, &body, field).await;
    }
    assert_eq!(server.project.lines(&["session", "list"]), [] as [Value; 0], "nothing was begun");
    // What says nothing, or what only the agent's author decides, is passed over.
    let mut body = chat("helper", json!([user("hi")]));
    for (field, value) in [
        ("tools", json!([])),
        ("tool_choice", json!("auto")),
        ("n", json!(1)),
        ("logprobs", json!(false)),
        ("stop", Value::Null),
        ("response_format", json!({"type": "text"})),
        ("modalities", json!(["text"])),
        ("temperature", json!(0.2)),
        ("max_tokens", json!(5)),
        ("seed", json!(1)),
        ("user", json!("u")),
        ("metadata", json!({"a": "b"})),
        ("never_heard_of", json!({"x": [1, 2]})),
    ] {
        body[field] = value;
    }
    server.post(CHAT, &body).await.ok();
}

#[tokio::test]
async fn what_is_of_the_wrong_type_is_named() {
    let server = server().await;
    let data = "data:image/png;base64,";
    let part = |part: Value| json!([said("user", json!([part]))]);
    let messages: Vec<(Value, &str)> = vec![
        (json!("hi"), "messages"),
        (json!({}), "messages"),
        (json!(5), "messages"),
        (json!([]), "messages"),
        (json!(["hi"]), "messages[0]"),
        (json!([user("a"), []]), "messages[1]"),
        (json!([{"content": "hi"}]), "messages[0].role"),
        (json!([{"role": 5, "content": "hi"}]), "messages[0].role"),
        (json!([{"role": "robot", "content": "hi"}]), "messages[0].role"),
        (json!([{"role": "user"}]), "messages[0].content"),
        (json!([{"role": "user", "content": 5}]), "messages[0].content"),
        (json!([{"role": "user", "content": {"type": "text"}}]), "messages[0].content"),
        (part(json!("hi")), "messages[0].content[0].type"),
        (part(json!({"text": "hi"})), "messages[0].content[0].type"),
        (part(json!({"type": "hologram"})), "messages[0].content[0].type"),
        (part(json!({"type": "text"})), "messages[0].content[0].text"),
        (part(json!({"type": "text", "text": 5})), "messages[0].content[0].text"),
        (json!([user("  \n")]), "messages"),
        (json!([said("user", json!([]))]), "messages"),
        (json!([said("system", json!("x"))]), "messages"),
        (json!([user("a"), said("assistant", json!("b"))]), "messages"),
    ];
    for (list, param) in &messages {
        // Both have messages; of Anthropic, `system` may be a role as well.
        for path in [CHAT, MESSAGES] {
            refused(&server, path, &chat("helper", list.clone()), param).await;
        }
    }
    let of_chat = [
        (part(json!({"type": "image_url", "image_url": "x"})), "messages[0].content[0].image_url.url"),
        (part(json!({"type": "image_url", "image_url": {"url": 5}})), "messages[0].content[0].image_url.url"),
        (
            part(json!({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}})),
            "messages[0].content[0].image_url.url",
        ),
        (
            part(json!({"type": "image_url", "image_url": {"url": data}})),
            "messages[0].content[0].image_url.url",
        ),
        (
            part(json!({"type": "image_url", "image_url": {"url": format!("{data}###")}})),
            "messages[0].content[0].image_url.url",
        ),
        (
            part(json!({"type": "image_url", "image_url": {"url": "data:text/html;base64,AAAA"}})),
            "messages[0].content[0].image_url.url",
        ),
        (
            part(json!({"type": "image_url", "image_url": {"url": "data:image/png,AAAA"}})),
            "messages[0].content[0].image_url.url",
        ),
        (
            part(json!({"type": "image_url", "image_url": {"url": "https://example.com/a b"}})),
            "messages[0].content[0].image_url.url",
        ),
        (part(json!({"type": "file", "file": {"file_id": "f"}})), "messages[0].content[0].file.file_id"),
        (part(json!({"type": "file", "file": {}})), "messages[0].content[0].file.file_data"),
        (
            part(json!({"type": "file", "file": {"file_data": "data:application/zip;base64,AAAA"}})),
            "messages[0].content[0].file.file_data",
        ),
        (part(json!({"type": "input_audio", "input_audio": {}})), "messages[0].content[0].type"),
        (json!([user("a"), {"role": "assistant", "tool_calls": 5}, user("b")]), "messages[1].tool_calls"),
        (
            json!([user("a"), {"role": "assistant", "tool_calls": [{"function": {}}]}, user("b")]),
            "messages[1].tool_calls[0].function.name",
        ),
        (
            json!([user("a"), {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, {"role": "tool", "tool_call_id": "1", "content": "x"}]),
            "messages",
        ),
    ];
    for (list, param) in &of_chat {
        refused(&server, CHAT, &chat("helper", list.clone()), param).await;
    }
    let of_messages = [
        (part(json!({"type": "image"})), "messages[0].content[0].source"),
        (
            part(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
            "messages[0].content[0].source.type",
        ),
        (
            part(
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AAAA"}}),
            ),
            "messages[0].content[0].source",
        ),
        (
            part(
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "~"}}),
            ),
            "messages[0].content[0].source",
        ),
        (
            json!([
                user("a"),
                said("user", json!([{"type": "tool_result", "tool_use_id": "t", "content": "x"}]))
            ]),
            "messages",
        ),
        (json!([said("user", json!([{"type": "tool_result"}]))]), "messages[0].content[0].tool_use_id"),
    ];
    for (list, param) in &of_messages {
        refused(&server, MESSAGES, &chat("helper", list.clone()), param).await;
    }
    let of_responses = [
        (json!(5), "input"),
        (json!({}), "input"),
        (json!([]), "input"),
        (json!(""), "input"),
        (json!([{"type": "message", "role": "robot", "content": "x"}]), "input[0].role"),
        (json!([{"role": "user", "content": [{"type": "input_audio"}]}]), "input[0].content[0].type"),
        (json!([{"type": "item_reference", "id": "x"}]), "input[0].type"),
        (json!([{"type": 5}]), "input[0].type"),
        (json!([user("a"), {"type": "function_call_output", "call_id": "c", "output": "x"}]), "input"),
    ];
    for (input, param) in &of_responses {
        refused(&server, RESPONSES, &json!({"model": "helper", "input": input}), param).await;
    }
    for (path, body) in [
        (CHAT, json!({"messages": [user("hi")]})),
        (CHAT, json!({"model": 5, "messages": [user("hi")]})),
        (RESPONSES, json!({"input": "hi"})),
        (MESSAGES, json!({"model": null, "messages": [user("hi")]})),
    ] {
        refused(&server, path, &body, "model").await;
    }
    assert_eq!(server.project.lines(&["session", "list"]), [] as [Value; 0], "nothing was begun");
}

#[tokio::test]
async fn whatever_goes_wrong_before_is_told_in_their_shape_too() {
    let server = server().await;
    let post = |path: &str, kind: &'static str, body: Vec<u8>| {
        Answer::to(server.request(Method::POST, path).header("content-type", kind).body(body))
    };
    let deep = format!("{{\"model\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let bodies: [(&str, Vec<u8>, u16); 8] = [
        ("application/json", b"{".to_vec(), 400),
        ("application/json", b"".to_vec(), 400),
        ("application/json", b"[]".to_vec(), 400),
        ("application/json", b"null".to_vec(), 400),
        ("application/json", b"{\"model\":\"\xff\"}".to_vec(), 400),
        ("application/json", deep.into_bytes(), 400),
        ("text/plain", b"{}".to_vec(), 415),
        ("application/x-www-form-urlencoded", b"model=helper".to_vec(), 415),
    ];
    for (kind, body, status) in bodies {
        for path in [CHAT, RESPONSES, MESSAGES] {
            let answer = post(path, kind, body.clone()).await;
            let start = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            assert_eq!(answer.status, status, "{path} {kind} {start}: {}", answer.text());
            shaped(path, &answer);
        }
    }
    // An agent that is not there, and one that no name could be.
    let long = "x".repeat(10_000);
    for model in ["nobody", "", "../helper", "helper ", "HELPER", &long] {
        for path in [CHAT, RESPONSES, MESSAGES] {
            let body = json!({"model": model, "messages": [user("hi")], "input": "hi"});
            let answer = server.post(path, &body).await;
            assert_eq!(answer.status, 404, "{model}");
            shaped(path, &answer);
            assert!(answer.text().len() < 600, "{}", answer.text());
        }
    }
    // More than anybody has said.
    let many: Vec<Value> = (0..1_002).map(|at| user(&at.to_string())).collect();
    refused(&server, CHAT, &chat("helper", json!(many)), "messages").await;
    let answer =
        Answer::to(server.posting(CHAT, &chat("helper", json!([user("hi")]))).header("last-event-id", "1.1"))
            .await;
    assert_eq!(answer.status, 400);
    shaped(CHAT, &answer);
    assert_eq!(server.project.lines(&["session", "list"]), [] as [Value; 0], "nothing was begun");

    // A conversation that is as long as one may be is one append.
    let long: Vec<Value> = (0..1_000)
        .map(
            |at| if at % 2 == 1 { said("assistant", json!("a".repeat(500))) } else { user(&"u".repeat(500)) },
        )
        .collect();
    let long: Vec<Value> = long.into_iter().take(999).collect();
    server.post(CHAT, &chat("helper", json!(long))).await.ok();
}
