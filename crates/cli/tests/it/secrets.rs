//! Keys never leak: whatever a provider sends back, no key is in what is stored, printed or told.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::weir::Weir;

/// Planted: the first must be found nowhere, the second somewhere in everything that is searched.
const KEY: &str = "planted-key-5f0c9a1be2";
const WORD: &str = "planted-word-77aa";

/// What the provider does with a request.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Answers.
    Kind,
    /// Refuses, and repeats every header it was sent.
    Indiscreet,
    /// Begins to answer, then fails with every header it was sent.
    LateIndiscreet,
}

/// A provider for one request after another; the address to call.
fn provider(wire: &'static str, manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap(), wire, manner);
        }
    });
    url
}

fn serve(mut stream: TcpStream, wire: &str, manner: Manner) {
    let head = request(&mut stream);
    assert!(head.contains(KEY), "the provider gets the key: {head}");
    let leak = serde_json::to_string(&format!("{WORD} you sent {head}")).unwrap();
    let (status, kind, body) = match manner {
        Manner::Kind => ("200 OK", "text/event-stream", answer(wire)),
        Manner::Indiscreet => {
            let body =
                format!(r#"{{"error":{{"type":"invalid_request_error","code":400,"message":{leak}}}}}"#);
            ("400 Bad Request", "application/json", body)
        }
        Manner::LateIndiscreet => {
            let error =
                format!(r#"{{"type":"error","error":{{"type":"invalid_request_error","message":{leak}}}}}"#);
            ("200 OK", "text/event-stream", format!("event: error\ndata: {error}\n\n"))
        }
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}

/// Reads one request and returns its line and headers.
fn request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length:")
                    .map(|length| length.trim().to_owned())
            });
            if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
                return head.to_owned();
            }
        }
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the request was cut off");
        bytes.extend_from_slice(&piece[..read]);
    }
}

fn answer(wire: &str) -> String {
    let frames: Vec<String> = match wire {
        "anthropic" => [
            r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":9,"output_tokens":1}}}"#.to_owned(),
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.to_owned(),
            format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{WORD}"}}}}"#),
            r#"{"type":"content_block_stop","index":0}"#.to_owned(),
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#.to_owned(),
            r#"{"type":"message_stop"}"#.to_owned(),
        ]
        .into_iter()
        .map(|data| {
            let kind = serde_json::from_str::<serde_json::Value>(&data).unwrap()["type"].clone();
            format!("event: {}\ndata: {data}\n\n", kind.as_str().unwrap())
        })
        .collect(),
        "openai-chat" => vec![
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"{WORD}\"}}}}]}}\n\n"),
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
            "data: [DONE]\n\n".to_owned(),
        ],
        "openai-responses" => vec![
            format!("data: {{\"type\":\"response.output_item.done\",\"sequence_number\":1,\"output_index\":0,\"item\":{{\"type\":\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[{{\"type\":\"output_text\",\"text\":\"{WORD}\",\"annotations\":[]}}]}}}}\n\n"),
            format!("data: {{\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{{\"id\":\"r\",\"status\":\"completed\",\"output\":[{{\"type\":\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[{{\"type\":\"output_text\",\"text\":\"{WORD}\",\"annotations\":[]}}]}}],\"usage\":{{\"input_tokens\":9,\"output_tokens\":3}}}}}}\n\n"),
        ],
        _ => vec![format!(
            "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{{\"text\":\"{WORD}\"}}]}},\"finishReason\":\"STOP\"}}],\"usageMetadata\":{{\"promptTokenCount\":9,\"candidatesTokenCount\":3}}}}\n\n"
        )],
    };
    frames.concat()
}

/// Everything a data directory says, decoded: events, large payloads, blobs.
pub(crate) fn decoded(weir: &Weir) -> String {
    let mut text = weir.ok(&["export", "--all"]);
    for entry in walk(&weir.data().join("blobs")) {
        let parts: Vec<_> = entry.iter().map(|part| part.to_string_lossy()).collect();
        let name = parts[parts.len() - 2..].concat();
        if name.len() == 64 {
            text.push_str(&weir.ok(&["blob", "get", &name]));
        }
    }
    text
}

pub(crate) fn walk(path: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn keys_never_leak() {
    for wire in ["anthropic", "openai-chat", "openai-responses", "gemini"] {
        for manner in [Manner::Kind, Manner::Indiscreet, Manner::LateIndiscreet] {
            let weir = Weir::new();
            let url = provider(wire, manner);
            weir.write(
                "weir.yaml",
                &format!(
                    "project: secrets\nmodels:\n  local/m:\n    wire: {wire}\n    base_url: {url}\n    key_env: PLANTED_KEY\n    \
                     context_window: 8000\n    output_max: 1000\n"
                ),
            );
            weir.write("agents/spy/spec.yaml", "name: spy\nmodel: local/m\ndescription: You keep secrets.\n");
            let mut chat = weir.command();
            chat.args(["chat", "spy", "-m", "hello"]).env("PLANTED_KEY", KEY);
            let output = chat.output().unwrap();
            let told = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            let context = format!("{wire}, {manner:?}: {told}");
            assert_eq!(output.status.success(), matches!(manner, Manner::Kind), "{context}");
            let stored = decoded(&weir);
            for (place, text) in [("told", &told), ("stored", &stored)] {
                assert!(!text.contains(KEY), "the key is {place}: {context}");
                assert!(text.contains(WORD), "the search would find it, were it {place}: {context}\n{text}");
            }
        }
    }
}
