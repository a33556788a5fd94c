//! Answers as providers write them, which is not always as one would: the server between a provider of our own and its readers.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::kit::{Frame, Project, Server, within};
use crate::reconnect::FORMATS;
use crate::reconnect::told::{is_gone, takes_back, told};

/// Arguments as a model writes them that likes its JSON readable.
const PRETTY: &str = "{\n  \"city\": \"Oslo\"\n}";

/// Speaks chat completions: what it is asked with `mixed` goes back and forth between words and thoughts, a piece each time it is
/// let; with `pretty` it calls a tool.
struct Provider {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    pieces: Arc<Semaphore>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (asked, pieces) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::new(Semaphore::new(0)));
        let (heard, gate) = (Arc::clone(&asked), Arc::clone(&pieces));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&heard), Arc::clone(&gate)));
            }
        });
        Self { url, asked, pieces }
    }

    /// A server with an agent that has this one for a model.
    async fn served(&self) -> Server {
        let project = Project::new();
        let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
        let model =
            format!("wire: openai-chat, base_url: \"{}\", context_window: 8000, output_max: 1000", self.url);
        project.write("weir.yaml", &format!("{text}models:\n  local/m: {{ {model} }}\n"));
        let spec = "name: wired\nmodel: local/m\ndescription: You answer.\ntools: [{ name: tools/weather, access: read }]\n";
        project.write("agents/wired/spec.yaml", spec);
        project.build();
        project.serve().start().await
    }
}

