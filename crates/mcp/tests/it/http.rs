//! Servers behind HTTP, on loopback.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::{PLENTY, list, options, shown};

/// What a listener answers to a request, given its first line and its body.
type Script = fn(&str, &str) -> String;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{},"x":1.0}]}}"#;

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn json(body: &str) -> String {
    reply("200 OK", "content-type: application/json\r\nmcp-session-id: s1\r\n", body)
}

fn events(body: &str) -> String {
    let body = format!("event: message\ndata: {body}\n\n");
    reply("200 OK", "content-type: text/event-stream\r\nmcp-session-id: s1\r\n", &body)
}

/// Asks a listener that answers by `script`; also returns the first lines of the requests it saw.
async fn ask(script: Script) -> (String, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, script, Arc::clone(&log)));
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let shown = shown(list(&address, &options(directory.path(), PLENTY)).await);
    serving.abort();
    let seen = seen.lock().unwrap().clone();
    (shown, seen)
}

async fn answer(stream: TcpStream, script: Script, log: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await.unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let body = String::from_utf8(body).unwrap();
    log.lock().unwrap().push(first.trim().to_owned());
    // Who has heard enough hangs up.
    let _ = stream.write_all(script(first.trim(), &body).as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// The three messages of a listing, with answers in the given form.
fn listing(body: &str, form: fn(&str) -> String) -> String {
    match body {
        body if body.contains(r#""method":"initialize""#) => form(HELLO),
        body if body.contains(r#""method":"tools/list""#) => form(TOOLS),
        _ => reply("202 Accepted", "", ""),
    }
}

#[tokio::test]
async fn tools_come_as_json_or_as_events() {
    let tool = r#"{"name":"a","inputSchema":{},"x":1.0}"#;
    let forms: [Script; 2] = [|_, body| listing(body, json), |_, body| listing(body, events)];
    for script in forms {
        let (shown, seen) = ask(script).await;
        assert_eq!(shown, tool);
        // The session is given back.
        assert_eq!(seen.last().unwrap(), "DELETE /mcp HTTP/1.1");
    }
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let cases: [(Script, &str); 6] = [
        (
            |_, _| reply("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
            "mcp::credentials: the server wants credentials (HTTP 401)",
        ),
        (
            |_, _| reply("307 Temporary Redirect", "location: https://elsewhere.example/mcp\r\n", ""),
            "mcp::redirected: the server redirects to `https://elsewhere.example/mcp`, and redirects are not followed",
        ),
        (|_, _| reply("503 Service Unavailable", "", "busy"), "mcp::status: the server answered HTTP 503"),
        (
            |_, _| json("<html>hello</html>"),
            "mcp::nonsense: the server wrote `<html>hello</html>`, which is not a message of MCP",
        ),
        (
            |_, _| {
                reply(
                    "400 Bad Request",
                    "content-type: application/json\r\n",
                    r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"not today"}}"#,
                )
            },
            "mcp::refused: the server refused: not today",
        ),
        (
            |first, _| match first.starts_with("GET") {
                true => reply(
                    "200 OK",
                    "content-type: text/event-stream\r\n",
                    ": welcome\r\revent: endpoint\rdata: /messages?id=1\r\r",
                ),
                false => reply("405 Method Not Allowed", "", ""),
            },
            "mcp::old-transport: the server speaks the old HTTP+SSE transport",
        ),
    ];
    for (script, expected) in cases {
        assert_eq!(ask(script).await.0, expected);
    }
}

#[tokio::test]
async fn a_flood_is_cut_off_in_either_form() {
    const FLOOD: usize = 34 * 1024 * 1024;
    let forms: [Script; 2] = [
        |_, body| match body.contains("tools/list") {
            true => json(&" ".repeat(FLOOD)),
            false => listing(body, json),
        },
        |_, body| match body.contains("tools/list") {
            true => events(&" ".repeat(FLOOD)),
            false => listing(body, json),
        },
    ];
    for script in forms {
        assert_eq!(ask(script).await.0, "mcp::too-much: the server sends more than 33554432 bytes");
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    // It has the port and does not listen, so that no other test gets it.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}/mcp", deaf.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let shown = shown(list(&address, &options(directory.path(), PLENTY)).await);
    assert!(shown.starts_with("mcp::unreachable: the server cannot be reached: "), "{shown}");
    assert!(shown.to_lowercase().contains("refused"), "{shown}");
}
