//! Connections that somebody holds on to: what they may, and what they may not.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::kit::{Project, Server, within};

/// A server with room for two connections, and little patience.
async fn small() -> Server {
    let serving = Project::new().serve().arg("--max-connections").arg("2").arg("--arrival").arg("1");
    serving.arg("--keep-alive").arg("1").env("WEIR_STALL", "1").start().await
}

async fn connected(server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(([127, 0, 0, 1], server.port).into()).await.unwrap()
}

#[tokio::test]
async fn whoever_takes_nothing_of_what_is_sent_keeps_nobody_out() {
    let server = small().await;
    let request = format!("GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", server.port);
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connected(&server).await;
        stream.write_all(request.repeat(400).as_bytes()).await.unwrap();
        held.push(stream);
    }
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_asked_is_closed() {
    let server = small().await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connected(&server).await;
        stream.write_all(&hello(&[])).await.unwrap();
        stream.write_all(&get(1, "/health", server.port)).await.unwrap();
        held.push(stream);
    }
    for stream in &mut held {
        let told = within("it is closed", frames(stream, |_| Vec::new())).await;
        assert!(told.iter().any(|frame| frame.kind == DATA), "it was answered first: {told:?}");
        assert!(told.iter().any(|frame| frame.kind == GOAWAY), "and told that this is the end: {told:?}");
    }
}

#[tokio::test]
async fn an_answer_that_nobody_makes_room_for_is_given_up() {
    let server = small().await;
    // No byte of any answer may be sent until the client says so, which it never does.
    let no_window = [0, 4, 0, 0, 0, 0];
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connected(&server).await;
        stream.write_all(&hello(&no_window)).await.unwrap();
        stream.write_all(&get(1, "/openapi.json", server.port)).await.unwrap();
        held.push(stream);
    }
    for stream in &mut held {
        within("it is closed", frames(stream, |_| Vec::new())).await;
    }
}

#[tokio::test]
async fn whoever_reads_slowly_has_it_all() {
    let server = small().await;
    let content = vec![7; 400_000];
    let stored = server.request(Method::PUT, "/blobs").body(content.clone()).send().await.unwrap();
    let stored: serde_json::Value = serde_json::from_slice(&stored.bytes().await.unwrap()).unwrap();
    let path = format!("/blobs/{}", stored["hash"].as_str().unwrap());
    let mut stream = connected(&server).await;
    // Little at a time, and then a pause that is not too long.
    stream.write_all(&hello(&[0, 4, 0, 0, 0x40, 0])).await.unwrap();
    stream.write_all(&get(1, &path, server.port)).await.unwrap();
    let (mut taken, mut owed) = (0, 0);
    let told = within("it is closed", async {
        frames(&mut stream, |frame| {
            taken += if frame.kind == DATA { frame.payload.len() } else { 0 };
            owed += if frame.kind == DATA { frame.payload.len() } else { 0 };
            if owed < 0x4000 {
                return Vec::new();
            }
            std::thread::sleep(Duration::from_millis(150));
            let more = u32::try_from(std::mem::take(&mut owed)).unwrap().to_be_bytes();
            [framed(WINDOW_UPDATE, 0, 0, &more), framed(WINDOW_UPDATE, 0, 1, &more)].concat()
        })
        .await
    })
    .await;
    assert_eq!(taken, content.len(), "{} frames", told.len());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a client that is not Weir's")]
async fn a_stream_with_nothing_to_say_is_no_connection_on_which_nothing_is_asked() {
    let server = small().await;
    let session = server.say("helper", "hello", None).await.session;
    let path = format!("/sessions/{session}/events/stream?after=1000000");
    for prior_knowledge in [false, true] {
        let client = reqwest::Client::builder().no_proxy();
        let client = if prior_knowledge { client.http2_prior_knowledge() } else { client.http1_only() };
        let response = client.build().unwrap().get(server.url(&path)).send().await.unwrap();
        let mut bytes = response.bytes_stream();
        for _ in 0..4 {
            let sign = within("a sign of life", bytes.next()).await.unwrap().unwrap();
            assert_eq!(&sign[..], b": keep-alive\n\n");
        }
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;

/// A frame of HTTP/2.
#[derive(Debug)]
struct Piece {
    kind: u8,
    flags: u8,
    payload: Vec<u8>,
}

fn framed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The beginning of a connection, with these settings.
fn hello(settings: &[u8]) -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &framed(SETTINGS, 0, 0, settings)].concat()
}

/// A whole request. `GET` and `http` are in the table that everybody has; the rest is spelt out.
fn get(stream: u32, path: &str, port: u16) -> Vec<u8> {
    let spelt =
        |name: u8, value: &str| [&[name, u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    let block = [vec![0x82, 0x86], spelt(4, path), spelt(1, &format!("127.0.0.1:{port}"))].concat();
    framed(HEADERS, 5, stream, &block)
}

/// Everything that comes until the connection is closed. What must be acknowledged is; what else is said is up to the caller.
async fn frames(stream: &mut TcpStream, mut say: impl FnMut(&Piece) -> Vec<u8>) -> Vec<Piece> {
    let mut told = Vec::new();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return told;
        }
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            return told;
        }
        let piece = Piece { kind: head[3], flags: head[4], payload };
        let answer = match piece.kind {
            SETTINGS | PING if piece.flags & ACK == 0 => {
                let payload = if piece.kind == PING { &piece.payload[..] } else { &[] };
                framed(piece.kind, ACK, 0, payload)
            }
            _ => say(&piece),
        };
        let _ = stream.write_all(&answer).await;
        told.push(piece);
    }
}

/// More idle connections than there are places; none of them is given up while the test lasts.
#[tokio::test]
async fn health_is_answered_while_idle_connections_fill_all_places() {
    let serving = Project::new().serve().arg("--max-connections").arg("2").arg("--arrival").arg("3600");
    let server = serving.start().await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(connected(&server).await);
    }
    for path in ["/health", "/ready", "/health"] {
        let said = within(path, server.get(path)).await;
        assert_eq!(said.status, 200, "{path}");
        assert_eq!(said.header("connection"), Some("close"), "its place is needed by others");
    }
    // Anything else waits for a place, and gets the first that is free.
    let asked = server.get("/sessions");
    tokio::pin!(asked);
    let waits = tokio::select! {
        biased;
        _ = &mut asked => false,
        said = server.get("/health") => said.status == 200,
    };
    assert!(waits, "all places are taken");
    idle.clear();
    assert_eq!(within("a place", asked).await.status, 200);
}