async fn answer(mut stream: TcpStream, heard: Arc<Mutex<Vec<Value>>>, gate: Arc<Semaphore>) {
    let mut bytes = Vec::new();
    let body = loop {
        let mut more = [0; 4096];
        let count = stream.read(&mut more).await.unwrap();
        assert!(count > 0, "a request in full");
        bytes.extend_from_slice(&more[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        if bytes.len() >= end + 4 + length.trim().parse::<usize>().unwrap() {
            break bytes.split_off(end + 4);
        }
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    heard.lock().unwrap().push(body.clone());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let newest = body["messages"].as_array().unwrap().last().unwrap();
    let (deltas, waits) = if newest["role"] == "tool" {
        (vec![json!({"content": "It is mild."})], false)
    } else if newest["content"].to_string().contains("pretty") {
        let function = json!({"name": "weather", "arguments": PRETTY});
        let call = json!({"index": 0, "id": "t1", "type": "function", "function": function});
        (vec![json!({"content": "Let me look."}), json!({"tool_calls": [call]})], false)
    } else {
        let deltas = [
            json!({"content": "Hello "}),
            json!({"reasoning_content": "hmm, "}),
            json!({"content": "wor"}),
            json!({"content": "ld"}),
            json!({"reasoning_content": "right."}),
            json!({"content": "!"}),
        ];
        (deltas.to_vec(), true)
    };
    for delta in deltas {
        if waits {
            gate.acquire().await.unwrap().forget();
        }
        let chunk = json!({"id": "c1", "choices": [{"index": 0, "delta": delta}]});
        stream.write_all(format!("data: {chunk}\n\n").as_bytes()).await.unwrap();
    }
    if waits {
        gate.acquire().await.unwrap().forget();
    }
    let last = json!({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 11, "completion_tokens": 7}});
    stream.write_all(format!("data: {last}\n\ndata: [DONE]\n\n").as_bytes()).await.unwrap();
}

#[tokio::test]
async fn arguments_over_several_lines_are_told_in_every_format() {
    let provider = Provider::start().await;
    let server = provider.served().await;
    let told = server.say("wired", "pretty", None).await;
    assert_eq!(told.answer, "It is mild.");
    let run = server.get(&format!("/sessions/{}/events?kind=run.started", told.session)).await.ok();
    let run = run["events"][0]["payload"]["run"].as_str().unwrap().to_owned();

    let stream = |format: &str| format!("/sessions/{}/runs/{run}/stream?format={format}", told.session);
    let parts: Vec<Value> = frames(&server, &stream("vercel")).await;
    let called = parts.iter().find(|part| part["type"] == "tool-input-available").unwrap();
    assert_eq!(called["input"], json!({"city": "Oslo"}));
    // What a client is shown of events is JSON wherever the event is.
    let native = frames(&server, &stream("native")).await;
    let page = server.get(&format!("/sessions/{}/events", told.session)).await.ok();
    for event in native.iter().filter(|event| event["seq"].is_u64()).chain(page["events"].as_array().unwrap())
    {
        assert!(event["payload"].is_object(), "{event}");
    }
    // The provider gets back what it has written, to the byte.
    let asked = provider.asked.lock().unwrap().clone();
    let [_, again] = &asked[..] else { panic!("{asked:?}") };
    let call = again["messages"].as_array().unwrap().iter().find(|m| m["role"] == "assistant").unwrap();
    assert_eq!(call["tool_calls"][0]["function"]["arguments"], PRETTY);
}

#[tokio::test]
async fn payloads_over_several_lines_are_shown_as_what_they_say() {
    let server = Project::new().serve().start().await;
    let text = "{\"events\": [{\r\n  \"kind\": \"note.added\",\r\n  \"payload\": {\r\n    \"a\": [\n1,\t2]\r\n  }\r\n}]}";
    let request = server.request(reqwest::Method::POST, "/streams/notes/events");
    let answer = request.header("content-type", "application/json").body(text).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{:?}", answer.text().await);
    let page = server.get("/streams/notes/events").await;
    assert_eq!(page.ok()["events"][0]["payload"], json!({"a": [1, 2]}), "{}", page.text());
    assert!(page.text().contains("[\n1,\t2]"), "as it was written: {}", page.text());
}

/// The data of all frames, but for the word that ends them.
async fn frames(server: &Server, path: &str) -> Vec<Value> {
    let frames = server.follow(path, None).await.all().await;
    frames.iter().filter(|frame| frame.data != "[DONE]").map(Frame::json).collect()
}

#[tokio::test]
async fn an_answer_between_words_and_thoughts_is_taken_up_wherever_it_was_cut() {
    let provider = Provider::start().await;
    let server = provider.served().await;
    let begun = server.stream("/agents/wired/chat/stream", &json!({"message": "mixed"})).await;
    let header = |name: &str| begun.header(name).unwrap().to_owned();
    let (session, run) = (header("x-weir-session"), header("x-weir-run"));
    let path = |format: &str| format!("/sessions/{session}/runs/{run}/stream?format={format}");

    // Each piece is heard before the next one is said.
    let mut live = Vec::new();
    for format in FORMATS {
        live.push((format, server.follow(&path(format), None).await, Vec::<Frame>::new()));
    }
    for piece in ["Hello ", "hmm, ", "wor", "ld", "right.", "!"] {
        provider.pieces.add_permits(1);
        for (format, stream, heard) in &mut live {
            loop {
                let next = within(&format!("{piece:?} in {format}"), stream.next()).await;
                let frame = next.unwrap_or_else(|| panic!("{format} ends before {piece}: {heard:?}"));
                assert!(!is_gone(format, &frame) && !takes_back(format, &frame), "{format}: {frame:?}");
                let is_piece = frame.data.contains(&format!("\"{piece}\""));
                heard.push(frame);
                if is_piece {
                    break;
                }
            }
        }
    }
    provider.pieces.add_permits(1);
    for (format, mut stream, mut heard) in live {
        while let Some(frame) = within("the rest", stream.next()).await {
            assert!(!is_gone(format, &frame) && !takes_back(format, &frame), "{format}: {frame:?}");
            heard.push(frame);
        }
        let whole = told(format, &server.follow(&path(format), None).await.all().await);
        assert_eq!(told(format, &heard), whole, "{format}");
        for cut in 1..=heard.len() {
            let mut joined = heard[..cut].to_vec();
            let last = joined[cut - 1].id.clone().unwrap();
            joined.extend(server.follow(&path(format), Some(&last)).await.all().await);
            assert_eq!(told(format, &joined), whole, "{format} after {last}");
        }
    }
}
